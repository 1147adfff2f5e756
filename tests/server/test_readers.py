"""A program reads what is settled with a key of its own: no session, and no way to do anything."""

from __future__ import annotations

import httpx2
import pytest

from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_reader_key
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

Headers = dict[str, str]


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    return ctx.desk.scoped(workspace, asker="bot")


@pytest.fixture
async def reader(ctx: ServerContext, workspace: str) -> Headers:
    return bearer((await issue_reader_key(ctx, workspace, "dashboard", by="root")).key)


@on_every_store
async def test_a_reader_reads_what_is_settled_and_nothing_that_waits(
    client: httpx2.AsyncClient, desk: LocalDesk, reader: Headers
) -> None:
    settled = await desk.post("Ship?", state={"secret": 1}, recipients=["ana"])
    await desk.answer(settled.id, "yes", by="ana")
    waiting = await desk.post("And now?", key="k")
    listed = await client.get("/v1/questions", params={"status": "settled"}, headers=reader)
    assert [each["id"] for each in listed.json()["items"]] == [settled.id]
    one = await client.get(f"/v1/questions/{settled.id}", headers=reader)
    assert (one.status_code, one.json()["outcome"]["value"], one.json()["state"]) == (200, "yes", None)
    history = await client.get(f"/v1/questions/{settled.id}/history", headers=reader)
    assert [each["kind"] for each in history.json()["items"]] == ["asked", "answered"]
    nowhere = await client.get(f"/v1/questions/{'0' * 36}", headers=reader)
    for path in ("", "/history"):
        hidden = await client.get(f"/v1/questions/{waiting.id}{path}", headers=reader)
        assert (hidden.status_code, hidden.content) == (404, nowhere.content)
    for query in ({}, {"status": "pending"}, {"status": "settled", "recipient": "ana"}):
        refused = await client.get("/v1/questions", params=query, headers=reader)
        assert refused.status_code == 403, query
    by_key = {"key": "k", "asker": "bot", "status": "settled"}
    assert (await client.get("/v1/questions", params=by_key, headers=reader)).json()["items"] == []


async def test_statistics_are_for_readers_and_administrators(
    client: httpx2.AsyncClient, desk: LocalDesk, reader: Headers, issuer: Issuer, workspace: str
) -> None:
    question = await desk.post("Ship?")
    await desk.answer(question.id, "yes", by="ana")
    await desk.withdraw((await desk.post("Old?")).id)
    await desk.post("And now?")
    said = await client.get("/v1/statistics", headers=reader)
    assert said.status_code == 200, said.text
    found = said.json()
    assert (found["waiting"], found["ended"]) == (1, {"answered": 1, "withdrawn": 1})
    assert (found["answered_by_people"], found["median_seconds"], found["ninetieth_seconds"]) == (1, 0, 0)
    admin = bearer(await issuer.person(workspace, "root", role=Role.ADMIN))
    assert (await client.get("/v1/statistics", headers=admin)).status_code == 200
    for other in (
        await issuer.person(workspace, "ana", role=Role.MEMBER),
        await issuer.agent(workspace, "bot"),
    ):
        assert (await client.get("/v1/statistics", headers=bearer(other))).status_code == 403
    assert (await client.get("/v1/statistics")).status_code == 401


async def test_administrators_make_and_end_readers_keys_and_no_agent_passes_for_one(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    admin = bearer(await issuer.person(workspace, "root", role=Role.ADMIN))
    made = await client.post("/v1/keys", json={"agent": "dashboard", "reads": True}, headers=admin)
    assert (made.status_code, made.json()["agent"]) == (201, "reader:dashboard")
    key = bearer(made.json()["key"])
    assert made.json()["key"].startswith("hrr_")
    me = await client.get("/v1/me", headers=key)
    assert me.json() == {"workspace": workspace, "reader": "dashboard"} | dict.fromkeys(
        ("agent", "person", "role", "admin_token")
    )
    refused = await client.post("/v1/keys", json={"agent": "reader:x"}, headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    await client.post(f"/v1/keys/{made.json()['id']}/revoke", json={}, headers=admin)
    assert (await client.get("/v1/me", headers=key)).status_code == 401
