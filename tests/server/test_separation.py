"""Agents of one workspace see nothing of each other, and a right that has ended ends what goes on."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise import Approval
from handraise.model.identities import Role
from handraise.server import ServerContext, open_server
from handraise.server.live.broadcaster import Streams
from handraise.testing import promise
from handraise.testing.contract.backend import fed
from support.http_server import listening
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

pytestmark = on_every_store

SOON = 10.0


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"heartbeat": 0.05}


@pytest.fixture
async def address(app: FastAPI) -> AsyncIterator[str]:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        async with listening(app, door):
            yield f"http://127.0.0.1:{door.getsockname()[1]}"


@promise("P8")
async def test_an_agent_sees_nothing_of_another_agent(
    ctx: ServerContext, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    mine, other = await issuer.agent(workspace, "mine"), await issuer.agent(workspace, "other")
    theirs = ctx.desk.scoped(workspace, asker="other")
    secret = await theirs.post(
        "A secret plan?", key="k", conversation="c", form=Approval.of("pay", {"to": "x"})
    )
    await theirs.answer(secret.id, "approve", by="ana")
    open_one = await theirs.post("Another secret?", key="open", conversation="c")
    for each in (secret.id, open_one.id):
        nowhere = await client.get(f"/v1/questions/{'0' * 36}", headers=bearer(mine))
        for path in ("", "/history", "/outcome"):
            response = await client.get(f"/v1/questions/{each}{path}", headers=bearer(mine))
            assert (response.status_code, response.content) == (404, nowhere.content)
        for verb in ("withdraw", "consume", "apply-grant", "claim-sending", "sent", "join"):
            body = {"key": "k"} if verb == "join" else {}
            response = await client.post(f"/v1/questions/{each}/{verb}", json=body, headers=bearer(mine))
            assert (response.status_code, response.content) == (404, nowhere.content)
        outcomes = await client.get("/v1/outcomes", params={"id": each, "wait": "1s"}, headers=bearer(mine))
        assert outcomes.json() == {"settled": [], "unknown": [each]}
    for query in ({}, {"asker": "other"}, {"conversation": "c"}, {"key": "k"}, {"key": "open"}):
        listed = await client.get("/v1/questions", params=query, headers=bearer(mine))
        assert listed.json() == {"items": [], "next": None}
    await fed(theirs, 3)
    assert (await client.get("/v1/feed", headers=bearer(mine))).json()["items"] == []
    assert len((await client.get("/v1/feed", headers=bearer(other))).json()["items"]) == 3
    same_key = await client.post("/v1/questions", json={"prompt": "?", "key": "k"}, headers=bearer(mine))
    assert same_key.status_code == 201
    assert "secret" not in same_key.text


@promise("P8")
async def test_an_event_stream_has_what_concerns_its_reader_and_nothing_else(
    ctx: ServerContext, address: str, issuer: Issuer, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    tokens = {
        "bot": await issuer.agent(workspace, "bot"),
        "another bot": await issuer.agent(workspace, "another bot"),
        "ana": await issuer.person(workspace, "ana", role=Role.MEMBER),
        "bob": await issuer.person(workspace, "bob", role=Role.MEMBER),
        "root": await issuer.person(workspace, "root", role=Role.ADMIN),
    }
    for_ana = await desk.post("For Ana?", recipients=["ana"])
    for_all = await desk.post("For anyone?")
    await desk.answer(for_ana.id, "a", by="ana")
    seen = {
        "bot": [for_ana.id, for_all.id, for_ana.id],
        "another bot": [],
        "ana": [for_ana.id, for_all.id, for_ana.id],
        "bob": [for_all.id],
        "root": [for_ana.id, for_all.id, for_ana.id],
    }
    for who, expected in seen.items():
        events = await read_stream(f"{address}/v1/events?after=0", tokens[who], stop=len(expected))
        assert [event["question_id"] for event in events] == expected, who


@pytest.mark.parametrize("ending", ["key revoked", "session ended", "person removed", "group left"])
async def test_a_stream_ends_with_the_right_to_hear_it(
    ctx: ServerContext, address: str, issuer: Issuer, workspace: str, ending: str
) -> None:
    agent, person = (
        await issuer.agent(workspace, "bot"),
        await issuer.person(workspace, "ana", role=Role.MEMBER),
    )
    await ctx.directory.put_group(workspace, "ops", ["ana"])
    (key,) = await ctx.directory.keys(workspace, after=None, limit=9)

    async def end_session() -> None:
        async with httpx2.AsyncClient() as client:
            await client.delete(f"{address}/v1/sessions/current", headers=bearer(person))

    ends: dict[str, tuple[str, Callable[[], Awaitable[object]]]] = {
        "key revoked": (agent, lambda: ctx.directory.revoke_key(workspace, key.id, by="root")),
        "session ended": (person, end_session),
        "person removed": (person, lambda: ctx.directory.remove_person(workspace, "ana")),
        "group left": (person, lambda: ctx.directory.put_group(workspace, "ops", [])),
    }
    token, end = ends[ending]
    ready = asyncio.Event()
    reading = asyncio.create_task(read_stream(f"{address}/v1/events", token, stop=None, ready=ready))
    async with asyncio.timeout(SOON):
        await ready.wait()
    await end()
    async with asyncio.timeout(SOON):
        assert await reading == []


@pytest.mark.parametrize("settings", [{"heartbeat": 1_000.0}])
async def test_a_revoked_key_ends_its_streams_at_every_server_before_the_next_heartbeat(
    ctx: ServerContext, app: FastAPI, address: str, issuer: Issuer, workspace: str
) -> None:
    agent = await issuer.agent(workspace, "bot")
    (key,) = await ctx.directory.keys(workspace, after=None, limit=9)
    ready = asyncio.Event()
    here = asyncio.create_task(read_stream(f"{address}/v1/events", agent, stop=None, ready=ready))
    async with asyncio.timeout(SOON), open_server(ctx.settings) as another_server:
        await ready.wait()
        await checked(app)
        await another_server.directory.revoke_key(workspace, key.id, by="root")
        assert await here == []


@pytest.mark.parametrize("settings", [{"heartbeat": 0.3}])
async def test_a_revoked_key_ends_its_streams_also_if_no_announcement_can_be_heard(
    ctx: ServerContext, address: str, issuer: Issuer, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await issuer.agent(workspace, "bot")
    (key,) = await ctx.directory.keys(workspace, after=None, limit=9)

    def no_bus(*_: object) -> None:
        raise OSError("no descriptor is left")

    monkeypatch.setattr(type(ctx.engine), "watch", no_bus)
    ready = asyncio.Event()
    here = asyncio.create_task(read_stream(f"{address}/v1/events", agent, stop=None, ready=ready))
    async with asyncio.timeout(SOON):
        await ready.wait()
        await ctx.directory.revoke_key(workspace, key.id, by="root")
        assert await here == []


async def checked(app: FastAPI) -> None:
    """Return when the first look at the credentials of the open streams is over."""
    streams: Streams = app.state.streams
    while not streams.credentials.is_listening:
        await asyncio.sleep(0.01)


async def read_stream(
    url: str, token: str, *, stop: int | None, ready: asyncio.Event | None = None
) -> list[dict[str, Any]]:
    """The events of a stream until there are so many and a moment more, or until it ends."""
    events: list[dict[str, Any]] = []
    signs = 0
    async with (
        httpx2.AsyncClient(timeout=SOON) as client,
        client.stream("GET", url, headers=bearer(token)) as response,
    ):
        async for line in response.aiter_lines():
            if ready is not None:
                ready.set()
            if line.startswith("data: {") and "question_id" in line:
                events.append(json.loads(line.removeprefix("data: ")))
            signs += line.startswith(": ")
            if stop is not None and len(events) >= stop and signs > 2:
                break
    return events
