"""The calendars of groups over several shards: they are on the shard of their workspace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from handraise.backends.shards.placement import ShardRouter
from handraise.model.group_calendars import Shift, WorkspaceCalendars
from handraise.model.working_hours import WorkingHours


class ShardedCalendars:
    """The part of the directory for calendars. See `handraise.ports.calendars` for what each method promises."""

    _router: ShardRouter

    async def calendars(self, workspace: str) -> WorkspaceCalendars:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.directory.calendars(workspace))

    async def put_hours(
        self, workspace: str, group: str, hours: WorkingHours | None, *, by: str | None = None
    ) -> None:
        """See the port."""
        await self._router.write(
            workspace,
            lambda ports: ports.directory.put_hours(workspace, group, hours, by=by),
            is_noop=lambda _: True,
        )

    async def put_rota(
        self, workspace: str, group: str, rota: str | None, *, text: str | None = None, by: str | None = None
    ) -> None:
        """See the port."""
        await self._router.write(
            workspace,
            lambda ports: ports.directory.put_rota(workspace, group, rota, text=text, by=by),
            is_noop=lambda _: True,
        )

    async def workspaces_with_rotas(self, *, limit: int) -> Sequence[str]:
        """See the port; of every shard that answers."""
        found = await self._router.call_each(
            "workspaces_with_rotas", lambda ports: ports.directory.workspaces_with_rotas(limit=limit)
        )
        return [workspace for each in found for workspace in each]

    async def rota_text(self, workspace: str, group: str) -> str | None:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.directory.rota_text(workspace, group))

    async def claim_rota(self, workspace: str, group: str, rota: str, *, every: timedelta) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.claim_rota(workspace, group, rota, every=every),
            is_noop=lambda done: not done,
        )

    async def keep_rota(
        self,
        workspace: str,
        group: str,
        rota: str,
        *,
        text: str | None,
        shifts: Sequence[Shift] | None,
        problem: str | None,
    ) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.keep_rota(
                workspace, group, rota, text=text, shifts=shifts, problem=problem
            ),
            is_noop=lambda _: True,
        )
