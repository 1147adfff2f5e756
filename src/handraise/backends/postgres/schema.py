"""Bringing a database's schema up to this release, safely while others do the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import asyncpg

from handraise.backends.postgres.connections import Connection
from handraise.backends.sql_files import Migration, check_newer_schema, check_same_schema, load_migrations
from handraise.model.errors import SchemaMismatch

MIGRATIONS = load_migrations("handraise.backends.postgres")

_LOCK = 0x68616E6472616973

# An earlier build had no column for the digest.
_DIGESTS = "select number, to_jsonb(m) ->> 'digest' as digest from handraise.migrations as m"
_STATED = "select number, oldest_release from handraise.migrations where number > $1"
_APPLIED = "select coalesce(max(number), 0) from handraise.migrations"
_RESTORED = "select cluster <> handraise.cluster() from handraise.numbering"
_MOVE_IN = "select handraise.move_in()"
# `oldest_release` is the oldest release that works on the schema a migration made: that release may start after it.
# Null means that it was not stated, and then no earlier release may start.
_CREATE = """
create schema if not exists handraise;
create table if not exists handraise.migrations (
    number integer primary key,
    name text not null,
    applied_at timestamptz not null default now(),
    oldest_release text,
    digest text
);
"""
# Other statements queue behind a migration that waits for a table, so it gives up soon and tries again later.
_BRIEFLY = "set local lock_timeout = '2s'"
_TRIES = 30
_ITS_OWN = ("postgres", "template1")
_LONG = 3600.0

T = TypeVar("T")


async def migrate(acquired: Connection, *, anywhere: bool = True) -> int:
    """Apply the missing migrations, each in its own transaction, and return how many that were.

    The database that comes with PostgreSQL itself is not changed, unless `anywhere` says so.
    """
    newest = MIGRATIONS[-1].number
    try:
        applied = await applied_number(acquired)
        if applied == 0 and not anywhere:
            await _check_place(acquired)
        await check_readable(acquired, applied)
        if applied < newest:
            return sum([await _patiently(partial(_apply, acquired, migration)) for migration in MIGRATIONS])
    except asyncpg.InsufficientPrivilegeError as error:
        raise await _not_allowed(acquired, error) from error
    return 0


async def _check_place(acquired: Connection) -> None:
    name = await acquired.fetchval("select current_database()")
    if name in _ITS_OWN:
        raise SchemaMismatch(
            f"The database {name!r} comes with PostgreSQL, and Handraise is not installed in it. Create one "
            "(createdb handraise) and name it in the address, or run `handraise migrate` to install it there."
        )


async def check_readable(acquired: Connection, applied: int) -> None:
    """Raise SchemaMismatch if a later release, or another build, has given the database a schema that this one cannot use."""
    newest = MIGRATIONS[-1].number
    if applied:
        rows = await acquired.fetch(_DIGESTS)
        check_same_schema(MIGRATIONS, {row["number"]: row["digest"] for row in rows})
    if applied > newest:
        stated = await acquired.fetch(_STATED, newest)
        check_newer_schema(applied, newest, {row["number"]: row["oldest_release"] for row in stated})


async def move_in(acquired: Connection) -> None:
    """Make a dump from another cluster usable after it was restored here; usually there is nothing to do."""
    if await acquired.fetchval(_RESTORED):
        await _patiently(partial(_move_in, acquired))


async def applied_number(acquired: Connection) -> int:
    """The number of the newest migration in the database, 0 for none; SchemaMismatch if this role may not read it."""
    try:
        if await acquired.fetchval("select to_regclass('handraise.migrations')") is None:
            return 0
        number: int = await acquired.fetchval(_APPLIED)
    except asyncpg.InsufficientPrivilegeError as error:
        raise await _not_allowed(acquired, error) from error
    return number


async def _not_allowed(acquired: Connection, error: asyncpg.InsufficientPrivilegeError) -> SchemaMismatch:
    """The missing rights of a role that may not read or change the schema."""
    role = await acquired.fetchval("select current_user")
    return SchemaMismatch(
        f"This release of Handraise needs schema {MIGRATIONS[-1].number}, and {role!r} may not bring the database there "
        f"({error}). Open a desk once as the role that owns the schema or may create it. A role that only works "
        f"with what is there needs: grant handraise_app to {role}."
    )


async def _patiently(change: Callable[[], Awaitable[T]]) -> T:
    for tried in range(1, _TRIES + 1):
        try:
            return await change()
        except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError):
            if tried == _TRIES:
                raise
            await asyncio.sleep(0.1 * tried)
    raise AssertionError("unreachable")


async def _apply(acquired: Connection, migration: Migration) -> int:
    """Apply a migration unless it has been applied; return how many were applied."""
    async with acquired.transaction():
        await acquired.execute("select pg_advisory_xact_lock($1)", _LOCK, timeout=_LONG)
        await acquired.execute(_CREATE)
        if migration.number <= await acquired.fetchval(_APPLIED):
            return 0
        await acquired.execute(_BRIEFLY)
        await acquired.execute(migration.sql, timeout=_LONG)
        await acquired.execute(
            "insert into handraise.migrations (number, name, oldest_release, digest) values ($1, $2, $3, $4)",
            migration.number,
            migration.name,
            migration.oldest_release,
            migration.digest,
        )
        return 1


async def _move_in(acquired: Connection) -> None:
    try:
        async with acquired.transaction():
            await acquired.execute("select pg_advisory_xact_lock($1)", _LOCK, timeout=_LONG)
            await acquired.execute(_BRIEFLY)
            await acquired.execute(_MOVE_IN, timeout=_LONG)
    except asyncpg.InsufficientPrivilegeError as error:
        role = await acquired.fetchval("select current_user")
        raise SchemaMismatch(
            f"The database was restored from another server, and {role!r} may not make it go on here ({error}). "
            "Open a desk once as the role that owns the schema, or run: handraise migrate"
        ) from error
