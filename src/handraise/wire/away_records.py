"""Who is away, as it crosses the wire."""

from __future__ import annotations

from datetime import datetime

import pydantic

from handraise.model.away import Away
from handraise.wire.records import Record
from handraise.wire.requests import Name, Request


class PutAway(Request):
    """A period in which a person is away, from now on unless `from` says otherwise, and who answers for them."""

    model_config = pydantic.ConfigDict(validate_by_name=True, serialize_by_alias=True)

    starts: pydantic.AwareDatetime | None = pydantic.Field(default=None, alias="from")
    until: pydantic.AwareDatetime
    deputy: Name | None = None


class AwayRecord(Record):
    """A person who is away between `from` and `until`, and who answers for them; all are null if they are not away."""

    model_config = pydantic.ConfigDict(validate_by_name=True, serialize_by_alias=True)

    person: str
    starts: datetime | None = pydantic.Field(default=None, alias="from")
    until: datetime | None = None
    deputy: str | None = None

    @classmethod
    def of(cls, person: str, away: Away | None) -> AwayRecord:
        """The record of a person who is away, or is not."""
        if away is None:
            return cls(person=person)
        return cls(person=person, starts=away.starts, until=away.until, deputy=away.deputy)
