"""Feeds of events: one reader for all followers in a process.

A tail keeps the newest events of a workspace while anybody follows it. A follower whose place is in the tail
reads from there; one that is further behind reads the store until it has caught up, and shares its reads with
all followers at the same place. No follower has its own queue, so a slow one costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from itertools import islice

from handraise.model.errors import DeskClosed, StoreUnavailable
from handraise.model.events import Event
from handraise.model.questions import Ref
from handraise.ports import HintHandler, Interest, Store, feed_of

_log = logging.getLogger(__name__)

_PAGE = 500
_KEPT = 2_500
_SOON = 0.005


class FeedReader:
    """The tails of every followed workspace, and the one task that reads for all of them."""

    def __init__(
        self,
        store: Store,
        listen: Callable[[HintHandler], AbstractAsyncContextManager[None]],
        *,
        poll_interval: float,
        interest: Interest,
    ) -> None:
        """`interest` is kept in step with the workspaces that are followed."""
        self._store = store
        self._listen = listen
        self._poll_interval = poll_interval
        self._interest = interest
        self.when_away: set[Callable[[], None]] = set()
        """What is called when the store cannot be reached. Afterwards it may have lost what its followers have seen."""
        self._tails: dict[str, _Tail] = {}
        self._wakeup = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

    async def follow(self, workspace: str, *, after: str | None) -> AsyncGenerator[Sequence[Event], None]:
        """Yield the events of a workspace as they come, in lists.

        From after the cursor `after` (empty is the beginning), or from now on.
        """
        if self._closed:
            raise DeskClosed
        if (tail := self._tails.get(workspace)) is None:
            tail = self._tails[workspace] = _Tail(workspace)
            self._interest.add(workspace, partial(self._look_again, tail))
        tail.followers += 1
        try:
            if self._reader is None:
                self._reader = asyncio.create_task(self._read_for_all(), name="handraise feeds")
            place = after
            while not self._closed:
                try:
                    now = await self._begun(tail)
                    place = now if place is None else place
                    news = tail.news
                    events = await self._behind(tail, place)
                except StoreUnavailable as error:
                    _log.warning(
                        "the store cannot be reached (%s); a follower waits for it",
                        error,
                        extra={"event": "store_unreachable"},
                    )
                    await asyncio.sleep(self._poll_interval)
                    continue
                if events:
                    yield events
                    place = events[-1].cursor
                elif not self._closed:  # it may have been closed while this read, and told `news` before that
                    await news.wait()
            raise DeskClosed
        finally:
            tail.followers -= 1
            if not tail.followers:
                del self._tails[workspace]
                self._interest.discard(workspace)

    def lag(self) -> float:
        """Seconds since the feed was read for which that is longest; 0 if none is followed."""
        now = time.monotonic()
        return max((now - tail.read_at for tail in self._tails.values()), default=0.0)

    async def behind(self, workspace: str, place: str) -> Sequence[Event]:
        """Return a page of the events after a cursor; the same page for all followers at that cursor."""
        return await self._behind(self._tails.get(workspace) or _Tail(workspace), place)

    def mark_dirty(self, topics: Collection[Ref] | None) -> None:
        """Read the followed feeds of these workspaces again soon; None means all."""
        if topics is None:
            topics = [feed_of(workspace) for workspace in self._tails]
        for ref in topics:
            if tail := self._tails.get(ref.workspace):
                tail.awaited += not ref.id
                self._look_again(tail)

    def _look_again(self, tail: _Tail) -> None:
        tail.look_at, tail.pause = 0.0, _SOON
        self._wakeup.set()

    async def close(self) -> None:
        """End every follow with `DeskClosed`."""
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        for tail in self._tails.values():
            tail.tell()

    async def _begun(self, tail: _Tail) -> str:
        """The end of a tail; if several followers start it at once, only one asks the store."""
        async with tail.beginning:
            if tail.end is None:
                tail.begin(await self._store.feed_end(tail.workspace))
                self._wakeup.set()
            return tail.end or ""

    async def _read_for_all(self) -> None:
        async with AsyncExitStack() as listening:
            try:
                await listening.enter_async_context(self._listen(self.mark_dirty))
            except DeskClosed:
                return
            except Exception as error:  # noqa: BLE001 -- a bus only makes waits faster; its errors change nothing else
                _log.warning(
                    "no hints can be received; followers find out by polling",
                    exc_info=error,
                    extra={"event": "hints_off"},
                )
            self.mark_dirty(None)
            next_poll = time.monotonic() + self._poll_interval
            while True:
                await self._wait_for_wakeup(next_poll)
                if time.monotonic() >= next_poll:
                    for tail in self._tails.values():
                        tail.look_at, tail.awaited = 0.0, 0
                    next_poll = time.monotonic() + self._poll_interval
                try:
                    await self._look()
                except DeskClosed:
                    return
                except StoreUnavailable as error:
                    _log.warning(
                        "the store cannot be reached (%s); followers wait for it",
                        error,
                        extra={"event": "store_unreachable"},
                    )
                    for call in tuple(self.when_away):
                        call()
                    await asyncio.sleep(self._poll_interval)
                except Exception as error:  # noqa: BLE001 -- every follower depends on this task
                    _log.error(
                        "reading for all followers failed; trying again",
                        exc_info=error,
                        extra={"event": "feed_failed"},
                    )
                    await asyncio.sleep(self._poll_interval)

    async def _wait_for_wakeup(self, next_poll: float) -> None:
        """Wait until something happens, or it is time to look again."""
        until = min(
            (tail.look_at for tail in self._tails.values() if tail.end is not None), default=next_poll
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(max(min(until, next_poll) - time.monotonic(), 0)):
                await self._wakeup.wait()
        self._wakeup.clear()

    async def _look(self) -> None:
        """Read the new events of every feed that is due."""
        now = time.monotonic()
        for tail in [tail for tail in self._tails.values() if tail.look_at <= now and tail.end is not None]:
            tail.look_at = math.inf
            try:
                await self._read_to_the_end(tail)
            except (DeskClosed, StoreUnavailable):
                raise
            except Exception as error:  # noqa: BLE001 -- one feed that cannot be read must not hold up the others
                _log.error(
                    "a feed cannot be read; its followers wait",
                    exc_info=error,
                    extra={"event": "feed_failed"},
                )
                continue
            if tail.awaited > 0 and tail.pause < self._poll_interval:
                # An announced event may wait for an older transaction: look again, with growing pauses.
                tail.look_at = min(tail.look_at, time.monotonic() + tail.pause)
                tail.pause *= 3

    async def _read_to_the_end(self, tail: _Tail) -> None:
        while events := await self._store.feed(tail.workspace, after=tail.end or None, limit=_PAGE):
            tail.add(events)
            if len(events) < _PAGE:
                break
        tail.read_at = time.monotonic()

    async def _behind(self, tail: _Tail, place: str) -> Sequence[Event]:
        """The events after a place; if several followers at this place are behind the tail, one reads the store.

        Sharing the page loses nothing: all of them then wait for the same `news`, which comes after the read began.
        """
        events = tail.behind(place)
        if events is not None:
            return events
        reads = tail.reads
        if place not in reads:
            reads[place] = asyncio.ensure_future(
                self._store.feed(tail.workspace, after=place or None, limit=_PAGE)
            )
            reads[place].add_done_callback(lambda _: reads.pop(place))
        return await asyncio.shield(reads[place])


class _Tail:
    """The newest events of one workspace, and the positions of their cursors.

    `awaited` is how many announced events have not arrived since the last poll.
    """

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self.followers = 0
        self.look_at = 0.0
        self.read_at = time.monotonic()
        self.pause = _SOON
        self.awaited = 0
        self.end: str | None = None
        self.news = asyncio.Event()
        self.reads: dict[str, asyncio.Future[Sequence[Event]]] = {}
        self.beginning = asyncio.Lock()
        self._events: list[Event] = []
        self._first = 0
        self._places: dict[str, int] = {}
        self._pages: dict[int, Sequence[Event]] = {}

    def begin(self, end: str) -> None:
        """Start empty, after everything that happened before."""
        self.end = end
        self._places[end] = 0

    def add(self, events: Sequence[Event]) -> None:
        """Append events, drop the oldest, and wake the followers."""
        for event in events:
            self._events.append(event)
            self._places[event.cursor] = self._first + len(self._events)
        self.end = events[-1].cursor
        self.awaited = max(0, self.awaited - len(events))
        if len(self._events) > 2 * _KEPT:
            for cursor in list(islice(self._places, len(self._events) - _KEPT)):
                del self._places[cursor]
            self._first += len(self._events) - _KEPT
            del self._events[:-_KEPT]
        self._pages.clear()
        self.tell()

    def behind(self, cursor: str) -> Sequence[Event] | None:
        """Up to a page of events after a cursor; None if the tail does not reach back that far."""
        place = self._places.get(cursor)
        if place is None:
            return None
        page = self._pages.get(place)
        if page is None:  # most followers are at the same place
            page = self._pages[place] = self._events[place - self._first : place - self._first + _PAGE]
        return page

    def tell(self) -> None:
        """Wake every follower that waits for new events."""
        self.news.set()
        self.news = asyncio.Event()
        self.reads = {}
