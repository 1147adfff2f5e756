"""Standing answers: an answer that a person keeps for a topic, with an end, revocable, visible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from handraise.model.errors import CannotKeep
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.model.people import Responder
from handraise.model.problems import Problem
from handraise.model.questions import Question
from handraise.model.rulings import Ending

LONGEST = timedelta(days=366)
"""For how long an answer can be kept."""
SPOT_CHECK = 0.05
"""The share of questions that still goes to people, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingAnswer:
    """An answer that was kept: it answers every new question of its topic that asks the same people the same.

    `question_id` is the question in which it was given. `spot_check` is the share of new questions that people are asked
    all the same. If one of them is answered differently, that ends it: `contradicted_in` is the id of that question.
    """

    id: str
    workspace: str
    topic: str
    value: Json = field(repr=False)
    given_by: str
    question_id: str
    created_at: datetime
    expires_at: datetime
    spot_check: float = SPOT_CHECK
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    contradicted_in: str | None = None

    def holds(self, now: datetime) -> bool:
        """Whether it answers questions now."""
        return self.revoked_at is None and self.expires_at > now

    @property
    def ending(self) -> Ending:
        """How it settles a question."""
        record: dict[str, Json] = {
            "value": self.value,
            "by": self.given_by,
            "source": "standing",
            "standing": self.id,
            "question": self.question_id,
        }
        return Ending("answered", record, standing=self.id)


def may_keep(question: Question, responder: Responder) -> bool:
    """Whether this person could keep an answer of theirs to this question, which may be pending."""
    return not any(_question_problems(question, responder))


def check_keep(question: Question, responder: Responder, until: datetime, spot_check: float) -> None:
    """Raise `CannotKeep` if this person cannot keep the answer to this question."""
    problems = [*_outcome_problems(question, responder), *_question_problems(question, responder)]
    if until.tzinfo is None:
        problems.append(Problem("until", "give a time with a time zone"))
    elif question.outcome is not None and until > question.outcome.at + LONGEST:
        problems.append(Problem("until", f"an answer is kept for at most {LONGEST.days} days"))
    if not 0 <= spot_check <= 1:
        problems.append(Problem("spot_check", "give a share from 0 to 1"))
    if problems:
        raise CannotKeep(problems)


def _outcome_problems(question: Question, responder: Responder) -> Iterator[Problem]:
    outcome = question.outcome
    if not isinstance(outcome, Answered) or outcome.source != "person":
        yield Problem("question", "only an answer that a person gave can be kept")
    elif outcome.by != responder.id:
        yield Problem("by", "only the person who gave the answer can keep it")


def _question_problems(question: Question, responder: Responder) -> Iterator[Problem]:
    if question.topic is None:
        yield Problem("question", "it has no topic: only the answer to a topic can be kept")
    elif question.takes_votes or question.topic_key is None or question.evidence is not None:
        yield Problem("question", "the answer to this question needs more than one person's word each time")
    if question.recipients and not set(responder.principals).intersection(question.recipients):
        yield Problem("by", "you were not among the first who were asked: only they can keep an answer")


def kept_record(standing_id: str, until: datetime, spot_check: float) -> dict[str, Json]:
    """What the event of a kept answer says."""
    return {"standing": standing_id, "until": until.isoformat(), "spot_check": spot_check}
