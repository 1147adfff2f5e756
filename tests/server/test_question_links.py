"""Links to one question: who makes them, what they open and what not, how they end, and that looking changes nothing."""

from __future__ import annotations

import asyncio
from base64 import b32encode
from datetime import timedelta
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import pytest

from handraise import Answered, Approval, Choice, Confirm, Declined, Open, Responder
from handraise.desk.local_desk import LocalDesk
from handraise.model.deliveries import Delivery
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.ports.channel import Channel
from handraise.server import ServerContext, ServerSettings
from handraise.server.channel_setup import Links
from handraise.testing import ManualClock
from handraise.testing.contract.backend import fed
from handraise.wire.credentials import TokenKind, digest_of, read_token
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.inbox.browser import FORM, Page, open_page, send

Headers = dict[str, str]
WEEK = timedelta(days=7)
SCANNERS = ("Mozilla/5.0 (compatible; SafeLinks)", "Slackbot-LinkExpanding 1.0", "Barracuda Sentinel")


@pytest.fixture
def store() -> str:
    """What a link opens does not depend on the store; the contract of the directory sees to that."""
    return "memory:"


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    return ctx.desk.scoped(workspace, asker="bot")


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))


@pytest.fixture
async def ann(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))


@pytest.fixture
async def bob(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "bob", role=Role.MEMBER))


@pytest.fixture
async def agent(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.agent(workspace, "bot"))


async def make(
    client: httpx2.AsyncClient, question_id: str, headers: Headers, **body: Any
) -> httpx2.Response:
    return await client.post(f"/v1/questions/{question_id}/links", json=body, headers=headers)


async def path_of(client: httpx2.AsyncClient, question_id: str, headers: Headers, **body: Any) -> str:
    """The path of a new link."""
    made = await make(client, question_id, headers, **body)
    assert made.status_code == 201, made.text
    return "/q/" + str(made.json()["url"]).rpartition("/q/")[2]


