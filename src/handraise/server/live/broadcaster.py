"""Live events for thousands of streams in a process.

One broadcaster follows a workspace for all of its streams. It filters new events once for all callers who see the
same, and wakes only the streams that get some; the others only move their cursor. A stream that is behind, because
it started at an old cursor or was read slowly, catches up by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Hashable
from contextlib import aclosing, asynccontextmanager, suppress
from math import inf
from typing import Annotated

from fastapi import Depends, Request

from handraise.model.errors import DeskClosed, StoreUnavailable
from handraise.server.auth.authenticator import Caller
from handraise.server.context import ServerContext
from handraise.server.live.visibility import RenderedPage, VisibilityCache, VisibleEvents

_log = logging.getLogger(__name__)


class Streams:
    """Every stream of a process."""

    def __init__(self, ctx: ServerContext, visibility: VisibilityCache) -> None:
        self._context = ctx
        self._visibility = visibility
        self._broadcasters: dict[str, _FeedBroadcaster] = {}

    async def follow(
        self, caller: Caller, *, after: str, patience: float = inf
    ) -> AsyncGenerator[VisibleEvents, None]:
        """Yield the caller's events after a cursor, for `patience` seconds or until the server stops.

        At every heartbeat it yields a value without events, so that the stream can check the caller's rights again.
        It ends if the store is unavailable; the client reconnects with its cursor.
        """
        with suppress(DeskClosed, StoreUnavailable):
            async with self._broadcaster(caller.workspace) as broadcaster:
                subscriber = _Subscriber(caller, after, self._context.settings.heartbeat, patience)
                try:
                    while not (broadcaster.is_over or subscriber.is_over):
                        if subscriber.heartbeat_due:
                            subscriber.start_heartbeat()
                            yield VisibleEvents(subscriber.cursor)
                        elif (events := await self._next(broadcaster, subscriber)).events:
                            yield events
                finally:
                    subscriber.stop()

    async def _next(self, broadcaster: _FeedBroadcaster, subscriber: _Subscriber) -> VisibleEvents:
        """Return the next events, or none and a later cursor."""
        at, feeds = broadcaster.cursor, self._context.engine.feeds
        if subscriber.cursor != at and (
            page := await feeds.behind(subscriber.caller.workspace, subscriber.cursor)
        ):
            events = (await self._visibility.render(page)).visible_to(subscriber.caller)
        elif broadcaster.cursor == at:
            events = await broadcaster.wait(subscriber)
        else:
            events = VisibleEvents(subscriber.cursor)  # the broadcaster has moved: read again
        subscriber.cursor = events.cursor
        return events

    @asynccontextmanager
    async def _broadcaster(self, workspace: str) -> AsyncIterator[_FeedBroadcaster]:
        """Share the broadcaster of a workspace; it is closed with its last stream."""
        broadcaster = self._broadcasters.get(workspace)
        if broadcaster is None or broadcaster.is_over:
            broadcaster = self._broadcasters[workspace] = _FeedBroadcaster(
                self._context, self._visibility, workspace
            )
        broadcaster.streams += 1
        try:
            await broadcaster.started.wait()
            yield broadcaster
        finally:
            broadcaster.streams -= 1
            if not broadcaster.streams:
                if self._broadcasters.get(workspace) is broadcaster:
                    del self._broadcasters[workspace]
                await broadcaster.close()


class _FeedBroadcaster:
    """Follows a workspace for all of its streams."""

    def __init__(self, ctx: ServerContext, visibility: VisibilityCache, workspace: str) -> None:
        self.cursor = ""
        self.started = asyncio.Event()
        self.is_over = False
        self.streams = 0
        self._context = ctx
        self._visibility = visibility
        self._workspace = workspace
        self._caught_up: dict[Hashable, set[_Subscriber]] = {}
        self._ahead: set[_Subscriber] = set()
        self._task = asyncio.create_task(self._follow(), name="handraise streams")

    async def wait(self, subscriber: _Subscriber) -> VisibleEvents:
        """Wait for the next events of a stream; returns none when its heartbeat is due.

        The cursor of a stream that has caught up moves with the broadcaster's. A stream that is ahead, because it has
        read the store itself, is woken as soon as the broadcaster moves.
        """
        visibility_key = subscriber.caller.visibility_key
        is_caught_up = subscriber.cursor == self.cursor
        subscribers = self._caught_up.setdefault(visibility_key, set()) if is_caught_up else self._ahead
        subscribers.add(subscriber)
        try:
            return await subscriber.next_events()
        finally:
            subscribers.discard(subscriber)
            if not subscribers and self._caught_up.get(visibility_key) is subscribers:
                del self._caught_up[visibility_key]

    async def close(self) -> None:
        """Stop following."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        ctx = self._context
        stopping = asyncio.ensure_future(ctx.stopping.wait())
        stopping.add_done_callback(lambda _: self._end())
        try:
            self.cursor = await ctx.store.feed_end(self._workspace)
            self.started.set()
            async with aclosing(ctx.engine.feeds.follow(self._workspace, after=self.cursor)) as pages:
                async for page in pages:
                    self._publish(await self._visibility.render(page))
        except (DeskClosed, StoreUnavailable):
            pass
        except Exception as error:  # noqa: BLE001 -- every stream depends on this task, and clients come back
            _log.error("the streams of a workspace cannot continue; they end", exc_info=error)
        finally:
            stopping.cancel()
            self._end()

    def _publish(self, page: RenderedPage) -> None:
        for subscribers in self._caught_up.values():
            events = page.visible_to(next(iter(subscribers)).caller)
            for subscriber in subscribers:
                subscriber.deliver(events)
        self.cursor = page.cursor
        for subscriber in self._ahead:
            subscriber.wake()

    def _end(self) -> None:
        self.is_over = True
        self.started.set()
        for subscribers in (self._ahead, *self._caught_up.values()):
            for subscriber in subscribers:
                subscriber.wake()


