"""Which settled questions a page has: when they ended, how, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta
from typing import Literal, TypeAlias, get_args

from handraise.model.events import EventKind
from handraise.model.questions import Question

Ended: TypeAlias = Literal[
    "answered", "approved", "denied", "declined", "returned", "expired", "withdrawn", "exhausted"
]
"""How a question ended. `answered` has every answer, also approvals and denials."""

ENDED: tuple[Ended, ...] = get_args(Ended)
"""All ways to end, in the order in which people are offered them."""

_DECISIONS = {"approved": "approve", "denied": "deny"}
_ENDINGS = (
    EventKind.ANSWERED,
    EventKind.DECLINED,
    EventKind.EXPIRED,
    EventKind.WITHDRAWN,
    EventKind.EXHAUSTED,
    EventKind.RETURNED,
)

DISORDER = timedelta(minutes=10)
"""How far the times of events may differ from the order of the events: the longest transaction that is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledFilter:
    """When settled questions ended, how, and who settled them or voted on them. None does not filter.

    `since` is the first instant, and `until` is the first one that is too late.
    """

    since: datetime | None = None
    until: datetime | None = None
    outcome: Ended | None = None
    by: str | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The events that end such a question."""
        if self.outcome is None:
            return tuple(each.value for each in _ENDINGS)
        return ("answered",) if self.outcome in _DECISIONS else (self.outcome,)

    @property
    def decision(self) -> str | None:
        """What was decided about an action; None if any answer fits."""
        return None if self.outcome is None else _DECISIONS.get(self.outcome)

    def fits(self, question: Question) -> bool:
        """Whether a question ended like this."""
        outcome = question.outcome
        if outcome is None or outcome.status.value not in self.kinds:
            return False
        if self.decision is not None and (
            question.decision is None or question.decision.approved != (self.outcome == "approved")
        ):
            return False
        voters = (vote.by for vote in question.votes)
        return (
            (self.since is None or outcome.at >= self.since)
            and (self.until is None or outcome.at < self.until)
            and (self.by is None or self.by == getattr(outcome, "by", None) or self.by in voters)
        )

    def is_before(self, at: datetime) -> bool:
        """Whether everything that fits ended after the events around this instant."""
        return self.since is not None and self.since.year > 1 and at < self.since - DISORDER

    @property
    def begin(self) -> datetime | None:
        """The instant of the newest event that may have ended a question that fits; None if there is no such limit."""
        return None if self.until is None or self.until.year >= MAXYEAR else self.until + DISORDER


ANY_END = SettledFilter()


def settled_filter(
    *, since: datetime | None, until: datetime | None, outcome: Ended | None, by: str | None
) -> SettledFilter:
    """The filter with these limits; raises `ValueError` for one that means nothing."""
    for name, value in (("since", since), ("until", until)):
        if value is not None and value.tzinfo is None:
            raise ValueError(f"`{name}` has no time zone: give it one, such as datetime.now(UTC)")
    if outcome is not None and outcome not in ENDED:
        raise ValueError(f"`outcome` is one of {', '.join(ENDED)}")
    return SettledFilter(since=since, until=until, outcome=outcome, by=by)
