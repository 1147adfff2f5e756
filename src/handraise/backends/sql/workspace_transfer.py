"""Exporting a workspace from the store of any SQL engine, and importing it into any other: see `workspace_file` for the file.

An import stores a batch of rows in one transaction with the line up to which it has come. What acts by itself or lets anybody in
comes last, in one transaction with the end of the import: see `_LIVE`. Until then, no background work looks at the workspace,
nothing can be asked in it, and it has no people, no keys and nothing that is pending.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby, takewhile
from typing import Any, Protocol

from handraise.backends.sql.workspace_file import (
    MAX_BYTES,
    MAX_ROWS,
    Contents,
    Line,
    Record,
    Table,
    batches,
    end_line,
    header_line,
    read_header,
    read_lines,
    row_lines,
)
from handraise.model.errors import UnsafeStore

FIRST_ROWS = 20
"""How many rows are read first, when their size is not known. A part of a file has at most a few megabytes."""
_EPOCH_BITS = 44
"""By so many bits, the epoch of a transaction is moved: see `numbering` in PostgreSQL's schema."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

LEFT_OUT: Mapping[str, str] = {
    "imports": "how far an import of this store is",
    "search_entries": "the full-text search is indexed again from the events",
    "search_progress": "the full-text search is indexed again from the events",
    "archive_index": "says what the archive of one database has",
}
"""The tables with a workspace that are not exported, and why."""
MERGED: Mapping[str, str] = {"archive": "questions"}
"""Tables whose rows are exported as those of another one."""
_QUIET = frozenset(["blobs", "deliveries", "events", "questions", "salts", "seals"])
"""The tables that grow with the history. Their rows do nothing by themselves, except those of `_LIVE`."""
_LIVE: Mapping[str, tuple[str, Callable[[Record], bool]]] = {
    "questions": ("settled_at is null", lambda row: row.get("settled_at") is None),
    "deliveries": ("due_at is not null", lambda row: row.get("due_at") is not None),
}
"""Which rows of such a table are imported at the end, with all rows of other tables: in SQL, and in Python."""
_MARK = "import"
"""The id of the stop, and the name of the hold, that a workspace has until it is complete."""


class WorkspaceTables(Protocol):
    """The tables of a store, open to export or import one workspace."""

    schema: int
    """The number of its newest migration."""
    workspace: str
    """The one that is exported or imported."""

    async def tables(self) -> Mapping[str, Table]:
        """All tables with a column `workspace`."""
        ...

    def reading(self) -> AbstractAsyncContextManager[None]:
        """A transaction that sees one state of the store throughout."""
        ...

    def writing(self) -> AbstractAsyncContextManager[None]:
        """A transaction that stores what it does, without what new rows set off otherwise."""
        ...

    async def fetch(self, statement: str, *values: str | int) -> Sequence[Sequence[Any]]:
        """The rows of a statement, in a transaction. Its `$1` is the workspace, then come the values."""
        ...

    def stream(self, statement: str) -> AsyncIterator[Sequence[Record]]:
        """The rows of a statement, a bounded number at a time."""
        ...

    async def insert(self, table: Table, rows: Sequence[Record]) -> None:
        """Store rows, in a transaction."""
        ...

    async def continue_after(self, transaction: int) -> None:
        """Number what is new from now on in the workspace after what it has; `transaction` is the last of its events."""
        ...


