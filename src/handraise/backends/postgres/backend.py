"""Opening PostgreSQL: bring its schema up to date, check its promises, then return the ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handraise.backends.postgres.bus import PostgresBus
from handraise.backends.postgres.connections import (
    alone,
    driver_errors_translated,
    open_pool,
    open_pool_behind_pooler,
)
from handraise.backends.postgres.database import Database
from handraise.backends.postgres.executor import PostgresExecutor
from handraise.backends.postgres.ledger import PostgresLedger
from handraise.backends.postgres.policies import PostgresPolicies
from handraise.backends.postgres.row_security import checked_row_security, row_security_of
from handraise.backends.postgres.schema import migrate, move_in
from handraise.backends.postgres.store import PostgresStore
from handraise.backends.sql.directory import SqlDirectory
from handraise.backends.sql.files import SqlBlobs, SqlFiles
from handraise.backends.sql.outbox import SqlOutbox
from handraise.ports import Backend, Clock
from handraise.ports.store import StatementSpan


@asynccontextmanager
async def open_postgres(
    address: str,
    *,
    clock: Clock | None = None,
    connections: int = 4,
    listen: str | None = None,
    confined: bool | None = None,
    anywhere: bool = True,
    statement_span: StatementSpan | None = None,
) -> AsyncIterator[Backend]:
    """The ports on the database at `address`, with at most `connections`, including the listener.

    `listen` is the address of the same database without a pooler such as PgBouncer in between; `address` may then be
    that of the pooler, in transaction mode. `confined` says whether PostgreSQL itself must keep workspaces apart; if it
    must and would not, opening is refused. With None, that depends on the role you log in as. `anywhere` is passed to
    `migrate`.
    """
    async with open_database(
        address,
        clock=clock,
        connections=connections,
        listen=listen,
        confined=confined,
        anywhere=anywhere,
        statement_span=statement_span,
    ) as database:
        yield ports_on(database, listen or address)


def ports_on(database: Database, direct: str) -> Backend:
    """The ports on a database that listens at its own address."""
    executor = PostgresExecutor(database)
    return Backend(
        PostgresStore(database),
        PostgresBus(database, direct),
        SqlDirectory(executor),
        SqlOutbox(executor),
        PostgresLedger(executor),
        PostgresPolicies(database),
        SqlFiles(executor),
        SqlBlobs(executor),
        database.pool_stats,
    )


@asynccontextmanager
async def open_database(
    address: str,
    *,
    clock: Clock | None = None,
    connections: int = 4,
    listen: str | None = None,
    confined: bool | None = None,
    anywhere: bool = True,
    statement_span: StatementSpan | None = None,
) -> AsyncIterator[Database]:
    """The database that the ports of `open_postgres` use, migrated and with its promises checked."""
    if connections < 2:  # noqa: PLR2004 -- one to work with and one to listen on
        raise ValueError("PostgreSQL needs at least 2 connections: one to work with and one to listen on.")
    direct = listen or address
    with driver_errors_translated():
        async with alone(direct, "migrations") as acquired:
            await migrate(acquired, anywhere=anywhere)
            await move_in(acquired)
    opening = open_pool if listen is None else open_pool_behind_pooler
    pool = opening(address, connections - 1)
    try:
        row_security = await (checked_row_security(pool) if confined else row_security_of(pool))
        database = Database(pool, clock=clock, row_security=row_security, statement_span=statement_span)
        await PostgresStore(database).durability()
        yield database
    finally:
        await pool.close()
