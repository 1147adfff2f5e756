"""The working hours of groups, and the calendars that say who of a group is on duty. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from handraise.model.group_calendars import Shift, WorkspaceCalendars
from handraise.model.working_hours import WorkingHours


class Calendars(Protocol):
    """A part of the directory. A change by a person leaves one event of the workspace; fetching a rota leaves none.

    A group is named without `group:`. The calendar of the workspace has the name `WHOLE_WORKSPACE`. Whether a group
    exists is not checked: its calendar may come first.
    """

    async def calendars(self, workspace: str) -> WorkspaceCalendars:
        """All calendars of a workspace, without the texts of rotas, and the time by the clock of this backend."""
        ...

    async def put_hours(
        self,
        workspace: str,
        group: str,
        hours: WorkingHours | None,
        *,
        by: str | None = None,
        check: Callable[[WorkingHours | None], None] | None = None,
    ) -> None:
        """Set the working hours of a group; None removes them.

        `check` is called with those that are stored, in the same transaction. If it raises, nothing changes.
        """
        ...

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
        """Set the source of a group's rota, and its text if that is known; None removes both.

        `check` is called with the source that is stored, in the same transaction. If it raises, nothing changes.

        A source that was set before keeps its text unless another one is given. The event does not have the address,
        which may be secret, but only its host.
        """
        ...

    async def workspaces_with_rotas(self, *, limit: int) -> Sequence[str]:
        """Some of the workspaces in which a group has a rota, in order."""
        ...

    async def rota_text(self, workspace: str, group: str) -> str | None:
        """The text of a group's rota as it was last stored; None if there is none."""
        ...

    async def claim_rota(self, workspace: str, group: str, rota: str, *, every: timedelta) -> bool:
        """Whether the caller is the one who fetches this rota now: one conditional statement.

        Only one of any number of callers gets it, and nobody again before `every` has passed. False if the group
        has another rota, or none.
        """
        ...

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
        """Store what fetching a rota gave: its text, its shifts, or a problem. What is None stays as it was.

        False, and nothing changes, if the group has another rota by now.
        """
        ...
