"""The configuration of a workspace over HTTP: who may change it, versions, and what a token can never do."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing import promise
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer, on_every_store

Headers = dict[str, str]
OFFICE: dict[str, Any] = {
    "people": {"boss": {"role": "admin"}, "ann": {"email": "ann@example.com"}},
    "groups": {"ops": {"people": ["ann"]}},
    "policy": {"rules": [{"name": "no", "when": "tool == 'drop'", "then": {"deny": "never"}}]},
    "quotas": {"agents": {"bot": 1}},
}


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))


@pytest.fixture
async def token(client: httpx2.AsyncClient, admin: Headers) -> Headers:
    made = await client.post("/v1/keys", json={"agent": "ci", "administers": True}, headers=admin)
    assert (made.status_code, made.json()["agent"]) == (201, "admin:ci")
    return bearer(made.json()["key"])


async def put(
    client: httpx2.AsyncClient, who: Headers, document: dict[str, Any] = OFFICE, **query: Any
) -> httpx2.Response:
    return await client.put("/v1/config", json=document, params=query, headers=who)


async def recorded_by(ctx: ServerContext, workspace: str, by: str, number: int) -> list[str]:
    """The kinds of the events of the workspace with this name, once they are so many."""
    async with asyncio.timeout(20):
        while True:
            found = await ctx.store.workspace_events(workspace, after=None, limit=100)
            kinds = [each.kind.value for each in found if each.by == by]
            if len(kinds) >= number:
                return kinds
            await asyncio.sleep(0.02)  # those of open transactions of others come before them


@on_every_store
@promise("P17")
async def test_a_token_applies_a_file_in_its_name_and_a_second_time_nothing_changes(
    client: httpx2.AsyncClient, ctx: ServerContext, admin: Headers, token: Headers, workspace: str
) -> None:
    tried = (await put(client, token, dry_run=True)).json()
    assert (await ctx.directory.groups(workspace), tried["applied"]) == ({}, False)
    done = (await put(client, token)).json()
    assert done == tried | {"applied": True}
    assert [each["part"] for each in done["changes"]] == ["people", "groups", "policy", "quotas"]
    assert (await put(client, token)).json() == {"applied": True, "changes": [], "warnings": []}
    await put(client, token, {"quotas": {}})
    changed = ["policy.changed", "person.added", "group.changed", "quotas.changed", "quotas.changed"]
    assert await recorded_by(ctx, workspace, "admin:ci", len(changed)) == changed
    assert (await put(client, token)).json()["changes"] != []
    read = await client.get("/v1/config", headers=admin)
    assert (await put(client, admin, read.json(), prune=True)).json()["changes"] == []
    me = (await client.get("/v1/me", headers=token)).json()
    assert me == dict.fromkeys(("agent", "person", "reader", "role")) | {
        "workspace": workspace,
        "admin_token": "ci",
    }


@promise("P8", "P11")
async def test_who_is_no_administrator_reads_and_applies_no_configuration(
    client: httpx2.AsyncClient,
    ctx: ServerContext,
    issuer: Issuer,
    admin: Headers,
    token: Headers,
    workspace: str,
) -> None:
    member = bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))
    agent = bearer(await issuer.agent(workspace, "bot"))
    reads = await client.post("/v1/keys", json={"agent": "board", "reads": True}, headers=admin)
    before = await ctx.store.workspace_events(workspace, after=None, limit=100)
    for who in (member, agent, bearer(reads.json()["key"])):
        assert (await put(client, who)).status_code == 403
        assert (await client.get("/v1/config", headers=who)).status_code == 403
    # The token of another workspace administers that one, and sees nothing of this one.
    other = bearer(await issuer.person(f"{workspace}-2", "boss", role=Role.ADMIN))
    theirs = await client.post("/v1/keys", json={"agent": "ci", "administers": True}, headers=other)
    assert (await put(client, bearer(theirs.json()["key"]))).status_code == 200
    assert (await client.get("/v1/config", headers=admin)).json()["groups"] == {}
    assert await ctx.store.workspace_events(workspace, after=None, limit=100) == before
    [key] = [
        each for each in await ctx.directory.keys(workspace, after=None, limit=9) if each.agent == "admin:ci"
    ]
    assert (await client.post(f"/v1/keys/{key.id}/revoke", json={}, headers=admin)).status_code == 200
    assert (await put(client, token)).status_code == 401


@promise("P8", "P11")
async def test_a_token_neither_answers_nor_asks_nor_lets_anybody_in(
    client: httpx2.AsyncClient, ctx: ServerContext, token: Headers, workspace: str
) -> None:
    question = await ctx.desk.scoped(workspace, asker="bot").post("Which?", choices=["a", "b"])
    at = f"/v1/questions/{question.id}"
    for path, body in (
        (f"{at}/answer", {"value": "a"}),
        (f"{at}/answer", {"value": "a", "by": "boss"}),
        (f"{at}/decline", {}),
        (f"{at}/links", {"person": "boss"}),
        ("/v1/people/boss/links", {}),
        ("/v1/keys", {"agent": "bot"}),
        ("/v1/keys", {"agent": "another", "administers": True}),
        ("/v1/questions", {"prompt": "Go?"}),
    ):
        response = await client.post(path, json=body, headers=token)
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied"), path
    assert (await client.get(at, headers=token)).status_code == 403
    assert (await ctx.desk.scoped(workspace).get(question.id)).outcome is None
    page = await client.get("/admin/people", headers=token)
    assert page.status_code == 403


async def test_no_agent_and_no_person_has_the_name_of_a_token(
    client: httpx2.AsyncClient, admin: Headers
) -> None:
    agent = await client.post("/v1/keys", json={"agent": "admin:ci"}, headers=admin)
    both = await client.post(
        "/v1/keys", json={"agent": "x", "reads": True, "administers": True}, headers=admin
    )
    person = await client.put("/v1/people/admin:ci", json={"name": "x"}, headers=admin)
    assert [each.status_code for each in (agent, both, person)] == [422, 422, 422]
    assert (await put(client, admin, {"people": {"admin:ci": None}})).status_code == 422


async def test_every_problem_comes_at_once_and_nothing_is_changed(
    client: httpx2.AsyncClient, ctx: ServerContext, token: Headers, workspace: str
) -> None:
    before = await ctx.store.workspace_events(workspace, after=None, limit=100)
    wrong = {"peple": {}, "people": {"ann": {"emial": "a@b"}}, "quotas": {"pending": -1}}
    refused = await put(client, token, wrong)
    assert refused.status_code == 422
    said = {each["path"]: each["message"] for each in refused.json()["problems"]}
    assert list(said) == ["people.ann.emial", "quotas.pending", "peple"]
    assert "did you mean 'people'?" in said["peple"]
    channel = {"addresses": {"*": {"pigeon": {"1": {"loft": 2}}}}}
    assert (await put(client, token, channel)).json()["problems"][0]["path"] == "addresses.*.pigeon.1"
    private = {"groups": {"ops": {"rota": {"address": "http://127.0.0.1/a.ics"}}}}
    assert (await put(client, token, private)).json()["problems"][0]["path"] == "groups.ops.rota.address"
    assert await ctx.store.workspace_events(workspace, after=None, limit=100) == before


CHANGES: list[tuple[str, Any, Any]] = [
    ("/v1/config", OFFICE, {"quotas": {"pending": 9}}),
    ("/v1/people/ann", {"name": "Ann"}, {"name": "Anna"}),
    ("/v1/groups/ops", {"people": ["boss"]}, {"people": ["ann"]}),
    (
        "/v1/hours",
        {"time_zone": "UTC", "hours": "Mon 09:00-17:00"},
        {"time_zone": "UTC", "hours": "Tue 09:00-17:00"},
    ),
    (
        "/v1/groups/ops/hours",
        {"time_zone": "UTC", "hours": "Mon 09:00-17:00"},
        {"time_zone": "UTC", "hours": "Tue 09:00-17:00"},
    ),
    ("/v1/groups/ops/rota", {"text": "BEGIN:VCALENDAR"}, {"address": "https://calendar.example.com/a.ics"}),
    (
        "/v1/addresses/ann/webhook/pager",
        {"to": {"url": "https://127.0.0.1:9/a", "secret": "whsec_" + "A" * 32}},
        {"to": {"url": "https://127.0.0.1:9/b", "secret": "whsec_" + "A" * 32}},
    ),
    ("/v1/routing", {"anybody": {"per_hour": 1}}, {"anybody": {"per_hour": 2}}),
    ("/v1/policy", {"rules": []}, {"rules": [{"name": "n", "then": {"deny": "no"}}]}),
    ("/v1/retention", {"keep_settled_days": 400}, {"keep_settled_days": "forever"}),
    ("/v1/quotas", {"pending": 4}, {"agents": {"bot": 5}}),
]


@pytest.mark.parametrize("settings", [{"webhooks": True, "webhook_allow_private": ["127.0.0.0/8"]}])
@pytest.mark.parametrize(("path", "theirs", "mine"), CHANGES, ids=[path for path, _, _ in CHANGES])
async def test_of_two_who_change_the_same_the_second_is_refused_and_reads_it_again(
    client: httpx2.AsyncClient, admin: Headers, path: str, theirs: Any, mine: Any
) -> None:
    assert (await put(client, admin, {key: OFFICE[key] for key in ("people", "groups")})).status_code == 200
    first = await client.put(path, json=mine, headers=admin)
    assert first.status_code == 200, first.text
    read = await client.get(path, headers=admin)
    tag = read.headers["etag"]
    assert tag.startswith('"'), "strong"
    seen = await client.get(path, headers=admin | {"if-none-match": f'"x", {tag}'})
    assert (seen.status_code, seen.content, seen.headers["etag"]) == (304, b"", tag)
    assert (await client.put(path, json=theirs, headers=admin | {"if-match": tag})).status_code == 200
    now = await client.get(path, headers=admin | {"if-none-match": tag})
    assert now.status_code == 200
    assert now.headers["etag"] != tag
    for stale in (tag, "W/" + now.headers["etag"]):
        late = await client.put(path, json=mine, headers=admin | {"if-match": stale})
        assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")
    assert (await client.get(path, headers=admin)).content == now.content
    again = await client.put(path, json=mine, headers=admin | {"if-match": now.headers["etag"]})
    assert again.status_code == 200, again.text


async def test_a_quota_of_the_file_holds_for_that_agent(
    client: httpx2.AsyncClient, issuer: Issuer, token: Headers, workspace: str
) -> None:
    await put(client, token, {"quotas": {"agents": {"bot": 1}}})
    bot = bearer(await issuer.agent(workspace, "bot"))
    other = bearer(await issuer.agent(workspace, "other"))
    asked = [await client.post("/v1/questions", json={"prompt": "Go?"}, headers=bot) for _ in range(2)]
    assert [each.status_code for each in asked] == [201, 429]
    assert asked[1].json()["quota"] == 1
    for _ in range(2):
        assert (await client.post("/v1/questions", json={"prompt": "Go?"}, headers=other)).status_code == 201


FORMS: list[tuple[str, str, dict[str, str], dict[str, Any]]] = [
    ("/admin/people/ann", "/v1/people/ann", {"name": "Mine", "role": "member"}, {"name": "Theirs"}),
    ("/admin/groups/ops", "/v1/groups/ops", {"people": "ann"}, {"people": ["boss", "ann"]}),
    (
        "/admin/groups/ops/hours",
        "/v1/groups/ops/hours",
        {"time_zone": "UTC", "hours": "Mon 09:00-17:00"},
        {"time_zone": "UTC", "hours": "Tue 09:00-17:00"},
    ),
    (
        "/admin/groups/hours",
        "/v1/hours",
        {"time_zone": "UTC", "hours": "Mon 09:00-17:00"},
        {"time_zone": "UTC", "hours": "Tue 09:00-17:00"},
    ),
    (
        "/admin/groups/ops/rota",
        "/v1/groups/ops/rota",
        {"text": "BEGIN:A"},
        {"address": "https://calendar.example.com/a.ics"},
    ),
    ("/admin/retention", "/v1/retention", {"keep": "forever"}, {"keep_settled_days": 36000}),
]


@pytest.mark.parametrize(("form", "path", "mine", "theirs"), FORMS, ids=[form for form, *_ in FORMS])
async def test_a_page_that_was_opened_before_somebody_elses_change_overwrites_nothing(
    client: httpx2.AsyncClient,
    admin: Headers,
    form: str,
    path: str,
    mine: dict[str, str],
    theirs: dict[str, Any],
) -> None:
    await put(client, admin, {key: OFFICE[key] for key in ("people", "groups")})
    page = form.removesuffix("/rota").removesuffix("/hours")
    opened = (await client.get(page, headers=admin)).text
    after_form = opened[opened.index(f'action="{form}"') :]
    version = after_form.split('name="version" value="')[1].split('"')[0]
    assert (await client.put(path, json=theirs, headers=admin)).status_code == 200
    before = (await client.get(path, headers=admin)).content
    sent = mine | {"version": version, "sure": "true"}
    late = await client.post(form, data=sent, headers=admin | ORIGIN)
    assert late.status_code == 409, late.text
    assert "Somebody has changed this since you opened this page" in late.text
    assert (await client.get(path, headers=admin)).content == before
