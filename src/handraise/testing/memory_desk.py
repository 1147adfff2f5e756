"""A desk in memory that is open before there is an event loop, for fixtures of any test runner."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from handraise.backends.sqlite.memory import MemoryBus, memory_backend
from handraise.desk.local_desk import LocalDesk
from handraise.desk_factory import desk_from_store
from handraise.model.questions import Ref
from handraise.ports import Backend, Clock

T = TypeVar("T")


class MemoryDesk:
    """A desk in memory, and its backend.

    It belongs to no event loop: whichever asks first is the loop of its waits, and they end with it. `on_wake` are
    called in that loop whenever something happens.
    """

    def __init__(self, clock: Clock) -> None:
        self.on_wake: list[Callable[[], None]] = []
        self.backend: Backend = memory_backend(clock)._replace(bus=_WatchedBus(self.on_wake))
        # An entered context that nobody refers to would close itself.
        self._opened = desk_from_store(
            self.backend.store,
            self.backend.bus,
            directory=self.backend.directory,
            policies=self.backend.policies,
            files=self.backend.files,
            blobs=self.backend.blobs,
            clock=clock,
        )
        self.desk: LocalDesk = run_now(self._opened.__aenter__())


class _WatchedBus(MemoryBus):
    def __init__(self, on_wake: list[Callable[[], None]]) -> None:
        super().__init__()
        self._on_wake = on_wake

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints, also to the fixtures."""
        for each in self._on_wake:
            each()
        await super().wake(topics)


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, as those of a store in memory do."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("this coroutine waits for something")
