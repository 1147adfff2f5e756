"""Bringing a database's schema up to this release, safely while others do the same."""

from __future__ import annotations

from handraise.backends.postgres.connecting import Connection, Pool, connection
from handraise.backends.statements import load_migrations
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


async def migrate(pool: Pool) -> int:
    """Apply what is missing, each migration in its own transaction, and give back how many that were."""
    newest = MIGRATIONS[-1].number
    async with connection(pool) as acquired:
        applied = await applied_number(acquired)
        if applied > newest:
            raise SchemaMismatch(
                f"The database has schema {applied}, this release of Handraise knows {newest}. "
                "Upgrade Handraise on this machine."
            )
        if applied == newest:
            return 0
        return await _apply(acquired)


async def applied_number(acquired: Connection) -> int:
    """The number of the newest migration in the database, 0 for none."""
    if await acquired.fetchval("select to_regclass('handraise.migrations')") is None:
        return 0
    number: int = await acquired.fetchval(_APPLIED)
    return number


async def _apply(acquired: Connection) -> int:
    count = 0
    for migration in MIGRATIONS:
        async with acquired.transaction():
            await acquired.execute("select pg_advisory_xact_lock($1)", _LOCK)
            await acquired.execute(_CREATE)
            if migration.number > await acquired.fetchval(_APPLIED):
                await acquired.execute(migration.sql)
                await acquired.execute(
                    "insert into handraise.migrations (number, name) values ($1, $2)",
                    migration.number,
                    migration.name,
                )
                count += 1
    return count
