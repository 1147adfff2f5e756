"""The contract of a bus: hints reach the other processes, and lost hints only cost time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest

from handraise.ports import Bus, Interest, feed_of
from handraise.questions import Ref
from handraise.testing.contract.backend import SOON

SETTLED, FEED = Ref("w", "q-1"), feed_of("w")


class Buses(NamedTuple):
    """Two buses of two processes on one store."""

    here: Bus
    elsewhere: Bus


class RecordingListener:
    """Keeps the received hints."""

    def __init__(self) -> None:
        self.topics: set[Ref] = set()
        self.gaps = 0
        self._news = asyncio.Event()

    def __call__(self, topics: Collection[Ref] | None) -> None:
        self.gaps += topics is None
        self.topics.update(topics or ())
        self._news.set()

    async def hears(self, *topics: Ref) -> None:
        """Wait until all of these were received."""
        async with asyncio.timeout(SOON):
            while not self.topics.issuperset(topics):
                self._news.clear()
                await self._news.wait()

    async def hears_of_a_gap(self) -> None:
        """Wait for the next hint that anything may have changed."""
        before = self.gaps
        async with asyncio.timeout(SOON):
            while self.gaps == before:
                self._news.clear()
                await self._news.wait()


class BusContract:
    """What `handraise.ports.Bus` promises, on the buses of the `buses` fixture."""

    @pytest.fixture
    def buses(self) -> Buses:
        raise NotImplementedError("A contract class needs a `buses` fixture.")

    async def test_a_hint_reaches_another_process_at_once_after_listening_began(self, buses: Buses) -> None:
        for n in range(20):
            listener = RecordingListener()
            async with buses.elsewhere.listen(listener):
                await buses.here.wake([Ref("w", f"q-{n}")])
                await listener.hears(Ref("w", f"q-{n}"))

    async def test_whoever_follows_feeds_hears_of_both_kinds(self, buses: Buses) -> None:
        listener = RecordingListener()
        async with buses.elsewhere.listen(listener, feeds=True):
            await buses.here.wake([FEED, SETTLED])
            await listener.hears(FEED, SETTLED)

    async def test_a_workspace_of_interest_is_heard_of_before_and_after_listening_began(
        self, buses: Buses
    ) -> None:
        listener, interest = RecordingListener(), Interest()
        interest.add("w", lambda: None)
        async with buses.elsewhere.listen(listener, feeds=True, interest=interest), asyncio.timeout(SOON):
            await buses.here.wake([FEED, SETTLED])
            await listener.hears(FEED, SETTLED)
            interest.add("v", lambda: None)
            while not listener.topics.issuperset([feed_of("v"), Ref("v", "q-1")]):
                await buses.here.wake([feed_of("v"), Ref("v", "q-1")])
                await asyncio.sleep(0.01)

    async def test_shared_feeds_are_those_of_all_workspaces(self, buses: Buses) -> None:
        listener = RecordingListener()
        async with buses.elsewhere.listen(listener, shared_feeds=True, interest=Interest()):
            await buses.here.wake([feed_of(f"w {n}") for n in range(20)])
            await listener.hears(*(feed_of(f"w {n}") for n in range(20)))

    async def test_both_ways_at_once(self, buses: Buses) -> None:
        one, other = RecordingListener(), RecordingListener()
        async with buses.here.listen(one), buses.elsewhere.listen(other):
            await asyncio.gather(
                *(bus.wake([Ref(f"from {n}", f"q-{i}")]) for i in range(20) for n, bus in enumerate(buses))
            )
            await other.hears(*(Ref("from 0", f"q-{i}") for i in range(20)))
            await one.hears(*(Ref("from 1", f"q-{i}") for i in range(20)))

    async def test_thousands_of_topics_of_many_workspaces_all_arrive(self, buses: Buses) -> None:
        topics = [Ref(f"workspace {n % 7}", f"{n:036}") for n in range(3_000)]
        listener = RecordingListener()
        async with buses.elsewhere.listen(listener):
            for start in range(0, len(topics), 1_000):
                await buses.here.wake(topics[start : start + 1_000])
                await listener.hears(*topics[start : start + 1_000])

    @pytest.mark.parametrize(
        "text", ["ä \u2603 \U0001f64b", "\"'\\", "a\r\nPUB x 1\r\n", "*.>", "'; select 1 --"]
    )
    async def test_any_text_may_be_a_workspace_or_an_id(self, buses: Buses, text: str) -> None:
        listener = RecordingListener()
        async with buses.elsewhere.listen(listener, feeds=True):
            await buses.here.wake([Ref(text, text), feed_of(text)])
            await listener.hears(Ref(text, text), feed_of(text))

    async def test_a_hint_that_nobody_hears_and_one_about_nothing_do_no_harm(self, buses: Buses) -> None:
        await buses.here.wake([SETTLED, FEED])
        await buses.here.wake([])
        listener = RecordingListener()
        async with buses.elsewhere.listen(listener):
            await buses.here.wake([])
            await buses.here.wake([SETTLED])
            await listener.hears(SETTLED)

    async def test_whoever_listens_no_more_hears_no_more_and_the_others_do(self, buses: Buses) -> None:
        gone, stays = RecordingListener(), RecordingListener()
        async with AsyncExitStack() as listening, buses.elsewhere.listen(stays, feeds=True):
            await listening.enter_async_context(buses.elsewhere.listen(gone))
            await buses.here.wake([SETTLED])
            await asyncio.gather(gone.hears(SETTLED), stays.hears(SETTLED))
            await listening.aclose()
            await buses.here.wake([Ref("w", "q-2"), FEED])
            await stays.hears(Ref("w", "q-2"), FEED)
        assert gone.topics == {SETTLED}

    async def test_a_wake_up_that_is_cancelled_leaves_the_bus_in_order(self, buses: Buses) -> None:
        listener = RecordingListener()
        async with buses.elsewhere.listen(listener):
            for n in range(10):
                waking = asyncio.create_task(buses.here.wake([Ref("w", f"cancelled {n}")]))
                for _ in range(n):
                    await asyncio.sleep(0)
                waking.cancel()
                await asyncio.gather(waking, return_exceptions=True)
            await buses.here.wake([SETTLED])
            await listener.hears(SETTLED)
