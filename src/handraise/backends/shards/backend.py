"""Opening several shards as one backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handraise.backends.postgres.backend import open_database
from handraise.backends.postgres.executor import PostgresExecutor
from handraise.backends.postgres.ledger import PostgresLedger
from handraise.backends.postgres.policies import PostgresPolicies
from handraise.backends.shards.bus import ShardedBus
from handraise.backends.shards.outbox import ShardedOutbox
from handraise.backends.shards.shard import Shard
from handraise.backends.shards.shard_router import ShardRouter
from handraise.backends.shards.sharded_database import ShardedDatabase
from handraise.backends.shards.store import ShardedStore
from handraise.backends.sql.directory import SqlDirectory
from handraise.backends.sql.files import SqlBlobs, SqlFiles
from handraise.ports import Backend, Clock
from handraise.ports.store import StatementSpan

SCHEME = "postgresql+shards"
"""An address with this scheme is the address of the placement database."""


@asynccontextmanager
async def open_shards(
    address: str,
    *,
    clock: Clock | None = None,
    connections: int = 4,
    confined: bool | None = None,
    statement_span: StatementSpan | None = None,
) -> AsyncIterator[Backend]:
    """The ports over all shards that the placement database at `address` knows.

    Each shard gets at most `connections` from this process, including its listener. It is opened when it is first
    needed, so a shard that is down does not delay the others. See `open_postgres` for `confined`.
    """

    def make(number: int, address: str) -> Shard:
        return Shard(
            number,
            address,
            clock=clock,
            connections=connections,
            confined=confined,
            statement_span=statement_span,
        )

    async with open_database(
        placement_address(address), clock=clock, connections=2, confined=confined
    ) as placements:
        router = ShardRouter(placements, make)
        database = ShardedDatabase(router)
        executor = PostgresExecutor(database)
        try:
            await router.load()
            yield Backend(
                ShardedStore(router, database),
                ShardedBus(router),
                SqlDirectory(executor),
                ShardedOutbox(database),
                PostgresLedger(executor),
                PostgresPolicies(database),
                SqlFiles(executor),
                SqlBlobs(executor),
                router.pool_stats,
            )
        finally:
            await router.close()


def placement_address(address: str) -> str:
    """The address of the placement database, as PostgreSQL's driver takes it."""
    return "postgresql" + address.removeprefix(SCHEME) if address.startswith(SCHEME) else address
