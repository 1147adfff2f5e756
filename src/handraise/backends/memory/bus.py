"""Hints between the desks of one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from handraise.model.questions import Ref
from handraise.ports import HintHandler, Interest


class MemoryBus:
    """Sends every hint to every listener. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self) -> None:
        self._listening: list[HintHandler] = []

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints; see the port."""
        for on_hint in list(self._listening):
            on_hint(topics)

    @asynccontextmanager
    async def listen(
        self,
        on_hint: HintHandler,
        *,
        feeds: bool = False,
        shared_feeds: bool = False,
        interest: Interest | None = None,
    ) -> AsyncIterator[None]:
        """Receive hints; see the port."""
        del feeds, shared_feeds, interest  # telling everybody costs less than finding out who wants to know
        self._listening.append(on_hint)
        try:
            yield
        finally:
            self._listening.remove(on_hint)
