"""Forms that open over a conversation: their fields, and the answer in what was put into them.

Every field has a name of ours (`f0`, `f1`, …) and options go by their place, so that nothing an agent wrote is part of
the protocol. The desk decides whether an answer fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from handraise.channels import message_texts
from handraise.channels.discord.components import (
    LONGEST_TEXT,
    MOST_INPUTS,
    MOST_OPTIONS,
    Component,
    modal,
    select_input,
    shown,
    shows_in_full,
    text_input,
    with_label,
)
from handraise.channels.discord.markup import length_of, prompt_start
from handraise.channels.discord.references import build_reference
from handraise.channels.payloads import InvalidPayload
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, File, MultiChoice, Open, takes_files
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.presentation.form_parts import Entered, Part, initial, parts_of, read_parts
from handraise.presentation.form_text import typed_hint
from handraise.presentation.thread_text import ASK_THE_AGENT, NOTE_FOR_COLLEAGUES
from handraise.presentation.translation import gettext

_PROMPT = 1_000
_LONGEST_REASON = 2_000


def answer_modal(question: Question) -> Component:
    """The form that answers a question."""
    fields = [each for part in _parts(question.form) for each in _fields(part)]
    return modal(
        build_reference(question, "answer"),
        message_texts.heading_of(question),
        [*_asked(question, fields), *fields],
    )


def can_be_filled_in(question: Question) -> bool:
    """Whether a form has room for all that there is to fill in, and shows every option in full."""
    if takes_files(question.form):
        return False
    parts = _parts(question.form)
    if sum(2 if part.has_other else 1 for part in parts) > MOST_INPUTS:
        return False
    return all(len(part.options) <= MOST_OPTIONS and all(map(shows_in_full, part.options)) for part in parts)


def reason_modal(question: Question, verb: str) -> Component:
    """The form that declines to answer, denies an action, or sends a question back, which needs its reason."""
    match verb:
        case "send_back":
            title, asked = gettext("Send back"), message_texts.send_back_asks()
        case "reason":
            title, asked = gettext("Deny"), gettext("Why not? The agent is told.")
        case _:
            title, asked = gettext("Decline to answer"), gettext("Why not? The agent is told.")
    needed = verb == "send_back"
    field = text_input("reason", several_lines=True, required=needed, longest=_LONGEST_REASON)
    fields = [with_label(asked, field)]
    return modal(build_reference(question, verb), title, [*_asked(question, fields), *fields])


def message_modal(question: Question, verb: str) -> Component:
    """The form in which somebody writes to the agent, or to colleagues."""
    title = gettext(ASK_THE_AGENT) if verb == "ask" else gettext(NOTE_FOR_COLLEAGUES)
    hint = gettext("It is the agent's turn then.") if verb == "ask" else gettext("The agent does not see it.")
    field = text_input("text", several_lines=True, required=True)
    fields = [with_label(gettext("Your message"), field, hint)]
    return modal(build_reference(question, verb), title, [*_asked(question, fields), *fields])


def read_answer(form: AnyForm, components: object) -> Json:
    """The answer in a filled-in form.

    Raises `InvalidAnswer`, or `InvalidPayload` for what none of our forms sends.
    """
    state = _state(components)
    return read_parts((part, _entered(part, state)) for part in _parts(form)).checked()


def read_reason(components: object) -> str | None:
    """The reason that was written, if there is one."""
    text = _state(components).get("reason", {}).get("value")
    return text.strip() or None if isinstance(text, str) else None


def read_text(components: object) -> str:
    """The message that was written."""
    text = _state(components).get("text", {}).get("value")
    return text.strip() if isinstance(text, str) else ""


def _parts(form: AnyForm) -> Sequence[Part]:
    """What there is to fill in. The arguments of an action are changed in the inbox."""
    return () if isinstance(form, Approval) else parts_of(form)


def _asked(question: Question, fields: Sequence[Component]) -> Sequence[Component]:
    """The prompt, if there is room for it besides the fields."""
    if len(fields) >= MOST_INPUTS:
        return ()
    prompt, _ = prompt_start(question.prompt, _PROMPT)
    return (shown(prompt),)


def _fields(part: Part) -> list[Component]:
    made = [with_label(part.label, _input(part), part.description or typed_hint(part.form))]
    if part.has_other:
        other = text_input(f"{part.name}o", several_lines=False, required=False)
        made.append(with_label(part.other_label, other))
    return made


def _input(part: Part) -> Component:
    form, required, first = part.form, not part.may_be_empty, initial(part)
    match form:
        case Open():
            longest = form.max_length if form.type == "text" else None
            fits = length_of(first.text) <= min(longest or LONGEST_TEXT, LONGEST_TEXT)
            return text_input(
                part.name,
                several_lines=part.has_lines,
                required=required,
                longest=longest,
                text=first.text if fits else None,
            )
        case Confirm() | Choice():
            return select_input(part.name, part.options, chosen=first.picked, required=required, most=1)
        case MultiChoice():
            most = len(form.options) if form.at_most is None else form.at_most
            return select_input(part.name, part.options, chosen=first.picked, required=required, most=most)
        case File():
            return shown(typed_hint(form))
        case _:
            assert_never(form)


def _state(components: object) -> Mapping[str, Mapping[str, Any]]:
    """What is in each field, by its name."""
    found: dict[str, Mapping[str, Any]] = {}
    for each in components if isinstance(components, list) else []:
        field = each.get("component") if isinstance(each, dict) else None
        if isinstance(field, dict) and isinstance(field.get("custom_id"), str):
            found[field["custom_id"]] = field
    return found


def _entered(part: Part, state: Mapping[str, Mapping[str, Any]]) -> Entered:
    """What was put into a part."""
    found = state.get(part.name, {})
    if isinstance(part.form, Open):
        value = found.get("value")
        if value is not None and not isinstance(value, str):
            raise InvalidPayload("value")
        return Entered(text=value or "")
    other = state.get(f"{part.name}o", {}).get("value")
    own = other if isinstance(other, str) and other.strip() else None
    return Entered(_picked(found, part), other=own)


def _picked(found: Mapping[str, Any], part: Part) -> frozenset[int]:
    values = found.get("values") or []
    places = {str(place): place for place in range(len(part.options))}
    if not isinstance(values, list) or any(
        not isinstance(each, str) or each not in places for each in values
    ):
        raise InvalidPayload("values")
    return frozenset(places[each] for each in values)
