"""What a workspace knows about the time of its groups: when they work, and the calendar that says who is on duty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from handraise.model.durations import WorkingSpan
from handraise.model.json_values import Json
from handraise.model.people import GROUP
from handraise.model.timelines import Step
from handraise.model.working_hours import IsHoliday, WorkingHours, after_working

WHOLE_WORKSPACE = ""
"""The name under which the calendar of the workspace is kept; no group has it."""
FILE = "file"
"""The source of a rota that somebody uploaded; others have an address."""


class Shift(NamedTuple):
    """A time in which a person of the group is on duty."""

    begins: datetime
    ends: datetime
    person: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCalendar:
    """The working hours of a group, or of the workspace, and its rota.

    `rota` is the address of an iCalendar file, which may be secret, or `FILE`. `fetched_at` is when its text was last
    stored, `tried_at` when somebody last began to fetch it, `problem` what went wrong since. `shifts` are those of the
    weeks around that time.
    """

    workspace: str
    group_name: str
    hours: WorkingHours | None = None
    rota: str | None = field(default=None, repr=False)
    fetched_at: datetime | None = None
    tried_at: datetime | None = None
    problem: str | None = None
    shifts: tuple[Shift, ...] = field(default=(), repr=False)

    def on_duty(self, at: datetime) -> frozenset[str]:
        """Who is on duty at an instant, by the rota."""
        return frozenset(each.person for each in self.shifts if each.begins <= at < each.ends)


class WorkspaceCalendars(NamedTuple):
    """The calendars of a workspace by the names of groups, and the time by the clock of the store."""

    now: datetime
    groups: Mapping[str, GroupCalendar]

    def hours_for(self, recipients: Sequence[str]) -> WorkingHours | None:
        """The hours of the first group among these that has some, else those of the workspace."""
        names = [name.removeprefix(GROUP) for name in recipients if name.startswith(GROUP)]
        found = (self.groups.get(name) for name in (*names, WHOLE_WORKSPACE))
        return next((each.hours for each in found if each is not None and each.hours is not None), None)


def shifts_to_json(shifts: Sequence[Shift]) -> list[Json]:
    """The shifts of a rota as they are stored."""
    return [[each.begins.isoformat(), each.ends.isoformat(), each.person] for each in shifts]


def shifts_from_json(stored: Sequence[Json]) -> tuple[Shift, ...]:
    """The shifts of a rota from what is stored."""
    return tuple(
        Shift(datetime.fromisoformat(begins), datetime.fromisoformat(ends), person)
        for begins, ends, person in stored
    )


def timed_steps(
    steps: Sequence[Step], hours: WorkingHours, now: datetime, is_holiday: IsHoliday
) -> tuple[Step, ...]:
    """A timeline with what its working time comes to, in the order of its times; what ends it stays the last.

    A step that would come after the end is done right before it. Raises `NoWorkingTime`.
    """

    def timed(step: Step) -> Step:
        if step.working is None:
            return step
        return replace(step, after=after_working(hours, now, WorkingSpan(step.working), is_holiday) - now)

    found = sorted(map(timed, steps), key=lambda step: (step.ends, step.after))
    if not found or not found[-1].ends:
        return tuple(found)
    end = max(found[-1].after, timedelta(microseconds=1))
    return tuple(replace(step, after=min(step.after, end)) for step in found)
