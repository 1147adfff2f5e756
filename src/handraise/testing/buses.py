"""Buses that misbehave, to show that hints only affect speed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from handraise.ports import HintHandler, Interest
from handraise.questions import Ref


class SilentBus:
    """Loses every hint."""

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send nothing."""

    @asynccontextmanager
    async def listen(
        self,
        on_hint: HintHandler,
        *,
        feeds: bool = False,
        shared_feeds: bool = False,
        interest: Interest | None = None,
    ) -> AsyncIterator[None]:
        """Receive nothing."""
        del on_hint, feeds, shared_feeds, interest
        yield


class ManualBus:
    """Delivers hints only when a test calls `deliver`: early, twice or about nothing."""

    def __init__(self) -> None:
        self.sent: list[Ref] = []
        self._listening: list[HintHandler] = []

    async def wake(self, topics: Collection[Ref]) -> None:
        """Record the hints."""
        self.sent.extend(topics)

    @asynccontextmanager
    async def listen(
        self,
        on_hint: HintHandler,
        *,
        feeds: bool = False,
        shared_feeds: bool = False,
        interest: Interest | None = None,
    ) -> AsyncIterator[None]:
        """Receive the hints that are passed to `deliver`."""
        del feeds, shared_feeds, interest  # the caller of `deliver` decides
        self._listening.append(on_hint)
        try:
            yield
        finally:
            self._listening.remove(on_hint)

    def deliver(self, topics: Collection[Ref] | None) -> None:
        """Deliver a hint to everybody who listens."""
        for on_hint in list(self._listening):
            on_hint(topics)
