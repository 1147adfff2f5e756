"""What people decided, as scores on the traces of the agents that asked. Services for evaluation take them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from handraise import Answered, Approval, Choice, Confirm, Declined, Desk, MultiChoice, Question
from handraise.model.traceparent import trace_ids
from handraise.outcomes import Returned

OUTCOME = "handraise_outcome"
APPROVAL = "handraise_approval"
CHOICE = "handraise_choice"
CONFIRMED = "handraise_confirmed"

ScoreKind = Literal["number", "category", "boolean"]

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:handraise:score")
_PAGE = 200
_BY_PEOPLE = ("person", "shared")
"""The sources of answers that a person gave to this question, or at the same time to one that is equal."""
_LONGEST_CATEGORY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One figure about the trace in which a question was asked.

    `id` is always the same for a question and a name, so that sending it again replaces it and adds nothing.
    """

    id: uuid.UUID
    name: str
    kind: ScoreKind
    value: float | str | bool
    trace_id: str
    span_id: str
    question_id: str
    by: str | None
    at: datetime
    comment: str | None = field(default=None, repr=False)

    @property
    def metadata(self) -> dict[str, str]:
        """What a service keeps besides: where the score comes from."""
        known = {"question": self.question_id, "span": self.span_id, "by": self.by or ""}
        return {f"handraise_{name}": text for name, text in known.items() if text}


def scores_of(question: Question) -> list[Score]:
    """The scores of a settled question: none if no person decided it, or if the trace of its asker is not known."""
    trace_id, span_id = trace_ids(question.trace)
    outcome = question.outcome
    if trace_id is None or span_id is None:
        return []
    match outcome:
        case Answered(source=source) if source in _BY_PEOPLE:
            by, comment = outcome.by, None if question.decision is None else question.decision.reason
        case Declined() | Returned():
            by, comment = outcome.by, outcome.reason
        case _:
            return []
    return [
        Score(
            id=uuid.uuid5(_NAMESPACE, f"{question.workspace}\n{question.id}\n{name}"),
            name=name,
            kind=kind,
            value=value,
            trace_id=trace_id,
            span_id=span_id,
            question_id=question.id,
            by=by,
            at=outcome.at,
            comment=comment,
        )
        for name, kind, value in _values(question)
    ]


async def scores_since(
    desk: Desk, since: datetime, *, until: datetime | None = None
) -> AsyncGenerator[list[Score], None]:
    """The scores of what was settled in a time, the latest first, some at a time."""
    after = None
    while True:
        page = await desk.list_settled(since=since, until=until, after=after, limit=_PAGE)
        if found := [score for question in page.items for score in scores_of(question)]:
            yield found
        if (after := page.next) is None:
            return


def _values(question: Question) -> list[tuple[str, ScoreKind, float | str | bool]]:
    outcome = question.outcome
    if not isinstance(outcome, Answered):
        return [(OUTCOME, "category", "" if outcome is None else outcome.status.value)]
    match question.form, question.decision:
        case Approval(), decision if decision is not None:
            if not decision.approved:
                return [(OUTCOME, "category", "denied"), (APPROVAL, "number", 0.0)]
            if decision.edited:
                return [(OUTCOME, "category", "approved_with_edits"), (APPROVAL, "number", 0.5)]
            return [(OUTCOME, "category", "approved"), (APPROVAL, "number", 1.0)]
        case Choice() | MultiChoice(), _:
            return [(OUTCOME, "category", "answered"), (CHOICE, "category", _chosen(outcome.value))]
        case Confirm(), _:
            return [
                (OUTCOME, "category", "answered"),
                (CONFIRMED, "boolean", outcome.value is True),
            ]
        case _:
            return [(OUTCOME, "category", "answered")]


def _chosen(value: object) -> str:
    """The ids of the options, or `other` for a text of the person's own, which may be anything."""
    chosen = value if isinstance(value, list) else [value]
    return ",".join(each if isinstance(each, str) else "other" for each in chosen)[:_LONGEST_CATEGORY]
