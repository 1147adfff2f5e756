"""Which settled questions a page has: when they ended, how, and by whom; and what was asked, of whom."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Literal, TypeAlias, get_args

from handraise.model.events import EventKind
from handraise.model.forms import Risk
from handraise.model.outcomes import Outcome
from handraise.model.people import GROUP
from handraise.model.questions import Question
from handraise.model.statistics import Way, promised_seconds, way_of
from handraise.model.stops import tool_of

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

NO_CHANNEL = ""
"""The channel of questions that were settled through a program that named none."""

DISORDER = timedelta(minutes=10)
"""How far the times of events may differ from the order of the events: the longest transaction that is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledFilter:
    """When settled questions ended, how, and who settled them or voted on them. None does not filter.

    `since` is the first instant, and `until` is the first one that is too late. `ways` are some ways to end, `group` is
    one that was asked at first, and `took_at_least` and `took_less` say how long it waited. `is_late` leaves only what
    ended after the first step of its timeline, and `has_failed` only actions that failed after they were approved.
    """

    since: datetime | None = None
    until: datetime | None = None
    outcome: Ended | None = None
    by: str | None = None
    ways: tuple[Way, ...] | None = None
    channel: str | None = None
    tool: str | None = None
    risk: Risk | None = None
    group: str | None = None
    took_at_least: timedelta | None = None
    took_less: timedelta | None = None
    is_late: bool = False
    has_failed: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """What it compares with texts of others."""
        return tuple(filter(None, (self.by, self.channel, self.tool, self.group)))

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
            and (self.ways is None or way_of(outcome) in self.ways)
            and (self.channel is None or self.channel == (getattr(outcome, "channel", None) or NO_CHANNEL))
            and self._asks_for(question)
            and self._took(question, outcome)
        )

    def _asks_for(self, question: Question) -> bool:
        return (
            (self.tool is None or self.tool == tool_of(question))
            and (self.risk is None or self.risk == question.risk)
            and (self.group is None or f"{GROUP}{self.group}" in question.recipients)
            and (not self.has_failed or has_failed(question))
        )

    def _took(self, question: Question, outcome: Outcome) -> bool:
        span, promised = outcome.at - question.asked_at, promised_seconds(question)
        return (
            (self.took_at_least is None or span >= self.took_at_least)
            and (self.took_less is None or span < self.took_less)
            and (not self.is_late or (promised is not None and span.total_seconds() >= promised))
        )

    def is_before(self, at: datetime) -> bool:
        """Whether everything that fits ended after the events around this instant."""
        return self.oldest is not None and at < self.oldest

    @property
    def oldest(self) -> datetime | None:
        """The instant of the oldest event that may have ended a question that fits; None if there is no such limit."""
        return None if self.since is None or self.since.year <= 1 else self.since - DISORDER

    def is_after(self, at: datetime) -> bool:
        """Whether everything that fits ended before the events around this instant."""
        return self.begin is not None and at >= self.begin

    @property
    def begin(self) -> datetime | None:
        """The instant of the newest event that may have ended a question that fits; None if there is no such limit."""
        return None if self.until is None or self.until.year >= MAXYEAR else self.until + DISORDER


ANY_END = SettledFilter()


def is_in_calendar(at: datetime) -> bool:
    """Whether an instant has a date in UTC: the first and the last hours of all times may have none."""
    try:
        at.astimezone(UTC)
    except OverflowError:
        return False
    return True


def has_failed(question: Question) -> bool:
    """Whether it is about an action that its asker reported as failed."""
    return tool_of(question) is not None and question.report is not None and not question.report.ok


def settled_filter(
    *, since: datetime | None, until: datetime | None, outcome: Ended | None, by: str | None
) -> SettledFilter:
    """The filter with these limits; raises `ValueError` for one that means nothing."""
    for name, value in (("since", since), ("until", until)):
        if value is not None and value.tzinfo is None:
            raise ValueError(f"`{name}` has no time zone: give it one, such as datetime.now(UTC)")
        if value is not None and not is_in_calendar(value):
            raise ValueError(f"`{name}` is outside of the years 1 to 9999 in UTC")
    if outcome is not None and outcome not in ENDED:
        raise ValueError(f"`outcome` is one of {', '.join(ENDED)}")
    return SettledFilter(since=since, until=until, outcome=outcome, by=by)
