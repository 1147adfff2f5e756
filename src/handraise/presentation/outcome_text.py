"""How a question ended, in one sentence: the same on pages, in mails, in chats and in the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from handraise.model.forms import AnyForm, Approval
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Withdrawn
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.answer_text import decision_text

_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class OutcomeText:
    """A sentence without its full stop. `person` stands apart, so that a place can set it off from our own words."""

    before: str
    person: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.person}{self.after}"


def outcome_text(question: Question, *, viewer: str = "") -> OutcomeText:
    """The sentence; `viewer` is the person who reads it, and is called "you".

    What was answered, or why nobody would, is not in it: `answer_parts` and the outcome's `reason` have that.
    The agent is "the agent" here: its name is the agent's own word, and stands where the place shows who asked.
    """
    outcome = question.outcome
    match outcome:
        case Answered(source="default"):
            return OutcomeText("Nobody answered in time, so the agent's default was taken")
        case Answered(source="grant"):
            return OutcomeText("Approved by a grant that ", _name(outcome.by, viewer), " gave before")
        case Answered():
            verb, comma, scope = _answered(question.form, outcome).partition(",")
            return OutcomeText(f"{verb} by ", _name(outcome.by, viewer), comma + scope)
        case Declined():
            return OutcomeText("Declined by ", _name(outcome.by, viewer))
        case Expired():
            return OutcomeText("Expired without an answer")
        case Withdrawn() if outcome.by == question.asker:
            return OutcomeText("Withdrawn by the agent")
        case Withdrawn():
            return OutcomeText("Withdrawn by ", _name(outcome.by, viewer))
        case Exhausted():
            who = _name(outcome.by, viewer)
            return OutcomeText("Closed after too many answers that did not fit, the last by ", who)
        case None:
            return OutcomeText("Settled")
        case _:
            assert_never(outcome)


def outcome_title(question: Question) -> str:
    """How a question ended, in a few words, for a notification."""
    outcome = question.outcome
    match outcome:
        case Answered(source="default" | "grant"):
            return _answered(question.form, outcome).partition(",")[0]
        case Answered() | Declined():
            return str(outcome_text(question))
        case Expired():
            return "Expired"
        case Withdrawn():
            return "Withdrawn"
        case Exhausted():
            return "Closed"
        case None:
            return "Settled"
        case _:
            assert_never(outcome)


def _answered(form: AnyForm, outcome: Answered) -> str:
    """What the answer did. It is "Approved" only if the record says so."""
    if isinstance(form, Approval):
        try:
            return decision_text(form, outcome.value)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError):  # from another release
            return "Answered"
    return "Answered"


def _name(person: str | None, viewer: str) -> str:
    if person is None:
        return "nobody"
    if person == viewer:
        return "you"
    name = visible_line(person)
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1].rstrip()}…"
