"""A provider provisions people and groups over SCIM, and what it takes away is gone at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx2
import pytest

from handraise import Approval, Responder
from handraise.errors import PermissionDenied
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.server.auth.issuer import issue_link, issue_scim_key
from support.http_server import listening
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

Headers = dict[str, str]
WORKSPACE = "acme"
BASE = "/scim/v2"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


@pytest.fixture
async def okta(ctx: ServerContext) -> Headers:
    return bearer((await issue_scim_key(ctx, WORKSPACE, "okta", by="boss")).key)


def user(user_name: str, **others: Any) -> dict[str, Any]:
    return {"schemas": [USER], "userName": user_name, **others}


def operations(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"schemas": [PATCH], "Operations": list(changes)}


async def patch(
    client: httpx2.AsyncClient, headers: Headers, path: str, *changes: dict[str, Any]
) -> dict[str, Any]:
    response = await client.patch(f"{BASE}{path}", json=operations(*changes), headers=headers)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


@pytest.mark.slow("it takes 20 s; the other tests here have each resource")
async def test_the_conformance_tester_of_scim_finds_nothing_but_one_attribute_that_cannot_be_removed() -> (
    None
):
    # Their imports take six seconds, also for those who collect this test and do not run it.
    from scim2_client.engines.httpx2 import SyncSCIMClient  # noqa: PLC0415
    from scim2_tester import Status, check_server  # noqa: PLC0415

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = ServerSettings(url="memory:", public_url=address, rate_limit="10000/second")
        async with open_server(settings) as ctx, listening(create_app(ctx), listener):
            key = (await issue_scim_key(ctx, "default", "tester", by="boss")).key

            def check() -> list[Any]:
                with httpx2.Client(base_url=address + BASE, headers=bearer(key), timeout=30) as http:
                    return check_server(SyncSCIMClient(http))

            async with asyncio.timeout(120):
                results = await asyncio.to_thread(check)
    wrong = [(each.title, each.data) for each in results if each.status is not Status.SUCCESS]
    assert len(results) > 60
    # Whether somebody is active is always known, as providers ask for it.
    assert [title for title, _ in wrong] == ["check_remove_attribute"]
    assert wrong[0][1]["urn"] == "active"


class TestPeople:
    async def test_are_added_found_changed_and_removed(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
    ) -> None:
        name = {"givenName": "Ann", "familyName": "Lee"}
        body = user("Ann@Example.com", externalId="0f6c", name=name, title="CFO")
        made = await client.post(f"{BASE}/Users", json=body, headers=okta)
        assert (made.status_code, made.headers["content-type"]) == (201, "application/scim+json")
        ann = made.json()
        assert (ann["id"], ann["userName"], ann["active"]) == ("ann@example.com", "Ann@Example.com", True)
        assert made.headers["location"] == ann["meta"]["location"]
        person = await ctx.directory.find_person(WORKSPACE, "ann@example.com")
        assert person is not None
        assert (person.name, person.email, person.role) == ("Ann Lee", "Ann@Example.com", Role.MEMBER)
        for asked in (
            'userName eq "ANN@example.com"',
            'externalId eq "0f6c"',
            'userName sw "ann" and active eq true',
        ):
            found = (await client.get(f"{BASE}/Users", params={"filter": asked}, headers=okta)).json()
            assert [each["id"] for each in found["Resources"]] == ["ann@example.com"]
        changed = user("ann.lee@example.com", externalId="0f6c", displayName="Ann L.", active=True)
        put = await client.put(f"{BASE}/Users/ann@example.com", json=changed, headers=okta)
        assert (put.json()["id"], put.json()["userName"]) == ("ann@example.com", "ann.lee@example.com")
        person = await ctx.directory.find_person(WORKSPACE, "ann@example.com")
        assert person is not None
        assert (person.name, person.email) == ("Ann L.", "ann.lee@example.com")
        assert (await client.delete(f"{BASE}/Users/ann@example.com", headers=okta)).status_code == 204
        assert (await client.get(f"{BASE}/Users/ann@example.com", headers=okta)).status_code == 404
        assert (await client.delete(f"{BASE}/Users/ann@example.com", headers=okta)).status_code == 404
        again = await client.post(f"{BASE}/Users", json=body, headers=okta)
        assert again.status_code == 201

    @pytest.mark.parametrize("role", [Role.ADMIN, Role.MEMBER])
    async def test_whom_an_administrator_added_are_found_by_their_address_and_stay_as_they_are(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext, role: Role
    ) -> None:
        await ctx.directory.put_person(WORKSPACE, "boss", name="Boss", email="b@x.org", role=role)
        before = await ctx.directory.find_person(WORKSPACE, "boss")
        found = (
            await client.get(f"{BASE}/Users", params={"filter": 'userName eq "B@X.org"'}, headers=okta)
        ).json()
        assert (found["totalResults"], found["Resources"][0]["id"]) == (1, "boss")
        emails = {"op": "replace", "path": "emails", "value": [{"value": "mallory@x.org", "primary": True}]}
        for method, body in (
            ("PATCH", operations(emails)),
            ("PATCH", operations({"op": "replace", "value": {"active": False}})),
            ("PUT", user("boss", displayName="The boss")),
            ("DELETE", None),
        ):
            refused = await client.request(method, f"{BASE}/Users/boss", json=body, headers=okta)
            assert (refused.status_code, refused.json()["status"]) == (403, "403"), method
            assert "an administrator added" in refused.json()["detail"]
        assert await ctx.directory.find_person(WORKSPACE, "boss") == before

    async def test_the_address_of_an_administrator_is_not_changed_and_they_can_be_disabled(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
    ) -> None:
        """Whoever signs in with that address would be the administrator."""
        await client.post(f"{BASE}/Users", json=user("ann@x.org", displayName="Ann"), headers=okta)
        await ctx.directory.put_person(WORKSPACE, "ann@x.org", name="Ann", email="ann@x.org", role=Role.ADMIN)
        emails = {"op": "replace", "path": "emails", "value": [{"value": "mallory@x.org", "primary": True}]}
        refused = await client.patch(f"{BASE}/Users/ann@x.org", json=operations(emails), headers=okta)
        assert refused.status_code == 403
        await patch(client, okta, "/Users/ann@x.org", {"op": "replace", "path": "active", "value": False})
        person = await ctx.directory.find_person(WORKSPACE, "ann@x.org")
        assert person is not None
        assert (person.email, person.disabled_at is None) == ("ann@x.org", False)

    async def test_two_with_one_name_or_one_address_are_refused(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
    ) -> None:
        await ctx.directory.put_person(WORKSPACE, "ann", name="Ann", email="ann@x.org", role=Role.ADMIN)
        await client.post(f"{BASE}/Users", json=user("bob@x.org"), headers=okta)
        for body in (
            user("Bob@x.org"),
            user("ann"),
            user("new", emails=[{"value": "ANN@x.org", "primary": True}]),
            user("ann@x.org"),
        ):
            refused = await client.post(f"{BASE}/Users", json=body, headers=okta)
            assert (refused.status_code, refused.json()["scimType"]) == (409, "uniqueness"), body
        taken = await client.put(f"{BASE}/Users/bob@x.org", json=user("ann"), headers=okta)
        assert taken.status_code == 409
        assert len(await ctx.directory.people(WORKSPACE, after=None, limit=9)) == 2

    @pytest.mark.parametrize("name", ["*", "group:ops", "  ", "a/b", "command line x", "x" * 201, "a\x00b"])
    async def test_a_name_that_could_pass_for_something_else_is_refused(
        self, client: httpx2.AsyncClient, okta: Headers, name: str
    ) -> None:
        refused = await client.post(f"{BASE}/Users", json=user(name), headers=okta)
        assert (refused.status_code, refused.json()["scimType"]) == (400, "invalidValue")

    @pytest.mark.parametrize(
        "change",
        [
            {"op": "Replace", "path": "active", "value": "False"},  # as Entra ID writes it
            {"op": "replace", "value": {"active": False}},  # as Okta does
        ],
    )
    async def test_a_provider_disables_and_enables_as_it_writes_that(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext, change: dict[str, Any]
    ) -> None:
        await client.post(f"{BASE}/Users", json=user("ann@x.org"), headers=okta)
        assert (await patch(client, okta, "/Users/ann@x.org", change))["active"] is False
        assert await ctx.directory.disabled_people(WORKSPACE) == {"ann@x.org"}
        enabled = await patch(
            client, okta, "/Users/ann@x.org", {"op": "replace", "path": "active", "value": True}
        )
        assert enabled["active"] is True
        assert await ctx.directory.disabled_people(WORKSPACE) == frozenset()


@on_every_store
@pytest.mark.parametrize("how", ["disabled", "removed"])
async def test_who_is_disabled_or_removed_loses_everything_at_once_on_every_server(
    *,
    client: httpx2.AsyncClient,
    ctx: ServerContext,
    issuer: Issuer,
    workspace: str,
    how: str,
) -> None:
    okta = bearer((await issue_scim_key(ctx, workspace, "okta", by="boss")).key)
    await client.post(f"{BASE}/Users", json=user("ann"), headers=okta)
    session = bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))
    await issuer.person(workspace, "bob", role=Role.MEMBER)
    await ctx.directory.put_group(workspace, "ops", ["ann", "bob"])
    await ctx.outbox.put_address(
        Address(workspace=workspace, recipient="ann", channel="email", id="a", to={}), by="boss"
    )
    link = await issue_link(ctx, workspace, person="ann", purpose="sign-in", vouched_by="boss")
    assert link is not None
    desk = ctx.desk.scoped(workspace, asker="bot")
    form = Approval.of("pay", {"amount": 1}, scopes=("once", "always"))
    granted = await desk.post("Pay?", form=form)
    await desk.answer(granted.id, {"decision": "approve", "scope": "always"}, by="ann")
    voted = await desk.post("Drop it?", form=Approval.of("drop", {}), recipients=["group:ops"], quorum=2)
    ann, bob = (Responder(each, frozenset({"ops"})) for each in ("ann", "bob"))
    await desk.answer(voted.id, "approve", by=ann)
    waiting = await desk.post("Now?", recipients=["group:ops"])

    transport = httpx2.ASGITransport(app=create_app(ctx))
    async with httpx2.AsyncClient(transport=transport, base_url=ctx.settings.base_url) as another:
        assert (await another.get("/v1/me", headers=session)).status_code == 200
        path = f"{BASE}/Users/ann"
        if how == "disabled":
            change = operations({"op": "replace", "path": "active", "value": False})
            assert (await client.patch(path, json=change, headers=okta)).status_code == 200
        else:
            assert (await client.delete(path, headers=okta)).status_code == 204
        for server in (client, another):
            assert (await server.get("/v1/me", headers=session)).status_code == 401
            answer = await server.post(
                f"/v1/questions/{waiting.id}/answer", json={"value": "yes"}, headers=session
            )
            assert answer.status_code == 401
        page = await another.get(link.url)
    assert page.status_code == 410
    assert await issue_link(ctx, workspace, person="ann", purpose="sign-in", vouched_by="boss") is None
    (grant,) = await desk.list_grants()
    assert grant.revoked_by == "scim:okta"
    assert await desk.apply_grant((await desk.post("Pay?", form=form)).id) is None
    assert (await desk.answer(voted.id, "approve", by=bob)).status == "pending"
    if how == "disabled":
        with pytest.raises(PermissionDenied):
            await desk.answer(waiting.id, "yes", by=ann)
    known = await ctx.directory.known_recipients(workspace, ["ann", "bob"])
    assert known == frozenset({"bob"})


class TestGroups:
    @pytest.fixture(autouse=True)
    async def people(self, client: httpx2.AsyncClient, okta: Headers) -> None:
        for name in ("ann", "bob"):
            assert (await client.post(f"{BASE}/Users", json=user(name), headers=okta)).status_code == 201

    async def test_are_made_empty_filled_and_emptied(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
    ) -> None:
        body = {"schemas": [GROUP], "displayName": "Finance", "externalId": "9a"}
        made = await client.post(f"{BASE}/Groups", json=body, headers=okta)
        assert (made.status_code, made.json()["id"]) == (201, "Finance")
        add = {"op": "Add", "path": "members", "value": [{"value": "ann"}, {"value": "bob"}]}
        found = await patch(client, okta, "/Groups/Finance", add)
        assert [each["value"] for each in found["members"]] == ["ann", "bob"]
        assert await ctx.directory.groups(WORKSPACE) == {"Finance": ["ann", "bob"]}
        ann = (await client.get(f"{BASE}/Users/ann", headers=okta)).json()
        assert [each["value"] for each in ann["groups"]] == ["Finance"]
        await patch(client, okta, "/Groups/Finance", {"op": "remove", "path": 'members[value eq "ann"]'})
        assert await ctx.directory.groups(WORKSPACE) == {"Finance": ["bob"]}
        entra = {"op": "Remove", "path": "members", "value": [{"value": "bob"}]}
        assert "members" not in await patch(client, okta, "/Groups/Finance", entra)
        without = await client.get(
            f"{BASE}/Groups/Finance", params={"excludedAttributes": "members"}, headers=okta
        )
        assert without.json()["displayName"] == "Finance"
        assert (await client.delete(f"{BASE}/Groups/Finance", headers=okta)).status_code == 204
        assert (await client.get(f"{BASE}/Groups/Finance", headers=okta)).status_code == 404

    async def test_that_administrators_made_stay_as_they_are(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
    ) -> None:
        await ctx.directory.put_group(WORKSPACE, "finance", ["bob"])
        add = operations({"op": "add", "path": "members", "value": [{"value": "ann"}]})
        body = {"schemas": [GROUP], "displayName": "finance", "members": [{"value": "ann"}]}
        for method, sent in (("PATCH", add), ("PUT", body), ("DELETE", None)):
            refused = await client.request(method, f"{BASE}/Groups/finance", json=sent, headers=okta)
            assert refused.status_code == 403, method
        assert (await client.get(f"{BASE}/Groups/finance", headers=okta)).status_code == 200
        assert await ctx.directory.groups(WORKSPACE) == {"finance": ["bob"]}

    async def test_renamed_at_the_provider_keep_their_name_here(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
    ) -> None:
        body = {"schemas": [GROUP], "displayName": "Finance", "members": [{"value": "ann"}]}
        await client.post(f"{BASE}/Groups", json=body, headers=okta)
        rename = {"op": "replace", "path": "displayName", "value": "Money"}
        renamed = await patch(client, okta, "/Groups/Finance", rename)
        assert (renamed["id"], renamed["displayName"]) == ("Finance", "Money")
        assert await ctx.directory.groups(WORKSPACE) == {"Finance": ["ann"]}
        for name in ("Finance", "Money"):
            again = await client.post(
                f"{BASE}/Groups", json={"schemas": [GROUP], "displayName": name}, headers=okta
            )
            assert (again.status_code, again.json()["scimType"]) == (409, "uniqueness")

    async def test_that_many_change_at_once_lose_nobody(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
    ) -> None:
        names = [f"p{n}" for n in range(8)]
        for name in names:
            await ctx.directory.put_person(WORKSPACE, name, name=name, email=None, role=Role.MEMBER)
        await client.post(f"{BASE}/Groups", json={"schemas": [GROUP], "displayName": "all"}, headers=okta)
        await asyncio.gather(
            *(
                patch(
                    client,
                    okta,
                    "/Groups/all",
                    {"op": "add", "path": "members", "value": [{"value": name}]},
                )
                for name in names
            )
        )
        assert await ctx.directory.groups(WORKSPACE) == {"all": names}

    @pytest.mark.parametrize(
        "member", [{"value": "nobody"}, {"value": "ann", "type": "Group"}, {"value": "a\x00"}, {}]
    )
    async def test_somebody_who_is_not_here_is_no_member(
        self, client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext, member: dict[str, Any]
    ) -> None:
        body = {"schemas": [GROUP], "displayName": "Finance", "members": [member]}
        refused = await client.post(f"{BASE}/Groups", json=body, headers=okta)
        assert refused.status_code == 400
        assert await ctx.directory.groups(WORKSPACE) == {}


async def test_what_a_provider_does_is_in_the_audit_trail_with_its_name(
    client: httpx2.AsyncClient, okta: Headers, ctx: ServerContext
) -> None:
    await client.post(f"{BASE}/Users", json=user("ann"), headers=okta)
    await patch(client, okta, "/Users/ann", {"op": "replace", "path": "active", "value": False})
    async with asyncio.timeout(20):
        while True:
            events = await ctx.store.workspace_events(WORKSPACE, after=None, limit=50)
            if [each.kind.value for each in events][-2:] == ["person.added", "person.disabled"]:
                break
            await asyncio.sleep(0.01)
    assert {each.by for each in events[-2:]} == {"scim:okta"}
