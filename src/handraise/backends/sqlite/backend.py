"""Opening a SQLite file: check its promises, bring its schema up to date, then return the ports."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from handraise.backends.sql.directory import SqlDirectory
from handraise.backends.sql.files import SqlBlobs, SqlFiles
from handraise.backends.sql.outbox import SqlOutbox
from handraise.backends.sql.policies import SqlPolicies
from handraise.backends.sql_files import check_newer_schema, check_same_schema, load_migrations
from handraise.backends.sqlite.bus import SqliteBus
from handraise.backends.sqlite.connections import Connections, FileConnections
from handraise.backends.sqlite.durability import check_file_system
from handraise.backends.sqlite.executor import SqliteExecutor
from handraise.backends.sqlite.ledger import SqliteLedger
from handraise.backends.sqlite.store import SqliteStore
from handraise.model.errors import StoreUnavailable, UnsafeStore
from handraise.ports import Backend, Bus, Clock

MIGRATIONS = load_migrations("handraise.backends.sqlite")

_OLDEST = (3, 38, 0)


@asynccontextmanager
async def open_sqlite(
    path: Path, *, clock: Clock | None = None, make_folder: bool = False
) -> AsyncIterator[Backend]:
    """A backend on a local file, which is created if it does not exist; its folder only if `make_folder` is true."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise UnsafeStore(f"SQLite {sqlite3.sqlite_version} is too old; Handraise needs 3.38 or newer.")
    path, file_system = await asyncio.to_thread(prepare_file, path, make_folder=make_folder)
    connections = FileConnections(path, file_system)
    bus = SqliteBus(connections)
    try:
        await connections.write(migrate)
        await connections.durability()
        yield backend_on(connections, bus, clock)
    finally:
        bus.close()
        await connections.close()


def backend_on(connections: Connections, bus: Bus, clock: Clock | None) -> Backend:
    """The ports on these connections."""
    executor = SqliteExecutor(connections, clock)
    return Backend(
        SqliteStore(connections, clock),
        bus,
        SqlDirectory(executor),
        SqlOutbox(executor),
        SqliteLedger(executor, connections),
        SqlPolicies(executor),
        SqlFiles(executor),
        SqlBlobs(executor),
    )


def prepare_file(path: Path, *, make_folder: bool) -> tuple[Path, str]:
    """The file's whole path, and the kind of file system it is on."""
    path = path.expanduser().resolve()
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    else:
        check_folder(path)
    file_system = check_file_system(path)
    # Questions and answers are private, but SQLite would create a file that everybody on the host may read. Create
    # only a missing file: closing one that is in use here would release the locks that SQLite holds on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return path, file_system


def check_folder(path: Path) -> None:
    """Raise `StoreUnavailable` unless the folder of a file exists."""
    if not path.parent.is_dir():
        missing = StoreUnavailable(
            f"There is no folder {path.parent}: make it, or correct the address of the file."
        )
        missing.misconfigured = True
        raise missing


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the missing migrations, in the one transaction that has begun."""
    applied: int = connection.execute("pragma user_version").fetchone()[0]
    check_readable(connection, applied)
    for migration in MIGRATIONS:
        if migration.number > applied:
            for statement in _statements(migration.sql):
                connection.execute(statement)
            # A pragma takes no parameters; the number is our own.
            connection.execute(f"pragma user_version = {migration.number:d}")
            connection.execute(
                "insert into migrations (number, name, oldest_release, digest) values (?, ?, ?, ?)",
                [migration.number, migration.name, migration.oldest_release, migration.digest],
            )


def check_readable(connection: sqlite3.Connection, applied: int) -> None:
    """Raise SchemaMismatch if a later release, or another build, has given the file a schema that this one cannot use."""
    newest = MIGRATIONS[-1].number
    if applied:
        # An earlier build had no column for the digest.
        found = connection.execute("select * from migrations")
        names = [each[0] for each in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found]
        check_same_schema(MIGRATIONS, {row["number"]: row.get("digest") for row in rows})
    if applied > newest:
        stated = connection.execute(
            "select number, oldest_release from migrations where number > ?", [newest]
        ).fetchall()
        check_newer_schema(applied, newest, dict(map(tuple, stated)))


def _statements(sql: str) -> list[str]:
    """The single statements of a migration: `executescript` would commit before the first."""
    statements, begun = [], ""
    for line in sql.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            statements.append(begun)
            begun = ""
    return statements
