"""Buses that misbehave, to show that a hint changes nothing but speed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from handraise.ports import Heard
from handraise.questions import Ref


class SilentBus:
    """Loses every hint."""

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send nothing."""

    @asynccontextmanager
    async def listen(self, heard: Heard, *, feeds: bool = False) -> AsyncIterator[None]:
        """Hear nothing."""
        del heard, feeds
        yield


class HandBus:
    """Delivers hints only when told to: `ring` them early, twice, or about nothing."""

    def __init__(self) -> None:
        self.sent: list[Ref] = []
        self._listening: list[Heard] = []

    async def wake(self, topics: Collection[Ref]) -> None:
        """Note the hints."""
        self.sent.extend(topics)

    @asynccontextmanager
    async def listen(self, heard: Heard, *, feeds: bool = False) -> AsyncIterator[None]:
        """Hear what is rung."""
        del feeds  # whoever rings decides what is heard
        self._listening.append(heard)
        try:
            yield
        finally:
            self._listening.remove(heard)

    def ring(self, topics: Collection[Ref] | None) -> None:
        """Deliver a hint to everybody who listens."""
        for heard in list(self._listening):
            heard(topics)
