"""Streams share one follower of their workspace: each still gets exactly what concerns it, and wakes for nothing else."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
from collections.abc import AsyncGenerator
from contextlib import aclosing
from math import inf
from types import FrameType
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise import Event, Question, Responder
from handraise.model.errors import StoreUnavailable
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.authenticator import AgentCaller, Authenticator, Caller, PersonCaller
from handraise.server.live.broadcaster import Streams
from handraise.server.live.visibility import VisibleEvents
from handraise.wire.credentials import Token, read_token
from support.http_server import listening
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store
from tests.tiers import sized

pytestmark = on_every_store

WITHIN = 60.0
AGENTS, PEOPLE, OPS = 3, 4, 2
TOKENS: dict[str, Token] = {}
"""The tokens of the callers, by their names."""
AUDIENCES: tuple[list[str], ...] = ([], ["group:ops"], ["person 0"], ["person 3"])


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"heartbeat": 0.05}


@pytest.fixture
def streams(app: FastAPI) -> Streams:
    found: Streams = app.state.streams
    return found


@pytest.fixture
async def callers(ctx: ServerContext) -> list[Caller]:
    """Agents, people of whom some are in a group, an administrator, and an agent that never asks."""
    issuer = Issuer(ctx.directory, role=Role.MEMBER)
    tokens = [await issuer.agent("w", f"agent {n}") for n in range(AGENTS)]
    tokens += [await issuer.agent("w", "quiet")]
    tokens += [
        await issuer.person("w", Responder(f"person {n}", frozenset({"ops"} if n < OPS else ())))
        for n in range(PEOPLE)
    ]
    tokens += [await issuer.person("w", "admin", role=Role.ADMIN)]
    authenticator, found = Authenticator(ctx.directory), []
    for text in tokens:
        token = read_token(text)
        assert token is not None
        caller = await authenticator.find(token)
        assert isinstance(caller, AgentCaller | PersonCaller)
        TOKENS[caller.name] = token
        found.append(caller)
    return found


def follow(
    streams: Streams, caller: Caller, *, after: str, patience: float = inf
) -> AsyncGenerator[VisibleEvents, None]:
    return streams.follow(caller, TOKENS[caller.name], after=after, patience=patience)


class Reader:
    """One stream that is read at its own pace, breaks at times, and comes back with its place."""

    def __init__(self, streams: Streams, caller: Caller, chance: random.Random) -> None:
        self.caller = caller
        self.seen: list[str] = []
        self.cursor = ""
        self._streams = streams
        self._chance = chance

    async def read(self) -> None:
        """Read for ever."""
        while True:
            async with aclosing(follow(self._streams, self.caller, after=self.cursor)) as following:
                left = self._chance.randrange(1, 30)
                async for seen in following:
                    self._take(seen)
                    left -= 1
                    if not left:
                        break
                    if self._chance.random() < 0.5:
                        await asyncio.sleep(self._chance.choice((0, 0, 0.001, 0.02)))

    def _take(self, seen: VisibleEvents) -> None:
        self.seen += [event.cursor for event in seen.events]
        self.cursor = seen.cursor
        assert seen.text.count(b"data: ") == len(seen.events)


@pytest.mark.parametrize("seed", range(sized(gate=1, nightly=3)))
async def test_every_stream_gets_what_concerns_it_once_and_in_order_at_whatever_pace_it_is_read(
    ctx: ServerContext, streams: Streams, callers: list[Caller], seed: int
) -> None:
    chance = random.Random(seed)
    readers = [Reader(streams, caller, chance) for caller in callers for _ in range(4)]
    reading = [asyncio.create_task(reader.read()) for reader in readers]
    async with asyncio.timeout(WITHIN):
        await asyncio.gather(*(_ask_and_answer(ctx, n, random.Random(100 * seed + n)) for n in range(8)))
        while len(events := await _all_events(ctx)) < 8 * 15 * 2:  # others may hold a transaction open
            await asyncio.sleep(0.05)
        questions = {each: await ctx.desk.scoped("w").get(each) for each in {e.question_id for e in events}}
        wanted = {id(reader): _concerning(reader.caller, events, questions) for reader in readers}
        while not any(task.done() for task in reading) and any(
            len(reader.seen) < len(wanted[id(reader)]) for reader in readers
        ):
            await asyncio.sleep(0.01)
    for task in reading:
        task.cancel()
    ends = await asyncio.gather(*reading, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
    for reader in readers:
        assert reader.seen == wanted[id(reader)], reader.caller


@pytest.mark.parametrize("settings", [{"heartbeat": 30.0}])
async def test_what_is_new_is_looked_at_once_for_all_who_see_the_same_and_wakes_no_one_else(
    ctx: ServerContext, streams: Streams, callers: list[Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, other = [caller for caller in callers if isinstance(caller, AgentCaller)][:2]
    looked: list[str] = []

    def may_see(caller: AgentCaller, question: Question) -> bool:
        looked.append(caller.agent)
        return question.asker == caller.agent

    monkeypatch.setattr(AgentCaller, "may_see", may_see)
    heard: dict[str, int] = {}

    async def listen(caller: AgentCaller) -> None:
        async with aclosing(follow(streams, caller, after=start)) as following:
            async for seen in following:
                heard[caller.agent] = heard.get(caller.agent, 0) + len(seen.events)

    start = await ctx.store.feed_end("w")
    listening = [asyncio.create_task(listen(who)) for who in [agent] * 50 + [other] * 50]
    await asyncio.sleep(0.2)
    desk = ctx.desk.scoped("w", asker=agent.agent)
    async with asyncio.timeout(WITHIN):
        for n in range(10):
            await desk.post(f"Number {n}?")
            while heard.get(agent.agent) != 50 * (n + 1):
                await asyncio.sleep(0.01)
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    # Once for each of the two, and not for each of a hundred; who was late at first caught up by itself.
    assert len(looked) < 200, len(looked)


async def test_who_has_nothing_to_hear_is_moved_on_by_heartbeats(
    ctx: ServerContext, streams: Streams, callers: list[Caller]
) -> None:
    quiet = callers[AGENTS]
    start = await ctx.store.feed_end("w")
    await ctx.desk.scoped("w", asker="agent 0").post("Which one?")
    async with asyncio.timeout(WITHIN), aclosing(follow(streams, quiet, after=start)) as following:
        async for seen in following:
            assert not seen.events
            if seen.cursor == await ctx.store.feed_end("w"):
                break


async def test_streams_end_with_their_patience_and_with_the_server(
    ctx: ServerContext, streams: Streams, callers: list[Caller]
) -> None:
    start = await ctx.store.feed_end("w")
    async with asyncio.timeout(WITHIN):
        brief = [seen async for seen in follow(streams, callers[0], after=start, patience=0.5)]
        assert 2 <= len(brief) <= 11
        following = follow(streams, callers[0], after=start)
        await anext(following)
        ctx.stopping.set()
        assert [seen async for seen in following] == []
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert "handraise streams" not in names


async def _ask_and_answer(ctx: ServerContext, number: int, chance: random.Random) -> None:
    for n in range(15):
        desk = ctx.desk.scoped("w", asker=f"agent {chance.randrange(AGENTS)}")
        recipients = chance.choice(AUDIENCES)
        posted = await desk.post(f"{number}: {n}?", recipients=recipients)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice((0, 0.002, 0.03)))
        who = (
            Responder("person 0", frozenset({"ops"})) if recipients != ["person 3"] else Responder("person 3")
        )
        await desk.answer(posted.id, "Yes", by=who)


async def _all_events(ctx: ServerContext) -> list[Event]:
    events: list[Event] = []
    while page := await ctx.desk.scoped("w").feed(after=events[-1].cursor if events else None):
        events += page
    return events


def _concerning(caller: Caller, events: list[Event], questions: dict[str, Question]) -> list[str]:
    return [event.cursor for event in events if caller.may_see(questions[event.question_id])]


async def test_a_long_poll_that_ends_without_an_answer_leaves_nothing_for_the_collector(
    ctx: ServerContext, app: FastAPI
) -> None:
    token = await Issuer(ctx.directory).agent("w", "agent 0")
    question = await ctx.desk.scoped("w", asker="agent 0").post("Which one?")
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url=ctx.settings.base_url) as client:
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(3):
                polled = await client.get(
                    f"/v1/questions/{question.id}/outcome?wait=0.02s", headers=bearer(token)
                )
                assert polled.json()["status"] == "pending"
            gc.collect()
            left = {each.f_code.co_name for each in gc.garbage if isinstance(each, FrameType)}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
    assert "_settled" not in left


async def test_a_store_that_is_away_at_a_heartbeat_ends_a_stream_without_a_fault(
    ctx: ServerContext, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await Issuer(ctx.directory).agent("w", "agent 0")
    door = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{door.getsockname()[1]}"

    async def is_away(*_: object) -> None:
        raise StoreUnavailable("it is away")

    async with (
        asyncio.timeout(WITHIN),
        listening(app, door),
        httpx2.AsyncClient(base_url=address) as client,
        client.stream("GET", "/v1/events", headers=bearer(token)) as response,
    ):
        texts = response.aiter_text()
        assert "event: ready" in await anext(texts)
        monkeypatch.setattr(Authenticator, "find", is_away)
        async for text in texts:
            assert text.startswith(": still here")
