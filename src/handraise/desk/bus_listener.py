"""One listener for a whole process: waits and feeds hear the same hints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager

from handraise.model.questions import Ref
from handraise.ports import Bus, Heard


class BusListener:
    """Listens at the bus while anybody does here, and for feeds as soon as anybody follows one."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._hearers: list[tuple[Heard, bool]] = []
        self._listening = AsyncExitStack()
        self._feeds: bool | None = None
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def listen(self, heard: Heard, *, feeds: bool = False) -> AsyncIterator[None]:
        """Hear hints while inside; see `Bus.listen`."""
        hearer = (heard, feeds)
        self._hearers.append(hearer)
        try:
            await self._adjust()
            yield
        finally:
            self._hearers.remove(hearer)
            await self._adjust()

    async def _adjust(self) -> None:
        """Listen as those who are here now need it; the new ear opens before the old one closes."""
        async with self._lock:
            needed = any(feeds for _, feeds in self._hearers) if self._hearers else None
            if needed == self._feeds:
                return
            before, self._listening, self._feeds = self._listening, AsyncExitStack(), None
            try:
                if needed is not None:
                    await self._listening.enter_async_context(self._bus.listen(self._tell, feeds=needed))
                    self._feeds = needed
            finally:
                await before.aclose()

    def _tell(self, topics: Collection[Ref] | None) -> None:
        for heard, _ in list(self._hearers):
            heard(topics)
