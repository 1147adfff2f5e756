"""Working hours of groups as they cross the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import pydantic

from handraise.model.working_hours import WorkingHours
from handraise.wire.records import Record
from handraise.wire.requests import Request


class HoursRecord(Record):
    """The working hours of a group, or with `group` null of the workspace; `hours` is null if there are none."""

    group: str | None = None
    hours: WorkingHours | None = None


class HoursList(Record):
    """All working hours of a workspace: first its own, then those of its groups."""

    items: tuple[HoursRecord, ...]


class PutRota(Request):
    """The calendar that a group follows: the address of an iCalendar file, or the text of one."""

    address: Annotated[str, pydantic.Field(min_length=1, max_length=2_000)] | None = None
    text: Annotated[str, pydantic.Field(min_length=1, max_length=1_000_000)] | None = None

    @pydantic.model_validator(mode="after")
    def _one(self) -> PutRota:
        if (self.address is None) == (self.text is None):
            raise ValueError("give an address or a text")
        return self


class RotaRecord(Record):
    """The calendar that a group follows, and who is on duty now. `source` is a host or `file`; an address may be secret.

    If there is a `problem`, or nobody is on duty, the whole group is notified.
    """

    group: str
    source: str | None = None
    fetched_at: datetime | None = None
    problem: str | None = None
    on_duty: tuple[str, ...] = ()
