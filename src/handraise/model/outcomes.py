"""How a question ended: a union of frozen types that a type checker can exhaust.

`str(outcome)` is for people and shows the value; `repr` is for logs and hides it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from handraise.model.json_values import Json


class Status(StrEnum):
    """The status of a question: pending, or settled in one of six ways."""

    PENDING = "pending"
    ANSWERED = "answered"
    DECLINED = "declined"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    EXHAUSTED = "exhausted"
    RETURNED = "returned"


Source = Literal["person", "default", "grant", "policy", "shared", "standing"]
"""Where an answer came from. `shared`: a person answered an equal question of another asker, with the same topic.
`standing`: a person answered one before, and kept the answer for the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A valid answer was recorded. `source` says where it came from."""

    status: ClassVar[Status] = Status.ANSWERED
    value: Json = field(repr=False)
    at: datetime
    by: str | None = None
    source: Source = "person"
    channel: str | None = None
    evidence: str | None = None

    def __str__(self) -> str:
        if self.source == "grant":
            return f"answered {self.value!r} by a grant of {self.by}"
        if self.source == "policy":
            return (
                f"answered {self.value!r} by the policy, in rule {(self.by or '').removeprefix('policy:')!r}"
            )
        if self.source == "shared":
            return f"answered {self.value!r} by {self.by}, to an equal question"
        if self.source == "standing":
            return f"answered {self.value!r} by a standing answer of {self.by}"
        if self.source == "default":
            return f"answered {self.value!r} by default, because its time ran out"
        return f"answered {self.value!r} by {self.by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """A person declined to answer."""

    status: ClassVar[Status] = Status.DECLINED
    at: datetime
    by: str
    reason: str | None = field(default=None, repr=False)
    channel: str | None = None
    evidence: str | None = None

    def __str__(self) -> str:
        return f"declined by {self.by}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Its time ran out, as the asker had planned."""

    status: ClassVar[Status] = Status.EXPIRED
    at: datetime

    def __str__(self) -> str:
        return "expired without an answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """The asker took it back, or an administrator or the policy did for the asker: `by` says who."""

    status: ClassVar[Status] = Status.WITHDRAWN
    at: datetime
    by: str
    reason: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"withdrawn by {self.by}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """Too many answers did not fit. `by` is the person who gave the last one."""

    status: ClassVar[Status] = Status.EXHAUSTED
    at: datetime
    by: str

    def __str__(self) -> str:
        return f"given up after too many answers that did not fit, the last by {self.by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A person sent it back: change what `reason` says, and ask again with `replaces`. It is never an approval."""

    status: ClassVar[Status] = Status.RETURNED
    at: datetime
    by: str
    reason: str = field(repr=False)
    channel: str | None = None
    evidence: str | None = None

    def __str__(self) -> str:
        return f"sent back by {self.by}: {self.reason}"


Outcome: TypeAlias = Answered | Declined | Expired | Withdrawn | Exhausted | Returned
"""How a question ended: one of six types. A type checker notices if a `match` leaves one out."""


def outcome_of(status: str, at: datetime, record: dict[str, Json]) -> Outcome:
    """Build the outcome from what a store keeps: the status, the time, and the record of the settling move."""
    match status:
        case Status.ANSWERED:
            return Answered(
                value=record["value"],
                at=at,
                by=record.get("by"),
                source=record.get("source", "person"),
                channel=record.get("channel"),
                evidence=record.get("evidence"),
            )
        case Status.DECLINED:
            return Declined(
                at=at,
                by=record["by"],
                reason=record.get("reason"),
                channel=record.get("channel"),
                evidence=record.get("evidence"),
            )
        case Status.EXPIRED:
            return Expired(at=at)
        case Status.WITHDRAWN:
            return Withdrawn(at=at, by=record["by"], reason=record.get("reason"))
        case Status.EXHAUSTED:
            return Exhausted(at=at, by=record["by"])
        case Status.RETURNED:
            return Returned(
                at=at,
                by=record["by"],
                reason=record["reason"],
                channel=record.get("channel"),
                evidence=record.get("evidence"),
            )
        case Status.PENDING:
            raise ValueError("A pending question has no outcome.")
        case _:
            raise ValueError(f"{status!r} is not a status")