class TestMaking:
    async def test_a_person_makes_one_for_themselves_and_it_is_shown_once(
        self,
        client: httpx2.AsyncClient,
        ann: Headers,
        desk: LocalDesk,
        ctx: ServerContext,
        clock: ManualClock,
    ) -> None:
        question = await desk.post("Which?")
        made = await make(client, question.id, ann)
        assert (made.status_code, made.json()["person"]) == (201, "ann")
        url = made.json()["url"]
        text = url.removeprefix(f"{ctx.settings.base_url}/q/")
        token = read_token(text)
        assert token is not None
        assert (token.kind, token.workspace) == (TokenKind.QUESTION, question.workspace)
        kept = await ctx.directory.find_question_link(question.workspace, digest_of(text))
        assert kept is not None
        link, person = kept
        assert (link.question_id, link.person, link.created_by) == (question.id, "ann", "ann")
        assert (link.channel, link.expires_at, person.id) == ("link", clock.now() + WEEK, "ann")
        for path in ("", "/history", "/outcome"):
            shown = await client.get(f"/v1/questions/{question.id}{path}", headers=ann)
            assert text not in shown.text

    async def test_an_administrator_makes_one_for_somebody_who_may_answer(
        self,
        client: httpx2.AsyncClient,
        admin: Headers,
        issuer: Issuer,
        workspace: str,
        desk: LocalDesk,
        ctx: ServerContext,
    ) -> None:
        await issuer.person(workspace, Responder("cy", frozenset({"ops"})), role=Role.MEMBER)
        question = await desk.post("Which?", recipients=["group:ops"])
        path = await path_of(client, question.id, admin, person="cy", expires_in=60, channel="email")
        found = await ctx.directory.find_question_link(workspace, digest_of(path.removeprefix("/q/")))
        assert found is not None
        assert (found[0].person, found[0].created_by, found[0].channel) == ("cy", "boss", "email")
        assert found[0].expires_at - found[0].created_at == timedelta(minutes=1)

    async def test_no_key_of_an_agent_makes_one(
        self, client: httpx2.AsyncClient, agent: Headers, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which?")
        for body in ({}, {"person": "ann"}, {"person": "bot"}):
            refused = await make(client, question.id, agent, **body)
            assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
        ended = await client.delete(f"/v1/questions/{question.id}/links", headers=agent)
        assert ended.status_code == 403
        assert await path_of(client, question.id, ann)

    @pytest.mark.usefixtures("ann")
    async def test_the_address_that_an_agent_gets_answers_nothing_without_the_persons_own_sign_in(
        self, client: httpx2.AsyncClient, agent: Headers, desk: LocalDesk
    ) -> None:
        asked = {"prompt": "Which?", "choices": ["Canary", "Rolling"], "recipients": ["ann"]}
        question = (await client.post("/v1/questions", json=asked, headers=agent)).json()
        path = urlsplit(question["url"]).path
        key = agent["authorization"].removeprefix("Bearer ")
        ways: dict[str, Headers] = {
            "nothing": {},
            "its key": agent,
            "its key as a cookie": {"cookie": f"handraise={key}; __Host-handraise={key}"},
        }
        for name, headers in ways.items():
            shown = await client.get(path, headers=headers)
            assert shown.status_code in (303, 401, 403), name
            assert "Canary" not in shown.text, name
            form = {"v": "Canary", "answer": "Canary", "by": "ann"}
            sent = await client.post(path, data=form, headers=headers | ORIGIN)
            assert sent.status_code in (303, 401, 403), name
            client.cookies.clear()
        for name in ("bot", "ann"):
            answer = {"value": "Canary", "by": name}
            given = await client.post(f"/v1/questions/{question['id']}/answer", json=answer, headers=agent)
            assert given.status_code == 403
        link = await client.post("/v1/people/ann/links", json={}, headers=agent)
        assert link.status_code == 403
        assert (await desk.get(question["id"])).status == "pending"

    async def test_nobody_makes_one_who_is_not_signed_in(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which?")
        path = await path_of(client, question.id, ann)
        for headers in ({}, bearer("nonsense"), bearer(path.removeprefix("/q/"))):
            assert (await make(client, question.id, headers)).status_code == 401

    @pytest.mark.usefixtures("bob")
    async def test_a_member_makes_none_for_others(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which?")
        said = [await make(client, question.id, ann, person=each) for each in ("bob", "nobody")]
        assert {each.status_code for each in said} == {403}
        assert said[0].content == said[1].content

    async def test_nobody_gets_one_who_may_not_answer(
        self, client: httpx2.AsyncClient, admin: Headers, ann: Headers, bob: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which?", recipients=["ann"])
        assert (await make(client, question.id, admin)).status_code == 403
        assert (await make(client, question.id, admin, person="bob")).status_code == 403
        assert (await make(client, question.id, bob)).status_code == 404
        assert (await make(client, question.id, admin, person="nobody")).status_code == 404
        assert (await make(client, question.id, ann)).status_code == 201

    async def test_there_is_none_to_a_settled_question(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which?")
        await desk.answer(question.id, "this", by="cy")
        refused = await make(client, question.id, ann)
        assert (refused.status_code, refused.json()["code"]) == (409, "already_settled")

    @pytest.mark.parametrize("expires_in", [0, -1, 30 * 86_400 + 1, "soon", float("1e400")])
    async def test_it_ends_within_30_days(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk, expires_in: Any
    ) -> None:
        question = await desk.post("Which?")
        content = str({"expires_in": expires_in}).replace("'", '"').replace("inf", "1e400")
        json = {"content-type": "application/json"}
        place = f"/v1/questions/{question.id}/links"
        refused = await client.post(place, content=content, headers=ann | json)
        assert (refused.status_code, refused.json()["problems"][0]["path"]) == (422, "body.expires_in")
        assert (await make(client, question.id, ann, expires_in=30 * 86_400)).status_code == 201

    async def test_the_secret_is_not_kept_for_an_idempotency_key(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which?")
        again = ann | {"idempotency-key": "k"}
        paths = {await path_of(client, question.id, again) for _ in range(2)}
        assert len(paths) == 2


class TestLooking:
    async def test_shows_the_question_and_no_more(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which *one*?", conversation="secret-conversation")
        await desk.post("another-question")
        shown = await client.get(await path_of(client, question.id, ann))
        page = Page(shown.text)
        assert (shown.status_code, "Which" in page.agents[0] or "one" in page.agents) == (200, True)
        assert "You answer as ann" in page.words
        assert [word for word in ("secret-conversation", "another-question") if word in shown.text] == []
        leads = {attrs.get("href") or attrs.get("src") for _, attrs in page.tags} - {None}
        assert leads == {"/static/mark.svg", "/static/style.css", "/static/embedded.css"}
        assert "set-cookie" not in shown.headers

    async def test_changes_nothing_whoever_looks(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Really?", form=Confirm())
        path = await path_of(client, question.id, ann)
        before = await fed(desk, 1)
        for agent in SCANNERS:
            for method in ("GET", "HEAD", "OPTIONS"):
                for place in (path, f"{path}?v=yes&do=decline", f"{path}/frame?v=yes", f"{path}/status"):
                    await client.request(
                        method, place, headers={"user-agent": agent, "sec-purpose": "prefetch"}
                    )
        assert list(await desk.feed()) == before
        assert (await desk.get(question.id)).outcome is None

    async def test_its_secret_goes_into_no_other_request(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("See <https://elsewhere.example/x>")
        path = await path_of(client, question.id, ann)
        for place in (path, f"{path}/frame", f"{path}/status", "/q/nonsense", "/q/nonsense/frame"):
            shown = await client.get(place)
            assert shown.headers["referrer-policy"] == "strict-origin"
            assert shown.headers["cache-control"] == "no-store"
        page = Page((await client.get(path)).text)
        leads = [attrs for tag, attrs in page.tags if tag == "a"]
        assert [(each["rel"], each["target"]) for each in leads] == [
            ("noopener noreferrer nofollow", "_blank")
        ]

    async def test_fills_in_what_the_address_says_and_sends_nothing(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        choice = await desk.post("Which?", form=Choice.of("Canary", "Rolling"))
        path = await path_of(client, choice.id, ann)
        sheet = (await open_page(client, f"{path}?v=1&why=x&do=decline")).sheet()
        sent = sheet.sent()
        assert len(sent.pop("shown")[0]) == 64  # the digest of what the page shows
        assert sent == {"v": ["1"], "seen": ["0"]}
        confirm = await desk.post("Really?", form=Confirm())
        shown = await open_page(client, f"{await path_of(client, confirm.id, ann)}?v=no")
        [focused] = [attrs["value"] for tag, attrs in shown.tags if tag == "button" and "autofocus" in attrs]
        assert focused == "no"
        approval = Approval.of("pay", {"to": "B", "n": 1}, editable=["n"], scopes=["once", "always"])
        asked = await desk.post("Pay?", form=approval)
        path = await path_of(client, asked.id, ann)
        plain = (await open_page(client, path)).sheet().sent()
        filled = await open_page(client, f"{path}?v0=1000000&scope=always&decision=approve&reason=yes")
        assert filled.sheet().sent() == plain
        assert "open" not in next(attrs for tag, attrs in filled.tags if tag == "details")


class TestAnswering:
    @pytest.mark.parametrize("frame", ["", "/frame"])
    @pytest.mark.parametrize("made_by", ["ann", "boss"])
    async def test_is_the_persons_and_says_by_what_and_by_whom_it_was_made(
        self,
        client: httpx2.AsyncClient,
        ann: Headers,
        admin: Headers,
        desk: LocalDesk,
        made_by: str,
        frame: str,
    ) -> None:
        question = await desk.post("Which?", form=Choice.of("Canary", "Rolling"), recipients=["ann"])
        maker = {"ann": ann, "boss": admin}[made_by]
        path = await path_of(client, question.id, maker, person="ann", channel="email") + frame
        sheet = (await open_page(client, path)).sheet()
        sheet.tick("v", "1")
        sent = await send(client, sheet)
        assert (sent.status_code, sent.headers["location"]) == (303, path)
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Answered)
        assert (outcome.value, outcome.by) == ("Rolling", "ann")
        assert (outcome.channel, outcome.evidence) == ("email", "signed-link")
        last = (await desk.history(question.id))[-1]
        assert last.data is not None
        assert last.data["details"]["link_made_by"] == made_by
        after = await open_page(client, path)
        assert "Answered by you through e-mail" in after.words
        assert "with a link to this one question" in after.words
        assert not [each for each in after.tags if each[0] == "button"]

    async def test_declining_is_possible_too(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Which?")
        shown = await open_page(client, await path_of(client, question.id, ann))
        [sheet] = [each for each in shown.sheets if any(one.value == "decline" for one in each.inputs)]
        sheet.fill("why", "not mine")
        assert (await send(client, sheet)).status_code == 303
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Declined)
        assert (outcome.by, outcome.reason, outcome.evidence) == ("ann", "not mine", "signed-link")

    async def test_an_answer_that_does_not_fit_says_why(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("How many?", form=Open(type="integer"))
        path = await path_of(client, question.id, ann)
        sheet = (await open_page(client, path)).sheet()
        sheet.fill("v", "lots")
        refused = await send(client, sheet)
        assert (refused.status_code, "expected a whole number" in refused.text) == (422, True)
        assert Page(refused.text).sheet().action == path

    async def test_edits_of_an_approval_are_shown_before_anything_is_decided(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", {"to": "B", "n": 1}, editable=["n"]))
        path = await path_of(client, question.id, ann)
        sheet = (await open_page(client, path)).sheet()
        sheet.fill("v0", "2")
        shown = Page((await send(client, sheet, ("decision", "approve"))).text)
        assert (await desk.get(question.id)).outcome is None
        assert (shown.sheet("data-confirm").action, "You answer as ann" in shown.words) == (path, True)
        assert not [attrs for tag, attrs in shown.tags if attrs.get("href") == "/"]
        assert (await send(client, shown.sheet("data-confirm"))).status_code == 303
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Answered)
        assert outcome.value["arguments"] == {"to": "B", "n": 2}

    @pytest.mark.parametrize("frame", ["", "/frame"])
    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "https://app.example.com"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8765"},
            {},
        ],
    )
    @pytest.mark.parametrize("settings", [{"embed_origins": ("https://app.example.com",)}])
    async def test_another_site_cannot_send_the_form_nor_can_the_page_around_it(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk, headers: Headers, frame: str
    ) -> None:
        question = await desk.post("Really?", form=Confirm())
        path = await path_of(client, question.id, ann) + frame
        for body in ("v=yes", "do=decline"):
            refused = await client.post(path, content=body, headers=headers | FORM)
            assert refused.status_code == 403
        assert (await desk.get(question.id)).outcome is None

    async def test_of_many_who_answer_with_it_at_once_one_does(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question = await desk.post("Name it")
        path = await path_of(client, question.id, ann)
        sent = await asyncio.gather(
            *(client.post(path, content=f"v=name-{n}", headers=ORIGIN | FORM) for n in range(10))
        )
        assert sorted(each.status_code for each in sent) == [303, *[409] * 9]

    @pytest.mark.parametrize("frame", ["", "/frame"])
    async def test_a_settled_question_says_who_was_first(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk, frame: str
    ) -> None:
        question = await desk.post("Name it")
        path = await path_of(client, question.id, ann) + frame
        sheet = (await open_page(client, path)).sheet()
        sheet.fill("v", "my thought")
        await desk.answer(question.id, "first", by="cy", provenance=Provenance(channel="slack"))
        late = await send(client, sheet)
        assert (late.status_code, "my thought" in late.text) == (409, True)
        assert "Answered by cy through Slack" in (await open_page(client, path)).words
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Answered)
        assert outcome.value == "first"

    async def test_it_answers_no_other_question(
        self, client: httpx2.AsyncClient, ann: Headers, desk: LocalDesk
    ) -> None:
        question, other = await desk.post("Which?"), await desk.post("Which other?")
        path = await path_of(client, question.id, ann)
        body = f"v=x&id={other.id}&question_id={other.id}&question={other.id}"
        for place in (path, f"{path}?question_id={other.id}"):
            await client.post(place, content=body, headers=ORIGIN | FORM)
        for place in (f"{path}/{other.id}", f"{path}/../{other.id}", f"/questions/{other.id}"):
            await client.post(place, content=body, headers=ORIGIN | FORM)
        assert (await desk.get(other.id)).outcome is None
        assert (await desk.get(question.id)).outcome is not None


class TestItsEnd:
    async def dead(self, client: httpx2.AsyncClient, path: str) -> set[bytes]:
        """What a dead link says, to whoever looks and to whoever answers."""
        said = set()
        for place in (path, f"{path}/status"):
            shown = await client.get(place)
            assert shown.status_code == 410
            said.add(shown.content)
        sent = await client.post(path, content="v=yes", headers=ORIGIN | FORM)
        assert sent.status_code == 410
        assert "set-cookie" not in sent.headers
        return said | {sent.content}

    async def test_all_that_do_not_work_are_one_and_the_same_page(
        self,
        *,
        client: httpx2.AsyncClient,
        ann: Headers,
        admin: Headers,
        issuer: Issuer,
        ctx: ServerContext,
        workspace: str,
        desk: LocalDesk,
        clock: ManualClock,
    ) -> None:
        question = await desk.post("Really?", form=Confirm(), recipients=["ann", "group:ops", "zed"])
        await issuer.person(workspace, Responder("cy", frozenset({"ops"})), role=Role.MEMBER)
        await issuer.person(workspace, "zed", role=Role.MEMBER)
        ended = await path_of(client, question.id, ann, expires_in=60)
        out_of_group = await path_of(client, question.id, admin, person="cy")
        taken_out = await path_of(client, question.id, admin, person="zed")
        revoked = await path_of(client, question.id, ann)
        good = revoked
        clock.advance(timedelta(seconds=60))
        await ctx.directory.put_group(workspace, "ops", [])
        await client.delete("/v1/people/zed", headers=admin)
        assert (await client.get(good)).status_code == 200
        await client.delete(f"/v1/questions/{question.id}/links", headers=ann)
        secret = good.removeprefix("/q/hrq_").partition("_")[2]
        elsewhere = f"/q/hrq_{b32encode(b'another!!!').decode().lower()}_{secret}"
        nowhere = ["/q/nonsense", good[:-1], good.replace("hrq", "hrl"), elsewhere, f"/q/{'x' * 5_000}"]
        dead = [ended, out_of_group, taken_out, revoked, *nowhere, "/q/hrq_mfrgg_" + "A" * 43, "/q/%00"]
        said = [await self.dead(client, path) for path in dead]
        framed = {(await client.get(f"{path}/frame")).content for path in dead}
        assert set.union(*said) == said[0]
        assert len(said[0]) == len(framed) == 1
        assert (await desk.get(question.id)).outcome is None

    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"sign_in_limit": "1000/second"}

    async def test_ending_ones_own_leaves_those_of_others(
        self, client: httpx2.AsyncClient, ann: Headers, bob: Headers, admin: Headers, desk: LocalDesk
    ) -> None:
        question, other = await desk.post("Which?"), await desk.post("Which other?")
        paths = [await path_of(client, question.id, each) for each in (ann, bob)]
        kept = await path_of(client, other.id, ann)
        place = f"/v1/questions/{question.id}/links"
        assert (await client.delete(place, headers=ann)).status_code == 204
        assert [(await client.get(each)).status_code for each in paths] == [410, 200]
        assert (await client.delete(place, headers=admin)).status_code == 204
        assert [(await client.get(each)).status_code for each in (*paths, kept)] == [410, 410, 200]

    async def test_whoever_answered_and_left_the_group_still_sees_how_it_ended(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str, desk: LocalDesk, ctx: ServerContext
    ) -> None:
        cy = bearer(await issuer.person(workspace, Responder("cy", frozenset({"ops"})), role=Role.MEMBER))
        question = await desk.post("Really?", form=Confirm(), recipients=["group:ops"])
        path = await path_of(client, question.id, cy)
        await client.post(path, content="v=yes", headers=ORIGIN | FORM)
        await ctx.directory.put_group(workspace, "ops", [])
        assert "Answered by you" in (await open_page(client, path)).words

    @pytest.mark.parametrize("place", ["/q/nonsense", "/q/nonsense/frame", "/q/nonsense/status"])
    async def test_an_address_may_come_in_vain_so_often(
        self, ctx: ServerContext, client: httpx2.AsyncClient, app: Any, place: str
    ) -> None:
        app.state.rate_limits = type(app.state.rate_limits)(
            ctx.settings.model_copy(update={"sign_in_limit": "3/hour"})
        )
        seen = [(await client.get(place)).status_code for _ in range(4)]
        assert seen == [410, 410, 410, 429]

    async def test_a_link_may_be_used_so_often(
        self, ctx: ServerContext, client: httpx2.AsyncClient, app: Any, ann: Headers, desk: LocalDesk
    ) -> None:
        path = await path_of(client, (await desk.post("Which?")).id, ann)
        app.state.rate_limits = type(app.state.rate_limits)(
            ctx.settings.model_copy(update={"rate_limit": "3/hour"})
        )
        assert [(await client.get(path)).status_code for _ in range(4)] == [200, 200, 200, 429]


async def test_a_link_in_a_message_outlives_the_secret_that_it_was_made_with(
    client: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str, ann: Headers
) -> None:
    assert ann
    question = await desk.post("Go?", recipients=["ann"])

    def links(secret: str, *before: str) -> Links:
        given: dict[str, Any] = {"secret": secret, "secret_fallbacks": before}
        settings = ServerSettings(url="memory:", **given)
        return Links(settings, ctx.directory, {"mail": cast("Channel", PrivateChannel())})

    def delivery(turn: int) -> Delivery:
        return Delivery(
            workspace=workspace,
            id="d",
            question_id=question.id,
            recipient="ann",
            channel="mail",
            to=None,
            reason="asked",
            rate_limit_key="mail",
            created_at=question.asked_at,
            turn=turn,
        )

    first = await links("old")(delivery(1))
    assert await links("new", "old")(delivery(2)) == first
    assert (await links("new")(delivery(2))).endswith(f"/questions/{question.id}")
    assert (await client.get(urlsplit(first).path)).status_code == 200


class PrivateChannel:
    """As much of a channel as a link asks for."""

    name = "mail"
    private = True
