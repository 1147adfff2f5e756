"""The configuration of a workspace as it crosses the wire."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from handraise.policies.rule_shortages import Staffing
from handraise.wire.records import Record
from handraise.wire.requests import Request


class ConfigRecord(Record):
    """The configuration of a workspace, as `handraise apply` reads it; its fields are in `office.schema.json`."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)

    version: int


class ConfigChangeRecord(Record):
    """Something that a configuration changes. `before` and `after` have what differs, without secrets."""

    part: str = pydantic.Field(description="the part of the file, such as `people`")
    name: str = pydantic.Field(default="", description="what it is about in that part, such as a person")
    change: Literal["added", "changed", "removed"]
    before: Any = None
    after: Any = None
    warning: str | None = pydantic.Field(default=None, description="what cannot be undone")


class StaffingRecord(Record):
    """A rule for which there are not enough people, or just enough: the text says which."""

    rule: str
    is_short: bool = pydantic.Field(
        description="nobody can fulfil it; otherwise there are just enough people"
    )
    text: str

    @classmethod
    def of(cls, found: Staffing) -> StaffingRecord:
        """What was found out about a rule."""
        return cls(rule=found.rule, is_short=found.is_short, text=found.text)


class ConfigResultRecord(Record):
    """What a configuration changes, or with `applied` what it has changed."""

    applied: bool
    changes: tuple[ConfigChangeRecord, ...]
    warnings: tuple[StaffingRecord, ...] = pydantic.Field(
        default=(), description="rules for which there are not enough people afterwards, or just enough"
    )


class PutRetention(Request):
    """How long settled questions are kept: a number of days, `forever`, or null for the setting of the server."""

    keep_settled_days: float | Literal["forever"] | None


class RetentionRecord(Record):
    """How long settled questions are kept. Null is no rule of the workspace: then `default_days` count, null for ever."""

    keep_settled_days: float | Literal["forever"] | None = None
    default_days: float | None = None
