"""Answers as people read them: labels instead of ids, and words instead of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from handraise.model.attachments import attachment_from_json
from handraise.model.decisions import decision_of
from handraise.model.forms import (
    AnyForm,
    Approval,
    Choice,
    Confirm,
    File,
    Form,
    MultiChoice,
    Open,
    SimpleForm,
)
from handraise.model.json_values import Json, canonical_json
from handraise.model.visible import visible, visible_line
from handraise.presentation.file_text import file_text
from handraise.presentation.translation import gettext


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person decided about an action, and how far an approval reaches."""

    approved: bool
    edited: bool
    scope: str


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One part of an answer; `name` is None if the answer has only one part."""

    name: str | None
    text: str

    def __str__(self) -> str:
        return self.text if self.name is None else f"{self.name}: {self.text}"


def answer_parts(form: AnyForm, value: Json) -> tuple[AnswerPart, ...]:
    """The parts of an answer. One that does not fit the form, from another release perhaps, is shown as JSON."""
    try:
        return _parts(form, value)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return (AnswerPart(None, visible(value if isinstance(value, str) else canonical_json(value))),)


def verdict_of(form: Approval, value: Json) -> Verdict:
    """What was decided about an action."""
    decision = decision_of(form, value)
    return Verdict(decision.approved, decision.edited, value.get("scope", ""))


def decision_text(form: Approval, value: Json) -> str:
    """What was decided about an action, in words."""
    match verdict_of(form, value):
        case Verdict(approved=False):
            return gettext("Denied")
        case Verdict(edited=True, scope="session"):
            return gettext("Approved with changed arguments, for this conversation")
        case Verdict(edited=True, scope="always"):
            return gettext("Approved with changed arguments, always")
        case Verdict(edited=True):
            return gettext("Approved with changed arguments")
        case Verdict(scope="session"):
            return gettext("Approved, for this conversation")
        case Verdict(scope="always"):
            return gettext("Approved, always")
        case _:
            return gettext("Approved")


def simple_answer(form: SimpleForm, value: Json) -> str:
    """The answer to one field."""
    match form:
        case Choice() | MultiChoice():
            labels = {option.id: option.label for option in form.options}
            chosen = value if isinstance(value, (list, tuple)) else [value]
            names = [
                gettext("Other: {text}").format(text=each["other"])
                if isinstance(each, dict)
                else labels.get(each, str(each))
                for each in chosen
            ]
            return visible(", ".join(names)) if names else gettext("none of them")
        case Confirm():
            return {True: gettext("Yes"), False: gettext("No")}.get(value, visible(str(value)))
        case Open():
            return visible(str(value)) or gettext("an empty text")
        case File():
            return file_text(attachment_from_json(value))
        case _:
            assert_never(form)


def _parts(form: AnyForm, value: Json) -> tuple[AnswerPart, ...]:
    match form:
        case Form():
            fields = {each.name: each for each in form.fields}
            return tuple(
                AnswerPart(visible_line(fields[name].title or name), simple_answer(fields[name].form, one))
                for name, one in value.items()
                if name in fields
            )
        case Approval():
            reason = decision_of(form, value).reason
            decided = AnswerPart(None, decision_text(form, value))
            return (decided, AnswerPart(gettext("Reason"), visible(reason))) if reason else (decided,)
        case _:
            return (AnswerPart(None, simple_answer(form, value)),)
