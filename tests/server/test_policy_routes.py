"""The policy of a workspace over HTTP: who may change it, what is refused, and that no change overwrites another."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from handraise.desk.policy_admin import put_policy
from handraise.model.forms import Approval
from handraise.model.identities import Role
from handraise.model.people import Responder
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_session
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

Headers = dict[str, str]
BIG = {
    "name": "large refunds",
    "when": "args.amount > 100",
    "then": {"require": {"people": ["group:finance"]}},
}
SMALL = {
    "name": "small refunds",
    "when": "tool == 'refund' && args.amount <= 40",
    "then": {"allow": {"check": 1}},
}
POLICY: dict[str, Any] = {"time_zone": "Europe/Vienna", "rules": [BIG, SMALL]}


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"check_recipients": True}


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    boss = Responder("boss", groups=frozenset({"finance"}))
    return bearer(await issuer.person(workspace, boss, role=Role.ADMIN))


async def put(client: httpx2.AsyncClient, headers: Headers, document: Any, **more: Any) -> httpx2.Response:
    return await client.put("/v1/policy", json=document, headers=headers | more.pop("extra", {}), **more)


@on_every_store
async def test_a_policy_is_put_read_and_replaced_with_its_version_as_the_tag(
    client: httpx2.AsyncClient, admin: Headers
) -> None:
    none = await client.get("/v1/policy", headers=admin)
    assert (none.status_code, none.headers["etag"]) == (200, '"0"')
    assert none.json()["document"] == {"time_zone": "UTC", "rules": []}
    first = await put(client, admin, POLICY, extra={"if-match": '"0"'})
    assert (first.status_code, first.headers["etag"]) == (200, '"1"'), first.text
    read = (await client.get("/v1/policy", headers=admin)).json()
    assert (read["version"], read["by"], read["document"]) == (1, "boss", POLICY)
    same = await put(client, admin, POLICY)
    assert same.headers["etag"] == '"1"', "the same document is no new version"
    stale = await put(client, admin, {"rules": [BIG]}, extra={"if-match": '"0"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    second = await put(client, admin, {"rules": [BIG | {"mode": "observe"}]}, extra={"if-match": '"1"'})
    assert second.json()["version"] == 2
    versions = (await client.get("/v1/policy/versions", headers=admin)).json()
    assert [(each["version"], each["by"]) for each in versions["items"]] == [(2, "boss"), (1, "boss")]
    assert {each["part"]: each["change"] for each in versions["items"][0]["changes"]} == {
        "rule large refunds": "changed",
        "rule small refunds": "removed",
        "time_zone": "changed",
    }
    page = (await client.get("/v1/policy/versions?limit=1", headers=admin)).json()
    rest = (await client.get(f"/v1/policy/versions?limit=1&after={page['next']}", headers=admin)).json()
    assert [each["version"] for each in page["items"] + rest["items"]] == [2, 1]
    assert rest["next"] is None
    assert rest["items"][0]["changes"], "the first version adds everything"
    old = await client.get("/v1/policy/versions/1", headers=admin)
    assert old.json()["document"] == POLICY
    for number, status in ((3, 404), (2**31 - 2, 404), (2**31 - 1, 422)):
        assert (await client.get(f"/v1/policy/versions/{number}", headers=admin)).status_code == status


@on_every_store
async def test_of_two_changes_at_once_one_is_refused(client: httpx2.AsyncClient, admin: Headers) -> None:
    both = await asyncio.gather(
        *(put(client, admin, {"rules": [rule]}, extra={"if-match": '"0"'}) for rule in (BIG, SMALL))
    )
    assert sorted(each.status_code for each in both) == [200, 412]


async def test_a_member_and_an_agent_may_not_even_read_it(
    client: httpx2.AsyncClient, admin: Headers, issuer: Issuer, workspace: str
) -> None:
    await put(client, admin, POLICY)
    ann = bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))
    agent = bearer(await issuer.agent(workspace, "bot"))
    for headers, status in ((ann, 403), (agent, 403), ({}, 401)):
        said = [
            await client.get("/v1/policy", headers=headers),
            await put(client, headers, {"rules": []}),
            await client.get("/v1/policy/versions", headers=headers),
            await client.get("/v1/policy/versions/1", headers=headers),
            await client.delete("/v1/policy/suspensions/small refunds", headers=headers),
            await client.post("/v1/policy/test", json=POLICY, headers=headers),
        ]
        assert {each.status_code for each in said} == {status}
    assert (await client.get("/v1/policy", headers=admin)).json()["version"] == 1


async def test_every_problem_is_named_with_its_rule(client: httpx2.AsyncClient, admin: Headers) -> None:
    wrong: dict[str, Any] = {
        "rules": [
            {"name": "no effect", "then": {}},
            {"name": "bad expression", "when": "args.amount >", "then": "allow"},
            {"name": "wrong type", "when": "hour", "then": "allow"},
            {"name": "misspelt", "then": {"require": {"quorun": 2}}},
        ]
    }
    refused = await put(client, admin, wrong)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_policy")
    paths = [each["path"] for each in refused.json()["problems"]]
    for rule in wrong["rules"]:
        assert any(path.startswith(f"rule {rule['name']!r}") for path in paths), (rule, paths)
    others: list[Any] = [[], "text", {"rules": 1}, {"rules": [{"name": "a\x00b", "then": "allow"}]}]
    for other in others:
        assert (await put(client, admin, other)).status_code == 422
    assert (await client.get("/v1/policy", headers=admin)).json()["version"] == 0


async def test_people_who_do_not_exist_are_refused_with_the_nearest_names(
    client: httpx2.AsyncClient, admin: Headers
) -> None:
    document = {"rules": [BIG | {"then": {"require": {"people": ["group:finanse"]}}}]}
    refused = await put(client, admin, document)
    [problem] = refused.json()["problems"]
    assert problem["path"] == "rule 'large refunds': require.people[0]"
    assert "did you mean 'group:finance'?" in problem["message"]
    kept = await put(client, admin, document, params={"check_recipients": "false"})
    assert kept.status_code == 200


async def test_a_suspended_rule_is_shown_and_resumed(
    client: httpx2.AsyncClient, admin: Headers, ctx: ServerContext, workspace: str
) -> None:
    await put(client, admin, POLICY)
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("Refund?", form=Approval.of("refund", {"amount": 5}))
    await desk.answer(question.id, "deny", by=Responder("boss"))
    [suspended] = (await client.get("/v1/policy", headers=admin)).json()["suspended"]
    assert (suspended["rule"], suspended["by"], suspended["question_id"]) == (
        "small refunds",
        "boss",
        question.id,
    )
    for status in (204, 404):
        gone = await client.delete("/v1/policy/suspensions/small refunds", headers=admin)
        assert gone.status_code == status
    assert (await client.delete("/v1/policy/suspensions/%00", headers=admin)).status_code == 404
    assert (await client.get("/v1/policy", headers=admin)).json()["suspended"] == []


async def test_the_policy_of_another_workspace_is_not_seen(
    client: httpx2.AsyncClient, admin: Headers, issuer: Issuer, workspace: str
) -> None:
    await put(client, admin, POLICY)
    other = bearer(await issuer.person(f"{workspace}-2", "boss", role=Role.ADMIN))
    assert (await client.get("/v1/policy", headers=other)).json()["version"] == 0
    assert (await client.get("/v1/policy/versions", headers=other)).json()["items"] == []


@on_every_store
async def test_a_policy_is_tried_on_past_questions_and_not_stored(
    client: httpx2.AsyncClient, admin: Headers, ctx: ServerContext, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    for amount, answer in ((5, "approve"), (30, "deny"), (70, "approve"), (500, "approve")):
        question = await desk.post("Refund?", form=Approval.of("refund", {"amount": amount}))
        await desk.answer(question.id, answer, by=Responder("boss"))
    rules = [SMALL | {"then": "allow"}, BIG]
    tried = await client.post("/v1/policy/test?since=1d", json={"rules": rules}, headers=admin)
    report = tried.json()
    assert tried.status_code == 200, tried.text
    assert (report["questions"], report["fewer"], report["allowed"]) == (4, 2, 2)
    assert [each["rule"] for each in report["denied_but_allowed_list"]] == ["small refunds"]
    assert report["sent_elsewhere"] == {"group:finance": 1}
    assert (await client.get("/v1/policy", headers=admin)).json()["version"] == 0
    wrong = await client.post("/v1/policy/test", json={"rules": [{"name": "x", "then": {}}]}, headers=admin)
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_policy")
    assert (await client.post("/v1/policy/test?since=soon", json={}, headers=admin)).status_code == 422


@pytest.mark.parametrize("method", ["put policy", "apply config"])
async def test_only_the_operator_lets_a_policy_allow_what_is_of_high_risk(
    client: httpx2.AsyncClient, ctx: ServerContext, admin: Headers, workspace: str, method: str
) -> None:
    risky = POLICY | {"allow_high_risk": True}

    async def store() -> httpx2.Response:
        if method == "put policy":
            return await put(client, admin, risky)
        return await client.put("/v1/config", json={"policy": risky}, headers=admin)

    refused = await store()
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (403, "permission_denied")
    assert "allow_high_risk" in refused.text
    await put_policy(ctx.policies, workspace, risky, by="command line (root)", expected=None)
    assert (await store()).status_code == 200, "it is stored already"
    assert (await put(client, admin, {"rules": []})).status_code == 200


async def test_a_token_stores_no_policy_that_allows(client: httpx2.AsyncClient, admin: Headers) -> None:
    made = await client.post("/v1/keys", json={"agent": "ci", "administers": True}, headers=admin)
    token = bearer(made.json()["key"])
    observed = POLICY | {"rules": [BIG, SMALL | {"mode": "observe"}]}
    for document, expected in [({"rules": [BIG]}, 200), (POLICY, 403), (observed, 200)]:
        assert (await put(client, token, document)).status_code == expected
    assert (await client.put("/v1/config", json={"policy": POLICY}, headers=token)).status_code == 403
    assert (await put(client, admin, POLICY)).status_code == 200
    assert (await put(client, token, POLICY)).status_code == 200, "it is stored already"
    assert (await put(client, token, {"rules": [SMALL]})).status_code == 403


async def test_a_session_that_somebody_vouched_for_administers_nothing(
    client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    await issuer.person(workspace, "boss", role=Role.ADMIN)
    await issuer.person(workspace, "temp", role=Role.ADMIN)
    session = await issue_session(ctx, workspace, person="temp", how="sign-in", vouched_by="boss")
    assert session is not None
    weak = bearer(session.token)
    assert (await client.get("/v1/policy", headers=weak)).status_code == 200
    for method, path, body in [
        ("PUT", "/v1/policy", {"rules": []}),
        ("PUT", "/v1/config", {"groups": {}}),
        ("PUT", "/v1/people/boss/away", {"until": "2100-01-01T00:00:00Z", "deputy": "temp"}),
        ("DELETE", "/v1/people/boss/away", None),
        ("PUT", "/v1/groups/g2", {"people": ["temp"]}),
        ("POST", "/v1/keys", {"agent": "x"}),
        ("POST", "/v1/people/boss/links", None),
        ("POST", "/policy/apply", None),
        ("POST", "/admin/people", None),
    ]:
        refused = await client.request(method, path, json=body, headers=weak)
        assert refused.status_code == 403, (method, path, refused.text)
        assert "sign in through your organisation" in refused.text
    stopped = await client.post("/v1/stops", json={"agent": "x", "why": "it runs wild"}, headers=weak)
    assert stopped.status_code == 201, "it only prevents something"
