"""Stops over HTTP: who may begin and end one, what is refused, and that the audit trail has both."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing.promises import promise
from support.issuer import Issuer
from tests.server.conftest import bearer

Headers = dict[str, str]
PAY = Approval.of("pay", {"amount": 1})


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    return ctx.desk.scoped(workspace, asker="bot")


@promise("P17", "P18")
async def test_a_stop_is_begun_listed_and_ended_and_the_trail_says_by_whom(
    client: httpx2.AsyncClient, admin: Headers, ctx: ServerContext, workspace: str
) -> None:
    body = {"agent": "bot", "tool": "pay", "why": "wrong account"}
    made = await client.post("/v1/stops", json=body, headers=admin)
    assert made.status_code == 201
    stop = made.json()
    assert {name: stop[name] for name in (*body, "by")} == {**body, "by": "boss"}
    # The same again is the same stop, and nothing new in the trail.
    assert (await client.post("/v1/stops", json=body | {"why": "still"}, headers=admin)).json() == stop
    assert (await client.get("/v1/stops", headers=admin)).json() == {"stops": [stop]}
    ended = await client.delete(f"/v1/stops/{stop['id']}", headers=admin)
    assert (ended.status_code, ended.json()) == (200, stop)
    assert (await client.get("/v1/stops", headers=admin)).json() == {"stops": []}
    assert (await client.delete(f"/v1/stops/{stop['id']}", headers=admin)).status_code == 404
    events = await ctx.engine.store.workspace_events(workspace, after=None, limit=50)
    found = [(each.kind.value, each.by, each.details) for each in events if each.kind.startswith("stop.")]
    said = {"stop": stop["id"], **body}
    assert found == [("stop.begun", "boss", said), ("stop.ended", "boss", said)]


@promise("P18")
async def test_who_is_refused_learns_by_whom_since_when_and_why(
    client: httpx2.AsyncClient, admin: Headers, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    made = (await client.post("/v1/stops", json={"why": "wrong account"}, headers=admin)).json()
    keyed = agent | {"idempotency-key": "one"}
    refused = await client.post("/v1/questions", json={"prompt": "Go?"}, headers=keyed)
    assert refused.status_code == 423
    problem = refused.json()
    assert (problem["code"], problem["stop"]["by"], problem["stop"]["at"]) == ("stopped", "boss", made["at"])
    assert "boss stopped everything" in problem["detail"]
    assert "wrong account" in problem["detail"]
    # Nothing is kept of the refusal: the same request works once it is resumed.
    await client.delete(f"/v1/stops/{made['id']}", headers=admin)
    assert (await client.post("/v1/questions", json={"prompt": "Go?"}, headers=keyed)).status_code == 201


@pytest.mark.parametrize(
    "body",
    [{}, {"why": ""}, {"why": "w", "agent": ""}, {"why": "\x00"}, {"why": "w", "tool": "t" * 201}],
)
async def test_a_stop_without_a_reason_or_with_an_empty_name_is_refused(
    client: httpx2.AsyncClient, admin: Headers, body: dict[str, Any]
) -> None:
    assert (await client.post("/v1/stops", json=body, headers=admin)).status_code == 422


@promise("P8")
async def test_only_administrators_stop_and_resume_and_only_in_their_workspace(
    client: httpx2.AsyncClient, admin: Headers, issuer: Issuer, workspace: str
) -> None:
    stop = (await client.post("/v1/stops", json={"why": "w"}, headers=admin)).json()["id"]
    member = bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))
    agent = bearer(await issuer.agent(workspace, "bot"))
    for who in (member, agent):
        assert (await client.get("/v1/stops", headers=who)).status_code == 403
        assert (await client.post("/v1/stops", json={"why": "w"}, headers=who)).status_code == 403
        assert (await client.delete(f"/v1/stops/{stop}", headers=who)).status_code == 403
    other = bearer(await issuer.person(f"{workspace}-other", "eve", role=Role.ADMIN))
    assert (await client.get("/v1/stops", headers=other)).json() == {"stops": []}
    assert (await client.delete(f"/v1/stops/{stop}", headers=other)).status_code == 404
