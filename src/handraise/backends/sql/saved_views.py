"""The views that people save, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.backends.sql.executor import Run, SqlExecutor
from handraise.backends.sql.rows import stored_view
from handraise.model.saved_views import SavedView


class SqlSavedViews:
    """The part of the directory for saved views. See `handraise.ports.saved_views` for what each method promises."""

    _executor: SqlExecutor

    async def save_view(
        self, workspace: str, person: str, name: str, *, query: str, at_most: int
    ) -> SavedView | None:
        """Save a view; see the port."""

        async def work(run: Run) -> SavedView | None:
            # The lock is a separate statement: what a statement sees is fixed before it waits for a lock.
            await run("lock_person", id=person, email_folded=None)
            rows = await run("save_view", person=person, name=name, query=query, at_most=at_most)
            return stored_view(rows[0]) if rows else None

        return await self._executor.transact(workspace, work)

    async def saved_views(self, workspace: str, person: str) -> Sequence[SavedView]:
        """The views of a person; see the port."""
        return [
            stored_view(row) for row in await self._executor.fetch(workspace, "saved_views", person=person)
        ]

    async def remove_view(self, workspace: str, person: str, name: str) -> bool:
        """Remove a view; see the port."""
        return bool(await self._executor.fetch(workspace, "remove_view", person=person, name=name))
