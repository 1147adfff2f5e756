"""Hints over PostgreSQL: who is told of feeds, and what that costs where nobody follows one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from handraise.backends.hint_codec import decoded
from handraise.backends.postgres import bus, connections, open_postgres
from handraise.backends.postgres.database import Database
from handraise.model.questions import Ref
from handraise.ports import Backend, feed_of

SOON = 10.0
FEED = feed_of("w")
SETTLED = Ref("w", "1")


class Heard:
    """What one listener heard."""

    def __init__(self) -> None:
        self.topics: set[Ref] = set()
        self._news = asyncio.Event()

    def __call__(self, topics: Collection[Ref] | None) -> None:
        self.topics.update(topics or ())
        self._news.set()

    async def until(self, topic: Ref) -> None:
        async with asyncio.timeout(SOON):
            while topic not in self.topics:
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def here(postgres: str) -> AsyncIterator[Backend]:
    async with open_postgres(postgres) as backend:
        yield backend


@pytest.fixture
async def elsewhere(postgres: str) -> AsyncIterator[Backend]:
    async with open_postgres(postgres) as backend:
        yield backend


@pytest.fixture
async def sent(postgres: str, here: Backend) -> AsyncIterator[Heard]:
    """Everything that is notified, seen by somebody whom no process knows of."""
    assert here
    connection = await asyncpg.connect(postgres)
    await connection.execute("delete from handraise.listeners")
    heard = Heard()
    await connection.add_listener("handraise", lambda *args: heard(decoded(str(args[-1]))))
    yield heard
    await connection.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements that were made without a workspace."""
    names: list[str] = []
    fetch = Database.fetch

    async def noted(database: Database, statement: Any, /, **values: Any) -> list[Any]:
        names.append(statement.name)
        return await fetch(database, statement, **values)

    monkeypatch.setattr(Database, "fetch", noted)
    return names


async def test_whoever_follows_feeds_is_told_of_them(here: Backend, elsewhere: Backend) -> None:
    heard = Heard()
    async with elsewhere.bus.listen(heard, feeds=True):
        await here.bus.wake([FEED, SETTLED])
        await heard.until(SETTLED)
        await heard.until(FEED)


async def test_a_feed_that_nobody_follows_is_not_notified(
    here: Backend, elsewhere: Backend, sent: Heard
) -> None:
    heard = Heard()
    async with elsewhere.bus.listen(heard):
        await here.bus.wake([FEED, SETTLED])
        await heard.until(SETTLED)
        await sent.until(SETTLED)
    assert sent.topics == heard.topics == {SETTLED}


async def test_a_post_pays_nothing_for_a_feed_that_nobody_follows(
    here: Backend, elsewhere: Backend, looks: list[str]
) -> None:
    for _ in range(5):
        await here.bus.wake([FEED])
    assert looks == ["notify"]
    heard = Heard()
    async with elsewhere.bus.listen(heard, feeds=True):
        await here.bus.wake([FEED])
        assert looks == ["notify"], "it was looked again within a second"
        await here.bus.wake([SETTLED, FEED])
        await heard.until(FEED)


async def test_it_is_looked_again_before_long_whether_anybody_follows(
    here: Backend, elsewhere: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "_UNFOLLOWED", 0.0)
    await here.bus.wake([FEED])
    heard = Heard()
    async with elsewhere.bus.listen(heard, feeds=True):
        await here.bus.wake([FEED])
        await heard.until(FEED)


async def test_a_wake_up_about_nothing_is_free(here: Backend, looks: list[str]) -> None:
    await here.bus.wake([])
    assert looks == []


async def test_a_process_does_not_notify_itself(here: Backend, sent: Heard) -> None:
    async with here.bus.listen(Heard(), feeds=True), here.bus.listen(Heard()):
        await here.bus.wake([FEED, SETTLED])
    assert sent.topics == set()


async def test_an_ear_that_closes_leaves_the_others_of_its_process_open(
    here: Backend, elsewhere: Backend
) -> None:
    """Whoever begins to follow feeds opens a second listener, then closes the first."""
    heard = Heard()
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        await first.enter_async_context(elsewhere.bus.listen(heard))
        await second.enter_async_context(elsewhere.bus.listen(heard, feeds=True))
        await first.aclose()
        await here.bus.wake([FEED])
        await heard.until(FEED)


async def test_a_listener_says_why_it_lost_its_connection_and_that_it_has_one_again(
    postgres: str, here: Backend, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "_RETRY", 0.01)
    fails, real = [TimeoutError(), TimeoutError()], connections.alone

    @asynccontextmanager
    async def alone(address: str, purpose: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        if fails:
            raise fails.pop()
        async with real(address, purpose) as acquired:
            yield acquired

    monkeypatch.setattr(bus, "alone", alone)
    plain = await asyncpg.connect(postgres)
    heard = Heard()
    async with here.bus.listen(heard), asyncio.timeout(SOON):
        await plain.execute("delete from handraise.listeners")
        await plain.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'handraise listener' and datname = current_database()"
        )
        while sum("again" in each.getMessage() for each in caplog.records) < 2:
            await asyncio.sleep(0.01)
    await plain.close()
    assert [each.getMessage() for each in caplog.records if "listener" in each.getMessage()] == [
        "the listener lost its connection (TimeoutError); polling until it is back",
        "the listener has a connection again",
        "the listener lost its connection (it was closed); polling until it is back",
        "the listener has a connection again",
    ]
