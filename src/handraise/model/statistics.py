"""Endings: short records of how questions ended, for statistics. They hold nothing that anybody wrote."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from handraise.model.forms import Approval, Risk
from handraise.model.outcomes import Answered, Source, Status
from handraise.model.questions import Question

MAX_ENDINGS = 10_000
"""So many endings are counted, the newest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one question ended: when, by whom and through which channel. `kind` is the kind of its form.

    `approved` is what a person decided about an action, or None if no person did. `risk` is None if there was
    no action. `failed_question` is the id of the question if its asker reported that what came of it failed.
    """

    asker: str
    kind: str
    status: Status
    asked_at: datetime
    settled_at: datetime
    by: str | None = None
    source: Source | None = None
    channel: str | None = None
    approved: bool | None = None
    risk: Risk | None = None
    failed_question: str | None = None

    @property
    def failed_after_approval(self) -> bool:
        """Whether its action was approved, and failed as its asker reported."""
        return self.kind == "approval" and self.failed_question is not None


def ending_of(question: Question) -> Ending | None:
    """How a question ended, or None while it is pending."""
    form, outcome = question.form, question.outcome
    if outcome is None:
        return None
    answered = outcome if isinstance(outcome, Answered) else None
    decision = question.decision if answered and answered.source == "person" else None
    return Ending(
        asker=question.asker,
        kind=form.kind,
        status=question.status,
        asked_at=question.asked_at,
        settled_at=outcome.at,
        by=getattr(outcome, "by", None),
        source=answered.source if answered else None,
        channel=getattr(outcome, "channel", None),
        approved=None if decision is None else decision.approved,
        risk=form.risk if isinstance(form, Approval) else None,
        failed_question=question.id if question.report is not None and not question.report.ok else None,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them do not exceed."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]
