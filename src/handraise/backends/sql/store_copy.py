"""Copying a whole store into an empty one of any SQL engine, so that it can be interrupted and continued.

Both stores note the copy before the first row, and are not opened any more by anybody else: the source, so that nothing
comes to it that the copy lacks, and the target until it is complete. Each batch of rows is stored in one transaction with
the place from which to continue. At the end, both stores are read again and compared.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple, Protocol

from handraise.backends.sql.copied_tables import CopiedTable, SchemasDiffer, StoredTable, copied_tables
from handraise.backends.sql.portable_values import PortableRow, TableDigest
from handraise.model.errors import UnsafeStore

_ROWS = 2_000
_BYTES = 4_000_000
"""How much is read at once at most, as far as the rows before tell."""

FIRST_ROWS = 20
"""How many rows are read first, when their size is not known. A part of a file has at most a few megabytes."""

EPOCH_BITS = 44
"""By so many bits, the epoch of a transaction is moved: see `numbering` in PostgreSQL's schema."""


class Batch(NamedTuple):
    """Rows in the order of a table's columns, and the place from which reading continues after them."""

    rows: Sequence[PortableRow]
    place: str


class Numbering(NamedTuple):
    """How far a store has counted: the transactions of its events, and the last number of each table that counts."""

    transaction: int
    sequences: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CopyNote:
    """What a store notes about the copy that it is a part of. `progress` has the place for each table."""

    id: str
    side: Literal["source", "target"]
    other: str
    begun_at: datetime
    finished_at: datetime | None = None
    progress: Mapping[str, str] = field(default_factory=dict)

    def refusal(self) -> str | None:
        """Why the store may not be opened; None if it may."""
        if self.side == "source" and self.finished_at is None:
            return (
                f"This store is being copied to {self.other}, since {self.begun_at:%Y-%m-%d %H:%M} UTC. Let the copy finish, "
                "or give it up: handraise copy --cancel"
            )
        if self.side == "source":
            return (
                f"This store was copied to {self.other} on {self.finished_at:%Y-%m-%d} and is not used any more: open "
                "that one. If nothing was changed there, this one can be used again: handraise copy --cancel"
            )
        if self.finished_at is None:
            return (
                f"This store is an unfinished copy of {self.other}. Give the same command again, and it continues: "
                "handraise copy"
            )
        return None


class CopyEnd(Protocol):
    """One of the two stores of a copy, open for nobody else."""

    address: str
    """Where it is, without a password."""
    schema: int
    """The number of its newest migration."""

    async def note(self) -> CopyNote | None:
        """What the store notes about a copy."""
        ...

    async def put_note(self, note: CopyNote | None) -> None:
        """Note this instead, or nothing."""
        ...

    async def check_alone(self) -> None:
        """Raise `UnsafeStore` if anybody else has the store open."""
        ...

    async def tables(self) -> Sequence[StoredTable]:
        """All its tables, as its catalogue describes them."""
        ...

    def reading(self) -> AbstractAsyncContextManager[None]:
        """A time in which the store is read and nobody changes it."""
        ...

    def batches(self, table: CopiedTable, after: str | None) -> AsyncIterator[Batch]:
        """The rows of a table after a place, in the order of its key, a bounded number at a time."""
        ...

    async def count(self, table: CopiedTable) -> int:
        """How many rows a table has."""
        ...

    async def write(
        self, table: CopiedTable, rows: Sequence[PortableRow], progress: Mapping[str, str]
    ) -> None:
        """Store rows and how far the copy is, in one transaction, without what new rows set off otherwise."""
        ...

    async def numbering(self) -> Numbering:
        """How far the store has counted."""
        ...

    async def continue_from(self, numbering: Numbering) -> None:
        """Count on from there: what is new from now on comes after everything that was copied."""
        ...

    async def sealed_workspaces(self) -> Sequence[str]:
        """The workspaces whose audit trail has seals."""
        ...


class TableProof(NamedTuple):
    """What a table holds in both stores."""

    table: str
    source_rows: int
    target_rows: int
    source_digest: str
    target_digest: str

    @property
    def is_equal(self) -> bool:
        """Whether both hold the same."""
        return (self.source_rows, self.source_digest) == (self.target_rows, self.target_digest)


Advance = Callable[[int], None]
"""Is told how many more rows were copied or compared."""


async def begin_copy(source: CopyEnd, target: CopyEnd) -> list[CopiedTable]:
    """Note the copy in both stores, unless it is noted already, and return its tables; `UnsafeStore` if it cannot be made."""
    tables = await common_tables(source, target)
    ours, theirs = await source.note(), await target.note()
    if ours is not None and ours.side == "target" and ours.finished_at is None:
        raise UnsafeStore(f"{source.address} is itself an unfinished copy, of {ours.other}.")
    before = ours
    if ours is None or ours.side == "target":
        await _check_empty(target, theirs, tables)
        ours = CopyNote(uuid.uuid4().hex, "source", target.address, datetime.now(UTC))
        await source.put_note(ours)
    try:
        # Whoever opens a store from now on sees the note, and whoever did so before is seen here.
        await source.check_alone()
        await target.check_alone()
    except UnsafeStore:
        if ours is not before:
            await source.put_note(before)
        raise
    if theirs is None and ours.finished_at is None and ours.other == target.address:
        await _check_empty(target, theirs, tables)
        await target.put_note(CopyNote(ours.id, "target", source.address, ours.begun_at))
    elif theirs is None or theirs.side != "target" or theirs.id != ours.id:
        raise UnsafeStore(
            f"{source.address} is being copied, or was copied, to {ours.other}, and {target.address} is not that copy. Give that "
            "address, or give that copy up: handraise copy --cancel"
        )
    return tables


