"""Waits at a server do not poll while its stream is known to work, and lose nothing when it does not."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handraise import Answered, Desk, open_desk
from handraise.client import event_listener, http_transport
from handraise.desk_factory import desk_from_store
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.testing import promise
from handraise.testing.buses import SilentBus
from support.issuer import Issuer
from tests.client.test_remote_desk import served

SOON = 10.0
NEVER = 1_000.0
HEARTBEAT = 0.1


@pytest.fixture
async def ctx() -> AsyncIterator[ServerContext]:
    async with open_server(ServerSettings(url="memory:", heartbeat=HEARTBEAT, poll_interval=0.1)) as ctx:
        yield ctx


class Between:
    """A proxy. It notes what is asked of the server, and can stop passing on what is streamed."""

    def __init__(self, app: ASGIApp) -> None:
        self.polls = 0
        self.streams = 0
        self.long_polls: list[float] = []
        self.beats = 0
        self.passes_stream: Callable[[bytes], bool] = lambda _: True
        self.refuses_streams = False
        self.cuts_after = NEVER
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["path"] == "/v1/events":
            self.streams += 1
            if self.refuses_streams:
                await _refuse(send, 404)
                return
            await self._app(scope, receive, self._streamed(send))
        elif scope["path"] == "/v1/outcomes":
            if wait := re.search(rb"wait=([\d.]+)s", scope["query_string"]):
                self.long_polls.append(float(wait[1]))
                try:
                    async with asyncio.timeout(self.cuts_after):
                        await self._app(scope, receive, send)
                except TimeoutError:
                    await _refuse(send, 504)
                return
            self.polls += 1
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _streamed(self, send: Send) -> Send:
        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.body":
                if not self.passes_stream(message["body"]):
                    return
                self.beats += message["body"].startswith(b": ")
            await send(message)

        return pass_on


async def _refuse(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"no"})


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not true():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def waiting(
    ctx: ServerContext, desk: Desk
) -> AsyncIterator[tuple[asyncio.Task[object], Callable[..., object]]]:
    """A wait for a question, and how somebody answers it at another server whose hints are all lost."""
    question = await desk.post("Which?")
    wait = asyncio.create_task(desk.wait(question.id))
    async with desk_from_store(ctx.store, SilentBus(), workspace="default") as elsewhere:
        try:
            yield wait, lambda: elsewhere.answer(question.id, "a", by="ana")
        finally:
            wait.cancel()
            await asyncio.gather(wait, return_exceptions=True)


async def answered(wait: asyncio.Task[object], answer: Callable[..., object]) -> None:
    await answer()  # type: ignore[misc]  # it is a coroutine
    async with asyncio.timeout(SOON):
        assert isinstance(await wait, Answered)


@asynccontextmanager
async def remote(
    ctx: ServerContext, *, poll_interval: float, refuses_streams: bool = False
) -> AsyncIterator[tuple[Desk, Between]]:
    between = Between(create_app(ctx))
    between.refuses_streams = refuses_streams
    async with (
        served(between) as address,
        open_desk(address, credentials=Issuer(ctx.directory), poll_interval=poll_interval) as desk,
    ):
        yield desk, between
    ctx.stopping.clear()


async def test_no_client_polls_while_heartbeats_come(ctx: ServerContext) -> None:
    async with remote(ctx, poll_interval=0.02) as (desk, between), waiting(ctx, desk) as (wait, answer):
        await until(lambda: between.beats >= 2)
        await asyncio.sleep(0.05)
        between.polls = 0
        await until(lambda: between.beats >= 8)
        assert between.polls == 0
        assert between.streams == 1
        await answered(wait, answer)


@promise("P4")
async def test_a_hint_that_a_server_has_lost_is_found_by_the_server(ctx: ServerContext) -> None:
    async with remote(ctx, poll_interval=NEVER) as (desk, between), waiting(ctx, desk) as (wait, answer):
        await until(lambda: between.beats >= 2)
        await answered(wait, answer)


@promise("P4")
async def test_a_stream_that_falls_silent_is_polled_for_and_opened_again(ctx: ServerContext) -> None:
    async with remote(ctx, poll_interval=0.05) as (desk, between), waiting(ctx, desk) as (wait, answer):
        await until(lambda: between.beats >= 2)
        between.passes_stream = lambda _: False
        between.polls = 0
        await answered(wait, answer)
        assert between.polls > 0
        await until(lambda: between.streams > 1)


@promise("P4")
async def test_a_stream_of_which_only_the_beginning_comes_through_is_not_relied_on(
    ctx: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_listener, "_LATE", NEVER)
    monkeypatch.setattr(http_transport, "_SILENCE", NEVER)
    async with remote(ctx, poll_interval=0.05) as (desk, between):
        between.passes_stream = lambda body: body.startswith(b"event: ready")
        async with waiting(ctx, desk) as (wait, answer):
            await until(lambda: between.polls > 2)
            await answered(wait, answer)


@promise("P4")
async def test_what_was_answered_while_a_server_was_replaced_is_read_when_the_stream_is_back(
    ctx: ServerContext,
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    async with open_desk(address, credentials=Issuer(ctx.directory), poll_interval=NEVER) as desk:
        between = Between(create_app(ctx))
        async with served(between, port=port):
            question = await desk.post("Which?")
            wait = asyncio.create_task(desk.wait(question.id))
            await until(lambda: between.beats >= 2)
            ctx.stopping.set()
        ctx.stopping.clear()
        await ctx.desk.scoped("default").answer(question.id, "a", by="ana")
        async with served(create_app(ctx), port=port), asyncio.timeout(SOON):
            assert isinstance(await wait, Answered)
        ctx.stopping.clear()


@promise("P4")
async def test_long_polls_grow_until_a_proxy_cuts_one_and_stay_shorter_then(
    ctx: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_listener, "_FIRST_WITHIN", 0.05)
    monkeypatch.setattr(event_listener, "_FIRST_LONG_POLL", 0.1)
    monkeypatch.setattr(event_listener, "_SHORTEST_LONG_POLL", 0.02)
    monkeypatch.setattr(event_listener, "_RETRY", 0.01)
    async with remote(ctx, poll_interval=NEVER, refuses_streams=True) as (desk, between):
        between.cuts_after = 0.5
        async with waiting(ctx, desk) as (wait, answer):
            await until(lambda: len(between.long_polls) >= 7)
            assert between.long_polls[:4] == [0.1, 0.2, 0.4, 0.8]
            assert max(between.long_polls[4:]) <= 0.4
            await answered(wait, answer)


@promise("P4")
async def test_a_new_wait_does_not_stay_outside_of_a_long_poll_under_way(
    ctx: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_listener, "_FIRST_WITHIN", 0.05)
    monkeypatch.setattr(event_listener, "_NEW_WAITS", 0.05)
    async with (
        remote(ctx, poll_interval=NEVER, refuses_streams=True) as (desk, between),
        waiting(ctx, desk),
    ):
        await until(lambda: len(between.long_polls) == 1)
        async with waiting(ctx, desk) as (wait, answer):
            await until(lambda: len(between.long_polls) == 2)
            await answered(wait, answer)
