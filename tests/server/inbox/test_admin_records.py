"""Administration of channels, grants, the audit trail and retention, the overview, and the first administrator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

import httpx2
import pytest

from handraise import Approval, Responder
from handraise.desk.local_desk import LocalDesk
from handraise.model.deliveries import Address, Delivery, DeliveryStatus, Try
from handraise.model.identities import Role
from handraise.model.seals import Rule
from handraise.model.workspace_events import WorkspaceEventKind
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.ports import RoutedEntry
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_link, issue_session
from handraise.server.high_risk_approvers import high_risk_approvers
from handraise.server.process import first_administrator
from handraise.server.web.admin.admin_views import NAVIGATION
from handraise.testing.promises import promise
from support.issuer import Issuer
from tests.server.conftest import bearer
from tests.server.inbox.browser import Page, open_page, send
from tests.server.inbox.test_admin_people import SURE, acts, form, post

WEBHOOKS = pytest.mark.parametrize("settings", [{"webhooks": True, "webhook_allow_private": ["127.0.0.0/8"]}])


@pytest.fixture
def clock() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Failure:
    """A message that fails, for good or until another try."""

    channel: str = "pigeon"
    status: DeliveryStatus = DeliveryStatus.FAILED

    @property
    def again_after(self) -> timedelta | None:
        return None if self.status is DeliveryStatus.FAILED else timedelta(hours=1)


async def fail(ctx: ServerContext, desk: LocalDesk, workspace: str, *failures: Failure) -> None:
    """Ask ann a question whose messages fail."""
    channels = sorted({each.channel for each in failures})
    await ctx.outbox.put_address(
        Address(workspace=workspace, recipient="ann", channel=channels[0], id="1", to={"loft": 7})
    )
    question = await desk.post("Go?", recipients=["ann"])
    [entry] = [
        each for each in await ctx.outbox.entries(workspace, limit=9) if each.question_id == question.id
    ]
    deliveries = [
        Delivery(
            workspace=workspace,
            id=f"d-{number}",
            question_id=question.id,
            recipient="ann",
            channel=each.channel,
            to={"loft": 7},
            reason="asked",
            rate_limit_key=each.channel,
            created_at=entry.at,
            due_at=entry.at,
        )
        for number, each in enumerate(failures)
    ]
    await ctx.outbox.route(workspace, [RoutedEntry(entry=entry, deliveries=deliveries)])
    taken = await ctx.outbox.take(
        workspace, channels=channels, free_slots={}, per_key=9, limit=9, lease=timedelta(minutes=1)
    )
    failed = [(each, failures[int(each.id.removeprefix("d-"))]) for each in taken]
    assert len(failed) == len(failures)
    await ctx.outbox.record(
        [
            Try(
                delivery=delivery,
                status=failure.status,
                problem="lost <feather>",
                again_after=failure.again_after,
            )
            for delivery, failure in failed
        ]
    )


async def test_every_page_of_the_navigation_opens_and_only_for_administrators(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    elsewhere = await issuer.person(f"{workspace}-2", "boss2", role=Role.ADMIN)
    places = [each.href for _, places in NAVIGATION for each in places]
    assert (await boss.get("/standing-answers")).status_code == 200  # people see their own there
    paths = ["/admin", *(path for path in places if path != "/standing-answers")]
    for path in paths:
        assert (await boss.get(path)).status_code == 200, path
        assert (await ann.get(path)).status_code == 403, path
    assert 'href="/admin"' in (await boss.get("/")).text
    assert 'href="/admin"' not in (await ann.get("/")).text
    ann.cookies.clear()
    for path in paths:
        assert (await ann.get(path, headers=agent)).status_code == 403, path
        assert (await ann.get(path)).status_code == 303, path
    ann.cookies.set("handraise", elsewhere)
    for path in ("/admin/people/ann", "/admin/people/boss"):
        assert (await ann.get(path)).status_code == 404, path
    assert "ann" not in (await open_page(ann, "/admin/people")).words.split()


async def test_the_overview_says_what_needs_attention(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    empty = await open_page(boss, "/admin")
    assert "There is only one administrator" in empty.words
    assert "Set up this workspace" in empty.words
    assert "Create a key for your first agent" in empty.words
    await fail(ctx, desk, workspace, Failure())
    await ctx.policies.stop(workspace, tool="pay", why="<b>wrong</b>", by="boss")
    await issuer.person(workspace, "zoe", role=Role.ADMIN)
    page = await open_page(boss, "/admin")
    assert "1 message through pigeon failed" in page.words
    assert "The tool pay is stopped" in page.words
    assert "<b>wrong" not in page.html
    assert "There is only one administrator" not in page.words


async def test_the_overview_warns_while_nobody_can_approve_what_is_of_high_risk(
    boss: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    nobody, only = "Nobody here can approve an action of high risk", "Only boss can approve"
    assert "approve an action of high risk" not in (await open_page(boss, "/admin")).words
    await ctx.directory.put_person(workspace, "zoe", name="Zoe", email=None, role=Role.MEMBER)
    assert only in (await open_page(boss, "/admin")).words
    weak = await issue_session(ctx, workspace, person="boss", how="invitation", vouched_by="ann")
    assert weak is not None
    for each in await ctx.directory.sessions(workspace, "boss", limit=9):
        if each.vouched_by is None:
            await ctx.directory.end_session(workspace, each.id)
    boss.cookies.set("handraise", weak.token)
    page = (await open_page(boss, "/admin")).words
    assert nobody in page
    assert "handraise people link NAME" in page
    for person in ("boss", "zoe"):
        await issuer.person(workspace, person, role=Role.ADMIN)
    page = (await open_page(boss, "/admin")).words
    assert nobody not in page
    assert only not in page


@pytest.mark.parametrize(
    "settings", [{"oidc_issuer": "https://login.example", "oidc_client_id": "c", "secret": "s" * 32}]
)
async def test_whoever_can_sign_in_with_the_provider_can_approve_what_is_of_high_risk(
    ctx: ServerContext, workspace: str
) -> None:
    settings = ctx.settings.model_copy(update={"oidc_workspace": workspace})
    for person, email in {"zoe": "zoe@example.com", "joe": "joe@example.com", "abe": None}.items():
        await ctx.directory.put_person(workspace, person, name=person, email=email, role=Role.MEMBER)
    await ctx.directory.disable_person(workspace, "joe")
    people = await ctx.directory.people(workspace, after=None, limit=9)
    assert await high_risk_approvers(ctx.directory, settings, workspace, people) == {"zoe"}
    assert await high_risk_approvers(ctx.directory, ctx.settings, workspace, people) == frozenset()


@pytest.mark.parametrize("settings", [{"pending_quota": 7}])
async def test_limits_say_which_quota_is_in_force_for_each_agent(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    await issuer.agent(workspace, "deploy-bot")
    await desk.post("Go?", recipients=["boss"])
    page = (await open_page(boss, "/admin/limits")).words
    assert "deploy-bot 1 7 HANDRAISE_PENDING_QUOTA" in page
    assert "Every other agent – 7 HANDRAISE_PENDING_QUOTA" in page
    await ctx.policies.put_quotas(workspace, WorkspaceQuotas(pending=5, agents={"import-bot": 0}), by="boss")
    page = (await open_page(boss, "/admin/limits")).words
    assert "deploy-bot 1 5 quotas: pending" in page
    assert "import-bot 0 no limit quotas: agents" in page
    assert "Every other agent – 5 quotas: pending" in page
    assert "of at most" not in page


async def test_limits_show_a_page_of_agents_and_count_only_for_these(
    boss: httpx2.AsyncClient, issuer: Issuer, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handraise.server.web.admin.grant_pages._AGENTS_PER_PAGE", 2)
    monkeypatch.setattr("handraise.server.web.admin.grant_pages._MOST_KEYS", 3)
    for agent in ("a-bot", "b-bot", "c-bot"):
        await issuer.agent(workspace, agent)
    first = await open_page(boss, "/admin/limits")
    assert "a-bot 0" in first.words
    assert "b-bot 0" in first.words
    assert "c-bot" not in first.words
    assert "Agents are listed from the first 3 keys only." in first.words
    assert 'href="/admin/limits?after=b-bot"' in first.html
    second = (await open_page(boss, "/admin/limits?after=b-bot")).words
    assert "a-bot" not in second
    assert "c-bot 0" in second
    assert "Next page" not in second
    assert "First page" in second


async def test_a_rule_that_nobody_can_fulfil_needs_attention(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    await ctx.directory.put_group(workspace, "ops", ["boss"])
    rule = {"name": "<b>pay", "then": {"require": {"people": ["group:ops"], "quorum": 2}}}
    await ctx.policies.put(workspace, {"rules": [rule]}, by="boss", expected=0)
    page = await open_page(boss, "/admin")
    assert "Nobody can fulfil the rule <b>pay" in page.words
    assert "<b>pay" not in page.html
    assert "It asks the group ops: 2 must agree, and 1 could." in page.words


async def test_what_needs_everybody_is_not_said_of_a_workspace_that_is_too_large_to_read(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handraise.server.web.admin.overview_page._MOST_READ", 2)
    await ctx.directory.put_person(workspace, "abe", name="Abe", email=None, role=Role.MEMBER)
    rule = {"name": "pay", "then": {"require": {"people": ["zoe"], "quorum": 1}}}
    await ctx.policies.put(workspace, {"rules": [rule]}, by="boss", expected=0)
    page = (await open_page(boss, "/admin")).words
    assert "Nobody can fulfil the rule" not in page
    assert "There is only one administrator" not in page
    assert "Not everything was checked: there are 2 or more people" in page
    assert "People 2 or more" in page


class Mailbox:
    """A channel that is on and sends nothing. What people do may come in over HTTP."""

    name = "email"
    private = True
    patience = timedelta(days=1)

    def __init__(self, *, takes_requests: bool) -> None:
        self.takes_requests = takes_requests

    async def receive(self) -> None:
        """Take a request."""


@promise("P17")
async def test_a_channel_whose_messages_are_tried_again_does_not_look_healthy(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
) -> None:
    ctx.channels["email"] = Mailbox(takes_requests=False)  # type: ignore[index]  # nothing is sent here
    assert "nothing failed" in (await open_page(boss, "/admin/channels")).words
    await fail(ctx, desk, workspace, Failure("email", DeliveryStatus.QUEUED))
    channels = await open_page(boss, "/admin/channels")
    assert "1 tried again" in channels.words
    assert "The oldest was created just now . Its last try: lost <feather>" in channels.words
    assert "<feather>" not in channels.html
    assert "nothing failed" not in channels.words
    overview = (await open_page(boss, "/admin")).words
    assert "1 message through e-mail is being tried again" in overview
    assert "lost <feather>" in overview
    deliveries = (await open_page(boss, "/admin/deliveries")).words
    assert "Being tried again" in deliveries
    assert "lost <feather>" in deliveries
    assert "None. No message has been given up." in deliveries


async def test_a_channel_with_many_such_messages_does_not_hide_another_one(
    boss: httpx2.AsyncClient,
    ctx: ServerContext,
    desk: LocalDesk,
    workspace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handraise.server.web.admin.channel_troubles.MOST_COUNTED", 2)
    ctx.channels["email"] = ctx.channels["slack"] = Mailbox(takes_requests=False)  # type: ignore[index]  # as above
    channels = ("email", "email", "email", "slack")
    retried = [Failure(each, DeliveryStatus.QUEUED) for each in channels]
    await fail(ctx, desk, workspace, *retried, *map(Failure, channels))
    overview = (await open_page(boss, "/admin")).words
    assert "2 or more messages through e-mail are being tried again" in overview
    assert "1 message through Slack is being tried again" in overview
    assert "2 or more messages through e-mail failed" in overview
    assert "1 message through Slack failed" in overview
    listed = (await open_page(boss, "/admin/channels")).words
    assert "e-mail 2 or more messages failed 2 or more tried again" in listed
    assert "Slack 1 message failed 1 tried again" in listed


async def test_a_message_that_may_have_arrived_is_shown_as_such(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
) -> None:
    await fail(ctx, desk, workspace, Failure("email", DeliveryStatus.UNKNOWN))
    page = (await open_page(boss, "/admin/deliveries")).words
    assert "These may not have arrived." in page
    assert "arrived, perhaps" in page


async def test_where_a_channel_takes_requests_is_shown_only_if_it_does(
    boss: httpx2.AsyncClient, ctx: ServerContext
) -> None:
    for takes in (False, True):
        ctx.channels["email"] = Mailbox(takes_requests=takes)  # type: ignore[index]  # nothing is sent here
        page = await open_page(boss, "/admin/channels")
        assert ("/v1/channels/email/inbound" in page.words) is takes


@promise("P17")
async def test_what_failed_is_tried_again(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
) -> None:
    await fail(ctx, desk, workspace, Failure())
    page = await open_page(boss, "/admin/deliveries")
    assert "lost <feather>" in page.words
    assert "<feather>" not in page.html
    [retry] = [each for each in page.sheets if each.action == "/admin/deliveries/retry"]
    assert (await send(boss, retry)).status_code == 303
    assert "None. No message has been given up." in (await open_page(boss, "/admin/deliveries")).words
    assert (await send(boss, retry)).status_code == 404
    assert await acts(ctx, workspace, WorkspaceEventKind.DELIVERY_RETRIED) == ["boss"]
    assert (await post(boss, "/admin/deliveries/retry")).status_code == 303


@promise("P17")
@WEBHOOKS
async def test_addresses_and_routing_are_changed_and_a_test_is_sent(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    before = await open_page(boss, "/admin/channels")
    assert "Add your address first." in before.words
    url, secret = "http://127.0.0.1:9/hook", "whsec_" + "A" * 32
    typed = {"recipient": "boss", "channel": "webhook", "destination": url}
    refused = await post(boss, "/admin/addresses", **typed | {"destination": "ftp://x"})
    assert refused.status_code == 422
    assert "That is no address of this channel. It takes an https URL" in refused.text
    assert 'value="ftp://x"' in refused.text
    nobody = await post(boss, "/admin/addresses", **typed | {"recipient": "nobody"})
    assert "There is no such person or group" in nobody.text
    assert (await post(boss, "/admin/addresses", **typed, secret=secret)).status_code == 303
    [address] = await ctx.outbox.addresses(workspace)
    assert (address.recipient, address.channel, address.to) == (
        "boss",
        "webhook",
        {"url": url, "secret": secret},
    )
    listed = await open_page(boss, "/admin/addresses")
    assert secret not in listed.html
    assert url not in listed.html
    [test] = [
        each for each in (await open_page(boss, "/admin/channels")).sheets if each.action.endswith("test")
    ]
    sent = await send(boss, test)
    assert sent.status_code == 303
    tested = (await open_page(boss, sent.headers["location"].partition("#")[0])).words
    assert "Your test" in tested
    assert "a webhook being tried again" in tested
    assert (await boss.get("/admin/channels?test=none")).status_code == 200
    three = json.dumps({"url": f"{url}/three", "secret": secret})
    for more in (f"{url}/two", three, f"{url}/two"):
        added = await post(boss, "/admin/addresses", **typed | {"destination": more}, secret=secret)
        assert added.status_code == 303
    kept = await ctx.outbox.addresses(workspace)
    assert sorted(each.to["url"].removeprefix(url) for each in kept) == ["", "/three", "/two"]
    for remove in (await open_page(boss, "/admin/addresses")).sheets:
        if remove.action == "/admin/addresses/remove":
            assert (await send(boss, remove)).status_code == 303
    assert await ctx.outbox.addresses(workspace) == []
    routing = form(await open_page(boss, "/admin/routing"), "/admin/routing")
    routing.fill("document", '{"rules": [{"risk": "extreme"}]}')
    wrong = await send(boss, routing)
    assert wrong.status_code == 422
    assert "rules.0.risk" in wrong.text
    assert "extreme" in wrong.text
    routing.fill("document", '{"rules": [{"risk": "high", "urgent": true}]}')
    assert (await send(boss, routing)).status_code == 303
    late = await send(boss, routing)
    assert late.status_code == 409
    stored = await ctx.outbox.routing(workspace)
    assert stored == {"rules": [{"risk": "high", "urgent": True}]}
    for kind, times in (
        (WorkspaceEventKind.ADDRESS_ADDED, 3),
        (WorkspaceEventKind.ADDRESS_REMOVED, 3),
        (WorkspaceEventKind.ROUTING_CHANGED, 1),
    ):
        assert await acts(ctx, workspace, kind) == ["boss"] * times, kind


async def test_a_grant_is_listed_and_revoked(boss: httpx2.AsyncClient, desk: LocalDesk) -> None:
    asked = await desk.post("Pay?", form=Approval.of("pay<b>", {"n": 1}, scopes=["once", "always"]))
    await desk.answer(asked.id, {"decision": "approve", "scope": "always"}, by=Responder("ann"))
    page = await open_page(boss, "/admin/grants")
    assert "pay<b>" in page.words
    [revoke] = [each for each in page.sheets if each.action.endswith("/revoke")]
    assert (await send(boss, revoke)).status_code == 303
    [grant] = await desk.list_grants()
    assert grant.revoked_by == "boss"
    assert "Every approval is for one use" in (await open_page(boss, "/admin/grants")).words
    assert "revoked" in (await open_page(boss, "/admin/grants?ended=true")).words


async def test_the_trail_is_searched_verified_and_downloaded(
    boss: httpx2.AsyncClient, ann: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
) -> None:
    await ctx.directory.put_group(workspace, "<ops>", ["ann"], by="boss")
    await desk.post("Go?")
    page = await open_page(boss, "/admin/audit")
    assert "Group changed" in page.words
    assert "<ops>" in page.words
    assert "<ops>" not in page.html
    found = await open_page(boss, "/admin/audit?kind=group.changed&person=ann&since=2020-01-01")
    rows = [each for each, _ in found.tags if each == "tr"]
    assert len(rows) == 3, "a heading, and her two groups"
    assert "Nothing fits." in (await open_page(boss, "/admin/audit?until=2020-01-01")).words
    for wrong in ("since=never", "until=9999-12-31", "until=0000-00-00"):
        assert (await boss.get(f"/admin/audit?{wrong}")).status_code == 422, wrong
    assert (await boss.get("/admin/audit?before=nonsense&person=%00")).status_code == 200
    verified = await post(boss, "/admin/audit/verify")
    assert "Nothing was changed, removed or added" in verified.text
    exported = await post(boss, "/admin/audit/export")
    assert exported.headers["content-disposition"].startswith('attachment; filename="handraise-audit-')
    lines = [json.loads(line) for line in exported.text.splitlines()]
    assert lines[0]["workspace"] == workspace
    assert {"export", "seal"} <= {each["type"] for each in lines}
    for path in ("/admin/audit/verify", "/admin/audit/export"):
        assert (await post(ann, path)).status_code == 403


@promise("P17")
async def test_what_is_kept_is_decided_held_and_erased(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    await issuer.person(workspace, "zoe", role=Role.MEMBER)
    question = await desk.post("Go?", recipients=["zoe"])
    rule = {"keep": "days", "days": "many"}
    wrong = await post(boss, "/admin/retention", **rule)
    assert wrong.status_code == 422
    assert 'value="many"' in wrong.text
    asked = await post(boss, "/admin/retention", keep="days", days="30")
    assert await ctx.ledger.rules(workspace) is None, "it asks first"
    assert "They are now kept for ever." in Page(asked.text).words
    assert (await send(boss, form(Page(asked.text), "/admin/retention"), SURE)).status_code == 303
    assert await ctx.ledger.rules(workspace) == Rule(timedelta(days=30))
    for shorter in ("29.5", "0"):
        asked = await post(boss, "/admin/retention", keep="days", days=shorter)
        assert (asked.status_code, "They are now kept for 30 days." in asked.text) == (200, True), shorter
    assert (await post(boss, "/admin/retention", keep="default")).status_code == 303, "nothing is removed"
    assert await ctx.ledger.rules(workspace) is None
    unknown = await post(boss, "/admin/retention/holds", name="case", reason="court", question="none")
    assert "There is no such question here" in unknown.text
    assert (await post(boss, "/admin/retention/holds", name="", reason="court")).status_code == 422
    held = await post(boss, "/admin/retention/holds", name="case", reason="court", question=question.id)
    assert held.status_code == 303
    other = await post(boss, "/admin/retention/holds", name="case", reason="another")
    assert other.status_code == 422
    asked = await post(boss, "/admin/retention/holds/lift", name="case")
    assert len(await ctx.ledger.holds(workspace)) == 1, "it asks first"
    lifted = await send(boss, form(Page(asked.text), "/admin/retention/holds/lift"), SURE)
    assert lifted.status_code == 303
    assert await ctx.ledger.holds(workspace) == []
    assert "You cannot erase yourself" in (await post(boss, "/admin/retention/erase", who="boss")).text
    assert (await post(boss, "/admin/retention/erase", who="stranger")).status_code == 422
    looked = await post(boss, "/admin/retention/erase", who="zoe")
    assert "This erases them and 1 question" in looked.text
    confirm = form(Page(looked.text), "/admin/retention/erase")
    confirm.fill("typed_name", "zoee")
    refused = await send(boss, confirm, ("step", "erase"))
    assert refused.status_code == 422
    assert await ctx.directory.find_person(workspace, "zoe") is not None
    confirm.fill("typed_name", "zoe")
    done = await send(boss, confirm, ("step", "erase"))
    assert "The person and 1 question are erased" in done.text
    assert await ctx.directory.find_person(workspace, "zoe") is None
    for kind, by in (
        (WorkspaceEventKind.RETENTION_CHANGED, ["boss", "boss"]),
        (WorkspaceEventKind.HOLD_PLACED, ["boss"]),
        (WorkspaceEventKind.HOLD_LIFTED, ["boss"]),
        (WorkspaceEventKind.PERSON_ERASED, ["boss"]),
    ):
        assert await acts(ctx, workspace, kind) == by, kind


async def test_the_first_administrator_is_set_up_with_the_secret_and_only_once(
    client: httpx2.AsyncClient, ctx: ServerContext
) -> None:
    where = ctx.settings.workspace
    name = await first_administrator(ctx)
    assert name is not None
    assert "/setup" in (await client.get("/sign-in")).text
    page = await open_page(client, "/setup")
    guess = form(page, "/setup")
    guess.fill("token", "hrl_nonsense")
    guess.fill("person", "ada")
    refused = await send(client, guess)
    assert refused.status_code == 422
    assert "That is not the link of the first administrator" in refused.text
    await ctx.directory.put_person(where, "eve", name="eve", email=None, role=Role.MEMBER)
    other = await issue_link(ctx, where, person="eve", purpose="invitation", vouched_by="x")
    assert other is not None
    guess.fill("token", other.url)
    assert (await send(client, guess)).status_code == 422, "the link of another person is not the secret"
    link = await issue_link(ctx, where, person=name, purpose="invitation", vouched_by="command line")
    assert link is not None
    guess.fill("token", link.url)
    guess.fill("email", "nobody")
    assert (await send(client, guess)).status_code == 422, "what is wrong does not use the secret up"
    guess.fill("email", "ada@example.com")
    elsewhere = {"sec-fetch-site": "cross-site", "content-type": "application/x-www-form-urlencoded"}
    assert (await client.post("/setup", content=guess.body(), headers=elsewhere)).status_code == 403
    done = await send(client, guess)
    assert (done.status_code, done.headers["location"]) == (303, "/admin")
    people = await ctx.directory.people(where, after=None, limit=9)
    assert [(each.id, each.role) for each in people] == [("ada", Role.ADMIN), ("eve", Role.MEMBER)]
    assert (await client.get("/admin")).status_code == 200
    client.cookies.clear()
    assert (await client.get("/setup")).status_code == 410
    assert (await send(client, guess)).status_code == 410
    assert "/setup" not in (await client.get("/sign-in")).text


@pytest.mark.parametrize(
    "path",
    [
        "/admin/people",
        "/admin/people/boss/link",
        "/admin/people/boss/remove",
        "/admin/groups",
        "/admin/keys",
        "/admin/addresses",
        "/admin/routing",
        "/admin/channels/test",
        "/admin/deliveries/retry",
        "/admin/retention",
        "/admin/retention/erase",
        "/admin/audit/export",
    ],
)
async def test_no_other_site_makes_a_browser_administer(boss: httpx2.AsyncClient, path: str) -> None:
    elsewhere = {"sec-fetch-site": "cross-site", "origin": "https://evil.example.com"}
    body = {"person": "eve", "agent": "eve", "who": "ann", "sure": "true"}
    assert (await boss.post(path, data=body, headers=elsewhere)).status_code == 403
    assert (await boss.post(path, data=body)).status_code == 403, "no header says that it is our page"
