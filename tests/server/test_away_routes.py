"""Who is away, over HTTP: people say it for themselves, administrators for anybody, and nobody else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing.promises import promise
from support.issuer import Issuer
from tests.server.conftest import bearer

Headers = dict[str, str]
LATER = (datetime.now(UTC) + timedelta(days=7)).isoformat()
EARLIER = (datetime.now(UTC) - timedelta(days=7)).isoformat()


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))


@pytest.fixture
async def ann(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))


@promise("P17")
async def test_people_go_away_and_come_back_and_the_trail_says_who_did_it(
    client: httpx2.AsyncClient, ann: Headers, admin: Headers, ctx: ServerContext, workspace: str
) -> None:
    gone = await client.put("/v1/people/ann/away", json={"until": LATER, "deputy": "boss"}, headers=ann)
    assert gone.status_code == 200
    record = gone.json()
    assert (record["person"], record["deputy"]) == ("ann", "boss")
    assert datetime.fromisoformat(record["until"]) == datetime.fromisoformat(LATER)
    assert datetime.fromisoformat(record["from"]) <= datetime.now(UTC)
    for who in (ann, admin):
        assert (await client.get("/v1/people/ann/away", headers=who)).json() == record
    for _ in range(2):
        back = await client.delete("/v1/people/ann/away", headers=admin)
        nothing = {"person": "ann", "from": None, "until": None, "deputy": None}
        assert (back.status_code, back.json()) == (200, nothing)
    events = await ctx.engine.store.workspace_events(workspace, after=None, limit=50)
    found = [(each.kind.value, each.by) for each in events if each.kind in ("person.away", "person.back")]
    assert found == [("person.away", "ann"), ("person.back", "boss")]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "body.until"),
        ({"until": "soon"}, "body.until"),
        ({"until": "2030-01-01T00:00:00"}, "body.until"),
        ({"until": EARLIER}, "body.until"),
        ({"until": LATER, "from": "9999-01-01T00:00:00Z"}, "body.until"),
        ({"until": LATER, "deputy": "ann"}, "body.deputy"),
        ({"until": LATER, "deputy": "nobody"}, "body.deputy"),
        ({"until": LATER, "deputy": "group:ops"}, "body.deputy"),
        ({"until": LATER, "deputy": "gone"}, "body.deputy"),
        ({"until": "9999-12-31T23:59:59Z"}, "body.until"),
        ({"until": LATER, "from": "0001-01-01T00:00:00+14:00"}, "body.from"),
        ({"until": LATER, "deputy": "\x00"}, "body.deputy"),
        ({"until": LATER, "deputy": "d" * 201}, "body.deputy"),
        ({"until": LATER, "person": "boss"}, "body.person"),
    ],
)
async def test_a_period_that_makes_no_sense_is_refused(
    client: httpx2.AsyncClient,
    ann: Headers,
    ctx: ServerContext,
    workspace: str,
    body: dict[str, Any],
    path: str,
) -> None:
    await ctx.directory.put_person(workspace, "gone", name="Gone", email=None, role=Role.MEMBER)
    await ctx.directory.disable_person(workspace, "gone")
    refused = await client.put("/v1/people/ann/away", json=body, headers=ann)
    assert refused.status_code == 422
    assert path in refused.text
    assert (await client.get("/v1/people/ann/away", headers=ann)).json()["until"] is None


@promise("P8")
async def test_nobody_else_sees_or_changes_it(
    client: httpx2.AsyncClient, ann: Headers, admin: Headers, issuer: Issuer, workspace: str
) -> None:
    bob = bearer(await issuer.person(workspace, "bob", role=Role.MEMBER))
    agent = bearer(await issuer.agent(workspace, "bot"))
    stranger = bearer(await issuer.person(f"{workspace}-2", "boss", role=Role.ADMIN))
    body = {"until": LATER, "deputy": "bob"}
    for who, status in ((bob, 403), (agent, 403), (stranger, 404), ({}, 401)):
        assert (await client.get("/v1/people/ann/away", headers=who)).status_code == status
        assert (await client.put("/v1/people/ann/away", json=body, headers=who)).status_code == status
        assert (await client.delete("/v1/people/ann/away", headers=who)).status_code == status
    # Who may not see it does not learn who exists either.
    assert (await client.get("/v1/people/nobody/away", headers=bob)).status_code == 403
    assert (await client.get("/v1/people/nobody/away", headers=admin)).status_code == 404
    assert (await client.get("/v1/people/%00/away", headers=admin)).status_code in (400, 404, 422)
    assert (await client.get("/v1/people/ann/away", headers=ann)).json()["until"] is None
