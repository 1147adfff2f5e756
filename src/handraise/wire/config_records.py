"""The configuration of a workspace as it crosses the wire."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

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


class ConfigResultRecord(Record):
    """What a configuration changes, or with `applied` what it has changed."""

    applied: bool
    changes: tuple[ConfigChangeRecord, ...]


class PutRetention(Request):
    """How long settled questions are kept: a number of days, `forever`, or null for the setting of the server."""

    keep_settled_days: float | Literal["forever"] | None


class RetentionRecord(Record):
    """How long settled questions are kept. Null is no rule of the workspace: then `default_days` count, null for ever."""

    keep_settled_days: float | Literal["forever"] | None = None
    default_days: float | None = None
