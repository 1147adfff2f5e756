"""The outbox over several shards: entries and deliveries are on the shard of their question."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.backends.postgres.executor import PostgresExecutor
from handraise.backends.shards.sharded_database import ShardedDatabase
from handraise.backends.sql.outbox import SqlOutbox


class ShardedOutbox(SqlOutbox):
    """The outbox on several shards. See `handraise.ports.Outbox` for what each method promises."""

    def __init__(self, database: ShardedDatabase) -> None:
        super().__init__(PostgresExecutor(database))
        self._database = database

    @property
    def by_shard(self) -> Sequence[SqlOutbox]:
        """One outbox for each shard, which looks for work only there, so that no shard delays the work of another."""
        return [SqlOutbox(PostgresExecutor(each)) for each in self._database.by_shard()]
