"""Who must not get in over SCIM, and what a program with a SCIM key must not do."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_key, issue_reader_key, issue_scim_key
from handraise.wire.credentials import TokenKind
from support.issuer import Issuer
from tests.server.conftest import bearer
from tests.server.scim.test_scim import BASE, USER, WORKSPACE, operations, user

Headers = dict[str, str]

ROUTES = [
    ("GET", "/ServiceProviderConfig"),
    ("GET", "/ResourceTypes"),
    ("GET", "/Schemas"),
    ("GET", "/Users"),
    ("POST", "/Users"),
    ("POST", "/Users/.search"),
    ("POST", "/.search"),
    ("GET", "/Users/ann"),
    ("PUT", "/Users/ann"),
    ("PATCH", "/Users/ann"),
    ("DELETE", "/Users/ann"),
    ("GET", "/Groups"),
    ("POST", "/Groups"),
    ("GET", "/Groups/ops"),
    ("PUT", "/Groups/ops"),
    ("PATCH", "/Groups/ops"),
    ("DELETE", "/Groups/ops"),
    ("GET", "/anything"),
]


@pytest.fixture
async def okta(ctx: ServerContext) -> Headers:
    await ctx.directory.put_person(WORKSPACE, "ann", name="Ann", email="ann@x.org", role=Role.MEMBER)
    await ctx.directory.put_group(WORKSPACE, "ops", ["ann"])
    return bearer((await issue_scim_key(ctx, WORKSPACE, "okta", by="boss")).key)


@pytest.mark.parametrize("settings", [{"sign_in_limit": "1000/second"}])
@pytest.mark.usefixtures("okta")
async def test_nobody_gets_in_without_a_scim_key(
    client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer
) -> None:
    agent = (await issue_key(ctx, WORKSPACE, "bot", by="boss")).key
    reader = (await issue_reader_key(ctx, WORKSPACE, "dash", by="boss")).key
    admin = await issuer.person(WORKSPACE, "boss")
    revoked = await issue_scim_key(ctx, WORKSPACE, "entra", by="boss")
    await ctx.directory.revoke_key(WORKSPACE, revoked.id, by="boss")
    disguised = [TokenKind.SCIM + each.removeprefix(each[:3]) for each in (agent, reader, admin)]
    tried: list[Headers] = [
        {},
        {"authorization": "Basic Ym9zczpib3Nz"},
        *map(bearer, (agent, reader, admin, revoked.key, "nonsense", "", *disguised)),
        {"cookie": f"handraise={admin}", "origin": ctx.settings.base_url, "sec-fetch-site": "same-origin"},
    ]
    for method, path in ROUTES:
        for headers in tried:
            refused = await client.request(method, BASE + path, headers=headers, json={})
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer"), (
                path,
                headers,
            )
            assert refused.json()["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert await ctx.directory.groups(WORKSPACE) == {"ops": ["ann"]}


async def test_a_scim_key_gets_in_nowhere_else(
    client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
) -> None:
    token = okta["authorization"].removeprefix("Bearer ")
    for kind in (TokenKind.AGENT, TokenKind.READER, TokenKind.SESSION):
        for headers in (okta, bearer(kind + token.removeprefix(TokenKind.SCIM))):
            for method, path in (("GET", "/v1/me"), ("GET", "/v1/people"), ("POST", "/v1/questions")):
                assert (await client.request(method, path, headers=headers, json={})).status_code == 401
    with pytest.raises(ValueError, match="must not begin with"):
        await issue_key(ctx, WORKSPACE, "scim:okta", by="boss")


async def test_a_scim_key_of_another_workspace_sees_and_changes_nothing_here(
    client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
) -> None:
    stranger = bearer((await issue_scim_key(ctx, "next door", "okta", by="boss")).key)
    for kind, name in (("Users", "ann"), ("Groups", "ops")):
        assert (await client.get(f"{BASE}/{kind}", headers=stranger)).json()["totalResults"] == 0
        for method in ("GET", "DELETE"):
            unknown = await client.request(method, f"{BASE}/{kind}/none", headers=stranger)
            found = await client.request(method, f"{BASE}/{kind}/{name}", headers=stranger)
            assert (found.status_code, found.content) == (404, unknown.content)
        assert (await client.get(f"{BASE}/{kind}/{name}", headers=okta)).status_code == 200
    change = operations({"op": "replace", "path": "active", "value": False})
    assert (await client.patch(f"{BASE}/Users/ann", json=change, headers=stranger)).status_code == 404
    assert await ctx.directory.disabled_people(WORKSPACE) == frozenset()


@pytest.mark.parametrize(
    "more",
    [
        {"roles": [{"value": "admin", "primary": True}]},
        {"role": "admin"},
        {"entitlements": [{"value": "admin"}]},
        {"groups": [{"value": "ops"}]},
        {"admin_provided": True},
        {"id": "boss"},
        {"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"role": "admin"}},
        {"meta": {"resourceType": "admin"}},
    ],
)
async def test_nobody_gets_a_role_or_a_group_by_an_attribute(
    client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext, more: dict[str, Any]
) -> None:
    await ctx.directory.put_person(WORKSPACE, "boss", name="Boss", email=None, role=Role.ADMIN)
    await client.post(f"{BASE}/Users", json=user("eve", **more), headers=okta)
    await client.post(f"{BASE}/Users", json=user("mallory"), headers=okta)
    await client.put(f"{BASE}/Users/mallory", json=user("mallory", **more), headers=okta)
    for op in ("add", "replace"):
        changes: list[dict[str, Any]] = [{"op": op, "value": more}]
        changes += [{"op": op, "path": path, "value": value} for path, value in more.items()]
        for change in changes:
            await client.patch(f"{BASE}/Users/mallory", json=operations(change), headers=okta)
    people = {each.id: each for each in await ctx.directory.people(WORKSPACE, after=None, limit=9)}
    assert {name for name, each in people.items() if each.role is Role.ADMIN} == {"boss"}
    assert await ctx.directory.groups(WORKSPACE) == {"ops": ["ann"]}
    assert people["boss"].name == "Boss"


@pytest.mark.parametrize(
    "text",
    [
        'userName eq "x" or 1=1',
        'userName eq "\'; drop table handraise.people; --"',
        'userName eq "x" ) or ( userName pr',
        "nothing eq 1",
        "password pr",
        "userName",
        "(" * 900 + 'userName eq "x"' + ")" * 900,
        "not (" * 300 + 'userName eq "x"' + ")" * 300,
        "userName eq " + '"' + "x" * 3_000 + '"',
        'userName eq "\x00"',
        'userName eq "\\u0000"',
        'members[value eq "ann"]',
        "userName co 7",
        "__class__ pr",
    ],
)
async def test_a_filter_is_only_a_filter(
    client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext, text: str
) -> None:
    for response in (
        await client.get(f"{BASE}/Users", params={"filter": text}, headers=okta),
        await client.post(f"{BASE}/Users/.search", json={"filter": text}, headers=okta),
    ):
        assert response.status_code in (200, 400), response.text
        if response.status_code == 200:
            assert response.json()["totalResults"] == 0
        else:
            assert response.json()["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert [each.id for each in await ctx.directory.people(WORKSPACE, after=None, limit=9)] == ["ann"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no json",
        "[]",
        '"text"',
        "{}",
        "[" * 50_000,
        '{"schemas": ["' + USER + '"], "userName": {"a": 1}}',
        json.dumps({"schemas": [USER], "userName": "eve", "emails": [{"value": "not an address"}]}),
        json.dumps({"schemas": [USER], "userName": "eve", "emails": "x"}),
        json.dumps({"schemas": [USER], "userName": "eve", "active": "perhaps"}),
        json.dumps({"schemas": [USER], "userName": "eve", "displayName": "x" * 201}),
        json.dumps({"schemas": [USER], "userName": "eve", "displayName": "a\x00b"}),
        json.dumps({"schemas": [USER], "userName": "eve", "externalId": "a\ud800"}),
        json.dumps({"schemas": ["urn:other"], "userName": "eve"}),
    ],
)
async def test_a_body_that_is_no_person_is_refused_in_the_words_of_scim(
    client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext, body: str
) -> None:
    for method, path in (("POST", "/Users"), ("PUT", "/Users/ann"), ("PATCH", "/Users/ann")):
        refused = await client.request(
            method,
            BASE + path,
            content=body.encode(),
            headers=okta | {"content-type": "application/scim+json"},
        )
        assert 400 <= refused.status_code < 500, (method, refused.text)
        assert refused.headers["content-type"] == "application/scim+json"
    assert await ctx.directory.find_person(WORKSPACE, "eve") is None


async def test_an_unknown_path_and_a_wrong_method_are_said_in_the_words_of_scim(
    client: httpx2.AsyncClient, okta: Headers
) -> None:
    for method, path, status in (
        ("GET", "/Nothing", 404),
        ("GET", "/Schemas/none", 404),
        ("POST", "/ServiceProviderConfig", 405),
        ("DELETE", "/Users", 405),
        ("POST", "/Bulk", 404),
    ):
        refused = await client.request(method, BASE + path, headers=okta)
        assert (refused.status_code, refused.json()["status"]) == (status, str(status))
