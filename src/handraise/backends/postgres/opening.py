"""Opening PostgreSQL: check its promises, bring its schema up to date, then give out store and bus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handraise.backends.postgres.bus import PostgresBus
from handraise.backends.postgres.connecting import open_pool
from handraise.backends.postgres.schema import migrate
from handraise.backends.postgres.store import PostgresStore
from handraise.ports import Clock


@asynccontextmanager
async def open_postgres(
    address: str, *, clock: Clock | None = None, connections: int = 4
) -> AsyncIterator[tuple[PostgresStore, PostgresBus]]:
    """A store and a bus on the database at `address`, over at most `connections`, the listener included."""
    if connections < 2:  # noqa: PLR2004 -- one to work with and one to listen on
        raise ValueError("PostgreSQL needs at least 2 connections: one to work with and one to listen on.")
    pool = await open_pool(address, connections - 1)
    try:
        store = PostgresStore(pool, clock)
        await store.durability()
        await migrate(pool)
        yield store, PostgresBus(pool, address)
    finally:
        await pool.close()
