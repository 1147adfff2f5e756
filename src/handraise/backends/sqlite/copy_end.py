"""A SQLite file as the source or the target of a copy.

The file is open for nobody else in that time: SQLite's own exclusive lock keeps readers and writers out. Besides the
names of tables and columns, which come from SQLite's catalogue, nothing is put into a statement by Python.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from handraise.backends.sql.copied_tables import CopiedTable, StoredTable
from handraise.backends.sql.portable_values import PortableRow
from handraise.backends.sql.store_copy import (
    FIRST_ROWS,
    Batch,
    CopyNote,
    Numbering,
    batch_size,
    next_transaction,
    place_text,
    read_place_text,
)
from handraise.backends.sqlite.backend import check_readable, migrate, prepare_file
from handraise.backends.sqlite.copy_note import put_note, read_note
from handraise.model.errors import StoreUnavailable, UnsafeStore

T = TypeVar("T")

_LOCKED_WITHIN = 5.0


@asynccontextmanager
async def open_sqlite_copy(path: Path, *, may_create: bool) -> AsyncIterator[SqliteCopyEnd]:
    """A file as one end of a copy, which is created only if it may be."""
    path = await asyncio.to_thread(_prepare, path, may_create)
    connection = await asyncio.to_thread(_connect, path)
    with closing(connection):
        yield SqliteCopyEnd(connection, path)


def _prepare(path: Path, may_create: bool) -> Path:  # noqa: FBT001 -- to_thread takes no keywords of ours
    if not may_create and not path.expanduser().exists():
        missing = StoreUnavailable(f"There is no file {path}.")
        missing.misconfigured = True
        raise missing
    return prepare_file(path, make_folder=False)[0]


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_LOCKED_WITHIN, isolation_level=None, check_same_thread=False)
    try:
        for pragma in (
            "locking_mode = exclusive",
            "journal_mode = wal",
            "synchronous = full",
            "fullfsync = on",
        ):
            connection.execute(f"pragma {pragma}").fetchall()
        connection.execute("begin exclusive")
        migrate(connection)
        connection.execute("commit")
    except sqlite3.OperationalError as error:
        connection.close()
        if "locked" in str(error):
            raise UnsafeStore(
                f"Somebody has {path} open. Stop all servers and programs that use it: nothing may change while it is copied."
            ) from error
        raise StoreUnavailable(f"SQLite cannot do this now: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


class SqliteCopyEnd:
    """One end of a copy; see `handraise.backends.sql.store_copy.CopyEnd` for what each method promises."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.address = f"sqlite:///{path}"
        self.schema: int = connection.execute("pragma user_version").fetchone()[0]
        check_readable(connection, self.schema)

    async def note(self) -> CopyNote | None:
        """The note about a copy; see the protocol."""
        return await self._run(lambda: read_note(self._connection))

    async def put_note(self, note: CopyNote | None) -> None:
        """Note this; see the protocol."""
        await self._run(lambda: self._transact(lambda: put_note(self._connection, note)))

    async def check_alone(self) -> None:
        """The exclusive lock says so from the start; see the protocol."""

    async def tables(self) -> Sequence[StoredTable]:
        """All tables; see the protocol."""
        return await self._run(self._tables)

    def _tables(self) -> list[StoredTable]:
        # Tables that SQLite keeps for itself, or for a full-text index, are `shadow`.
        listed = self._connection.execute("select name, type from pragma_table_list where schema = 'main'")
        return [
            self._described(name)
            for name, kind in listed.fetchall()
            if kind in ("table", "virtual") and not name.startswith("sqlite_")
        ]

    def _described(self, table: str) -> StoredTable:
        rows = self._connection.execute(
            "select name, type, pk from pragma_table_info(?) order by cid", [table]
        ).fetchall()
        keyed = sorted((place, name) for name, _, place in rows if place)
        types = {name: kind.lower() for name, kind, _ in rows}
        return StoredTable(table, types, [name for _, name in keyed])

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Nobody else can change the file anyway; see the protocol."""
        yield

    async def batches(self, table: CopiedTable, after: str | None) -> AsyncIterator[Batch]:
        """The rows of a table; see the protocol."""
        described = await self._run(lambda: self._described(table.name))
        columns = _names(table.columns)
        key = [table.columns.index(name) for name in described.key]
        place, limit = after, FIRST_ROWS
        while True:
            last = read_place_text(place)
            rows = await self._run(partial(self._page, table.name, columns, described.key, last, limit))
            if not rows:
                return
            place = place_text([rows[-1][each] for each in key])
            yield Batch(rows, place)
            limit = batch_size(rows)

    def _page(
        self, table: str, columns: str, key: Sequence[str], last: Sequence[object] | None, limit: int
    ) -> list[PortableRow]:
        behind = "" if last is None else f"where ({_names(key)}) > ({', '.join('?' * len(key))})"
        return self._connection.execute(
            f'select {columns} from "{table}" {behind} order by {_names(key)} limit {limit:d}',  # noqa: S608 -- names of the catalogue
            last or (),
        ).fetchall()

    async def count(self, table: CopiedTable) -> int:
        """How many rows; see the protocol."""
        query = f'select count(*) from "{table.name}"'  # noqa: S608 -- a name of the catalogue
        number: int = await self._run(lambda: self._connection.execute(query).fetchone()[0])
        return number

    async def write(
        self, table: CopiedTable, rows: Sequence[PortableRow], progress: Mapping[str, str]
    ) -> None:
        """Store rows; see the protocol."""
        query = f'insert into "{table.name}" ({_names(table.columns)}) values ({", ".join("?" * len(table.columns))})'  # noqa: S608 -- names of the catalogue

        def work() -> None:
            # What new rows set off has been done in the source. The schema is as it was when this transaction ends.
            triggers = self._connection.execute(
                "select name, sql from sqlite_master where type = 'trigger' and tbl_name = ?", [table.name]
            ).fetchall()
            for name, _ in triggers:
                self._connection.execute(f'drop trigger "{name}"')
            self._connection.executemany(query, rows)
            for _, statement in triggers:
                self._connection.execute(statement)
            self._connection.execute("update store_copy set progress = ?", [json.dumps(progress)])

        await self._run(lambda: self._transact(work))

    async def numbering(self) -> Numbering:
        """How far it has counted; see the protocol."""

        def work() -> Numbering:
            (transaction,) = self._connection.execute('select "transaction" from numbering').fetchone()
            return Numbering(
                transaction, dict(self._connection.execute("select name, seq from sqlite_sequence"))
            )

        return await self._run(work)

    async def continue_from(self, numbering: Numbering) -> None:
        """Count on; see the protocol."""

        def work() -> None:
            self._connection.execute(
                'update numbering set "transaction" = ?', [next_transaction(numbering.transaction)]
            )
            for name, number in numbering.sequences.items():
                done = self._connection.execute(
                    "update sqlite_sequence set seq = max(seq, ?) where name = ?", [number, name]
                )
                if not done.rowcount:
                    self._connection.execute(
                        "insert into sqlite_sequence (name, seq) values (?, ?)", [name, number]
                    )

        await self._run(lambda: self._transact(work))

    async def sealed_workspaces(self) -> Sequence[str]:
        """The workspaces with seals; see the protocol."""
        query = "select distinct workspace from seals order by workspace"
        return await self._run(lambda: [row[0] for row in self._connection.execute(query)])

    def _transact(self, work: Callable[[], None]) -> None:
        self._connection.execute("begin immediate")
        try:
            work()
            self._connection.execute("commit")
        except BaseException:
            self._connection.rollback()
            raise

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"SQLite cannot do this now: {error}") from error


def _names(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
