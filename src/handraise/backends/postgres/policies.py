"""The policies and stops of workspaces in PostgreSQL."""

from __future__ import annotations

from functools import partial

from handraise.backends.postgres.database import Database
from handraise.backends.postgres.executor import PostgresExecutor
from handraise.backends.postgres.writers import writers_ended
from handraise.backends.sql.policies import SqlPolicies
from handraise.model.errors import StoreUnavailable
from handraise.model.stops import Stop

_PATIENCE = 10.0


class PostgresPolicies(SqlPolicies):
    """Policies in PostgreSQL. See `handraise.ports.Policies` for what each method promises."""

    def __init__(self, database: Database) -> None:
        super().__init__(PostgresExecutor(database))
        self._database = database

    async def stop(
        self, workspace: str, *, agent: str | None = None, tool: str | None = None, why: str, by: str | None
    ) -> Stop:
        """Stop what is covered, and wait for the statements that could not see it; see the port."""
        stop = await super().stop(workspace, agent=agent, tool=tool, why=why, by=by)
        if await writers_ended(partial(self._database.fetch_in, workspace), patience=_PATIENCE):
            return stop
        raise StoreUnavailable(
            f"The stop {stop.id} is stored, but something that began earlier is still running. Stop again to be sure."
        )
