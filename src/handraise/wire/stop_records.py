"""Stops as they cross the wire."""

from __future__ import annotations

from datetime import datetime

import pydantic

from handraise.model.stops import Stop
from handraise.wire.records import Record
from handraise.wire.requests import Request


class PutStop(Request):
    """What to stop: an agent, a tool, a tool of an agent, or without both the whole workspace; and why."""

    agent: str | None = pydantic.Field(default=None, min_length=1, max_length=200)
    tool: str | None = pydantic.Field(default=None, min_length=1, max_length=200)
    why: str = pydantic.Field(min_length=1, max_length=2_000)


class StopRecord(Record):
    """What is stopped: an agent, a tool, a tool of an agent, or without both the whole workspace."""

    id: str
    agent: str | None = None
    tool: str | None = None
    why: str
    at: datetime
    by: str | None = None

    @classmethod
    def of(cls, stop: Stop) -> StopRecord:
        """The record of a stop."""
        return cls.model_validate(stop, from_attributes=True)

    def stop(self, workspace: str) -> Stop:
        """The stop of a record, in its workspace."""
        return Stop(workspace=workspace, **self.model_dump())


class StopList(Record):
    """The stops of a workspace, the oldest first."""

    stops: tuple[StopRecord, ...]
