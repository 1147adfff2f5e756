"""The heartbeats of all streams of a process: one task instead of a timer for each stream.

Streams are divided into groups by the moment when they began. The groups take turns, so that not all streams are
written to at once.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

_GROUPS = 30
_AT_ONCE = 200
"""How many streams get their heartbeat before others have a turn on the event loop."""


class Beating(Protocol):
    """What has heartbeats."""

    def beat(self) -> None:
        """Take a heartbeat."""
        ...


class StreamHeartbeats:
    """Calls every stream at each interval."""

    def __init__(self, interval: float) -> None:
        self._pause = interval / _GROUPS
        self._groups: list[set[Beating]] = [set() for _ in range(_GROUPS)]
        self._turn = 0
        self._count = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, stream: Beating) -> int:
        """Call the stream at each interval, for the first time after one. Returns its group, for `remove`."""
        group = (self._turn - 1) % _GROUPS
        self._groups[group].add(stream)
        self._count += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="handraise stream heartbeats")
        return group

    def remove(self, stream: Beating, group: int) -> None:
        """Call it no more. With the last one the task ends."""
        self._groups[group].discard(stream)
        self._count -= 1
        if not self._count and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._pause
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self._beat(self._groups[self._turn])
            self._turn = (self._turn + 1) % _GROUPS
            # Groups that are late have their turn now, but after a long time in which nothing ran, only once.
            due = max(due + self._pause, loop.time() - _GROUPS * self._pause)

    async def _beat(self, group: set[Beating]) -> None:
        for number, stream in enumerate(list(group), start=1):
            if stream in group:
                stream.beat()
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
