"""Answers that take one press: yes or no, one of a few options, and actions of low risk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from handraise.model.agreement import has_voted
from handraise.model.evidence import why_too_weak
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, form_to_json
from handraise.model.json_values import Json
from handraise.model.people import may_respond
from handraise.model.questions import Question
from handraise.model.stops import Stop, stop_for
from handraise.model.visible import visible_line
from handraise.presentation.markdown import one_line
from handraise.presentation.translation import gettext
from handraise.server.auth.authenticator import PersonCaller
from handraise.server.web.inbox.form_controls import controls_of
from handraise.server.web.inbox.question_html import AnswerContext, digest_shown
from handraise.server.web.inbox.question_kind import takes_one_press

_LONGEST_PROMPT = 180
_LONGEST_LABEL = 24
_MOST_ARGUMENTS = 4
_LONGEST_ARGUMENT = 40


@dataclass(frozen=True, slots=True)
class QuickButton:
    """A button that answers. `label` is the agent's text if it is not `ours`."""

    name: str
    value: str
    label: str
    key: str
    ours: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickAnswer:
    """The buttons of a row, with what its person sees. Everything in it may be shown as it is."""

    buttons: Sequence[QuickButton]
    arguments: Sequence[tuple[str, str]]
    """The arguments of the action, all of them."""
    digest: str | None
    shown_digest: str


def kind_of(question: Question) -> tuple[str, str]:
    """What questions of one kind share: the agent, and the tool or the form."""
    form = question.form
    return question.asker, f"approve {form.action.tool}" if isinstance(form, Approval) else form_to_json(form)


def why_alone(question: Question, caller: PersonCaller, stops: Sequence[Stop]) -> str | None:
    """Why a question must be opened and answered by itself, or None."""
    form, me = question.form, caller.person
    if question.risk == "high":
        return gettext("it is of high risk")
    if not may_respond(question, me.responder):
        return gettext("it is for others")
    if question.thread:
        return gettext("there is a conversation about it")
    if question.evidence == "passkey" or why_too_weak(question, caller.session.evidence) is not None:
        return gettext("it needs a stronger proof that it is you")
    if has_voted(question, me.id):
        return gettext("you voted already")
    if stop_for(stops, question) is not None:
        return gettext("it is stopped")
    if not isinstance(form, (Confirm, Choice, Approval)) or (isinstance(form, Choice) and form.allow_other):
        return gettext("it takes an answer of its own")
    if isinstance(form, Choice) and not _has_plain_options(form):
        return gettext("its options must be read")
    return None


def _has_plain_options(form: Choice) -> bool:
    return not any(
        each.description or each.preview or each.reason or each.recommended for each in form.options
    )


def quick_answer_of(
    question: Question, caller: PersonCaller, context: AnswerContext, stops: Sequence[Stop]
) -> QuickAnswer | None:
    """The buttons of a row, if the row shows all that the agent wrote; None if the question must be opened."""
    form = question.form
    if not takes_one_press(form) or why_alone(question, caller, stops) or not _fits_in_a_row(question):
        return None
    buttons = tuple(buttons_of(form))
    if any(len(each.label) > _LONGEST_LABEL for each in buttons):
        return None
    here = replace(context, here=f"/questions/{question.id}")
    return QuickAnswer(
        buttons=buttons,
        arguments=_arguments(form.action.arguments) if isinstance(form, Approval) else (),
        digest=form.digest if isinstance(form, Approval) else None,
        shown_digest=digest_shown(here, question, None),
    )


def _fits_in_a_row(question: Question) -> bool:
    """Whether a row shows everything that the agent's part of the page shows."""
    form = question.form
    is_short = (
        question.context is None
        and not question.attachments
        and not question.thread
        and question.replaces is None
        and one_line(question.prompt, _LONGEST_PROMPT) == question.prompt
    )
    if not is_short:
        return False
    match form:
        case Approval():
            arguments = form.action.arguments
            is_plain = form.brief is None and set(form.scopes) <= {"once"} and form.valid_for is None
            return is_plain and len(arguments) <= _MOST_ARGUMENTS and all(map(_is_short, arguments.values()))
        case _:
            return True


def _is_short(value: Json) -> bool:
    if isinstance(value, (dict, list, tuple)):
        return False
    text = str(value)
    return len(text) <= _LONGEST_ARGUMENT and visible_line(text) == text


def _arguments(arguments: dict[str, Json]) -> tuple[tuple[str, str], ...]:
    words = {True: gettext("yes"), False: gettext("no"), None: gettext("nothing")}
    return tuple(
        (visible_line(name), words[value] if value is None or isinstance(value, bool) else str(value))
        for name, value in arguments.items()
    )


def buttons_of(form: AnyForm) -> Iterator[QuickButton]:
    """The buttons that answer it."""
    match form:
        case Confirm():
            yield QuickButton("v", "yes", gettext("Yes"), "y")
            yield QuickButton("v", "no", gettext("No"), "n")
        case Approval():
            yield QuickButton("decision", "approve", gettext("Approve"), "y")
            yield QuickButton("decision", "deny", gettext("Deny"), "n")
        case _:
            [control] = controls_of(form, typed=None, problems=())
            for number, tick in enumerate(control.ticks, start=1):
                yield QuickButton(control.name, tick.value, tick.label, str(number), tick.ours)
