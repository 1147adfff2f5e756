"""A transaction in a SQLite file: the caller has begun it, in the thread that writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from handraise.backends.sql.rows import Row
from handraise.backends.sql.transactions import Values
from handraise.backends.sqlite.statements import run

T = TypeVar("T")


class SqliteTransaction:
    """Runs statements. See `handraise.backends.sql.transactions.Transaction`."""

    def __init__(self, connection: sqlite3.Connection, now: int, workspace: str | None = None) -> None:
        self._connection = connection
        self._now = now
        self._workspace = workspace

    async def __call__(self, name: str, /, **values: Any) -> Sequence[Row]:
        """What a statement about the workspace of this transaction returns."""
        return run(self._connection, name, **{"workspace": self._workspace, "now": self._now, **values})

    async def fetch_each(self, name: str, rows: Sequence[Values], /) -> Sequence[Row]:
        """What a statement returns for these rows."""
        return run(self._connection, name, now=self._now, rows=list(rows)) if rows else []

    async def write(self, rows: Mapping[str, Sequence[Values]], /) -> None:
        """Run statements that return nothing."""
        for name, each in rows.items():
            await self.fetch_each(name, each)


def finished(work: Awaitable[T]) -> T:
    """The result of a coroutine that never waits: each statement runs when it is called, in the writing thread."""
    try:
        next(work.__await__())
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("what is done in a transaction must wait for nothing but its statements")
