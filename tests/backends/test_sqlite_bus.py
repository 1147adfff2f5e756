"""The doorbell of SQLite: who is told of what, and what it costs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from handraise.backends.sqlite import bus, open_sqlite, statements
from handraise.ports import Bus, feed_of
from handraise.questions import Ref

SOON = 10.0
SETTLED, FEED = Ref("w", "q-1"), feed_of("w")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "questions.db"


@pytest.fixture
async def here(file: Path) -> AsyncIterator[Bus]:
    async with open_sqlite(file) as backend:
        yield backend.bus


@pytest.fixture
async def there(file: Path) -> AsyncIterator[Bus]:
    """The bus of another process on the same file."""
    async with open_sqlite(file) as backend:
        yield backend.bus


class RecordingListener:
    """Keeps what was heard."""

    def __init__(self) -> None:
        self.heard: list[Ref | None] = []
        self._news = asyncio.Event()

    def __call__(self, topics: Collection[Ref] | None) -> None:
        self.heard += [None] if topics is None else topics
        self._news.set()

    async def hears(self, topic: Ref) -> None:
        async with asyncio.timeout(SOON):
            while topic not in self.heard:
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of the bus, by its name."""
    seen: list[str] = []

    def run(connection: sqlite3.Connection, name: str, /, **values: object) -> list[sqlite3.Row]:
        seen.append(name)
        return statements.run(connection, name, **values)

    monkeypatch.setattr(bus, "run", run)
    return seen


async def test_a_post_pays_nothing_for_a_feed_that_nobody_follows(
    here: Bus, there: Bus, looks: list[str]
) -> None:
    for _ in range(5):
        await here.wake([FEED])
    assert looks == ["listeners"]
    listener = RecordingListener()
    async with there.listen(listener, feeds=True):
        looks.clear()
        await here.wake([FEED])
        assert looks == [], "it was looked again within a second"
        await here.wake([SETTLED, FEED])
        await listener.hears(FEED)


async def test_it_is_looked_again_before_long_whether_anybody_follows(
    here: Bus, there: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "_UNFOLLOWED", 0.0)
    await here.wake([FEED])
    listener = RecordingListener()
    async with there.listen(listener, feeds=True):
        await here.wake([FEED])
        await listener.hears(FEED)


async def test_whoever_follows_feeds_hears_of_both_kinds(here: Bus, there: Bus) -> None:
    listener = RecordingListener()
    async with there.listen(listener, feeds=True):
        await here.wake([SETTLED, FEED])
        await listener.hears(SETTLED)
        await listener.hears(FEED)
    assert sorted(filter(None, listener.heard)) == [FEED, SETTLED]


async def test_whoever_does_not_follow_feeds_is_left_alone(here: Bus, there: Bus) -> None:
    waiting, following = RecordingListener(), RecordingListener()
    async with there.listen(waiting), there.listen(following, feeds=True):
        await here.wake([FEED])
        await following.hears(FEED)
        await here.wake([SETTLED])
        await waiting.hears(SETTLED)
        await following.hears(SETTLED)
    assert waiting.heard == [SETTLED]


async def test_an_ear_that_closes_leaves_the_one_opened_beside_it(here: Bus, there: Bus) -> None:
    old, new = RecordingListener(), RecordingListener()
    first, second = there.listen(old), there.listen(new, feeds=True)
    await first.__aenter__()
    async with second:
        await first.__aexit__(None, None, None)
        await here.wake([SETTLED, FEED])
        await new.hears(SETTLED)
        await new.hears(FEED)
    assert old.heard == []


async def test_a_process_is_not_told_what_it_said_itself(here: Bus, there: Bus) -> None:
    own, others = RecordingListener(), RecordingListener()
    async with here.listen(own, feeds=True), there.listen(others, feeds=True):
        await here.wake([FEED])
        await others.hears(FEED)
        await there.wake([SETTLED])
        await own.hears(SETTLED)
    assert own.heard == [SETTLED]


async def test_nobody_is_told_who_listens_no_more(here: Bus, there: Bus) -> None:
    listener, witness = RecordingListener(), RecordingListener()
    async with there.listen(witness, feeds=True):
        async with there.listen(listener, feeds=True):
            pass
        await here.wake([FEED])
        await witness.hears(FEED)
    assert listener.heard == []


async def test_a_hint_takes_no_turn_at_the_lock(here: Bus, there: Bus, file: Path) -> None:
    listener = RecordingListener()
    async with there.listen(listener, feeds=True):
        gate = os.open(f"{file}-lock", os.O_RDWR)
        fcntl.flock(gate, fcntl.LOCK_EX)
        try:
            async with asyncio.timeout(SOON):
                await here.wake([SETTLED, FEED])
            await listener.hears(FEED)
        finally:
            os.close(gate)
