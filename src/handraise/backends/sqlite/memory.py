"""A SQLite database in this process's memory, for trying things out and for tests. Everything ends with the process."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from handraise.backends.sqlite.backend import backend_on, migrate
from handraise.backends.sqlite.connections import Connections, in_transaction, translated
from handraise.backends.sqlite.store import SqliteStore
from handraise.model.errors import DeskClosed
from handraise.model.questions import Ref
from handraise.ports import Backend, Clock, Durability, HintHandler, Interest

T = TypeVar("T")

_PLACE = Path("memory:")


class MemoryConnections(Connections):
    """One connection, used where it is called: no thread and no lock, so no method waits for anything."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        self._connection.deserialize(_empty_database())
        self._is_closed = False
        weakref.finalize(self, self._connection.close)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction."""
        return translated(lambda: in_transaction(self._open(), work), _PLACE)()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`."""
        return translated(lambda: work(self._open()), _PLACE)()

    async def scrub(self) -> bool:
        """Nothing is left of what was deleted: there is no file."""
        return True

    async def durability(self) -> Durability:
        """It ends with the process."""
        return Durability(survives="nothing: it ends with the process", settings={})

    async def close(self) -> None:
        """Lose everything."""
        self._is_closed = True
        self._connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._is_closed:
            raise DeskClosed
        return self._connection


class MemoryStore(SqliteStore):
    """Questions in memory, alone: without people, addresses, policies and files."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(MemoryConnections(), clock)


class MemoryBus:
    """Hints between the desks of one process. See `handraise.ports.Bus` for what each method promises."""

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


def memory_backend(clock: Clock | None = None) -> Backend:
    """A backend whose contents are lost when nobody refers to it any more."""
    return backend_on(MemoryConnections(), MemoryBus(), clock)


@asynccontextmanager
async def open_memory(*, clock: Clock | None = None) -> AsyncIterator[Backend]:
    """A backend whose contents are lost when this ends."""
    connections = MemoryConnections()
    try:
        yield backend_on(connections, MemoryBus(), clock)
    finally:
        await connections.close()


@cache
def _empty_database() -> bytes:
    """A database with all tables and no rows: to copy it takes a fraction of the time of making it."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        in_transaction(connection, migrate)
        return connection.serialize()
    finally:
        connection.close()
