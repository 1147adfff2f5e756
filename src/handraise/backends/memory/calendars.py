"""The calendars of groups in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from handraise.backends.memory.store import MemoryStore
from handraise.model.group_calendars import GroupCalendar, Shift, WorkspaceCalendars
from handraise.model.questions import Ref
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_events import hours_put, rota_put


class MemoryCalendars:
    """The part of the directory for calendars. See `handraise.ports.calendars` for what each method promises."""

    _store: MemoryStore
    _calendars: dict[Ref, GroupCalendar]
    _rotas: dict[Ref, str]

    def _now(self) -> datetime:
        raise NotImplementedError

    async def calendars(self, workspace: str) -> WorkspaceCalendars:
        """All calendars of a workspace; see the port."""
        found = {ref.id: each for ref, each in self._calendars.items() if ref.workspace == workspace}
        return WorkspaceCalendars(self._now(), dict(sorted(found.items())))

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
        before = self._calendar(workspace, group)
        if check is not None:
            check(before.hours)
        self._put(replace(before, hours=hours))
        self._store.note(workspace, hours_put(group, before.hours, hours, by=by))

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
        before, ref = self._calendar(workspace, group), Ref(workspace, group)
        if check is not None:
            check(before.rota)
        same = rota is not None and before.rota == rota
        if not same or text is not None:
            fetched = self._now() if text is not None else None
            self._put(replace(before, rota=rota, fetched_at=fetched, tried_at=None, problem=None, shifts=()))
            self._rotas.pop(ref, None)
            if text is not None:
                self._rotas[ref] = text
        self._store.note(workspace, rota_put(group, before.rota, rota, is_new=text is not None, by=by))

    async def workspaces_with_rotas(self, *, limit: int) -> Sequence[str]:
        """The workspaces that have rotas; see the port."""
        found = {ref.workspace for ref, each in self._calendars.items() if each.rota is not None}
        return sorted(found)[:limit]

    async def rota_text(self, workspace: str, group: str) -> str | None:
        """The text of a rota; see the port."""
        return self._rotas.get(Ref(workspace, group))

    async def claim_rota(self, workspace: str, group: str, rota: str, *, every: timedelta) -> bool:
        """Claim the fetching of a rota; see the port."""
        known, now = self._calendar(workspace, group), self._now()
        if known.rota != rota or (known.tried_at is not None and known.tried_at > now - every):
            return False
        self._put(replace(known, tried_at=now))
        return True

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
        known = self._calendar(workspace, group)
        if known.rota != rota:
            return False
        if text is not None:
            self._rotas[Ref(workspace, group)] = text
        fetched = known.fetched_at if text is None else self._now()
        kept = known.shifts if shifts is None else tuple(shifts)
        self._put(replace(known, fetched_at=fetched, problem=problem, shifts=kept))
        return True

    def _calendar(self, workspace: str, group: str) -> GroupCalendar:
        known = self._calendars.get(Ref(workspace, group))
        return known or GroupCalendar(workspace=workspace, group_name=group)

    def _put(self, calendar: GroupCalendar) -> None:
        ref = Ref(calendar.workspace, calendar.group_name)
        self._calendars.pop(ref, None)
        if calendar.hours is not None or calendar.rota is not None:
            self._calendars[ref] = calendar
