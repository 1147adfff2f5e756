"""A PostgreSQL database as the source or the target of a copy.

Row-level security hides rows from their owner too. In the transactions of a copy, and only there, the owner lifts this:
it is in force again when the transaction ends, however it ends. Besides the names of tables and columns, which come
from the catalogue, nothing is put into a statement by Python.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from handraise.backends.postgres.connections import (
    APPLICATION,
    DRIVER_ERRORS,
    Connection,
    driver_errors_translated,
)
from handraise.backends.postgres.copy_note import COPY, put_note, read_note
from handraise.backends.postgres.schema import applied_number, check_readable, migrate
from handraise.backends.sql.copied_tables import COMPUTED, CopiedTable, StoredTable
from handraise.backends.sql.portable_values import CONVERSIONS, Portable, PortableRow
from handraise.backends.sql.store_copy import (
    EPOCH_BITS,
    FIRST_ROWS,
    Batch,
    CopyNote,
    Numbering,
    batch_size,
    next_transaction,
    place_text,
    read_place_text,
)
from handraise.model.errors import UnsafeStore

_SETTINGS = {
    "application_name": f"{APPLICATION} copy",
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": "10s",
    "jit": "off",
    # Each table is read in the order of its key, from an index, a part at a time.
    "enable_sort": "off",
    "enable_seqscan": "off",
}
_LOOKS, _LOOK_AGAIN = 20, 0.1


@asynccontextmanager
async def open_postgres_copy(address: str, *, may_create: bool) -> AsyncIterator[PostgresCopyEnd]:
    """A database as one end of a copy; its tables are made only if they may be."""
    with driver_errors_translated():
        acquired = await asyncpg.connect(
            address, server_settings=_SETTINGS, timeout=15, target_session_attrs=SessionAttribute.read_write
        )
        try:
            applied = await applied_number(acquired)
            if applied == 0 and may_create:
                await migrate(acquired, anywhere=False)
                applied = await applied_number(acquired)
            if applied == 0:
                raise UnsafeStore(f"There is no store at {safe_address(address)}.")
            await check_readable(acquired, applied)
            yield await PostgresCopyEnd.on(acquired, safe_address(address), applied)
        finally:
            with suppress(*DRIVER_ERRORS):
                await acquired.close(timeout=2)
            acquired.terminate()


def safe_address(address: str) -> str:
    """An address without the password, and without options, which may hold one."""
    parts = urlsplit(address)
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{parts.netloc.rpartition('@')[2]}{parts.path}"


class PostgresCopyEnd:
    """One end of a copy; see `handraise.backends.sql.store_copy.CopyEnd` for what each method promises."""

    def __init__(
        self,
        acquired: Connection,
        address: str,
        schema: int,
        stored: Sequence[StoredTable],
        forced: Sequence[str],
    ) -> None:
        self._acquired = acquired
        self.address = address
        self.schema = schema
        self._stored = {table.name: table for table in stored}
        self._forced = forced

    @classmethod
    async def on(cls, acquired: Connection, address: str, schema: int) -> PostgresCopyEnd:
        """The end on a connection of its own, if its role may copy."""
        login = await acquired.fetchrow(COPY["login"].numbered)
        if login is None or not (login["bypasses"] or login["owns"]):
            name = "?" if login is None else login["name"]
            raise UnsafeStore(
                f"{name} may not read all workspaces of {address}. Log in as the role that owns the tables of Handraise "
                "(handraise_owner), or as a superuser."
            )
        if not await acquired.fetchval(COPY["lock"].numbered):
            raise UnsafeStore(f"Another copy uses {address} at the moment. Wait for it, or end it.")
        forced = [] if login["bypasses"] else await _names_of(acquired, "forced")
        stored = [
            StoredTable(
                row["name"],
                dict(zip(row["columns"], row["types"], strict=True)),
                row["key"],
                frozenset(name.removeprefix("handraise.") for name in row["refers_to"]),
            )
            for row in await acquired.fetch(COPY["tables"].numbered)
        ]
        return cls(acquired, address, schema, stored, forced)

    async def note(self) -> CopyNote | None:
        """The note about a copy; see the protocol."""
        return await read_note(self._acquired)

    async def put_note(self, note: CopyNote | None) -> None:
        """Note this; see the protocol."""
        await put_note(self._acquired, note)

    async def check_alone(self) -> None:
        """Raise `UnsafeStore` if others are there; those that were killed may take a moment to leave."""
        names: list[str] = []
        for _ in range(_LOOKS):
            names = await _names_of(self._acquired, "others")
            if not names:
                return
            await asyncio.sleep(_LOOK_AGAIN)
        raise UnsafeStore(
            f"Somebody has {self.address} open, as {', '.join(names)}. Stop all servers and programs that use it, and a pooler "
            "in between: nothing may change while it is copied. If that is something else, such as monitoring, grant "
            "pg_read_all_stats to this role, so that it sees what sessions are."
        )

    async def tables(self) -> Sequence[StoredTable]:
        """All tables; see the protocol."""
        return list(self._stored.values())

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """One transaction, which changes nothing; see the protocol."""
        async with self._unforced(self._forced, "rollback"):
            yield

    async def batches(self, table: CopiedTable, after: str | None) -> AsyncIterator[Batch]:
        """The rows of a table; see the protocol."""
        readers = [CONVERSIONS[name].read for name in table.types]
        query, values, key = self._query(table, read_place_text(after))
        places = [table.columns.index(each) for each in key]
        cursor = await self._acquired.cursor(query, *values)
        limit = FIRST_ROWS
        while records := await cursor.fetch(limit):
            rows = await asyncio.to_thread(_portable, records, readers)
            yield Batch(rows, place_text([rows[-1][place] for place in places]))
            limit = batch_size(rows)

    def _query(
        self, table: CopiedTable, last: Sequence[object] | None
    ) -> tuple[str, list[Any], Sequence[str]]:
        """The statement that reads a table after a place, its parameters, and the key that it is in the order of."""
        stored = self._stored[table.name]
        keyed = ", ".join(f'"{each}"' for each in stored.key)
        where, values = "", []
        if last is not None:
            marks = ", ".join(f"${number}" for number in range(1, len(stored.key) + 1))
            where = f"where ({keyed}) > ({marks})"
            values = [
                _native(value, stored.types[each]) for each, value in zip(stored.key, last, strict=True)
            ]
        columns = ", ".join(f'"{each}"' for each in table.columns)
        return (
            f'select {columns} from handraise."{table.name}" {where} order by {keyed}',  # noqa: S608 -- names of the catalogue
            values,
            stored.key,
        )

    async def count(self, table: CopiedTable) -> int:
        """How many rows; see the protocol."""
        number: int = await self._acquired.fetchval(f'select count(*) from handraise."{table.name}"')  # noqa: S608 -- a name of the catalogue
        return number

    async def write(
        self, table: CopiedTable, rows: Sequence[PortableRow], progress: Mapping[str, str]
    ) -> None:
        """Store rows; see the protocol."""
        stored = self._stored[table.name]
        computed = {
            name: value for name, value in COMPUTED.get(table.name, {}).items() if name in stored.types
        }
        columns = [*table.columns, *computed]
        writers = [CONVERSIONS[stored.types[name]].write for name in table.columns]
        records = await asyncio.to_thread(_records, rows, table.columns, writers, list(computed.values()))
        name = f'handraise."{table.name}"'
        async with self._unforced([name] if name.replace('"', "") in self._forced else [], "commit"):
            # What new rows set off has been done in the source.
            await self._acquired.execute("set local handraise.copying = 'on'")
            await self._acquired.copy_records_to_table(
                table.name, schema_name="handraise", columns=columns, records=records
            )
            await self._acquired.execute(
                COPY["put_progress"].numbered, *COPY["put_progress"].arguments(progress=json.dumps(progress))
            )

    async def numbering(self) -> Numbering:
        """How far it has counted; see the protocol."""
        transaction = await self._acquired.fetchval(COPY["transaction"].numbered)
        counted = await self._acquired.fetch(COPY["sequences"].numbered)
        return Numbering(transaction, {row["name"]: row["last"] for row in counted if row["last"]})

    async def continue_from(self, numbering: Numbering) -> None:
        """Count on; see the protocol."""
        for row in await self._acquired.fetch(COPY["sequences"].numbered):
            last = max(row["last"], numbering.sequences.get(row["name"], 0))
            if last:
                values = COPY["count_from"].arguments(sequence=row["sequence"], last=last)
                await self._acquired.execute(COPY["count_from"].numbered, *values)
        tables = [name for name in self._forced if name in ("handraise.questions", "handraise.events")]
        async with self._unforced(tables, "commit"):
            await self._acquired.execute(COPY["keep_keys"].numbered)
        if epoch := next_transaction(numbering.transaction) >> EPOCH_BITS:
            await self._acquired.execute(COPY["raise_epoch"].numbered, epoch)

    async def sealed_workspaces(self) -> Sequence[str]:
        """The workspaces with seals; see the protocol."""
        async with self.reading():
            return await _names_of(self._acquired, "sealed_workspaces")

    @asynccontextmanager
    async def _unforced(self, tables: Sequence[str], end: str) -> AsyncIterator[None]:
        """A transaction in which these tables are not hidden from their owner; that is undone before it ends."""
        transaction = self._acquired.transaction(isolation="repeatable_read")
        await transaction.start()
        try:
            await self._alter(tables, "no force")
            yield
            if end == "commit":
                await self._alter(tables, "force")
        except BaseException:
            await self._undo(transaction)
            raise
        if end == "commit":
            await transaction.commit()
        else:
            await transaction.rollback()

    async def _alter(self, tables: Sequence[str], how: str) -> None:
        if tables:
            await self._acquired.execute(
                "; ".join(f"alter table {name} {how} row level security" for name in tables)
            )

    async def _undo(self, transaction: asyncpg.transaction.Transaction) -> None:
        with suppress(*DRIVER_ERRORS):
            await transaction.rollback()


async def _names_of(acquired: Connection, statement: str) -> list[str]:
    return [row[0] for row in await acquired.fetch(COPY[statement].numbered)]


def _portable(
    records: Sequence[Any], readers: Sequence[Callable[[Any], Portable] | None]
) -> list[PortableRow]:
    return [
        [
            value if value is None or read is None else read(value)
            for value, read in zip(record, readers, strict=True)
        ]
        for record in records
    ]


def _native(value: Any, kind: str) -> Any:
    write = CONVERSIONS[kind].write
    return value if value is None or write is None else write(value)


def _records(
    rows: Sequence[PortableRow],
    columns: Sequence[str],
    writers: Sequence[Callable[[Any], Any] | None],
    computed: Sequence[Callable[[Mapping[str, Portable]], Portable]],
) -> list[list[Any]]:
    return [
        [
            *(
                value if value is None or write is None else write(value)
                for value, write in zip(row, writers, strict=True)
            ),
            *(value(dict(zip(columns, row, strict=True))) for value in computed),
        ]
        for row in rows
    ]