def micros(at: datetime) -> int:
    """An instant in microseconds. PostgreSQL's driver gives `-infinity` as the first instant, without a time zone."""
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def instant_at(micros_since_1970: int) -> datetime:
    """The instant that many microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=micros_since_1970)


def batch_size(rows: Sequence[Record]) -> int:
    """How many rows to read next, so that a batch stays small also if rows are large: `rows` are those before."""
    return max(1, min(MAX_ROWS, MAX_BYTES // (sum(map(_size, rows)) // len(rows) + 1)))


def _size(row: Record) -> int:
    return sum(len(value) for value in row.values() if isinstance(value, str | bytes))


def after_transaction(last: int) -> int:
    """The lowest transaction of a new epoch, after all that a store can have given until this one."""
    return ((last >> _EPOCH_BITS) + 1) << _EPOCH_BITS


# == Export ==


async def export_workspace(
    store: WorkspaceTables, write: Callable[[bytes], object], advance: Callable[[int, int], object]
) -> Contents:
    """Write a workspace as it is at one instant; others may go on using it. `advance` gets the rows so far, and of how many."""
    tables = await store.tables()
    async with store.reading():
        await _check_complete(store)
        whole = sum([await _count(store, where, which) for _, where, which in _parts(tables)])
        if not whole:
            raise UnsafeStore(f"There is nothing in the workspace {store.workspace!r}.")
        write(header_line(store.workspace, store.schema))
        found = Contents(store.workspace)
        async for table, rows in _read(store, tables):
            await asyncio.to_thread(found.add, table, rows)
            write(await asyncio.to_thread(row_lines, table, rows))
            advance(found.rows.total(), whole)
        write(end_line(found))
    return found


async def remove_workspace(store: WorkspaceTables, lines: Iterable[bytes]) -> Contents:
    """Remove a workspace that is exactly what a file has."""
    last = deque(lines, 1)
    tables = await store.tables()
    found = Contents(store.workspace)
    async with store.writing():
        await _check_complete(store)
        async for table, rows in _read(store, tables):
            await asyncio.to_thread(found.add, table, rows)
        if list(last) != [end_line(found)]:
            raise UnsafeStore(
                f"The workspace {store.workspace!r} is not what the file has: it was used since, or the file is not complete."
            )
        await _delete(store, tables)
    return found


async def _delete(store: WorkspaceTables, tables: Iterable[str]) -> None:
    for name in tables:
        await store.fetch(f"delete from {name} where workspace = $1")  # noqa: S608 -- a name of the catalogue


async def _check_complete(store: WorkspaceTables) -> None:
    if await store.fetch("select 1 from imports where workspace = $1"):
        raise UnsafeStore(
            f"The import of the workspace {store.workspace!r} is not finished: give its command again."
        )


def _parts(
    tables: Mapping[str, Table], *, live: Sequence[bool] = (False, True)
) -> Iterator[tuple[Table, str, str]]:
    """What a workspace consists of: a table, where its rows are, and which. First what is not live."""
    kept = [name for name in tables if name not in LEFT_OUT and name not in MERGED]
    for last in live:
        for name in sorted(kept, key=lambda each: (each != "people", each)):  # others refer to people
            if name not in _LIVE and last == (name in _QUIET):
                continue
            which = _LIVE[name][0] if name in _LIVE else "true"
            which = which if last or name not in _LIVE else f"not ({which})"
            yield tables[name], name, which
            for other in MERGED:
                if MERGED[other] == name and other in tables:
                    again = f"select 1 from {name} as q where q.workspace = t.workspace and q.id = t.id"  # noqa: S608 -- names of the catalogue
                    yield tables[name], other, f"{which} and not exists ({again})"


async def _count(store: WorkspaceTables, where: str, which: str) -> int:
    statement = f"select count(*) from {where} as t where t.workspace = $1 and {which}"  # noqa: S608 -- names of the catalogue
    return int((await store.fetch(statement))[0][0])


async def _read(
    store: WorkspaceTables, tables: Mapping[str, Table], *, live: Sequence[bool] = (False, True)
) -> AsyncIterator[tuple[str, Sequence[Record]]]:
    for table, where, which in _parts(tables, live=live):
        columns = ", ".join(f't."{name}"' for name in table.types)
        async for rows in store.stream(
            f"select {columns} from {where} as t where t.workspace = $1 and {which}"  # noqa: S608 -- names of the catalogue
        ):
            yield table.name, rows


# == Import ==


async def import_workspace(
    store: WorkspaceTables, lines: Iterator[bytes], advance: Callable[[int], object]
) -> Contents:
    """Import a file, or continue with it; return what is in it. `advance` gets how many bytes are done.

    What was stored is read again and must be equal to the file. The workspace can be used when this returns, and not before.
    """
    first = next(lines)
    if (schema := read_header(first).schema) != store.schema:
        raise UnsafeStore(
            f"The file has schema {schema}, and this store has schema {store.schema}. Bring both stores to this release first, "
            "with `handraise migrate`, and export again."
        )
    tables = await store.tables()
    done = await _begin(store, tables, hashlib.sha256(first).hexdigest())
    given, stored = Contents(store.workspace), Contents(store.workspace)
    batched, rest = batches(read_lines(lines, tables), advance), list[Line]()
    for batch in batched:
        quiet = list(takewhile(_is_quiet, batch))
        await asyncio.to_thread(_count_lines, given, quiet)
        if new := [each for each in quiet if each.number > done]:
            async with store.writing():
                await _insert(store, tables, new)
                await store.fetch("update imports set lines = $2 where workspace = $1", new[-1].number)
        if rest := batch[len(quiet) :]:
            break
    async with store.reading():
        await _count_stored(store, tables, stored, live=False)
    async with store.writing():
        await store.fetch("delete from stops where workspace = $1 and id = $2", _MARK)
        await store.fetch("delete from holds where workspace = $1 and name = $2", _MARK)
        end = None
        for batch in chain([rest], batched):
            rows = list(takewhile(lambda each: each.table, batch))
            await asyncio.to_thread(_count_lines, given, rows)
            await _insert(store, tables, rows)
            end = batch[-1].row if len(rows) == len(batch) - 1 else None
        await _count_stored(store, tables, stored, live=True)
        _check_equal(end, given, stored)
        await store.fetch("delete from imports where workspace = $1")
        await store.continue_after(given.transaction)
    return given


async def cancel_import(store: WorkspaceTables) -> None:
    """Remove what was imported of the workspace, unless it is complete."""
    async with store.writing():
        if not await store.fetch("select 1 from imports where workspace = $1"):
            raise UnsafeStore(
                f"No import of the workspace {store.workspace!r} has begun here, or it is complete."
            )
        await _delete(store, await store.tables())


def _is_quiet(line: Line) -> bool:
    """Whether a row can be stored before the end."""
    return line.table in _QUIET and not (line.table in _LIVE and _LIVE[line.table][1](line.row))


async def _begin(store: WorkspaceTables, tables: Mapping[str, Table], file: str) -> int:
    """How many lines are stored already. A new import is noted, and the workspace stopped and held until it is complete."""
    async with store.writing():
        found = await store.fetch("select file, lines from imports where workspace = $1")
        if found and found[0][0] != file:
            raise UnsafeStore(
                f"The import of another file into the workspace {store.workspace!r} is not finished: give its command again, or "
                "give it up: handraise import FILE --cancel"
            )
        if found:
            return int(found[0][1])
        for name in tables:
            if await store.fetch(f"select 1 from {name} where workspace = $1 limit 1"):  # noqa: S608 -- a name of the catalogue
                raise UnsafeStore(
                    f"The store has a workspace {store.workspace!r} already, with rows in {name}. Import into a store that "
                    "does not have it."
                )
        now, why = micros(datetime.now(UTC)), "The workspace is being imported."
        note: Record = {"file": file, "lines": 0}
        stop: Record = {"id": _MARK, "at": now, "why": why}
        hold: Record = {"name": _MARK, "since": now, "reason": why, "actor": _MARK}
        for table, row in (("imports", note), ("stops", stop), ("holds", hold)):
            await store.insert(tables[table], [row])
    return 0


def _count_lines(given: Contents, lines: Iterable[Line]) -> None:
    for line in lines:
        given.add(line.table, [line.row])


async def _insert(store: WorkspaceTables, tables: Mapping[str, Table], lines: Iterable[Line]) -> None:
    for name, group in groupby(lines, key=lambda each: each.table):
        await store.insert(tables[name], [each.row for each in group])


async def _count_stored(
    store: WorkspaceTables, tables: Mapping[str, Table], stored: Contents, *, live: bool
) -> None:
    async for table, rows in _read(store, tables, live=[live]):
        await asyncio.to_thread(stored.add, table, rows)


def _check_equal(end: Mapping[str, Any] | None, given: Contents, stored: Contents) -> None:
    if end is None:
        raise UnsafeStore("The file has no end: it was cut off. Export the workspace again.")
    if end != given.record():
        raise UnsafeStore(
            "The file is not as it was written: its digests differ. Export the workspace again."
        )
    if wrong := given.differences(stored):
        raise UnsafeStore(
            f"The store does not have what is in the file: {', '.join(wrong)} differ. Something else has written to the workspace."
        )
