"""What the page of a question offers to a person who may keep their answer for its topic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from handraise.model.outcomes import Answered
from handraise.model.people import Responder
from handraise.model.questions import Question
from handraise.model.standing_answers import LONGEST, may_keep
from handraise.model.visible import visible_line
from handraise.presentation.translation import local_time


@dataclass(frozen=True, slots=True)
class KeepOffer:
    """What the page needs to offer it. Everything in it may be shown as it is."""

    topic: str
    first_day: str
    last_day: str
    is_answered: bool


def keep_offer(question: Question, responder: Responder) -> KeepOffer | None:
    """What a person who answers, or who has answered, is offered; None if the answer cannot be kept."""
    outcome = question.outcome
    if question.topic is None or not may_keep(question, responder):
        return None
    if outcome is not None and not (
        isinstance(outcome, Answered) and outcome.source == "person" and outcome.by == responder.id
    ):
        return None
    today = local_time(datetime.now(UTC)).date()
    last = today + LONGEST - timedelta(days=1)
    return KeepOffer(
        visible_line(question.topic), today.isoformat(), last.isoformat(), is_answered=outcome is not None
    )
