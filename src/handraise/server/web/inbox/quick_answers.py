"""Answers that take one press: yes or no, one of a few options, and actions of low risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from handraise.model.agreement import has_voted
from handraise.model.evidence import why_too_weak
from handraise.model.forms import Approval, form_to_json
from handraise.model.people import may_respond
from handraise.model.questions import Question
from handraise.model.stops import Stop, stop_for
from handraise.presentation.one_press import (
    QuickButton,
    arguments_shown,
    can_wait,
    quick_buttons,
    why_read_alone,
)
from handraise.presentation.translation import gettext
from handraise.server.auth.authenticator import PersonCaller
from handraise.server.web.inbox.question_html import AnswerContext, digest_shown, seconds_left


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickAnswer:
    """The buttons of a row, with what its person sees. Everything in it may be shown as it is."""

    buttons: Sequence[QuickButton]
    arguments: Sequence[tuple[str, str]]
    """The arguments of the action, all of them."""
    digest: str | None
    shown_digest: str
    left: float | None
    """The seconds until the question expires."""
    can_wait: bool
    """Whether it can be sent later than it was given."""


def kind_of(question: Question) -> tuple[str, str]:
    """What questions of one kind share: the agent, and the tool or the form."""
    form = question.form
    return question.asker, f"approve {form.action.tool}" if isinstance(form, Approval) else form_to_json(form)


def why_alone(question: Question, caller: PersonCaller, stops: Sequence[Stop]) -> str | None:
    """Why a question must be opened and answered by itself, or None."""
    me = caller.person
    if why := why_read_alone(question):
        return why
    if not may_respond(question, me.responder):
        return gettext("it is for others")
    if question.evidence == "passkey" or why_too_weak(question, caller.session.evidence) is not None:
        return gettext("it needs a stronger proof that it is you")
    if has_voted(question, me.id):
        return gettext("you voted already")
    if stop_for(stops, question) is not None:
        return gettext("it is stopped")
    return None


def quick_answer_of(
    question: Question, caller: PersonCaller, context: AnswerContext, stops: Sequence[Stop]
) -> QuickAnswer | None:
    """The buttons of a row, if the row shows all that the agent wrote; None if the question must be opened."""
    buttons = quick_buttons(question)
    if not buttons or why_alone(question, caller, stops):
        return None
    form = question.form
    here = replace(context, here=f"/questions/{question.id}")
    return QuickAnswer(
        buttons=buttons,
        arguments=arguments_shown(form),
        digest=form.digest if isinstance(form, Approval) else None,
        shown_digest=digest_shown(here, question, None),
        left=seconds_left(question),
        can_wait=can_wait(question),
    )
