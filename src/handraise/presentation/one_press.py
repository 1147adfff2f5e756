"""Which questions can be answered with one press, in a row of the list or in a notification; and which ones offline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handraise.model.forms import AnyForm, Approval, Choice, Confirm, form_to_json
from handraise.model.json_values import Json, digest
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.markdown import one_line
from handraise.presentation.translation import gettext

_FEW = 4
"""How many options a person can choose from with one press."""
_IN_A_NOTIFICATION = 2
"""How many buttons browsers show."""
_LONGEST_NOTIFICATION = 160
_LONGEST_PROMPT = 180
_LONGEST_LABEL = 24
_MOST_ARGUMENTS = 4
_LONGEST_ARGUMENT = 40


@dataclass(frozen=True, slots=True)
class QuickButton:
    """A button that answers, with what the form of the question's page sends. `label` is the agent's text if not `ours`."""

    name: str
    value: str
    label: str
    key: str
    ours: bool = True


def takes_one_press(form: AnyForm) -> bool:
    """Whether one press is enough to answer it. High and medium risk must be confirmed."""
    match form:
        case Confirm():
            return True
        case Choice():
            return len(form.options) <= _FEW and not form.allow_other
        case Approval():
            return form.risk == "low"
        case _:
            return False


def can_wait(question: Question) -> bool:
    """Whether an answer may be sent later than it was given: not at high risk, nor if people must prove who they are."""
    return question.risk != "high" and question.evidence is None


def why_read_alone(question: Question) -> str | None:
    """Why everybody must open a question to answer it, or None."""
    form = question.form
    if question.risk == "high":
        return gettext("it is of high risk")
    if question.thread:
        return gettext("there is a conversation about it")
    if not isinstance(form, (Confirm, Choice, Approval)) or (isinstance(form, Choice) and form.allow_other):
        return gettext("it takes an answer of its own")
    if isinstance(form, Choice) and not _has_plain_options(form):
        return gettext("its options must be read")
    return None


def quick_buttons(question: Question) -> Sequence[QuickButton]:
    """The buttons that answer a question, if one press is enough and a few lines show all that the agent wrote."""
    form = question.form
    if not takes_one_press(form) or why_read_alone(question) or not _fits_in_a_row(question):
        return ()
    buttons = tuple(buttons_of(form))
    return () if any(len(each.label) > _LONGEST_LABEL for each in buttons) else buttons


def notification_buttons(question: Question) -> Sequence[QuickButton]:
    """The buttons of a notification that shows all of a question; none if it cannot, or if people must prove who they are.

    The words on its buttons are ours: an agent's option could look like a button of the browser.
    """
    buttons = quick_buttons(question)
    # As browsers count.
    length = len(notification_text(question).encode("utf-16-le", "surrogatepass")) // 2
    is_small = (
        len(buttons) <= _IN_A_NOTIFICATION
        and all(each.ours for each in buttons)
        and length <= _LONGEST_NOTIFICATION
    )
    return buttons if is_small and can_wait(question) else ()


def notification_text(question: Question) -> str:
    """All that the agent wrote, for a notification; only for questions that fit in a row."""
    form = question.form
    if not isinstance(form, Approval):
        return question.prompt
    # One in each line: a value cannot have a line break, so it cannot look like another argument.
    arguments = (f"{name}: {value}" for name, value in arguments_shown(form))
    return "\n".join(filter(None, (question.prompt, visible_line(form.action.tool), *arguments)))


def notification_digest(question: Question) -> str:
    """The digest of what such a notification shows, in whatever language the rest of it is."""
    return digest([question.asker, question.prompt, form_to_json(question.form)])


def buttons_of(form: AnyForm) -> Iterator[QuickButton]:
    """The buttons that answer it."""
    match form:
        case Confirm():
            yield QuickButton("v", "yes", gettext("Yes"), "y")
            yield QuickButton("v", "no", gettext("No"), "n")
        case Approval():
            yield QuickButton("decision", "approve", gettext("Approve"), "y")
            yield QuickButton("decision", "deny", gettext("Deny"), "n")
        case Choice():
            for place, option in enumerate(form.options):
                yield QuickButton("v", str(place), visible_line(option.label), str(place + 1), ours=False)
        case _:
            return


def arguments_shown(form: AnyForm) -> tuple[tuple[str, str], ...]:
    """The arguments of an action, all of them; only for actions that fit in a row."""
    if not isinstance(form, Approval):
        return ()
    words = {True: gettext("yes"), False: gettext("no"), None: gettext("nothing")}
    return tuple(
        (visible_line(name), words[value] if value is None or isinstance(value, bool) else str(value))
        for name, value in form.action.arguments.items()
    )


def _has_plain_options(form: Choice) -> bool:
    return not any(
        each.description or each.preview or each.reason or each.recommended for each in form.options
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
