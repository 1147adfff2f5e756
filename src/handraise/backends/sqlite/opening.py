"""Opening a SQLite file: check its promises, bring its schema up to date, then give out what works on it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from handraise.backends.sqlite.bus import SqliteBus
from handraise.backends.sqlite.connecting import SqliteConnections
from handraise.backends.sqlite.directory import SqliteDirectory
from handraise.backends.sqlite.durability import check_file_system
from handraise.backends.sqlite.ledger import SqliteLedger
from handraise.backends.sqlite.outbox import SqliteOutbox
from handraise.backends.sqlite.store import SqliteStore
from handraise.backends.statements import load_migrations
from handraise.model.errors import SchemaMismatch, UnsafeStore
from handraise.ports import Backend, Clock

MIGRATIONS = load_migrations("handraise.backends.sqlite")

_OLDEST = (3, 38, 0)


@asynccontextmanager
async def open_sqlite(path: Path, *, clock: Clock | None = None) -> AsyncIterator[Backend]:
    """A backend on a local file, which is made where it does not exist."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise UnsafeStore(f"SQLite {sqlite3.sqlite_version} is too old; Handraise needs 3.38 or newer.")
    path, file_system = await asyncio.to_thread(_prepare, path)
    connections = SqliteConnections(path)
    bus = SqliteBus(connections)
    try:
        await connections.write(_migrate)
        store = SqliteStore(connections, file_system, clock)
        await store.durability()
        yield Backend(
            store,
            bus,
            SqliteDirectory(connections, clock),
            SqliteOutbox(connections, clock),
            SqliteLedger(connections, clock),
        )
    finally:
        bus.close()
        await connections.close()


def _prepare(path: Path) -> tuple[Path, str]:
    """The file's whole path, its folder made, and the kind of file system it is on."""
    path = path.expanduser().resolve()
    file_system = check_file_system(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Questions and answers are nobody else's: SQLite would make a file that everybody on the host may read. Only
    # a file that is not there: closing one that is in use here would give up the locks that SQLite holds on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return path, file_system


def _migrate(connection: sqlite3.Connection) -> None:
    """Apply what is missing, in the one transaction that `write` has begun."""
    applied: int = connection.execute("pragma user_version").fetchone()[0]
    newest = MIGRATIONS[-1].number
    if applied > newest:
        raise SchemaMismatch(
            f"The file has schema {applied}, this release of Handraise knows {newest}. Upgrade Handraise."
        )
    for migration in MIGRATIONS:
        if migration.number > applied:
            for statement in _statements(migration.sql):
                connection.execute(statement)
            # A pragma takes no parameters; the number is our own.
            connection.execute(f"pragma user_version = {migration.number:d}")


def _statements(sql: str) -> list[str]:
    """The single statements of a migration: `executescript` would commit before the first."""
    statements, begun = [], ""
    for line in sql.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            statements.append(begun)
            begun = ""
    return statements
