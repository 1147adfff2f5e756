"""The views that people save, over several shards: they are on the shard of their workspace."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.backends.shards.placement import ShardRouter
from handraise.model.saved_views import SavedView


class ShardedSavedViews:
    """The part of the directory for saved views. See `handraise.ports.saved_views` for what each method promises."""

    _router: ShardRouter

    async def save_view(
        self, workspace: str, person: str, name: str, *, query: str, at_most: int
    ) -> SavedView | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.save_view(workspace, person, name, query=query, at_most=at_most),
            is_noop=lambda saved: saved is None,
        )

    async def saved_views(self, workspace: str, person: str) -> Sequence[SavedView]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.saved_views(workspace, person)
        )

    async def remove_view(self, workspace: str, person: str, name: str) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.remove_view(workspace, person, name),
            is_noop=lambda removed: not removed,
        )
