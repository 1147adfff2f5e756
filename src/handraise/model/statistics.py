"""Endings: short records of how questions ended, for statistics. They have no prompt, no answer and no reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from handraise.model.forms import Approval, Risk
from handraise.model.outcomes import Answered, Outcome, Source, Status
from handraise.model.people import GROUP
from handraise.model.questions import Question
from handraise.model.stops import tool_of

MAX_ENDINGS = 10_000
"""So many endings are counted, the newest ones."""


Way: TypeAlias = Literal[
    "person",
    "default",
    "grant",
    "policy",
    "shared",
    "standing",
    "declined",
    "returned",
    "expired",
    "withdrawn",
    "exhausted",
]
"""How a question ended: where its answer came from, or its status if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one question ended: when, by whom and through which channel. `kind` is the kind of its form.

    `approved` is what a person decided about an action, or None if no person did. `tool` and `risk` are None if there
    was no action. `failed` says that its asker reported that what came of it failed. `promised_seconds` is how long
    after it was asked the first step of its timeline is: the reminder, the escalation or the end.
    """

    id: str
    asker: str
    kind: str
    status: Status
    asked_at: datetime
    settled_at: datetime
    by: str | None = None
    source: Source | None = None
    channel: str | None = None
    approved: bool | None = None
    tool: str | None = None
    risk: Risk | None = None
    recipients: tuple[str, ...] = ()
    voters: frozenset[str] = frozenset()
    promised_seconds: float | None = None
    failed: bool = False

    @property
    def failed_after_approval(self) -> bool:
        """Whether its action was approved, and failed as its asker reported."""
        return self.kind == "approval" and self.failed

    @property
    def way(self) -> Way:
        """How it ended, in one word."""
        return _way(self.status, self.source)

    @property
    def seconds(self) -> float:
        """How long it waited."""
        return (self.settled_at - self.asked_at).total_seconds()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it was asked of at first."""
        return tuple(name.removeprefix(GROUP) for name in self.recipients if name.startswith(GROUP))

    @property
    def people(self) -> frozenset[str]:
        """Who settled it or voted on it."""
        return frozenset(filter(None, (self.by, *self.voters)))

    @property
    def is_late(self) -> bool:
        """Whether it ended after its promised time."""
        return self.promised_seconds is not None and self.seconds >= self.promised_seconds


def way_of(outcome: Outcome) -> Way:
    """How a question with this outcome ended."""
    return _way(outcome.status, getattr(outcome, "source", None))


def _way(status: Status, source: Source | None) -> Way:
    match status:
        case Status.ANSWERED:
            return source or "person"
        case Status.DECLINED:
            return "declined"
        case Status.RETURNED:
            return "returned"
        case Status.WITHDRAWN:
            return "withdrawn"
        case Status.EXHAUSTED:
            return "exhausted"
        case _:
            return "expired"


def ending_of(question: Question) -> Ending | None:
    """How a question ended, or None while it is pending."""
    form, outcome = question.form, question.outcome
    if outcome is None:
        return None
    answered = outcome if isinstance(outcome, Answered) else None
    decision = question.decision if answered and answered.source == "person" else None
    return Ending(
        id=question.id,
        asker=question.asker,
        kind=form.kind,
        status=question.status,
        asked_at=question.asked_at,
        settled_at=outcome.at,
        by=getattr(outcome, "by", None),
        source=answered.source if answered else None,
        channel=getattr(outcome, "channel", None),
        approved=None if decision is None else decision.approved,
        tool=tool_of(question),
        risk=form.risk if isinstance(form, Approval) else None,
        recipients=question.recipients,
        voters=frozenset(vote.by for vote in question.votes),
        promised_seconds=promised_seconds(question),
        failed=question.report is not None and not question.report.ok,
    )


def promised_seconds(question: Question) -> float | None:
    """How long after it was asked the first step of its timeline is; None if nobody promised anything."""
    return question.steps[0].after.total_seconds() if question.steps else None


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them do not exceed."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]
