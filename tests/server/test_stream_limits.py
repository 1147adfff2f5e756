"""No key, session or workspace holds every connection of a server by streams and long polls."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack

import httpx2
import pytest
from fastapi import FastAPI

from handraise.model.errors import TooManyRequests
from handraise.server import ServerContext, ServerSettings
from handraise.server.auth.authenticator import AgentCaller
from handraise.server.live.stream_limits import StreamLimits
from support.http_server import listening
from support.issuer import Issuer
from tests.server.conftest import bearer

LIMITS = {"stream_limit": 2, "workspace_stream_limit": 3}
Headers = dict[str, str]

pytestmark = pytest.mark.parametrize("settings", [LIMITS])


@pytest.fixture
def store() -> str:
    """What is counted here does not depend on the store."""
    return "memory:"


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a real server: in the same process, a stream would only come as a whole."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        address = f"http://127.0.0.1:{door.getsockname()[1]}"
        async with listening(app, door), httpx2.AsyncClient(base_url=address, timeout=30) as http:
            yield http


async def test_one_stream_too_many_is_refused_until_another_ends(
    http: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    async with AsyncExitStack() as streams, AsyncExitStack() as first:
        await opened(http, agent, first)
        await opened(http, agent, streams)
        refused = await http.get("/v1/events", headers=agent)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert refused.headers["content-type"] == "application/problem+json"
        problem = refused.json()
        assert problem["code"] == "too_many_requests"
        assert "has 2 event streams and long polls open" in problem["detail"]
        assert (await http.get("/v1/me", headers=agent)).status_code == 200
        await first.aclose()
        await opened_in_the_end(http, agent, streams)


async def test_a_workspace_has_a_bound_and_another_workspace_has_its_own(
    http: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    keys = [bearer(await issuer.agent(workspace, f"bot {n}")) for n in range(4)]
    async with AsyncExitStack() as streams:
        for key in keys[:3]:
            await opened(http, key, streams)
        refused = await http.get("/v1/events", headers=keys[3])
        assert refused.status_code == 429
        assert "This workspace has 3" in refused.json()["detail"]
        await opened(http, bearer(await issuer.agent(f"{workspace}-2", "bot")), streams)


async def test_long_polls_count_and_what_does_not_wait_is_not_refused(
    http: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    question = (await http.post("/v1/questions", json={"prompt": "Go?"}, headers=agent)).json()["id"]
    one, all_of_them = f"/v1/questions/{question}/outcome", f"/v1/outcomes?id={question}"
    async with AsyncExitStack() as streams:
        await opened(http, agent, streams)
        polling = asyncio.create_task(http.get(f"{one}?wait=30s", headers=agent))
        await begun(ctx)
        refused = await http.get(f"{one}?wait=1s", headers=agent)
        assert refused.status_code == 429
        assert "2 event streams and long polls" in refused.json()["detail"]
        assert (await http.get(f"{all_of_them}&wait=1s", headers=agent)).status_code == 429
        for path in (one, all_of_them):
            assert (await http.get(path, headers=agent)).status_code == 200
        await http.post(f"/v1/questions/{question}/withdraw", json={}, headers=agent)
        assert (await polling).json()["status"] == "withdrawn"
    # What is settled needs no wait, and so it is never refused.
    assert (await http.get(f"{one}?wait=30s", headers=agent)).status_code == 200


async def test_a_long_poll_ends_when_its_client_disconnects(
    http: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    question = (await http.post("/v1/questions", json={"prompt": "Go?"}, headers=agent)).json()["id"]
    polling = asyncio.create_task(http.get(f"/v1/questions/{question}/outcome?wait=300s", headers=agent))
    await begun(ctx)
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    async with asyncio.timeout(30):
        while len(ctx.engine.waiters):
            await asyncio.sleep(0.01)
    async with AsyncExitStack() as streams:
        for _ in range(2):
            await opened_in_the_end(http, agent, streams)


async def test_a_result_with_a_stream_is_refused_before_it_is_taken(
    http: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    person = bearer(await issuer.person(workspace, "ann"))
    asked = {
        "prompt": "Go?",
        "conversation": "c",
        "form": {"kind": "approval", "action": {"tool": "go", "arguments": {}}},
    }
    question = (await http.post("/v1/questions", json=asked, headers=agent)).json()["id"]
    body = {"agent": "bot", "tool_call_id": f"approval_{question}", "decision": "approve"}
    async with AsyncExitStack() as streams:
        for _ in range(2):
            await opened(http, person, streams)
        wants_stream = person | {"accept": "text/event-stream"}
        refused = await http.post("/v1/conversations/c/tool-results", json=body, headers=wants_stream)
        assert refused.status_code == 429
        state = (await http.get(f"/v1/questions/{question}/outcome", headers=agent)).json()
        assert state["status"] == "pending"


def test_nobody_may_take_all_that_the_process_can_have_open(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, int]
) -> None:
    del settings
    monkeypatch.setattr("handraise.server.live.stream_limits.max_connections", lambda: 8)
    limits = StreamLimits(ServerSettings(stream_limit=0, workspace_stream_limit=0))
    first, second, third, fourth = (AgentCaller("w", "bot", f"key {n}") for n in range(4))
    with ExitStack() as held:
        for caller in (first, second, third):
            for _ in range(2):
                held.enter_context(limits.hold(caller))
            with pytest.raises(TooManyRequests):
                limits.check(caller)
        with pytest.raises(TooManyRequests, match="This workspace"):
            limits.check(fourth)
    for caller in (first, fourth):
        limits.check(caller)


async def opened(http: httpx2.AsyncClient, headers: Headers, streams: AsyncExitStack) -> None:
    """Open a stream that is there until the end of the context."""
    response = await streams.enter_async_context(http.stream("GET", "/v1/events", headers=headers))
    assert response.status_code == 200


async def opened_in_the_end(http: httpx2.AsyncClient, headers: Headers, streams: AsyncExitStack) -> None:
    """The same as soon as the server has noticed that another has ended."""
    async with asyncio.timeout(30):
        while True:
            response = await streams.enter_async_context(http.stream("GET", "/v1/events", headers=headers))
            if response.status_code == 200:
                return
            await asyncio.sleep(0.01)


async def begun(ctx: ServerContext) -> None:
    """Return once somebody waits in this server."""
    async with asyncio.timeout(30):
        while not len(ctx.engine.waiters):
            await asyncio.sleep(0.01)
