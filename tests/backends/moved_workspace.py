"""A small SQLite store with a row in every table that is exported, and imports that end at a point of our choice.

`python -m tests.backends.moved_workspace FILE TARGET NUMBER` is an import that is killed in its transaction of this number,
just before that is committed. It stores 50 rows at a time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from unittest import mock

from handraise.backends.postgres.workspace_tables import PostgresTables
from handraise.backends.sql import workspace_file
from handraise.backends.sql.workspace_file import Contents, Table, read_header
from handraise.backends.sql.workspace_transfer import (
    LEFT_OUT,
    MERGED,
    cancel_import,
    export_workspace,
    import_workspace,
    remove_workspace,
)
from handraise.backends.sqlite.workspace_tables import SqliteTables
from handraise.desk_factory import open_backend, open_tables
from handraise.desks import desk_from_store
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from tests.release.older import questions

SAMPLED = "samples"
"""The workspace with a row in every table."""
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
UNSUITABLE = {"questions", *LEFT_OUT, *MERGED}
"""Tables with too many conditions for a sample, which the desk fills, and those that are not exported."""
BY_TYPE: Mapping[str, Any] = {
    "timestamptz": 1_790_000_000_123_457,
    "interval": 3_600_000_001,
    "bool": 1,
    "float8": 0.1,
    "json": '{"b": [1, 2.50],  "a": "ü\\u0007"}',
    "jsonb": '["b", 1.0, {"z": null, "a": "ü"}]',
    "bytea": b"\x00\xff",
}


async def fill(address: str, tables: Mapping[str, Table], batches: int = 3) -> None:
    """Ask and answer in every way, and add a row to every table, which are described by PostgreSQL."""
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
        for table in tables.values():
            if table.name not in UNSUITABLE:
                add_sample(file, table)


def add_sample(file: sqlite3.Connection, table: Table) -> None:
    """Add a row in which no column is null, unless a sample says so."""
    row = {
        name: SAMPLES.get((table.name, name), sample(name, kind))
        for name, kind in {"workspace": "text", **table.types}.items()
    }
    if table.name in ("events", "outbox", "removals"):
        row.pop("number", None)  # it counts
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    file.execute(f'insert into "{table.name}" ({names}) values ({marks})', list(row.values()))  # noqa: S608 -- names of the catalogue


def sample(name: str, kind: str) -> Any:
    """A value for a column of this type."""
    if name == "workspace":
        return SAMPLED
    if name == "person":
        name = "id"  # that of the sample in `people`
    return BY_TYPE.get(kind, f"{name} ünï 🙂" if kind == "text" else 7)


async def tables_of(address: str) -> Mapping[str, Table]:
    """The tables with a workspace of a store, which may be new."""
    async with open_tables(address, "default", may_write=True) as tables:
        return await tables.tables()


async def exported(address: str, file: Path, workspace: str = "default") -> Contents:
    """Export a workspace into a new file."""
    with file.open("wb") as out:
        async with open_tables(address, workspace, may_write=False) as tables:
            return await export_workspace(tables, out.write, lambda _part, _whole: None)


async def imported(file: Path, address: str) -> Contents:
    """Import a file, or continue with it."""
    with file.open("rb") as lines:
        async with open_tables(address, workspace_of(file), may_write=True) as tables:
            return await import_workspace(tables, iter(lines), lambda _bytes: None)


async def cancelled(file: Path, address: str) -> None:
    """Give the import of a file up."""
    async with open_tables(address, workspace_of(file), may_write=True) as tables:
        await cancel_import(tables)


async def removed(file: Path, address: str) -> None:
    """Remove the workspace that a file has."""
    with file.open("rb") as lines:
        async with open_tables(address, workspace_of(file), may_write=True) as tables:
            await remove_workspace(tables, lines)


def workspace_of(file: Path) -> str:
    """The workspace of a file."""
    with file.open("rb") as lines:
        return read_header(next(lines)).workspace


def kill_in(number: int) -> None:
    """Let this process be killed in its transaction of this number, just before that is committed."""
    left = number
    for kind in (SqliteTables, PostgresTables):
        real: Any = kind.writing

        @asynccontextmanager
        async def killed(self: object, real: Any = real) -> AsyncIterator[None]:
            nonlocal left
            left -= 1
            is_last = left == 0
            async with real(self):
                yield
                if is_last:
                    os.kill(os.getpid(), signal.SIGKILL)

        mock.patch.object(kind, "writing", killed).start()


if __name__ == "__main__":
    given, to, when = sys.argv[1:]
    kill_in(int(when))
    mock.patch.object(workspace_file, "MAX_ROWS", 50).start()
    asyncio.run(imported(Path(given), to))
