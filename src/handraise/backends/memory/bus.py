"""Hints between the desks of one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from handraise.model.questions import Ref
from handraise.ports import Heard


class MemoryBus:
    """Tells everybody of everything. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self) -> None:
        self._listening: list[Heard] = []

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints; see the port."""
        for heard in list(self._listening):
            heard(topics)

    @asynccontextmanager
    async def listen(self, heard: Heard, *, feeds: bool = False) -> AsyncIterator[None]:
        """Hear hints; see the port."""
        del feeds  # telling everybody costs less than asking who wants to know
        self._listening.append(heard)
        try:
            yield
        finally:
            self._listening.remove(heard)
