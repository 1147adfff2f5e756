"""How a question ended, in one sentence: the same on pages, in mails, in chats and in the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from handraise.model.forms import AnyForm, Approval
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Outcome, Withdrawn
from handraise.model.questions import Question
from handraise.model.visible import visible
from handraise.presentation.answer_text import AnswerPart, answer_parts, decision_text
from handraise.presentation.names import person_name, through


@dataclass(frozen=True, slots=True)
class OutcomeText:
    """A sentence without its full stop. `person` stands apart, so that a place can set it off from our own words."""

    before: str
    person: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.person}{self.after}"

    def through(self, channel: str | None) -> str:
        """The sentence, with the channel through which it came to that."""
        return f"{self.before}{through(self.person, channel)}{self.after}"


def outcome_text(question: Question, *, viewer: str = "") -> OutcomeText:
    """The sentence; `viewer` is the person who reads it, and is called "you".

    What was answered, or why not, is not in it: `outcome_details` has that.
    """
    if question.outcome is None:
        return OutcomeText("Settled")
    return ending_text(question.outcome, question.form, asker=question.asker, viewer=viewer)


def ending_text(outcome: Outcome, form: AnyForm | None, *, asker: str | None, viewer: str) -> OutcomeText:
    """The same for an outcome alone; without a form, nobody knows that it was an approval."""
    match outcome:
        case Answered(source="default"):
            return OutcomeText("Nobody answered in time, so the agent's default was taken")
        case Answered(source="grant"):
            person = person_name(outcome.by, viewer=viewer)
            return OutcomeText("Approved by a grant that ", person, " gave before")
        case Answered():
            verb, comma, scope = (_decision(form, outcome) or "Answered").partition(",")
            return OutcomeText(f"{verb} by ", person_name(outcome.by, viewer=viewer), comma + scope)
        case Declined():
            return OutcomeText("Declined by ", person_name(outcome.by, viewer=viewer))
        case Expired():
            return OutcomeText("Expired without an answer")
        case Withdrawn() if outcome.by == asker:
            return OutcomeText("Withdrawn by the agent")
        case Withdrawn():
            return OutcomeText("Withdrawn by ", person_name(outcome.by, viewer=viewer))
        case Exhausted():
            person = person_name(outcome.by, viewer=viewer)
            return OutcomeText("Closed after too many answers that did not fit, the last by ", person)
        case _:
            assert_never(outcome)


def outcome_details(question: Question) -> tuple[AnswerPart, ...]:
    """What stands beside the sentence: what was answered, or the reason. Empty if the sentence says it all."""
    return () if question.outcome is None else ending_details(question.outcome, question.form)


def ending_details(outcome: Outcome, form: AnyForm | None) -> tuple[AnswerPart, ...]:
    """The same for an outcome alone; without a form, nobody knows what a value means."""
    match outcome:
        case Answered(source="grant"):
            return ()
        case Answered():
            if form is None:
                return ()
            if _decision(form, outcome) is None:
                return answer_parts(form, outcome.value)
            return _reason(outcome.value.get("reason"))
        case Declined() | Withdrawn():
            return _reason(outcome.reason)
        case Expired() | Exhausted():
            return ()
        case _:
            assert_never(outcome)


def edited_arguments(question: Question) -> dict[str, Json] | None:
    """The arguments that a person approved in place of those that were asked for."""
    outcome = question.outcome
    if not isinstance(outcome, Answered) or _decision(question.form, outcome) is None:
        return None
    edited: dict[str, Json] | None = outcome.value.get("arguments")
    return edited


def outcome_title(question: Question) -> str:
    """How a question ended, in a few words, for a notification."""
    outcome = question.outcome
    match outcome:
        case Answered(source="default" | "grant"):
            return (_decision(question.form, outcome) or "Answered").partition(",")[0]
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


def _decision(form: AnyForm | None, outcome: Answered) -> str | None:
    """What was decided about an action; None for other questions, and for a record that this release cannot read."""
    if not isinstance(form, Approval):
        return None
    try:
        return decision_text(form, outcome.value)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return None


def _reason(reason: str | None) -> tuple[AnswerPart, ...]:
    return (AnswerPart(None, visible(reason)),) if reason else ()
