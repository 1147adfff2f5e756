"""A SQLite file whose workspaces are exported and imported. Others may use it at the same time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from handraise.backends.sql.workspace_file import Record, Table
from handraise.backends.sql.workspace_transfer import FIRST_ROWS, after_transaction, batch_size
from handraise.backends.sqlite.backend import MIGRATIONS, migrate, prepare_file
from handraise.backends.sqlite.connections import connect, in_transaction, translated
from handraise.model.errors import StoreUnavailable, UnsafeStore

T = TypeVar("T")

_LATER = 'update numbering set "transaction" = ? where "transaction" < ?'


@asynccontextmanager
async def open_sqlite_tables(path: Path, workspace: str, *, may_create: bool) -> AsyncIterator[SqliteTables]:
    """The tables of a file, which is created only if it may be."""
    path = await asyncio.to_thread(_prepare, path, may_create)
    with ThreadPoolExecutor(1, thread_name_prefix="handraise-sqlite-transfer") as thread:
        tables = SqliteTables(path, workspace, thread)
        try:
            await tables.run(lambda connection: in_transaction(connection, migrate))
            yield tables
        finally:
            await tables.run(sqlite3.Connection.close)


def _prepare(path: Path, may_create: bool) -> Path:  # noqa: FBT001 -- to_thread takes no keywords of ours
    if not may_create and not path.expanduser().exists():
        missing = StoreUnavailable(f"There is no file {path}.")
        missing.misconfigured = True
        raise missing
    return prepare_file(path, make_folder=False)[0]


class SqliteTables:
    """The tables of a file; see `WorkspaceTables` for what each method promises."""

    schema = MIGRATIONS[-1].number

    def __init__(self, path: Path, workspace: str, thread: ThreadPoolExecutor) -> None:
        self.workspace = workspace
        self._path = path
        self._thread = thread
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something in the one thread that uses the connection."""

        def done() -> T:
            self._connection = self._connection or connect(self._path)
            return work(self._connection)

        return await asyncio.get_running_loop().run_in_executor(self._thread, translated(done, self._path))

    async def tables(self) -> Mapping[str, Table]:
        """All tables with a workspace; see the protocol."""

        def work(connection: sqlite3.Connection) -> dict[str, Table]:
            found: dict[str, dict[str, str]] = {}
            for table, column, kind in connection.execute(
                "select t.name, c.name, lower(c.type) from pragma_table_list as t, pragma_table_info(t.name) as c "
                "where t.schema = 'main' and t.type = 'table'"
            ):
                found.setdefault(table, {})[column] = kind
            return {name: Table(name, types) for name, types in found.items() if types.pop("workspace", None)}

        return await self.run(work)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """A transaction; see the protocol."""
        async with self._transaction("begin"):
            yield

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """A transaction; see the protocol. The triggers leave a workspace alone that is being imported."""
        async with self._transaction("begin immediate"):
            yield

    @asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncIterator[None]:
        await self.run(lambda connection: connection.execute(begin))
        try:
            yield
            await self.run(sqlite3.Connection.commit)
        except BaseException:
            await self.run(sqlite3.Connection.rollback)
            raise

    async def fetch(self, statement: str, *values: str | int) -> Sequence[Sequence[Any]]:
        """The rows of a statement; see the protocol."""
        return await self.run(
            lambda connection: connection.execute(statement, self._numbered(*values)).fetchall()
        )

    async def stream(self, statement: str) -> AsyncIterator[Sequence[Record]]:
        """The rows of a statement; see the protocol."""
        cursor = await self.run(lambda connection: connection.execute(statement, self._numbered()))
        limit = FIRST_ROWS
        while rows := await self.run(partial(_fetched, cursor, limit)):
            yield rows
            limit = batch_size(rows)

    async def insert(self, table: Table, rows: Sequence[Record]) -> None:
        """Store rows; see the protocol."""
        names = ", ".join(f'"{name}"' for name in ("workspace", *table.types))
        marks = ", ".join("?" * (1 + len(table.types)))
        values = [[self.workspace, *map(row.get, table.types)] for row in rows]
        statement = f'insert into "{table.name}" ({names}) values ({marks})'  # noqa: S608 -- names of the catalogue
        try:
            await self.run(lambda connection: connection.executemany(statement, values))
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, sqlite3.IntegrityError):
                raise
            raise UnsafeStore(
                f"A row of {table.name} does not fit into {self._path}: {error.__cause__}. A SQLite file numbers the events of all "
                "its workspaces together. Give this import up (handraise import FILE --cancel), and import into a file of its "
                "own, or into PostgreSQL."
            ) from error

    async def continue_after(self, transaction: int) -> None:
        """Number what is new after that; see the protocol. SQLite itself continues after the highest number."""
        await self.run(
            lambda connection: connection.execute(_LATER, [after_transaction(transaction), transaction])
        )

    def _numbered(self, *values: str | int) -> dict[str, str | int]:
        """The parameters `$1`, `$2` and so on."""
        return {str(place): value for place, value in enumerate((self.workspace, *values), 1)}


def _fetched(cursor: sqlite3.Cursor, limit: int, _: sqlite3.Connection) -> list[Record]:
    return [dict(row) for row in cursor.fetchmany(limit)]
