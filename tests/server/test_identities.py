"""Keys, people, groups and grants over HTTP, and who must not get at them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from handraise import Approval
from handraise.model.errors import StoreUnavailable
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing import promise
from handraise.wire.credentials import TokenKind, digest_of, read_token
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

ADMINISTRATIVE: list[tuple[str, str, Any]] = [
    ("GET", "/v1/grants", None),
    ("GET", "/v1/keys", None),
    ("POST", "/v1/keys", {"agent": "bot"}),
    ("POST", "/v1/keys/some/revoke", None),
    ("GET", "/v1/people", None),
    ("GET", "/v1/people/bob", None),
    ("PUT", "/v1/people/bob", {"name": "Bob"}),
    ("DELETE", "/v1/people/bob", None),
    ("POST", "/v1/people/bob/links", None),
    ("GET", "/v1/groups", None),
    ("PUT", "/v1/groups/ops", {"people": []}),
    ("GET", "/v1/workspace/events", None),
]

Headers = dict[str, str]


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann"))


@pytest.fixture
async def member(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "bob", role=Role.MEMBER))


@pytest.fixture
async def agent(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.agent(workspace, "bot"))


@pytest.mark.parametrize(("method", "path", "body"), ADMINISTRATIVE)
class TestWhoAdministers:
    async def test_nobody_who_is_not_signed_in(
        self, client: httpx2.AsyncClient, method: str, path: str, body: Any
    ) -> None:
        response = await client.request(method, path, json=body)
        assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")

    async def test_no_agent(
        self, client: httpx2.AsyncClient, agent: Headers, method: str, path: str, body: Any
    ) -> None:
        response = await client.request(method, path, json=body, headers=agent)
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")

    async def test_no_member(
        self, client: httpx2.AsyncClient, member: Headers, method: str, path: str, body: Any
    ) -> None:
        response = await client.request(method, path, json=body, headers=member)
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


async def test_me_is_an_agent_or_a_person(
    client: httpx2.AsyncClient, agent: Headers, member: Headers, workspace: str
) -> None:
    nobody = {"workspace": workspace} | dict.fromkeys(("agent", "person", "reader", "role", "admin_token"))
    assert (await client.get("/v1/me", headers=agent)).json() == nobody | {"agent": "bot"}
    assert (await client.get("/v1/me", headers=member)).json() == nobody | {"person": "bob", "role": "member"}


class TestKeys:
    async def test_a_new_key_is_shown_once_and_lets_its_agent_in(
        self, client: httpx2.AsyncClient, admin: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        response = await client.post("/v1/keys", json={"agent": "deployer"}, headers=admin)
        made = response.json()
        assert response.status_code == 201
        token = read_token(made["key"])
        assert token is not None
        assert (token.kind, token.workspace) == (TokenKind.AGENT, workspace)
        kept = await ctx.directory.find_key(workspace, digest_of(made["key"]))
        assert kept is not None
        assert (kept.id, kept.agent, kept.created_by) == (made["id"], "deployer", "ann")
        listed = await client.get("/v1/keys", headers=admin)
        assert made["key"] not in listed.text
        me = await client.get("/v1/me", headers=bearer(made["key"]))
        assert me.json()["agent"] == "deployer"

    async def test_the_secret_is_not_kept_for_an_idempotency_key(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        again = admin | {"idempotency-key": "k"}
        first = await client.post("/v1/keys", json={"agent": "deployer"}, headers=again)
        second = await client.post("/v1/keys", json={"agent": "deployer"}, headers=again)
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json()["key"] != second.json()["key"]

    async def test_a_revoked_key_opens_nothing_and_a_second_time_changes_nothing(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        made = (await client.post("/v1/keys", json={"agent": "deployer"}, headers=admin)).json()
        first = await client.post(f"/v1/keys/{made['id']}/revoke", headers=admin)
        second = await client.post(f"/v1/keys/{made['id']}/revoke", headers=admin)
        assert first.json() == second.json()
        assert (first.json()["revoked_by"], first.json()["revoked_at"] is None) == ("ann", False)
        assert (await client.get("/v1/me", headers=bearer(made["key"]))).status_code == 401

    @pytest.mark.parametrize("name", [" ", "", "a\x00b", "x" * 201])
    async def test_a_name_that_nobody_can_ask_by_gets_no_key(
        self, client: httpx2.AsyncClient, admin: Headers, name: str
    ) -> None:
        response = await client.post("/v1/keys", json={"agent": name}, headers=admin)
        assert response.status_code == 422
        assert response.json()["problems"][0]["path"] == "body.agent"

    async def test_keys_come_in_pages(self, client: httpx2.AsyncClient, admin: Headers) -> None:
        made = [
            (await client.post("/v1/keys", json={"agent": f"agent {n}"}, headers=admin)).json()["id"]
            for n in range(3)
        ]
        first = (await client.get("/v1/keys", params={"limit": 2}, headers=admin)).json()["items"]
        rest = (await client.get("/v1/keys", params={"after": first[-1]["id"]}, headers=admin)).json()[
            "items"
        ]
        assert [key["id"] for key in first + rest] == made

    async def test_the_use_of_a_key_is_noted_once_a_minute(
        self, client: httpx2.AsyncClient, admin: Headers, agent: Headers, ctx: ServerContext
    ) -> None:
        directory = Watched(ctx.directory)
        ctx.directory = directory
        for _ in range(3):
            await client.get("/v1/me", headers=agent)
        await asyncio.gather(*ctx.background_tasks)
        assert directory.uses == 1
        (key,) = (await client.get("/v1/keys", headers=admin)).json()["items"]
        assert key["last_used_at"] is not None

    async def test_a_use_that_cannot_be_noted_does_not_fail_the_request(
        self, client: httpx2.AsyncClient, agent: Headers, ctx: ServerContext
    ) -> None:
        directory = Watched(ctx.directory, failing=True)
        ctx.directory = directory
        assert (await client.get("/v1/me", headers=agent)).status_code == 200
        await asyncio.gather(*ctx.background_tasks)
        assert directory.uses == 1


class Watched:
    """A directory that counts the uses it is told of, and may fail to note them."""

    def __init__(self, directory: Any, *, failing: bool = False) -> None:
        self._directory = directory
        self._failing = failing
        self.uses = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._directory, name)

    async def note_use(self, workspace: str, key_id: str) -> None:
        self.uses += 1
        if self._failing:
            raise StoreUnavailable("not now")
        await self._directory.note_use(workspace, key_id)


class TestPeople:
    async def test_a_person_is_added_changed_and_taken_out(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        added = await client.put(
            "/v1/people/zoe", json={"name": "Zoe", "email": "zoe@example.com"}, headers=admin
        )
        assert (added.status_code, added.json()["role"], added.json()["groups"]) == (200, "member", [])
        await client.put("/v1/people/zoe", json={"name": "Zoe Zett", "role": "admin"}, headers=admin)
        found = (await client.get("/v1/people/zoe", headers=admin)).json()
        assert (found["name"], found["email"], found["role"]) == ("Zoe Zett", None, "admin")
        assert (await client.delete("/v1/people/zoe", headers=admin)).status_code == 204
        assert (await client.get("/v1/people/zoe", headers=admin)).status_code == 404
        assert (await client.delete("/v1/people/zoe", headers=admin)).status_code == 404

    @on_every_store
    async def test_whoever_is_taken_out_is_out_at_once(
        self, client: httpx2.AsyncClient, admin: Headers, member: Headers
    ) -> None:
        assert (await client.get("/v1/me", headers=member)).status_code == 200
        await client.delete("/v1/people/bob", headers=admin)
        assert (await client.get("/v1/me", headers=member)).status_code == 401

    @pytest.mark.parametrize("name", ["*", "group:ops", "%20", "a%00b"])
    async def test_a_name_that_could_pass_for_something_else_is_refused(
        self, client: httpx2.AsyncClient, admin: Headers, name: str
    ) -> None:
        response = await client.put(f"/v1/people/{name}", json={"name": "Somebody"}, headers=admin)
        assert response.status_code == 422
        assert response.json()["problems"][0]["path"] == "path.person_id"

    async def test_an_address_belongs_to_one_person(self, client: httpx2.AsyncClient, admin: Headers) -> None:
        body = {"name": "Zoe", "email": "zoe@example.com"}
        await client.put("/v1/people/zoe", json=body, headers=admin)
        response = await client.put(
            "/v1/people/other", json=body | {"email": "ZOE@example.com"}, headers=admin
        )
        assert (response.status_code, response.json()["problems"][0]["path"]) == (422, "body.email")

    async def test_people_come_in_pages(self, client: httpx2.AsyncClient, admin: Headers) -> None:
        for name in ("zoe", "yan"):
            await client.put(f"/v1/people/{name}", json={"name": name}, headers=admin)
        first = (await client.get("/v1/people", params={"limit": 2}, headers=admin)).json()["items"]
        rest = (await client.get("/v1/people", params={"after": "yan"}, headers=admin)).json()["items"]
        assert [person["id"] for person in first + rest] == ["ann", "yan", "zoe"]

    async def test_a_field_that_nobody_knows_is_refused(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        response = await client.put("/v1/people/zoe", json={"name": "Zoe", "groups": ["ops"]}, headers=admin)
        assert (response.status_code, response.json()["problems"][0]["path"]) == (422, "body.groups")


class TestLastAdministrator:
    async def test_is_not_taken_out(self, client: httpx2.AsyncClient, admin: Headers) -> None:
        response = await client.delete("/v1/people/ann", headers=admin)
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
        assert (await client.get("/v1/me", headers=admin)).json()["role"] == "admin"

    async def test_does_not_step_down(self, client: httpx2.AsyncClient, admin: Headers) -> None:
        response = await client.put("/v1/people/ann", json={"name": "Ann"}, headers=admin)
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
        assert (await client.get("/v1/me", headers=admin)).json()["role"] == "admin"

    async def test_goes_once_there_is_another(self, client: httpx2.AsyncClient, admin: Headers) -> None:
        await client.put("/v1/people/zoe", json={"name": "Zoe", "role": "admin"}, headers=admin)
        assert (await client.delete("/v1/people/ann", headers=admin)).status_code == 204

    @on_every_store
    @pytest.mark.parametrize("method", ["PUT", "DELETE"])
    async def test_is_left_where_two_take_the_role_from_each_other_at_once(
        self,
        *,
        client: httpx2.AsyncClient,
        admin: Headers,
        issuer: Issuer,
        ctx: ServerContext,
        workspace: str,
        method: str,
    ) -> None:
        other = bearer(await issuer.person(workspace, "zoe"))
        ctx.directory = Meeting(ctx.directory)
        body = {"name": "Somebody"} if method == "PUT" else None
        await asyncio.gather(
            client.request(method, "/v1/people/zoe", json=body, headers=admin),
            client.request(method, "/v1/people/ann", json=body, headers=other),
        )
        left = await ctx.directory.people(workspace, after=None, limit=10)
        assert any(person.role is Role.ADMIN for person in left)


class Meeting:
    """A directory in which the first two writes of a person happen after both were decided on."""

    def __init__(self, directory: Any) -> None:
        self._directory = directory
        self._barrier = asyncio.Barrier(2)
        self._writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._directory, name)

    async def put_person(self, *args: Any, **kwargs: Any) -> Any:
        self._writes += 1
        if self._writes <= 2:
            await self._barrier.wait()
        return await self._directory.put_person(*args, **kwargs)


@pytest.mark.usefixtures("member")
class TestGroups:
    async def test_a_group_has_just_the_people_who_were_put_there(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        put = await client.put("/v1/groups/ops", json={"people": ["bob", "ann"]}, headers=admin)
        assert put.json() == {"name": "ops", "people": ["ann", "bob"]}
        put = await client.put("/v1/groups/ops", json={"people": ["bob"]}, headers=admin)
        assert put.json() == {"name": "ops", "people": ["bob"]}
        refused = await client.put("/v1/groups/ops", json={"people": ["ann", "nobdy"]}, headers=admin)
        assert refused.status_code == 422
        assert refused.json()["problems"] == [
            {"path": "body.people.1", "message": "there is nobody called 'nobdy' here"}
        ]
        listed = (await client.get("/v1/groups", headers=admin)).json()
        assert listed == {"groups": [{"name": "ops", "people": ["bob"]}]}
        assert (await client.get("/v1/people/bob", headers=admin)).json()["groups"] == ["ops"]
        await client.put("/v1/groups/ops", json={"people": []}, headers=admin)
        assert (await client.get("/v1/groups", headers=admin)).json() == {"groups": []}

    async def test_of_two_who_change_one_the_second_is_told_and_overwrites_nothing(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        path = "/v1/groups/ops"
        assert (await client.get(path, headers=admin)).status_code == 404
        none = await client.put(path, json={"people": ["ann"]}, headers=admin | {"if-match": "*"})
        assert none.status_code == 412
        put = await client.put(path, json={"people": ["ann"]}, headers=admin)
        read = await client.get(path, headers=admin)
        assert read.json() == {"name": "ops", "people": ["ann"]}
        assert read.headers["etag"] == put.headers["etag"]
        tag = {"if-match": read.headers["etag"]}
        statuses = [
            (await client.put(path, json={"people": people}, headers=admin | tag)).status_code
            for people in (["ann", "bob"], [])
        ]
        assert statuses == [200, 412]
        assert (await client.get(path, headers=admin)).json()["people"] == ["ann", "bob"]


class TestGrants:
    @pytest.fixture
    async def grant(self, ctx: ServerContext, workspace: str) -> str:
        """A grant that bob gave."""
        desk = ctx.desk.scoped(workspace, asker="bot")
        form = Approval.of("pay", {"amount": 1}, scopes=("once", "always"))
        question = await desk.post("Pay?", form=form)
        await desk.answer(question.id, {"decision": "approve", "scope": "always"}, by="bob")
        (grant,) = await desk.list_grants()
        return grant.id

    async def test_administrators_see_all_of_them(
        self, client: httpx2.AsyncClient, admin: Headers, grant: str
    ) -> None:
        listed = (await client.get("/v1/grants", headers=admin)).json()["items"]
        assert [(each["id"], each["granted_by"]) for each in listed] == [(grant, "bob")]
        assert (await client.get("/v1/grants", params={"after": grant}, headers=admin)).json() == {
            "items": [],
            "next": None,
        }

    async def test_whoever_gave_it_ends_it(
        self, client: httpx2.AsyncClient, member: Headers, grant: str
    ) -> None:
        first = await client.post(f"/v1/grants/{grant}/revoke", headers=member)
        second = await client.post(f"/v1/grants/{grant}/revoke", headers=member)
        assert (first.status_code, first.json()["revoked_by"]) == (200, "bob")
        assert first.json() == second.json()

    async def test_an_administrator_ends_it(
        self, client: httpx2.AsyncClient, admin: Headers, grant: str
    ) -> None:
        ended = await client.post(f"/v1/grants/{grant}/revoke", headers=admin)
        assert (ended.status_code, ended.json()["revoked_by"]) == (200, "ann")

    async def test_for_anybody_else_it_is_not_there(
        self, client: httpx2.AsyncClient, admin: Headers, issuer: Issuer, workspace: str, grant: str
    ) -> None:
        stranger = bearer(await issuer.person(workspace, "eve", role=Role.MEMBER))
        refused = await client.post(f"/v1/grants/{grant}/revoke", headers=stranger)
        unknown = await client.post("/v1/grants/none/revoke", headers=stranger)
        assert refused.status_code == 404
        assert refused.content == unknown.content
        (kept,) = (await client.get("/v1/grants", headers=admin)).json()["items"]
        assert kept["revoked_at"] is None

    async def test_no_agent_ends_it(self, client: httpx2.AsyncClient, agent: Headers, grant: str) -> None:
        assert (await client.post(f"/v1/grants/{grant}/revoke", headers=agent)).status_code == 403


@on_every_store
class TestAnotherWorkspace:
    """An id of one workspace is nowhere in another, in the same bytes as one that never was."""

    @pytest.fixture
    async def stranger(self, issuer: Issuer, workspace: str) -> Headers:
        return bearer(await issuer.person(f"{workspace} next door", "ann"))

    async def test_has_none_of_our_keys(
        self, client: httpx2.AsyncClient, admin: Headers, stranger: Headers
    ) -> None:
        made = (await client.post("/v1/keys", json={"agent": "bot"}, headers=admin)).json()
        await self._same(client, stranger, "POST", f"/v1/keys/{made['id']}/revoke", "/v1/keys/none/revoke")
        assert (await client.get("/v1/me", headers=bearer(made["key"]))).status_code == 200
        assert (await client.get("/v1/keys", headers=stranger)).json() == {"items": [], "next": None}

    @pytest.mark.usefixtures("member")
    async def test_has_none_of_our_people(
        self, client: httpx2.AsyncClient, admin: Headers, stranger: Headers
    ) -> None:
        await self._same(client, stranger, "GET", "/v1/people/bob", "/v1/people/none")
        await self._same(client, stranger, "DELETE", "/v1/people/bob", "/v1/people/none")
        await self._same(client, stranger, "POST", "/v1/people/bob/links", "/v1/people/none/links")
        await client.put("/v1/groups/ops", json={"people": ["bob"]}, headers=stranger)
        bob = (await client.get("/v1/people/bob", headers=admin)).json()
        assert bob["groups"] == []

    async def _same(
        self, client: httpx2.AsyncClient, headers: Headers, method: str, ours: str, nowhere: str
    ) -> None:
        found = await client.request(method, ours, headers=headers)
        unknown = await client.request(method, nowhere, headers=headers)
        assert found.status_code == 404
        assert found.content == unknown.content


async def test_a_token_of_no_possible_workspace_is_refused(
    client_from: Callable[[str], httpx2.AsyncClient],
) -> None:
    token = "hra_mfrgc_" + "A" * 43
    async with client_from("192.0.2.9") as client:
        for text in (
            token,
            token.replace("mfrgc", "maagc"),
            token.replace("mfrgc", ""),
            "hra__",
            "x" * 9_000,
        ):
            assert (await client.get("/v1/me", headers=bearer(text))).status_code == 401


@promise("P17")
async def test_what_an_administrator_does_is_kept_with_their_name_and_no_agent_sees_it(
    client: httpx2.AsyncClient, admin: Headers, agent: Headers
) -> None:
    async def told_after(place: str | None, number: int) -> Any:
        """So many events, which are told once they are final."""
        asked: dict[str, Any] = {} if place is None else {"after": place}
        async with asyncio.timeout(20):
            while True:
                found = (await client.get("/v1/workspace/events", params=asked, headers=admin)).json()
                if len(found["items"]) >= number:
                    return found
                await asyncio.sleep(0.01)

    await client.put("/v1/people/cfo", json={"name": "Cleo"}, headers=admin)
    before = (await told_after(None, 4))["next"]
    for people in (["cfo", "ann"], ["cfo"]):
        await client.put("/v1/groups/finance", json={"people": people}, headers=admin)
    await client.post("/v1/people/cfo/links", headers=admin)
    found = await told_after(before, 3)
    told = [(event["kind"], event["by"], event["details"]) for event in found["items"]]
    assert told[:2] == [
        ("group.changed", "ann", {"group": "finance", "added": ["ann", "cfo"], "removed": []}),
        ("group.changed", "ann", {"group": "finance", "added": [], "removed": ["ann"]}),
    ]
    assert told[2][:2] == ("link.created", "ann")
    assert (told[2][2]["person"], told[2][2]["vouched_by"]) == ("cfo", "ann")
    again = await client.get("/v1/workspace/events", params={"after": found["next"]}, headers=admin)
    assert again.json()["items"] == []
    for headers in (agent, admin):
        feed = (await client.get("/v1/feed", params={"after": "0"}, headers=headers)).json()
        assert feed["items"] == []
    wrong = await client.get("/v1/workspace/events", params={"after": "x"}, headers=admin)
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_request")
