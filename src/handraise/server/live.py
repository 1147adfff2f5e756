"""Events as they happen, for an answer that goes on: it ends with the server, and says that it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from math import inf

from handraise.desk.local import LocalDesk
from handraise.model.errors import DeskClosed, StoreUnavailable
from handraise.model.events import Event
from handraise.server.house import House


async def live_pages(
    house: House, desk: LocalDesk, *, after: str, patience: float = inf
) -> AsyncGenerator[Sequence[Event], None]:
    """The workspace's events behind a cursor, for so many seconds. An empty page comes at every heartbeat.

    It comes however much happens: the right to hear it may have ended, and all of it may concern others.
    """
    # Not `asyncio.wait`: with a thousand streams, every event would cost a thousand of them.
    rung, loop = asyncio.Event(), asyncio.get_running_loop()
    is_due = False

    def ring(*_: object) -> None:
        rung.set()

    def ring_for_beat() -> None:
        # A timer may go off a little before its time: what it is for does not depend on the clock.
        nonlocal is_due
        is_due = True
        rung.set()

    heartbeat, until = house.settings.heartbeat, loop.time() + patience
    beat = loop.call_later(min(heartbeat, patience), ring_for_beat)
    stopping = asyncio.ensure_future(house.stopping.wait())
    stopping.add_done_callback(ring)
    async with aclosing(desk.follow_pages(after=after)) as pages:
        coming = asyncio.ensure_future(anext(pages))
        coming.add_done_callback(ring)
        try:
            while not stopping.done() and loop.time() < until:
                await rung.wait()
                rung.clear()
                if is_due:
                    is_due = False
                    yield ()
                    beat = loop.call_later(min(heartbeat, max(until - loop.time(), 0)), ring_for_beat)
                if coming.done() and not stopping.done():
                    page = coming.result()
                    coming = asyncio.ensure_future(anext(pages))
                    coming.add_done_callback(ring)
                    yield page
        except (DeskClosed, StoreUnavailable):
            return
        finally:
            beat.cancel()
            for task in (coming, stopping):
                task.cancel()
            await asyncio.gather(coming, stopping, return_exceptions=True)
