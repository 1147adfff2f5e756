"""Bringing a database's schema up to this release, safely while others do the same."""

from __future__ import annotations

import asyncio

import asyncpg

from handraise.backends.postgres.connecting import Connection
from handraise.backends.statements import Migration, load_migrations
from handraise.model.errors import SchemaMismatch

MIGRATIONS = load_migrations("handraise.backends.postgres")

_LOCK = 0x68616E6472616973
_APPLIED = "select coalesce(max(number), 0) from handraise.migrations"
_CREATE = """
create schema if not exists handraise;
create table if not exists handraise.migrations (
    number integer primary key, name text not null, applied_at timestamptz not null default now()
);
"""
# Whoever wants a table while a migration waits for it waits too, so it gives up soon and tries again later.
_BRIEFLY = "set local lock_timeout = '2s'"
_TRIES = 30
_LONG = 3600.0


async def migrate(acquired: Connection) -> int:
    """Apply what is missing, each migration in its own transaction, and give back how many that were."""
    newest = MIGRATIONS[-1].number
    try:
        applied = await applied_number(acquired)
        if applied < newest:
            return sum([await _apply_patiently(acquired, migration) for migration in MIGRATIONS])
    except asyncpg.InsufficientPrivilegeError as error:
        role = await acquired.fetchval("select current_user")
        raise SchemaMismatch(
            f"This release of Handraise needs schema {newest}, and {role!r} may not bring the database there "
            f"({error}). Open a desk once as the role that owns the schema or may create it. A role that only works "
            f"with what is there needs: grant handraise_app to {role}."
        ) from error
    if applied > newest:
        raise SchemaMismatch(
            f"The database has schema {applied}, this release of Handraise knows {newest}. "
            "Upgrade Handraise on this machine."
        )
    return 0


async def applied_number(acquired: Connection) -> int:
    """The number of the newest migration in the database, 0 for none."""
    if await acquired.fetchval("select to_regclass('handraise.migrations')") is None:
        return 0
    number: int = await acquired.fetchval(_APPLIED)
    return number


async def _apply_patiently(acquired: Connection, migration: Migration) -> int:
    for tried in range(1, _TRIES + 1):
        try:
            return await _apply(acquired, migration)
        except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError):
            if tried == _TRIES:
                raise
            await asyncio.sleep(0.1 * tried)
    raise AssertionError("unreachable")


async def _apply(acquired: Connection, migration: Migration) -> int:
    """Apply a migration unless it has been; how many that were."""
    async with acquired.transaction():
        await acquired.execute("select pg_advisory_xact_lock($1)", _LOCK, timeout=_LONG)
        await acquired.execute(_CREATE)
        if migration.number <= await acquired.fetchval(_APPLIED):
            return 0
        await acquired.execute(_BRIEFLY)
        await acquired.execute(migration.sql, timeout=_LONG)
        await acquired.execute(
            "insert into handraise.migrations (number, name) values ($1, $2)",
            migration.number,
            migration.name,
        )
        return 1