async def copy_rows(
    source: CopyEnd, target: CopyEnd, tables: Sequence[CopiedTable], advance: Advance
) -> None:
    """Copy what is not copied yet. The next rows are read while the last ones are stored."""
    note = await target.note()
    if note is None or note.finished_at is not None:
        return
    progress = dict(note.progress)
    async with source.reading():
        for table in tables:
            written: asyncio.Task[None] | None = None
            try:
                async for batch in source.batches(table, progress.get(table.name)):
                    if written is not None:
                        await written
                    progress[table.name] = batch.place
                    written = asyncio.create_task(_write(target, table, batch, dict(progress), advance))
            finally:
                if written is not None:
                    await written
        await target.continue_from(await source.numbering())


async def _write(
    target: CopyEnd, table: CopiedTable, batch: Batch, progress: Mapping[str, str], advance: Advance
) -> None:
    await target.write(table, batch.rows, progress)
    advance(len(batch.rows))


async def compare(
    source: CopyEnd, target: CopyEnd, tables: Sequence[CopiedTable], advance: Advance
) -> list[TableProof]:
    """Read both stores, and say what each table holds in them."""
    proofs = []
    async with source.reading(), target.reading():
        for table in tables:
            one, other = await asyncio.gather(
                _digest(source, table, advance), _digest(target, table, advance)
            )
            proofs.append(TableProof(table.name, one.rows, other.rows, one.digest, other.digest))
    return proofs


async def _digest(end: CopyEnd, table: CopiedTable, advance: Advance) -> TableDigest:
    digest = TableDigest(table.types)
    async for batch in end.batches(table, None):
        await asyncio.to_thread(digest.add, batch.rows)
        advance(len(batch.rows))
    return digest


async def count_rows(end: CopyEnd, tables: Sequence[CopiedTable]) -> int:
    """How many rows there are to be copied."""
    async with end.reading():
        return sum([await end.count(table) for table in tables])


async def finish_copy(source: CopyEnd, target: CopyEnd) -> None:
    """Note that the copy is complete: from now on the target can be used, and the source cannot."""
    now = datetime.now(UTC)
    for end in (source, target):  # first the source: never may both be used
        note = await end.note()
        if note is not None and note.finished_at is None:
            await end.put_note(replace(note, finished_at=now))


async def cancel_copy(source: CopyEnd, target: CopyEnd | None) -> None:
    """Let the source be used again. The target cannot be used then; it must not have been used since."""
    ours = await source.note()
    if ours is None or ours.side != "source":
        raise UnsafeStore(f"{source.address} is not the source of a copy, and can be used.")
    if target is not None:
        theirs = await target.note()
        if theirs is not None and theirs.id != ours.id:
            raise UnsafeStore(
                f"{target.address} is not the copy: {source.address} was copied to {ours.other}."
            )
        if theirs is not None and theirs.finished_at is not None:
            tables = await common_tables(source, target)
            await target.check_alone()
            proofs = await compare(source, target, tables, lambda _rows: None)
            if not all(each.is_equal for each in proofs):
                raise UnsafeStore(
                    f"{target.address} has been used since it was copied, and what is new there would be lost. To go back, copy "
                    "it into an empty store: handraise copy"
                )
            await target.put_note(replace(theirs, finished_at=None))
    await source.put_note(None)


async def common_tables(source: CopyEnd, target: CopyEnd) -> list[CopiedTable]:
    """The tables that are copied between these stores."""
    if source.schema != target.schema:
        raise UnsafeStore(
            f"{source.address} has schema {source.schema} and {target.address} has {target.schema}. Bring both to this release "
            "first: handraise migrate"
        )
    try:
        return copied_tables(await source.tables(), await target.tables())
    except SchemasDiffer as error:
        raise UnsafeStore(f"This release cannot copy between these stores: {error}.") from error


async def _check_empty(target: CopyEnd, note: CopyNote | None, tables: Sequence[CopiedTable]) -> None:
    if note is not None and note.finished_at is None and note.side == "target":
        raise UnsafeStore(
            f"{target.address} is an unfinished copy of another store, {note.other}, or of a copy that was given up. Give an "
            "empty store."
        )
    async with target.reading():
        full = [table.name for table in tables if await target.count(table)]
    if full:
        raise UnsafeStore(
            f"{target.address} is not empty: it has rows in {', '.join(full[:5])}. A store is copied into an empty one: "
            "give a new database or file."
        )


def place_text(key: Sequence[object]) -> str:
    """A place in a table as it is noted: the last key."""
    return json.dumps(key)


def read_place_text(place: str | None) -> list[object] | None:
    """The key of a place; the beginning has none."""
    return None if place is None else json.loads(place)


def batch_size(rows: Sequence[PortableRow]) -> int:
    """How many rows to read next, so that a batch stays small also if rows are large: `rows` are those before."""
    texts = (value for row in rows for value in row if isinstance(value, str | bytes))
    average = sum(map(len, texts)) // len(rows) + 1
    return max(1, min(_ROWS, _BYTES // average))


def next_transaction(last: int) -> int:
    """The lowest transaction after all that a store can have given until now; SQLite's own first one stays as it is."""
    return 0 if last == 0 else ((last >> EPOCH_BITS) + 1) << EPOCH_BITS
