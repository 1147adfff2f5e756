"""One bus listener for a process, shared by waits and feeds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager

from handraise.model.questions import Ref
from handraise.ports import Bus, HintHandler


class BusListener:
    """Listens to the bus while something in this process needs it, and for feeds once something follows one."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._listeners: list[tuple[HintHandler, bool]] = []
        self._listening = AsyncExitStack()
        self._feeds: bool | None = None
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def listen(self, on_hint: HintHandler, *, feeds: bool = False) -> AsyncIterator[None]:
        """Receive hints inside this context; see `Bus.listen`."""
        listener = (on_hint, feeds)
        self._listeners.append(listener)
        try:
            await self._adjust()
            yield
        finally:
            self._listeners.remove(listener)
            await self._adjust()

    async def _adjust(self) -> None:
        """Listen for what is needed now; a new listener starts before the old one stops."""
        async with self._lock:
            needed = any(feeds for _, feeds in self._listeners) if self._listeners else None
            if needed == self._feeds:
                return
            before, self._listening, self._feeds = self._listening, AsyncExitStack(), None
            try:
                if needed is not None:
                    await self._listening.enter_async_context(self._bus.listen(self._on_hint, feeds=needed))
                    self._feeds = needed
            finally:
                await before.aclose()

    def _on_hint(self, topics: Collection[Ref] | None) -> None:
        for on_hint, _ in list(self._listeners):
            on_hint(topics)
