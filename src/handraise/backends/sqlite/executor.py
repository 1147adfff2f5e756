"""Runs the statements of the shared ports in a SQLite file."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from handraise.backends.sql.rows import Row
from handraise.backends.sqlite.connections import Connections
from handraise.backends.sqlite.statements import STATEMENTS, run
from handraise.backends.sqlite.timestamps import now_by
from handraise.backends.sqlite.transaction import SqliteTransaction, finished
from handraise.ports import Clock

T = TypeVar("T")

_WRITES = re.compile(r"\b(insert|update|delete)\b")
_READS = {name for name, statement in STATEMENTS.items() if not _WRITES.search(statement.named)}


class SqliteExecutor:
    """Runs statements: reads on the reading connection, everything else in one transaction."""

    def __init__(self, connections: Connections, clock: Clock | None = None) -> None:
        self._connections = connections
        self._clock = clock

    async def fetch(self, workspace: str | None, /, *names: str, **values: Any) -> Sequence[Row]:
        """The rows of the last of these statements; see the protocol."""

        def work(connection: sqlite3.Connection) -> Sequence[Row]:
            rows: Sequence[Row] = []
            now = now_by(self._clock)
            for name in names:
                rows = run(connection, name, workspace=workspace, now=now, **values)
            return rows

        return await (
            self._connections.read(work) if _READS.issuperset(names) else self._connections.write(work)
        )

    async def transact(self, workspace: str, work: Callable[[SqliteTransaction], Awaitable[T]], /) -> T:
        """The result of several statements in one transaction; see the protocol."""

        def made(connection: sqlite3.Connection) -> T:
            return finished(work(SqliteTransaction(connection, now_by(self._clock), workspace)))

        return await self._connections.write(made)

    async def transact_as_keeper(
        self, workspace: str, work: Callable[[SqliteTransaction], Awaitable[T]], /
    ) -> T:
        """The same: whoever can open the file may do everything."""
        return await self.transact(workspace, work)
