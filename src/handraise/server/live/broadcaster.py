"""Events as they happen, for answers that go on: thousands of them in a process.

A crier follows a workspace for all of its streams. It looks at what is new once for all callers who see the same,
and wakes only the streams that it concerns: of all others only the place moves on. A stream that is behind, because it
came with an old place or was not read from, catches up by itself.
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
from handraise.server.live.visibility import Seen, Shown, VisibilityCache

_log = logging.getLogger(__name__)


class Streams:
    """Every stream of a process."""

    def __init__(self, ctx: ServerContext, visibility: VisibilityCache) -> None:
        self._context = ctx
        self._visibility = visibility
        self._broadcasters: dict[str, _FeedBroadcaster] = {}

    async def follow(
        self, caller: Caller, *, after: str, patience: float = inf
    ) -> AsyncGenerator[Seen, None]:
        """What concerns the caller behind a cursor, as it happens, for so many seconds or until the server stops.

        At every heartbeat comes one without events, however much happens: the right to hear it may have ended,
        and all of it may concern others. Where the store cannot be reached it ends: the client comes back with
        its place.
        """
        with suppress(DeskClosed, StoreUnavailable):
            async with self._broadcaster(caller.workspace) as broadcaster:
                bell = _Bell(caller, after, self._context.settings.heartbeat, patience)
                try:
                    while not (broadcaster.is_over or bell.is_over):
                        if bell.is_due:
                            bell.wind()
                            yield Seen(bell.place)
                        elif (seen := await self._next(broadcaster, bell)).events:
                            yield seen
                finally:
                    bell.stop()

    async def _next(self, broadcaster: _FeedBroadcaster, bell: _Bell) -> Seen:
        """What comes next, or nothing and a place further on."""
        at, feeds = broadcaster.place, self._context.engine.feeds
        if bell.place != at and (page := await feeds.behind(bell.caller.workspace, bell.place)):
            seen = (await self._visibility.show(page)).to(bell.caller)
        elif broadcaster.place == at:
            seen = await broadcaster.wait(bell)
        else:
            seen = Seen(bell.place)  # the crier has moved meanwhile: there is something now
        bell.place = seen.place
        return seen

    @asynccontextmanager
    async def _broadcaster(self, workspace: str) -> AsyncIterator[_FeedBroadcaster]:
        """The crier of a workspace, who is there as long as any stream is."""
        broadcaster = self._broadcasters.get(workspace)
        if broadcaster is None or broadcaster.is_over:
            broadcaster = self._broadcasters[workspace] = _FeedBroadcaster(
                self._context, self._visibility, workspace
            )
        broadcaster.streams += 1
        try:
            await broadcaster.begun.wait()
            yield broadcaster
        finally:
            broadcaster.streams -= 1
            if not broadcaster.streams:
                if self._broadcasters.get(workspace) is broadcaster:
                    del self._broadcasters[workspace]
                await broadcaster.send_home()


class _FeedBroadcaster:
    """Follows a workspace for all of its streams."""

    def __init__(self, ctx: ServerContext, visibility: VisibilityCache, workspace: str) -> None:
        self.place = ""
        self.begun = asyncio.Event()
        self.is_over = False
        self.streams = 0
        self._context = ctx
        self._visibility = visibility
        self._workspace = workspace
        self._here: dict[Hashable, set[_Bell]] = {}
        self._ahead: set[_Bell] = set()
        self._following = asyncio.create_task(self._follow(), name="handraise streams")

    async def wait(self, bell: _Bell) -> Seen:
        """The next that concerns a stream, or nothing when its heartbeat is due.

        Who is where the crier is has its place moved along with the crier's. Who is ahead of it, having read the
        store before, is woken as soon as the crier moves.
        """
        sight = bell.caller.sight
        bells = self._here.setdefault(sight, set()) if bell.place == self.place else self._ahead
        bells.add(bell)
        try:
            return await bell.rung()
        finally:
            bells.discard(bell)
            if not bells and self._here.get(sight) is bells:
                del self._here[sight]

    async def send_home(self) -> None:
        """Stop following, as nobody is left."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        ctx = self._context
        stopping = asyncio.ensure_future(ctx.stopping.wait())
        stopping.add_done_callback(lambda _: self._end())
        try:
            self.place = await ctx.store.feed_end(self._workspace)
            self.begun.set()
            async with aclosing(ctx.engine.feeds.follow(self._workspace, after=self.place)) as pages:
                async for page in pages:
                    self._tell(await self._visibility.show(page))
        except (DeskClosed, StoreUnavailable):
            pass
        except Exception as error:  # noqa: BLE001 -- every stream depends on this task, and clients come back
            _log.error("the streams of a workspace cannot go on; they end", exc_info=error)
        finally:
            stopping.cancel()
            self._end()

    def _tell(self, shown: Shown) -> None:
        for bells in self._here.values():
            seen = shown.to(next(iter(bells)).caller)
            for bell in bells:
                bell.hear(seen)
        self.place = shown.place
        for bell in self._ahead:
            bell.ring()

    def _end(self) -> None:
        self.is_over = True
        self.begun.set()
        for bells in (self._ahead, *self._here.values()):
            for bell in bells:
                bell.ring()


class _Bell:
    """What one stream waits by, and its place in the feed."""

    def __init__(self, caller: Caller, place: str, heartbeat: float, patience: float) -> None:
        self.caller = caller
        self.place = place
        self.is_due = False
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + patience
        self._ringing: asyncio.Future[Seen] = self._loop.create_future()
        self.wind()

    @property
    def is_over(self) -> bool:
        """Whether its time has come."""
        return self._loop.time() >= self._until

    def wind(self) -> None:
        """Let it ring at the next heartbeat."""
        self.is_due = False
        self._beat = self._loop.call_later(
            min(self._heartbeat, max(self._until - self._loop.time(), 0)), self._fall_due
        )

    def stop(self) -> None:
        """It is needed no more."""
        self._beat.cancel()

    async def rung(self) -> Seen:
        """What it is rung with next."""
        self._ringing = self._loop.create_future()
        if self.is_due:
            self.ring()
        return await self._ringing

    def hear(self, seen: Seen) -> None:
        """Ring with what is new, or move the place past what concerns others.

        Where it was rung before, its stream goes on from what it was rung with.
        """
        if seen.events:
            self.ring(seen)
        else:
            self.place = seen.place

    def ring(self, seen: Seen | None = None) -> None:
        """Wake its stream."""
        if not self._ringing.done():
            self._ringing.set_result(seen or Seen(self.place))

    def _fall_due(self) -> None:
        # A timer may go off a little before its time: what it is for does not depend on the clock.
        self.is_due = True
        self.ring()


async def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


TheStreams = Annotated[Streams, Depends(_streams)]
