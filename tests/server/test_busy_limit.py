"""A server that has too much to do refuses more, cheaply; what only waits does not count."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise.server import ServerContext
from support.http_server import listening
from support.issuer import Issuer
from tests.server.conftest import bearer

pytestmark = pytest.mark.parametrize("settings", [{"busy_limit": 1}])


@pytest.fixture
def store() -> str:
    """What is counted here does not depend on the store."""
    return "memory:"


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        address = f"http://127.0.0.1:{door.getsockname()[1]}"
        async with listening(app, door), httpx2.AsyncClient(base_url=address, timeout=30) as http:
            yield http


@pytest.mark.only_proof_of("a server that has too much to do refuses requests and says when to come again")
async def test_one_request_too_many_is_refused_until_another_is_served(
    http: httpx2.AsyncClient,
    ctx: ServerContext,
    issuer: Issuer,
    workspace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slowly(*_: Any, **__: Any) -> str:
        begun.set()
        await may_end.wait()
        return ""

    monkeypatch.setattr(ctx.store, "feed_end", slowly)
    opening = asyncio.create_task(
        http.send(http.build_request("GET", "/v1/events", headers=agent), stream=True)
    )
    await begun.wait()
    refused = await http.get("/v1/me", headers=agent)
    assert refused.status_code == 429
    assert 5 <= int(refused.headers["retry-after"]) <= 30
    assert refused.json()["detail"].startswith("This server has too much to do; try again in ")
    assert (await http.get("/healthz")).status_code == 200
    may_end.set()
    stream = await opening
    # The stream is open and waits.
    assert (await http.get("/v1/me", headers=agent)).status_code == 200
    await stream.aclose()


async def test_a_long_poll_that_waits_does_not_count(
    app: FastAPI, http: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("Really?")
    path = f"/v1/questions/{question.id}/outcome?wait=20s"
    polling = asyncio.create_task(http.get(path, headers=agent))
    async with asyncio.timeout(10):
        while not app.state.stream_limits._open:  # noqa: SLF001 -- it says when the poll has begun to wait
            await asyncio.sleep(0.01)
    assert (await http.get("/v1/me", headers=agent)).status_code == 200
    assert not polling.done()
    await desk.answer(question.id, "yes", by="ann")
    assert (await polling).json()["status"] == "answered"


async def test_who_is_slow_to_send_a_body_keeps_nobody_out(
    http: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    _, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    head = "POST /v1/questions HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"
    writer.write(head.encode())
    await asyncio.sleep(0.2)
    assert (await http.get("/v1/me", headers=agent)).status_code == 200
    writer.close()