class _Subscriber:
    """One stream: its caller, its cursor and the future that wakes it."""

    def __init__(self, caller: Caller, cursor: str, heartbeat: float, patience: float) -> None:
        self.caller = caller
        self.cursor = cursor
        self.heartbeat_due = False
        self._interval = heartbeat
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + patience
        self._wakeup: asyncio.Future[VisibleEvents] = self._loop.create_future()
        self.start_heartbeat()

    @property
    def is_over(self) -> bool:
        """Whether its patience is used up."""
        return self._loop.time() >= self._until

    def start_heartbeat(self) -> None:
        """Start the timer of the next heartbeat."""
        self.heartbeat_due = False
        self._heartbeat_timer = self._loop.call_later(
            min(self._interval, max(self._until - self._loop.time(), 0)), self._on_heartbeat
        )

    def stop(self) -> None:
        """Stop the timer."""
        self._heartbeat_timer.cancel()

    async def next_events(self) -> VisibleEvents:
        """Wait until the stream is woken."""
        self._wakeup = self._loop.create_future()
        if self.heartbeat_due:
            self.wake()
        return await self._wakeup

    def deliver(self, events: VisibleEvents) -> None:
        """Wake the stream with new events, or move its cursor past the events of others.

        A stream that was already woken keeps the events that it was woken with.
        """
        if events.events:
            self.wake(events)
        else:
            self.cursor = events.cursor

    def wake(self, events: VisibleEvents | None = None) -> None:
        """Wake the stream."""
        if not self._wakeup.done():
            self._wakeup.set_result(events or VisibleEvents(self.cursor))

    def _on_heartbeat(self) -> None:
        # A timer may fire a little early, so a flag decides and not the clock.
        self.heartbeat_due = True
        self.wake()


async def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


StreamsDep = Annotated[Streams, Depends(_streams)]
