"""GitLab's external status checks: one question for each head commit, and GitLab is told what people decided about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from handraise import Approval
from handraise.model.callbacks import ServiceCallback
from handraise.model.deliveries import DeliveryStatus
from handraise.model.identities import Role
from handraise.outcomes import Withdrawn
from handraise.server import ServerContext, ServerSettings
from support.issuer import Issuer
from tests.channels.gitlab_peer import SECRET, TOKEN, GitLabPeer, open_peer, signed
from tests.server.conftest import bearer
from tests.server.test_github_checks import pending, told

INBOUND = "/v1/checks/gitlab/inbound"
NEWER = "b" * 40
OTHER = "another secret of somebody"


@pytest.fixture
async def gitlab() -> AsyncIterator[GitLabPeer]:
    async with open_peer() as peer:
        yield peer


@pytest.fixture
def changes() -> dict[str, Any]:
    """Settings of a test; it replaces this by a parameter."""
    return {}


@pytest.fixture
def settings(gitlab: GitLabPeer, changes: dict[str, Any], workspace: str) -> dict[str, Any]:
    return given(gitlab.url) | {"workspace": workspace, "gitlab_workspace": workspace} | changes


def given(url: str) -> dict[str, Any]:
    return {
        "gitlab_token": TOKEN,
        "gitlab_webhook_secret": SECRET,
        "gitlab_projects": ["FlightJS/*"],
        "gitlab_url": url,
        "poll_interval": 0.1,
    }


@pytest.mark.parametrize(("value", "status"), [("approve", "passed"), ("deny", "failed")])
async def test_people_decide_and_gitlab_is_told(
    client: httpx2.AsyncClient, ctx: ServerContext, gitlab: GitLabPeer, value: str, status: str
) -> None:
    event = gitlab.payload()
    for _ in range(2):  # GitLab sends one for each change
        assert (await client.post(INBOUND, **signed(event))).status_code == 202
    [question] = await pending(ctx)
    assert question.prompt == "Merge !4 of flightjs/Flight into main?"
    assert isinstance(question.form, Approval)
    assert question.form.action.arguments["sha"] == "141be9714669a4c1ccaa013c6a7f3e462ff2a40f"
    await ctx.desk.answer(question.id, {"decision": value}, by="ann")
    assert (await told(ctx, question)).status is DeliveryStatus.UPDATED
    assert gitlab.results == [
        {"sha": "141be9714669a4c1ccaa013c6a7f3e462ff2a40f", "external_status_check_id": 1, "status": status}
    ]


async def test_a_newer_commit_is_another_question_and_ends_the_older_one(
    client: httpx2.AsyncClient, ctx: ServerContext, gitlab: GitLabPeer
) -> None:
    await client.post(INBOUND, **signed(gitlab.payload()))
    [old] = await pending(ctx)
    bot = ctx.desk.scoped(asker="bot")
    agents = await bot.post("Lunch?", conversation=old.conversation or "")
    await client.post(INBOUND, **signed(gitlab.payload(sha=NEWER)))
    found = {each.id for each in await pending(ctx)}
    assert old.id not in found
    assert agents.id in found  # an agent's question in a conversation of that name is its own
    assert isinstance((await ctx.desk.get(old.id)).outcome, Withdrawn)
    # The older one is told too, and GitLab does not want to know it: nothing passes.
    assert (await told(ctx, old)).status is DeliveryStatus.FAILED
    [new] = [each for each in await pending(ctx) if each.id != agents.id]
    await client.post(INBOUND, **signed(gitlab.payload(sha=NEWER, state="merged")))
    assert [each.id for each in await pending(ctx)] == [agents.id]
    await told(ctx, new)
    assert "passed" not in {each["status"] for each in gitlab.results}


async def test_a_webhook_that_comes_late_ends_no_question_about_a_newer_commit(
    client: httpx2.AsyncClient, ctx: ServerContext, gitlab: GitLabPeer
) -> None:
    """GitLab sends each by itself, and does not promise their order."""
    late = signed(gitlab.payload(updated_at="2022-12-07 07:53:43 UTC"))
    again = signed(gitlab.payload(updated_at="2022-12-07 07:52:00 UTC"))
    await client.post(INBOUND, **signed(gitlab.payload(sha=NEWER, updated_at="2022-12-07T07:53:44Z")))
    [question] = await pending(ctx)
    for each in (late, late, again):
        assert (await client.post(INBOUND, **each)).status_code == 202
    closed = signed(gitlab.payload(state="closed", updated_at="2022-12-07 07:50:00 UTC"))
    assert (await client.post(INBOUND, **closed)).status_code == 202
    assert [each.id for each in await pending(ctx)] == [question.id]
    gitlab.head = NEWER
    await ctx.desk.answer(question.id, "approve", by="ann")
    await told(ctx, question)
    assert [each for each in gitlab.results if each["sha"] == NEWER] == [
        {"sha": NEWER, "external_status_check_id": 1, "status": "passed"}
    ]


async def test_a_commit_that_nobody_decided_about_is_asked_about_again(
    client: httpx2.AsyncClient, ctx: ServerContext, gitlab: GitLabPeer
) -> None:
    """Such as that of a merge request that is opened again, or of a branch that is set back to it."""
    opened = signed(gitlab.payload(updated_at="2022-12-07 07:53:43 UTC"))
    closed = signed(gitlab.payload(state="closed", updated_at="2022-12-07 07:54:00 UTC"))
    reopened = signed(gitlab.payload(updated_at="2022-12-07 08:55:00 +0100"))
    renamed = signed(gitlab.payload(title="Better", updated_at="2022-12-07 07:56:00 UTC"))
    await client.post(INBOUND, **opened)
    [first] = await pending(ctx)
    for each in (closed, opened):  # the second is delivered once more
        await client.post(INBOUND, **each)
    assert await pending(ctx) == []
    for each in (reopened, renamed, reopened):
        await client.post(INBOUND, **each)
    [second] = await pending(ctx)
    assert second.id != first.id
    await ctx.desk.answer(second.id, "deny", by="ann")
    await told(ctx, second)
    await client.post(INBOUND, **signed(gitlab.payload(updated_at="2022-12-07 07:57:00 UTC")))
    assert await pending(ctx) == []  # people have decided about this commit


async def test_an_approval_of_an_older_commit_lets_no_newer_one_pass(
    client: httpx2.AsyncClient, ctx: ServerContext, gitlab: GitLabPeer
) -> None:
    await client.post(INBOUND, **signed(gitlab.payload()))
    [question] = await pending(ctx)
    gitlab.head = NEWER  # pushed, and GitLab's request has not come yet
    await ctx.desk.answer(question.id, "approve", by="ann")
    delivery = await told(ctx, question)
    assert (delivery.status, delivery.problem) == (
        DeliveryStatus.FAILED,
        "GitLab says that there are newer commits",
    )
    assert gitlab.results == []


async def test_what_gitlab_has_not_signed_or_may_not_ask_changes_nothing(
    client: httpx2.AsyncClient, ctx: ServerContext, gitlab: GitLabPeer, issuer: Issuer
) -> None:
    event = gitlab.payload()
    good = signed(event)
    for headers in (
        {},
        {"x-gitlab-signature": ""},
        {"x-gitlab-token": SECRET},
        signed(event, secret=OTHER)["headers"],
        bearer(await issuer.person(ctx.settings.workspace, "root")),
    ):
        assert (await client.post(INBOUND, content=good["content"], headers=headers)).status_code == 401
    changed = good["content"].replace(b"141be97", b"041be97")
    assert (await client.post(INBOUND, content=changed, headers=good["headers"])).status_code == 401
    for status, wrong in [
        (422, event | {"project": event["project"] | {"path_with_namespace": "flightjs2/Flight"}}),
        (422, event | {"project": event["project"] | {"path_with_namespace": "flightjs"}}),
        (400, event | {"object_kind": "push"}),
        (400, {name: value for name, value in event.items() if name != "external_approval_rule"}),
        (400, gitlab.payload(sha="../../x")),
        (400, gitlab.payload(iid="4/../5")),
        (400, gitlab.payload(updated_at="2022-12-07 07:53:43")),
        (413, event | {"x": "y" * 600_000}),
    ]:
        assert (await client.post(INBOUND, **signed(wrong))).status_code == status
    assert await pending(ctx) == []


async def test_only_the_configured_gitlab_is_ever_called(ctx: ServerContext, gitlab: GitLabPeer) -> None:
    details = {"project": 6, "merge_request": 4, "check": 1, "sha": NEWER}
    good = f"{gitlab.url}/api/v4/projects/6/merge_requests/4/status_check_responses"
    check = ctx.checks["gitlab"]
    assert check.callback_problem(ServiceCallback(good, channel="gitlab", details=details)) is None
    for url in (good.replace("127.0.0.1", "evil.example"), good.replace("/6/", "/7/"), f"{good}?x", ""):
        assert check.callback_problem(ServiceCallback(url, channel="gitlab", details=details))


@pytest.mark.parametrize("changes", [{"gitlab_people": {"1": "ann"}}])
async def test_nobody_approves_their_own_merge_request(
    client: httpx2.AsyncClient, ctx: ServerContext, gitlab: GitLabPeer, issuer: Issuer
) -> None:
    await client.post(INBOUND, **signed(gitlab.payload()))
    [question] = await pending(ctx)
    for person, expected in (("ann", {403, 404}), ("bo", {200})):
        headers = bearer(await issuer.person(ctx.settings.workspace, person, role=Role.MEMBER))
        said = await client.post(
            f"/v1/questions/{question.id}/answer", json={"value": "approve"}, headers=headers
        )
        assert said.status_code in expected
    await told(ctx, question)
    assert [each["status"] for each in gitlab.results] == ["passed"]
    assert (await client.post(INBOUND, **signed(gitlab.payload(author_id=2, iid=5)))).status_code == 422


def test_a_check_that_could_not_work_is_noticed_at_the_start() -> None:
    whole = given("https://gitlab.example")
    assert ServerSettings(**whole).gitlab_token is not None
    for wrong, expected in (
        ({"gitlab_webhook_secret": None}, "GitLab's requests"),
        ({"gitlab_projects": []}, "that may ask"),
        ({"gitlab_projects": ["flight"]}, "acme/shop"),
        ({"gitlab_url": "gitlab.example"}, "expected an address"),
    ):
        with pytest.raises(ValueError, match=expected):
            ServerSettings(**(whole | wrong))
