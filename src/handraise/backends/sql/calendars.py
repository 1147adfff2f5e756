"""The calendars of groups in SQL: every decision is one conditional statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from handraise.backends.sql.executor import Run, SqlExecutor, note
from handraise.backends.sql.parameters import json_text
from handraise.backends.sql.rows import instant, stored_calendar
from handraise.model.group_calendars import GroupCalendar, Shift, WorkspaceCalendars, shifts_to_json
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_events import hours_put, rota_put


class SqlCalendars:
    """The part of the directory for calendars. See `handraise.ports.calendars` for what each method promises."""

    _executor: SqlExecutor

    async def calendars(self, workspace: str) -> WorkspaceCalendars:
        """All calendars of a workspace; see the port."""
        rows = await self._executor.fetch(workspace, "calendars")
        found = [stored_calendar(row) for row in rows if row["workspace"] is not None]
        return WorkspaceCalendars(instant(rows[0]["now"]), {each.group_name: each for each in found})

    async def put_hours(
        self,
        workspace: str,
        group: str,
        hours: WorkingHours | None,
        *,
        by: str | None = None,
        check: Callable[[WorkingHours | None], None] | None = None,
    ) -> None:
        """Set the working hours of a group; see the port."""

        async def work(run: Run) -> None:
            before = await _locked(run, workspace, group)
            if check is not None:
                check(before.hours)
            await run("put_hours", group_name=group, hours=None if hours is None else hours.model_dump_json())
            await run("drop_calendar", group_name=group)
            await note(run, hours_put(group, before.hours, hours, by=by))

        await self._executor.transact(workspace, work)

    async def put_rota(
        self,
        workspace: str,
        group: str,
        rota: str | None,
        *,
        text: str | None = None,
        by: str | None = None,
        check: Callable[[str | None], None] | None = None,
    ) -> None:
        """Set the rota of a group; see the port."""

        async def work(run: Run) -> None:
            before = await _locked(run, workspace, group)
            if check is not None:
                check(before.rota)
            if rota is None or before.rota != rota or text is not None:
                await run("put_rota", group_name=group, rota=rota, ics=text)
                await run("drop_calendar", group_name=group)
            await note(run, rota_put(group, before.rota, rota, is_new=text is not None, by=by))

        await self._executor.transact(workspace, work)

    async def workspaces_with_rotas(self, *, limit: int) -> Sequence[str]:
        """The workspaces that have rotas; see the port."""
        rows = await self._executor.fetch(None, "workspaces_with_rotas", at_most=limit)
        return [row["workspace"] for row in rows]

    async def rota_text(self, workspace: str, group: str) -> str | None:
        """The text of a rota; see the port."""
        rows = await self._executor.fetch(workspace, "rota_text", group_name=group)
        return rows[0]["ics"] if rows else None

    async def claim_rota(self, workspace: str, group: str, rota: str, *, every: timedelta) -> bool:
        """Claim the fetching of a rota; see the port."""
        values = {"group_name": group, "rota": rota, "every": every}
        return bool(await self._executor.fetch(workspace, "claim_rota", **values))

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
        """Store what fetching a rota gave; see the port."""
        values = {"group_name": group, "rota": rota, "ics": text, "problem": problem}
        values["shifts"] = None if shifts is None else json_text(shifts_to_json(shifts))
        return bool(await self._executor.fetch(workspace, "keep_rota", **values))


async def _locked(run: Run, workspace: str, group: str) -> GroupCalendar:
    """A group's calendar, which nobody else changes until the end of the transaction."""
    await run("lock_group", group_name=group)
    rows = await run("read_calendar", group_name=group)
    return stored_calendar(rows[0]) if rows else GroupCalendar(workspace=workspace, group_name=group)
