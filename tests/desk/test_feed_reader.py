"""What the proofs found out about feed_reader, each as small as it gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import cast

import pytest

from handraise import Event
from handraise.desk import feed_reader
from handraise.desk.feed_reader import FeedReader
from handraise.model.errors import StoreUnavailable
from handraise.model.events import EventKind
from handraise.ports import HintHandler, Interest, Store, feed_of

WITHIN = 10.0
NEVER = 3_600.0
TOPIC = [feed_of("w")]


class Book:
    """A feed whose events come to light one by one, and a count of how often it was read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.held_back: list[Event] = []
        self.reads = 0
        self.failing: dict[str, Exception] = {}

    async def feed_end(self, workspace: str) -> str:
        self._fail(workspace)
        return str(len(self.events))

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        self.reads += 1
        self._fail(workspace)
        found = self.events[int(after or "0") :][:limit]
        await asyncio.sleep(0)
        # What an older transaction held back is there the next time, and nobody tells of it again.
        self.events += self.held_back
        self.held_back = []
        return found

    def _fail(self, workspace: str) -> None:
        if error := self.failing.get(workspace):
            raise error

    def write(self, number: int) -> list[Event]:
        first = len(self.events) + 1
        return [
            Event(
                cursor=str(first + n),
                workspace="w",
                question_id="q",
                kind=EventKind.ASKED,
                at=datetime.now(UTC),
            )
            for n in range(number)
        ]


@asynccontextmanager
async def deaf(on_hint: HintHandler) -> AsyncIterator[None]:
    del on_hint
    yield


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
async def feeds(book: Book) -> AsyncIterator[FeedReader]:
    feeds = FeedReader(cast("Store", book), deaf, poll_interval=NEVER, interest=Interest())
    yield feeds
    await feeds.close()


async def first(
    feeds: FeedReader, number: int, *, after: str | None = None, workspace: str = "w"
) -> list[str]:
    """The cursors of so many events."""
    seen: list[str] = []
    async with asyncio.timeout(WITHIN), aclosing(feeds.follow(workspace, after=after)) as pages:
        async for page in pages:
            seen += [event.cursor for event in page]
            if len(seen) >= number:
                break
    return seen


async def test_what_an_older_transaction_holds_back_comes_without_being_told_of_again(
    book: Book, feeds: FeedReader
) -> None:
    follower = asyncio.create_task(first(feeds, 2))
    await asyncio.sleep(0.05)  # it follows, and has looked in vain
    one, other = book.write(2)
    book.events.append(one)
    book.held_back.append(other)
    feeds.mark_dirty(TOPIC)
    feeds.mark_dirty(TOPIC)
    assert await follower == ["1", "2"]


async def test_of_many_who_come_back_to_one_place_one_reads_the_store(book: Book, feeds: FeedReader) -> None:
    book.events = book.write(10)
    followers = [asyncio.create_task(first(feeds, 10, after="3")) for _ in range(100)]
    await asyncio.sleep(0.05)
    book.events += book.write(3)
    feeds.mark_dirty(TOPIC)
    assert await asyncio.gather(*followers) == [[str(n) for n in range(4, 14)]] * 100
    assert book.reads < 20


async def test_a_slow_follower_gets_what_the_tail_has_let_go_of(
    book: Book, feeds: FeedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_reader, "_KEPT", 4)
    async with asyncio.timeout(WITHIN), aclosing(feeds.follow("w", after=None)) as slow:
        coming = asyncio.create_task(anext(slow))
        fast = asyncio.create_task(first(feeds, 60))
        await asyncio.sleep(0.05)
        for _ in range(20):
            book.events += book.write(3)
            feeds.mark_dirty(TOPIC)
            await asyncio.sleep(0.01)
        wanted = [str(n) for n in range(1, 61)]
        assert await fast == wanted
        seen = [event.cursor for event in await coming]
        while len(seen) < 60:
            seen += [event.cursor for event in await anext(slow)]
        assert seen == wanted


async def test_a_follower_outlives_a_store_that_cannot_be_reached(book: Book) -> None:
    book.failing["w"] = StoreUnavailable("planted")
    feeds = FeedReader(cast("Store", book), deaf, poll_interval=0.01, interest=Interest())
    follower = asyncio.create_task(first(feeds, 3, after="0"))
    await asyncio.sleep(0.05)
    assert not follower.done()
    book.events = book.write(3)
    del book.failing["w"]
    assert await follower == ["1", "2", "3"]
    await feeds.close()


async def test_a_feed_that_cannot_be_read_does_not_hold_up_the_others(book: Book, feeds: FeedReader) -> None:
    broken = asyncio.create_task(first(feeds, 1, workspace="broken"))
    whole = asyncio.create_task(first(feeds, 1))
    await asyncio.sleep(0.05)
    book.failing["broken"] = ValueError("planted")
    book.events = book.write(1)
    feeds.mark_dirty([feed_of("broken"), *TOPIC])
    assert await whole == ["1"]
    assert not broken.done()
    broken.cancel()
    await asyncio.gather(broken, return_exceptions=True)
