# ruff: noqa: SLF001 -- a copy is killed inside of its transactions
"""A small SQLite store with a row in every table that is copied, and copies that end at a point of our choice.

`python -m tests.backends.copied_store SOURCE TARGET POINT` is a copy that is killed there, and prints how many rows it stored
before: a number is a batch, within whose transaction it is killed; `noted` is when only the source has noted the copy, and
`complete` is when all rows are there and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from unittest import mock

from handraise.backends.postgres.copy_end import PostgresCopyEnd
from handraise.backends.sql import store_copy
from handraise.backends.sql.copied_tables import CopiedTable
from handraise.backends.sql.store_copy import (
    Batch,
    CopyEnd,
    TableProof,
    begin_copy,
    common_tables,
    compare,
    copy_rows,
    finish_copy,
)
from handraise.backends.sqlite.copy_end import SqliteCopyEnd
from handraise.desk_factory import open_backend, open_copy_end
from handraise.desks import desk_from_store
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from tests.release.older import questions

SAMPLES: Mapping[tuple[str, str], Any] = {
    ("links", "purpose"): "invitation",
    ("removals", "what"): "erased",
    ("removals", "cursors"): "1,2.3",
    ("removals", "seal"): None,
    ("standing_answers", "spot_check"): 0.25,
    ("retention", "keep"): 86_400_000_000 * 30,
    ("events", "kind"): "joined",
    ("provisioned", "kind"): "User",
    ("events", "question_id"): "",
    ("events", "data"): '{"key": "k", "number": 1e22, "less": -0.0}',
    ("events", "transaction"): 0,
    ("deliveries", "status"): "sent",
    ("people", "role"): "member",
    ("people", "email"): "Straße@example.com",
    ("people", "email_folded"): "strasse@example.com",
    ("grants", "scope"): "always",
    ("files", "used_at"): -62_135_596_800_000_000,  # `-infinity` in PostgreSQL
}
"""What a column has in the row that is added to its table, where a sample of its type would be refused."""
UNSUITABLE = {"questions"}
"""Tables with too many conditions for a sample: the desk fills them."""
BY_TYPE: Mapping[str, Any] = {
    "timestamp with time zone": 1_790_000_000_123_457,
    "interval": 3_600_000_001,
    "boolean": 1,
    "double precision": 0.1,
    "json": '{"b": [1, 2.50],  "a": "ü\\u0007"}',
    "jsonb": '["b", 1.0, {"z": null, "a": "ü"}]',
    "bytea": b"\x00\xff",
    "blob": b"\x00\xff",
}


async def fill(address: str, tables: Sequence[CopiedTable], batches: int = 3) -> None:
    """Ask and answer in every way, and add a row to every table."""
    async with open_backend(address) as backend:
        await backend.directory.put_person("default", "ana", name="Ana", email=None, role=Role.ADMIN)
        to = {"mail": "ana@example.com"}
        await backend.outbox.put_address(
            Address(workspace="default", recipient="ana", channel="email", id="a-1", to=to)
        )
        async with desk_from_store(backend.store, backend.bus, asker="agent") as desk:
            await questions(desk)
            for number in range(batches):
                asked = [await desk.post(f"Question {number}.{each}?") for each in range(40)]
                for each in asked[::2]:
                    await desk.answer(each.id, f"ja, {number}", by="ana")
    with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as file, file:
        for table in tables:
            if table.name not in UNSUITABLE:
                add_sample(file, table)


def add_sample(file: sqlite3.Connection, table: CopiedTable) -> None:
    """Add a row in which no column is null, unless a sample says so."""
    row = {
        name: SAMPLES.get((table.name, name), sample(name, kind))
        for name, kind in zip(table.columns, table.types, strict=True)
    }
    if table.name in ("events", "outbox", "removals"):
        row.pop("number", None)  # it counts
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    file.execute(f'insert into "{table.name}" ({names}) values ({marks})', list(row.values()))  # noqa: S608 -- names of the catalogue


def sample(name: str, kind: str) -> Any:
    """A value for a column of this type."""
    if name == "workspace":
        return "samples"
    if name == "person":
        name = "id"  # that of the sample in `people`
    return BY_TYPE.get(kind, f"{name} ünï 🙂" if kind == "text" else 7)


async def copied(source: str, target: str) -> tuple[list[TableProof], int]:
    """Copy to the end; return the proof, and how many rows this run has stored."""
    stored = 0

    def advance(rows: int) -> None:
        nonlocal stored
        stored += rows

    async with (
        open_copy_end(source, may_create=False) as one,
        open_copy_end(target, may_create=True) as other,
    ):
        tables = await begin_copy(one, other)
        await copy_rows(one, other, tables, advance)
        proofs = await compare(one, other, tables, lambda _rows: None)
        if all(each.is_equal for each in proofs):
            await finish_copy(one, other)
    return proofs, stored


async def tables_of(source: str, target: str) -> list[CopiedTable]:
    """The tables that are copied between two stores."""
    async with (
        open_copy_end(source, may_create=True) as one,
        open_copy_end(target, may_create=True) as other,
    ):
        return await common_tables(one, other)


def differences(proofs: Sequence[TableProof]) -> list[TableProof]:
    """The tables that are not the same in both."""
    return [each for each in proofs if not each.is_equal]


def kill_at(point: str) -> None:
    """Let this process be killed at a point of the copy that it makes."""
    if point == "noted":
        for end in (PostgresCopyEnd, SqliteCopyEnd):
            mock.patch.object(end, "check_alone", die).start()
    elif point == "complete":
        mock.patch(f"{__name__}.compare", die).start()
    else:
        left, write = int(point), store_copy._write

        async def killed_write(target: CopyEnd, *rest: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                die_before_commit(target)
            await write(target, *rest)

        mock.patch.object(store_copy, "_write", killed_write).start()


def die_before_commit(target: Any) -> None:
    """Let the next transaction of a target end just before it is committed."""
    if isinstance(target, SqliteCopyEnd):
        transact: Any = target._transact

        def killed_transact(work: Any) -> None:
            def worked() -> None:
                work()
                die()

            transact(worked)

        mock.patch.object(target, "_transact", killed_transact).start()
        return
    calls = 0

    async def killed_alter(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:  # the tables are hidden from their owner again, and then comes the commit
            die()

    mock.patch.object(target, "_alter", killed_alter).start()


def die(*_: object, **__: object) -> None:
    """Be killed here."""
    os.kill(os.getpid(), signal.SIGKILL)


def tell_rows() -> None:
    """Print how many rows each batch has that is stored."""
    write = store_copy._write

    async def told(target: CopyEnd, table: CopiedTable, batch: Batch, *rest: Any) -> None:
        await write(target, table, batch, *rest)
        print(len(batch.rows), flush=True)

    mock.patch.object(store_copy, "_write", told).start()


if __name__ == "__main__":
    where, to, when = sys.argv[1:]
    kill_at(when)
    tell_rows()
    asyncio.run(copied(where, to))
