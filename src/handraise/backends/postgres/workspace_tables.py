"""A PostgreSQL database whose workspaces are exported and imported. Others may use it at the same time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import asyncpg

from handraise.backends.postgres.connections import APPLICATION, Connection, driver_errors_translated
from handraise.backends.postgres.schema import MIGRATIONS, migrate, move_in
from handraise.backends.sql.workspace_file import Portable, Record, Table
from handraise.backends.sql.workspace_transfer import (
    FIRST_ROWS,
    after_transaction,
    batch_size,
    instant_at,
    micros,
)
from handraise.backends.sql_files import load_statements
from handraise.model.errors import UnsafeStore

TRANSFER = load_statements("handraise.backends.postgres", "transfer.sql")

_SETTINGS = {
    "application_name": f"{APPLICATION} transfer",
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": "10s",
    "jit": "off",
}
_MICROSECOND = timedelta(microseconds=1)
_KEY = "key"
"""The column of events that only PostgreSQL has: SQLite finds it in the data of those that joined a question."""


class Conversion(NamedTuple):
    """How the values of a type become portable, and back. Without a function they are as they are."""

    read: Callable[[Any], Portable] | None = None
    write: Callable[[Any], Any] | None = None


CONVERSIONS: Mapping[str, Conversion] = {
    "timestamptz": Conversion(micros, instant_at),
    "interval": Conversion(lambda span: span // _MICROSECOND, lambda number: timedelta(microseconds=number)),
    "bool": Conversion(int, bool),
    **dict.fromkeys(
        ("int2", "int4", "int8", "xid8", "float8", "text", "json", "jsonb", "bytea"),
        Conversion(),
    ),
}
"""The types that the schema uses."""


@asynccontextmanager
async def open_postgres_tables(
    address: str, workspace: str, *, may_write: bool
) -> AsyncIterator[PostgresTables]:
    """The tables of a database, which are created if it has none. To write to them, log in as their owner."""
    with driver_errors_translated():
        acquired = await asyncpg.connect(address, server_settings=_SETTINGS, timeout=15)
        try:
            await migrate(acquired, anywhere=False)
            await move_in(acquired)
            (login,) = await acquired.fetch(TRANSFER["login"].numbered)
            if may_write and not (login["bypasses"] or login["owns"]):
                raise UnsafeStore(
                    f"{login['name']} may not import or remove a workspace. Log in as the role that owns the tables of Handraise "
                    "(handraise_owner), or as a superuser."
                )
            yield PostgresTables(acquired, workspace)
        finally:
            acquired.terminate()


class PostgresTables:
    """The tables of a database; see `WorkspaceTables` for what each method promises."""

    schema = MIGRATIONS[-1].number

    def __init__(self, acquired: Connection, workspace: str) -> None:
        self.workspace = workspace
        self._acquired = acquired

    async def tables(self) -> Mapping[str, Table]:
        """All tables with a workspace; see the protocol."""
        found: dict[str, dict[str, str]] = {}
        for table, column, kind in await self._acquired.fetch(TRANSFER["columns"].numbered):
            if (table, column) != ("events", _KEY):
                found.setdefault(table, {})[column] = kind
        return {name: Table(name, types) for name, types in found.items() if types.pop("workspace", None)}

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """A transaction; see the protocol."""
        async with self._acquired.transaction(isolation="repeatable_read", readonly=True):
            await self._acquired.fetch(TRANSFER["enter"].numbered, self.workspace)
            yield

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """A transaction; see the protocol. It fails if somebody else has changed a row meanwhile that it changes."""
        async with self._acquired.transaction(isolation="repeatable_read"):
            await self._acquired.fetch(TRANSFER["enter"].numbered, self.workspace)
            yield

    async def fetch(self, statement: str, *values: str | int) -> Sequence[Sequence[Any]]:
        """The rows of a statement; see the protocol."""
        found: list[Any] = await self._acquired.fetch(statement, self.workspace, *values)
        return found

    async def stream(self, statement: str) -> AsyncIterator[Sequence[Record]]:
        """The rows of a statement; see the protocol."""
        prepared = await self._acquired.prepare(statement)
        readers = {each.name: CONVERSIONS[each.type.name].read for each in prepared.get_attributes()}
        cursor = await prepared.cursor(self.workspace)
        limit = FIRST_ROWS
        while records := await cursor.fetch(limit):
            rows = await asyncio.to_thread(_portable, records, readers)
            yield rows
            limit = batch_size(rows)

    async def insert(self, table: Table, rows: Sequence[Record]) -> None:
        """Store rows; see the protocol. PostgreSQL has no COPY for a role that row-level security binds."""
        types = {"workspace": "text", **table.types}
        columns = await asyncio.to_thread(
            _columns, types, [{"workspace": self.workspace, **row} for row in rows]
        )
        if table.name == "events":
            types[_KEY] = "text"
            columns.append(
                [json.loads(str(row["data"]))[_KEY] if row["kind"] == "joined" else None for row in rows]
            )
        names = ", ".join(f'"{name}"' for name in types)
        arrays = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(types.values(), 1))
        await self._acquired.execute(
            f"insert into {table.name} ({names}) overriding system value select * from unnest({arrays})",  # noqa: S608 -- names of the catalogue
            *columns,
        )

    async def continue_after(self, transaction: int) -> None:
        """Number what is new after that; see the protocol."""
        for name, column, sequence, last in await self._acquired.fetch(TRANSFER["sequences"].numbered):
            found = await self._acquired.fetchval(
                f'select max("{column}") from {name} where workspace = $1',  # noqa: S608 -- names of the catalogue
                self.workspace,
            )
            if found is not None and found > last:
                await self._acquired.execute(TRANSFER["count_from"].numbered, sequence, found)
        if await self._acquired.fetchval(TRANSFER["is_behind"].numbered, transaction):
            await self._acquired.execute(TRANSFER["raise_epoch"].numbered, after_transaction(transaction))


def _portable(
    records: Sequence[Any], readers: Mapping[str, Callable[[Any], Portable] | None]
) -> list[Record]:
    return [
        {
            name: value if value is None or read is None else read(value)
            for (name, read), value in zip(readers.items(), record, strict=True)
        }
        for record in records
    ]


def _columns(types: Mapping[str, str], rows: Sequence[Record]) -> list[list[Any]]:
    return [[_native(row.get(name), CONVERSIONS[kind].write) for row in rows] for name, kind in types.items()]


def _native(value: Portable, write: Callable[[Any], Any] | None) -> Any:
    return value if value is None or write is None else write(value)
