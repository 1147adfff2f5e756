"""Live events for thousands of streams in a process.

One broadcaster follows a workspace for all of its streams. It filters new events once for all callers who see the
same, and wakes only the streams that get some; the others only move their cursor. A stream that is behind, because
it started at an old cursor or was read slowly, catches up by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Hashable
from contextlib import aclosing, suppress
from math import inf
from typing import Annotated

from fastapi import Depends, Request

from handraise.model.errors import DeskClosed, StoreUnavailable
from handraise.server.auth.authenticator import Caller
from handraise.server.context import ServerContext
from handraise.server.live.stream_credentials import StreamCredentials
from handraise.server.live.stream_heartbeats import StreamHeartbeats
from handraise.server.live.visibility import RenderedPage, VisibilityCache, VisibleEvents
from handraise.wire.credentials import Token

_log = logging.getLogger(__name__)


class Streams:
    """Every stream of a process."""

    def __init__(
        self, ctx: ServerContext, visibility: VisibilityCache, credentials: StreamCredentials
    ) -> None:
        self.context = ctx
        self.visibility = visibility
        self.credentials = credentials
        self.heartbeats = StreamHeartbeats(ctx.settings.heartbeat)
        self._broadcasters: dict[str, _FeedBroadcaster] = {}

    async def subscribe(
        self, caller: Caller, token: Token, *, after: str, gone: asyncio.Future[None] | None = None
    ) -> Subscription:
        """Subscribe to the caller's events after a cursor. Close the subscription at the end.

        It ends when the server stops, when the token does not give the caller their rights any more, or when `gone` is
        done.
        """
        broadcaster = self._enter_broadcaster(caller.workspace)
        try:
            await broadcaster.started.wait()
        except BaseException:
            await self.leave_broadcaster(broadcaster)
            raise
        return Subscription(self, broadcaster, caller, token, cursor=after, gone=gone)

    async def follow(
        self,
        caller: Caller,
        token: Token,
        *,
        after: str,
        patience: float = inf,
        gone: asyncio.Future[None] | None = None,
    ) -> AsyncGenerator[VisibleEvents, None]:
        """Yield what `Subscription.next` returns, for `patience` seconds at most."""
        subscription = await self.subscribe(caller, token, after=after, gone=gone)
        loop = asyncio.get_running_loop()
        over = None if patience == inf else loop.call_later(patience, subscription.end)
        try:
            while (events := await subscription.next()) is not None:
                yield events
        finally:
            if over is not None:
                over.cancel()
            await subscription.close()

    def _enter_broadcaster(self, workspace: str) -> _FeedBroadcaster:
        """Share the broadcaster of a workspace."""
        broadcaster = self._broadcasters.get(workspace)
        if broadcaster is None or broadcaster.is_over:
            broadcaster = _FeedBroadcaster(self.context, self.visibility, workspace)
            self._broadcasters[workspace] = broadcaster
        broadcaster.streams += 1
        return broadcaster

    async def leave_broadcaster(self, broadcaster: _FeedBroadcaster) -> None:
        """Close a broadcaster with its last stream."""
        broadcaster.streams -= 1
        if not broadcaster.streams:
            if self._broadcasters.get(broadcaster.workspace) is broadcaster:
                del self._broadcasters[broadcaster.workspace]
            await broadcaster.close()


class _FeedBroadcaster:
    """Follows a workspace for all of its streams."""

    def __init__(self, ctx: ServerContext, visibility: VisibilityCache, workspace: str) -> None:
        self.cursor = ""
        self.started = asyncio.Event()
        self.is_over = False
        self.streams = 0
        self.workspace = workspace
        self._context = ctx
        self._visibility = visibility
        self._caught_up: dict[Hashable, set[Subscription]] = {}
        self._ahead: set[Subscription] = set()
        self._task = asyncio.create_task(self._follow(), name="handraise streams")

    async def wait(self, subscriber: Subscription) -> VisibleEvents:
        """Wait for the next events of a stream; returns none when it is woken for something else.

        The cursor of a stream that has caught up moves with the broadcaster's. A stream that is ahead, because it has
        read the store itself, is woken as soon as the broadcaster moves.
        """
        visibility_key = subscriber.caller.visibility_key
        is_caught_up = subscriber.cursor == self.cursor
        subscribers = self._caught_up.setdefault(visibility_key, set()) if is_caught_up else self._ahead
        subscribers.add(subscriber)
        try:
            return await subscriber.woken()
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
        # After a fail-over the store may have lost events: clients that come back read again what they wait for.
        ctx.engine.feeds.when_away.add(self._end)
        try:
            self.cursor = await ctx.store.feed_end(self.workspace)
            self.started.set()
            async with aclosing(ctx.engine.feeds.follow(self.workspace, after=self.cursor)) as pages:
                async for page in pages:
                    self._publish(await self._visibility.render(page))
        except (DeskClosed, StoreUnavailable):
            pass
        except Exception as error:  # noqa: BLE001 -- every stream depends on this task, and clients come back
            _log.error(
                "the streams of a workspace cannot continue; they end",
                exc_info=error,
                extra={"event": "streams_ended"},
            )
        finally:
            ctx.engine.feeds.when_away.discard(self._end)
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


class Subscription:
    """One stream: its caller, its cursor and the future that wakes it."""

    __slots__ = (
        "_broadcaster",
        "_group",
        "_heartbeat_due",
        "_is_over",
        "_streams",
        "_wakeup",
        "caller",
        "cursor",
        "token",
    )

    def __init__(
        self,
        streams: Streams,
        broadcaster: _FeedBroadcaster,
        caller: Caller,
        token: Token,
        *,
        cursor: str,
        gone: asyncio.Future[None] | None,
    ) -> None:
        self.caller = caller
        self.token = token
        self.cursor = cursor
        self._streams = streams
        self._broadcaster = broadcaster
        self._heartbeat_due = self._is_over = False
        self._wakeup: asyncio.Future[VisibleEvents] | None = None
        self._group = streams.heartbeats.add(self)
        streams.credentials.add(self)
        if gone is not None:
            gone.add_done_callback(self._on_gone)

    async def next(self) -> VisibleEvents | None:
        """Return the next events. Without events it is a heartbeat, with the cursor so far. None is the end.

        It also ends if the store is or was unavailable; the client reconnects with its cursor, and reads again.
        """
        with suppress(DeskClosed, StoreUnavailable):
            while not (self._is_over or self._broadcaster.is_over):
                if self._heartbeat_due:
                    self._heartbeat_due = False
                    return VisibleEvents(self.cursor)
                events = await self._read()
                self.cursor = events.cursor
                if events.events:
                    return events
        return None

    async def close(self) -> None:
        """End it, and forget it."""
        self.end()
        self._streams.heartbeats.remove(self, self._group)
        self._streams.credentials.remove(self)
        await self._streams.leave_broadcaster(self._broadcaster)

    def end(self) -> None:
        """Let `next` return None."""
        self._is_over = True
        self.wake()

    def beat(self) -> None:
        """Let `next` return a heartbeat."""
        self._heartbeat_due = True
        self.wake()

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
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(events or VisibleEvents(self.cursor))

    async def woken(self) -> VisibleEvents:
        """Wait until the stream is woken."""
        self._wakeup = asyncio.get_running_loop().create_future()
        try:
            return await self._wakeup
        finally:
            self._wakeup = None

    async def _read(self) -> VisibleEvents:
        """Return the next events, or none and a later cursor."""
        at, streams = self._broadcaster.cursor, self._streams
        if self.cursor != at and (
            page := await streams.context.engine.feeds.behind(self.caller.workspace, self.cursor)
        ):
            return (await streams.visibility.render(page)).visible_to(self.caller)
        if self._broadcaster.cursor == at and not (
            self._heartbeat_due or self._is_over or self._broadcaster.is_over
        ):
            return await self._broadcaster.wait(self)
        return VisibleEvents(self.cursor)  # the broadcaster has moved, or the stream was called meanwhile

    def _on_gone(self, _: asyncio.Future[None]) -> None:
        self.end()


async def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


StreamsDep = Annotated[Streams, Depends(_streams)]
