"""How a question ended, in one sentence: the same on pages, in mails, in chats and in the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from handraise.model.due_changes import ORPHAN_RECORD
from handraise.model.forms import AnyForm, Approval
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Outcome, Returned, Withdrawn
from handraise.model.questions import Question
from handraise.model.visible import visible
from handraise.presentation.answer_text import AnswerPart, Verdict, answer_parts, verdict_of
from handraise.presentation.names import person_name, through
from handraise.presentation.translation import gettext


@dataclass(frozen=True, slots=True)
class OutcomeText:
    """A sentence without its full stop. `person` is separate, so that a place can show it apart from our words."""

    before: str
    person: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.person}{self.after}"

    def through(self, channel: str | None) -> str:
        """The sentence, with the channel through which the question ended."""
        who = through(self.person, channel) if self.person else ""
        return f"{self.before}{who}{self.after}"


def outcome_text(question: Question, *, viewer: str = "") -> OutcomeText:
    """The sentence; `viewer` is the person who reads it, and is called "you".

    What was answered, or why not, is not in it: `outcome_details` has that.
    """
    if question.outcome is None:
        return OutcomeText(gettext("Settled"))
    return ending_text(question.outcome, question.form, asker=question.asker, viewer=viewer)


def ending_text(outcome: Outcome, form: AnyForm | None, *, asker: str | None, viewer: str) -> OutcomeText:
    """The same for an outcome alone; without a form, nobody knows that it was an approval."""
    match outcome:
        case Answered(source="default"):
            return OutcomeText(gettext("Nobody answered in time, so the agent's default was taken"))
        case Answered(source="grant"):
            return _sentence(gettext("Approved by a grant that {person} gave before"), outcome.by, viewer)
        case Answered(source="shared"):
            sentence = gettext("Answered by {person}, who was asked the same by another agent")
            return _sentence(sentence, outcome.by, viewer)
        case Answered(source="standing"):
            sentence = gettext("Answered at once, with the standing answer of {person}")
            return _sentence(sentence, outcome.by, viewer)
        case Answered():
            return _sentence(_answered_by(_verdict(form, outcome)), outcome.by, viewer)
        case Declined():
            return _sentence(gettext("Declined by {person}"), outcome.by, viewer)
        case Returned():
            return _sentence(gettext("Sent back by {person}"), outcome.by, viewer)
        case Expired():
            return OutcomeText(gettext("Expired without an answer"))
        case Withdrawn() if outcome.by == ORPHAN_RECORD["by"]:
            return OutcomeText(
                gettext("Closed by the policy, because nobody was waiting for the answer any more")
            )
        case Withdrawn() if outcome.by == asker:
            return OutcomeText(gettext("Withdrawn by the agent"))
        case Withdrawn():
            return _sentence(gettext("Withdrawn by {person}"), outcome.by, viewer)
        case Exhausted():
            sentence = gettext("Closed after too many answers that did not fit, the last by {person}")
            return _sentence(sentence, outcome.by, viewer)
        case _:
            assert_never(outcome)


def outcome_details(question: Question) -> tuple[AnswerPart, ...]:
    """The text beside the sentence: the answer, or the reason. Empty if the sentence says it all."""
    return () if question.outcome is None else ending_details(question.outcome, question.form)


def ending_details(outcome: Outcome, form: AnyForm | None) -> tuple[AnswerPart, ...]:
    """The same for an outcome alone; without a form, nobody knows what a value means."""
    match outcome:
        case Answered(source="grant"):
            return ()
        case Answered():
            if form is None:
                return ()
            if _verdict(form, outcome) is None:
                return answer_parts(form, outcome.value)
            return _reason(outcome.value.get("reason"))
        case Withdrawn() if outcome.by == ORPHAN_RECORD["by"]:
            return ()
        case Declined() | Withdrawn() | Returned():
            return _reason(outcome.reason)
        case Expired() | Exhausted():
            return ()
        case _:
            assert_never(outcome)


def edited_arguments(question: Question) -> dict[str, Json] | None:
    """The arguments that a person approved instead of those that were asked for."""
    outcome = question.outcome
    if not isinstance(outcome, Answered) or _verdict(question.form, outcome) is None:
        return None
    edited: dict[str, Json] | None = outcome.value.get("arguments")
    return edited


def outcome_title(question: Question) -> str:
    """How a question ended, in a few words, for a notification."""
    outcome = question.outcome
    match outcome:
        case Answered(source="default" | "grant" | "policy" | "shared" | "standing"):
            return _answered(_verdict(question.form, outcome))
        case Answered() | Declined() | Returned():
            return str(outcome_text(question))
        case Expired():
            return gettext("Expired")
        case Withdrawn():
            return gettext("Withdrawn")
        case Exhausted():
            return gettext("Closed")
        case None:
            return gettext("Settled")
        case _:
            assert_never(outcome)


def _verdict(form: AnyForm | None, outcome: Answered) -> Verdict | None:
    """What was decided about an action; None for other questions, and for a record that this release cannot read."""
    if not isinstance(form, Approval):
        return None
    try:
        return verdict_of(form, outcome.value)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return None


def _answered(verdict: Verdict | None) -> str:
    match verdict:
        case Verdict(approved=False):
            return gettext("Denied")
        case Verdict(edited=True):
            return gettext("Approved with changed arguments")
        case Verdict():
            return gettext("Approved")
        case None:
            return gettext("Answered")


def _answered_by(verdict: Verdict | None) -> str:
    match verdict:
        case Verdict(approved=False):
            return gettext("Denied by {person}")
        case Verdict(edited=True, scope="session"):
            return gettext("Approved with changed arguments by {person}, for this conversation")
        case Verdict(edited=True, scope="always"):
            return gettext("Approved with changed arguments by {person}, always")
        case Verdict(edited=True):
            return gettext("Approved with changed arguments by {person}")
        case Verdict(scope="session"):
            return gettext("Approved by {person}, for this conversation")
        case Verdict(scope="always"):
            return gettext("Approved by {person}, always")
        case Verdict():
            return gettext("Approved by {person}")
        case None:
            return gettext("Answered by {person}")


def _reason(reason: str | None) -> tuple[AnswerPart, ...]:
    return (AnswerPart(None, visible(reason)),) if reason else ()


def _sentence(sentence: str, person: str | None, viewer: str) -> OutcomeText:
    """A sentence about what somebody did, split at the name."""
    before, _, after = sentence.partition("{person}")
    return OutcomeText(before, person_name(person, viewer=viewer), after)
