"""One bus listener for a process, shared by waits and feeds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from handraise.model.questions import Ref
from handraise.ports import Bus, HintHandler, Interest


class BusListener:
    """Listens to the bus while something in this process needs it, and for feeds once something follows one.

    `interest` has the workspaces in which somebody waits or follows.
    """

    def __init__(self, bus: Bus) -> None:
        self.interest = Interest()
        self._bus = bus
        self._listeners: list[tuple[HintHandler, _Feeds]] = []
        self._listening = AsyncExitStack()
        self._feeds: _Feeds | None = None
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def listen(
        self, on_hint: HintHandler, *, feeds: bool = False, shared_feeds: bool = False
    ) -> AsyncIterator[None]:
        """Receive the hints of workspaces in `interest` inside this context; see `Bus.listen`."""
        listener = (on_hint, _Feeds(feeds, shared_feeds))
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
            needed = _Feeds.of([feeds for _, feeds in self._listeners]) if self._listeners else None
            if needed == self._feeds:
                return
            before, self._listening, self._feeds = self._listening, AsyncExitStack(), None
            try:
                if needed is not None:
                    await self._listening.enter_async_context(
                        self._bus.listen(
                            self._on_hint,
                            feeds=needed.followed,
                            shared_feeds=needed.shared,
                            interest=self.interest,
                        )
                    )
                    self._feeds = needed
            finally:
                await before.aclose()

    def _on_hint(self, topics: Collection[Ref] | None) -> None:
        for on_hint, _ in list(self._listeners):
            on_hint(topics)


class _Feeds(NamedTuple):
    """Which hints about feeds are needed; see `Bus.listen`."""

    followed: bool
    shared: bool

    @classmethod
    def of(cls, all_of_them: Collection[_Feeds]) -> _Feeds:
        """Everything that any of these needs."""
        return cls(any(each.followed for each in all_of_them), any(each.shared for each in all_of_them))
