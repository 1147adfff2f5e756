"""Streams of servers that share a NATS: nothing that happens before a workspace is subscribed to is missed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI
from nats.aio.client import Client
from nats.aio.subscription import Subscription

from handraise.server import ServerContext, open_server
from handraise.server.auth.authenticator import AnyCaller, Authenticator
from handraise.wire.credentials import Token
from support.issuer import Issuer
from tests.server.test_separation import SOON, address, checked, read_stream

__all__ = ["address"]

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)


@pytest.fixture
def settings(nats: str) -> dict[str, Any]:
    return {"heartbeat": 1_000.0, "poll_interval": 100.0, "bus": nats}


async def test_a_key_that_is_revoked_before_its_workspace_is_subscribed_to_ends_its_streams(
    ctx: ServerContext,
    app: FastAPI,
    address: str,
    issuer: Issuer,
    workspace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = await issuer.agent(workspace, "bot"), await issuer.agent(f"{workspace}-2", "bot")
    (key,) = await ctx.directory.keys(f"{workspace}-2", after=None, limit=9)
    subscribe, opened = Client.subscribe, asyncio.Event()
    find, looked_up = Authenticator.find, asyncio.Semaphore(0)

    async def counted(authenticator: Authenticator, token: Token) -> AnyCaller | None:
        caller = await find(authenticator, token)
        if token.workspace == f"{workspace}-2":
            looked_up.release()
        return caller

    async def held(client: Client, *args: Any, **named: Any) -> Subscription:
        await opened.wait()
        return await subscribe(client, *args, **named)

    async with asyncio.timeout(SOON), open_server(ctx.settings) as another_server:
        ready = asyncio.Event()
        stays = asyncio.create_task(read_stream(f"{address}/v1/events", first, stop=None, ready=ready))
        await ready.wait()
        await checked(app)
        monkeypatch.setattr(Client, "subscribe", held)
        monkeypatch.setattr(Authenticator, "find", counted)
        late = asyncio.Event()
        ends = asyncio.create_task(read_stream(f"{address}/v1/events", second, stop=None, ready=late))
        await late.wait()
        await asyncio.gather(
            looked_up.acquire(), looked_up.acquire()
        )  # for its request, and after a hint to look again
        await another_server.directory.revoke_key(f"{workspace}-2", key.id, by="root")
        await asyncio.sleep(0.1)
        assert not ends.done()
        opened.set()
        assert await ends == []
        assert not stays.done()
    stays.cancel()
