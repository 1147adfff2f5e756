"""Forms that open over a conversation: their inputs, and the answer in what was put into them.

Every input has a name of ours (`f0`, `f1`, …) and options go by their place, so that nothing an agent wrote is part of
the protocol. The desk decides whether an answer fits; its message is shown beside the input it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

from handraise.channels.message_texts import send_back_asks
from handraise.channels.payloads import InvalidPayload
from handraise.channels.slack.blocks import (
    LABEL,
    MOST_OPTIONS,
    MOST_TICKS,
    Block,
    line,
    literal,
    plain,
    quoted_start,
    rich,
    size_of,
    with_name,
    words,
)
from handraise.channels.slack.option_labels import labels_of, length_of, list_of
from handraise.channels.slack.references import decision_extra, format_reference
from handraise.model.forms import AnyForm, Approval, MultiChoice, Open, takes_files
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.error_text import error_text
from handraise.presentation.form_parts import (
    Entered,
    Part,
    initial,
    is_about,
    parts_of,
    read_parts,
)
from handraise.presentation.form_text import hint_of
from handraise.presentation.translation import gettext, pgettext

_MOST_BLOCKS = 100
_LONGEST_METADATA = 3_000
_LONGEST_TEXT = 3_000
_LARGEST_VIEW = 200_000
_EARLIEST, _LATEST = 1_000_000_000, 9_999_999_999
"""The seconds that have ten digits, as Slack wants them."""
_ERROR = 300
_PROMPT = 2_000
_MOST_LINES = 100
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII)
_WEB_ADDRESS = re.compile(r"https?://[\w.-]+(/[\w./-]*)?", re.ASCII)
"""What an input contains at first, if Slack surely takes it."""


def answer_view(question: Question) -> Block:
    """The form that answers a question."""
    blocks = [_asked(question), *(each for part in shown_parts(question.form) for each in _inputs(part))]
    return _view("answer", gettext("Answer"), gettext("Send"), blocks, format_reference(question))


def can_be_answered(question: Question) -> bool:
    """Whether all of a question's form can be shown in a view."""
    if takes_files(question.form):
        return False
    menus = [part.options for part in shown_parts(question.form)]
    if any(len(options) > MOST_OPTIONS for options in menus) or sum(map(length_of, menus)) > _LARGEST_VIEW:
        return False
    view = answer_view(question)
    return (
        len(view["blocks"]) <= _MOST_BLOCKS
        and len(view["private_metadata"]) <= _LONGEST_METADATA
        and size_of(view) <= _LARGEST_VIEW
    )


def decline_view(question: Question) -> Block:
    """The form that declines to answer, with or without a reason."""
    blocks = [_asked(question), _reason(gettext("Why not? The agent is told."))]
    title, submit = gettext("Decline to answer"), gettext("Decline")
    return _view("decline", title, submit, blocks, format_reference(question))


def send_back_view(question: Question) -> Block:
    """The form that sends a question back; what is to be changed must be said."""
    element = {"type": "plain_text_input", "multiline": True}
    blocks = [_asked(question), _input("reason", send_back_asks(), element, optional=False)]
    title = gettext("Send back")
    return _view("send_back", title, title, blocks, format_reference(question))


def deny_view(question: Question, digest: Json) -> Block:
    """The form that denies an action with a reason."""
    blocks = [_asked(question), _reason(gettext("Why not? The agent is told."))]
    return _view("deny", gettext("Deny"), gettext("Deny"), blocks, format_reference(question, digest))


def change_view(question: Question, form: Approval, seen: int | None = None) -> Block:
    """The form that changes an action's arguments; what was changed is shown before it is approved."""
    blocks = [_asked(question), *(each for part in shown_parts(form) for each in _inputs(part))]
    title, submit = gettext("Change arguments"), gettext("Show the difference")
    place = format_reference(question, decision_extra(form.digest, seen))
    return _view("change", title, submit, blocks, place)


def difference_view(
    question: Question, form: Approval, approved: dict[str, Json], difference: str | None
) -> Block | None:
    """What would be approved and how it differs; None if that is too much for Slack."""
    metadata = format_reference(question, approved)
    if len(metadata) > _LONGEST_METADATA or len(difference or "") > _LONGEST_TEXT:
        return None
    told = literal(difference) if difference else line(words(gettext("You changed nothing.")))
    heading = line(*with_name(gettext("What changes in {name}:"), form.action.tool))
    title = pgettext("title of at most 24 characters", "Approve with changes")
    return _view("changed", title, gettext("Approve"), [rich(heading, told)], metadata)


def message_view(text: str) -> Block:
    """A view that says one thing."""
    return {
        "type": "modal",
        "callback_id": "told",
        "title": plain("Handraise", 24),
        "close": plain(gettext("Close"), 24),
        "blocks": [rich(line(words(text)))],
    }


def shown_parts(form: AnyForm) -> Sequence[Part]:
    """What there is to fill in; for an approval, only the arguments that Slack has room for."""
    parts = parts_of(form)
    return [each for each in parts if _has_room(each)] if isinstance(form, Approval) else parts


def read_answer(form: AnyForm, values: object) -> Json:
    """The answer in a filled-in view; for an approval, the arguments in it.

    Raises `InvalidAnswer`, or `InvalidPayload` for what none of our views sends.
    """
    state = values if isinstance(values, dict) else {}
    return read_parts((part, _entered(part, state)) for part in shown_parts(form)).checked()


def read_reason(values: object) -> str | None:
    """The reason that was written, if there is one."""
    state = values if isinstance(values, dict) else {}
    text = _element(state, "reason").get("value")
    return text.strip() or None if isinstance(text, str) else None


def errors_of(form: AnyForm, problems: Sequence[Problem]) -> Mapping[str, str]:
    """What is wrong, for the inputs it is wrong with; what is about none of them is shown at the first."""
    parts = shown_parts(form)
    told: dict[str, list[str]] = {}
    for problem in problems:
        about = next((part.name for part in parts if is_about(part, problem)), parts[0].name)
        told.setdefault(about, []).append(visible_line(error_text(problem.message)))
    return {block: plain("; ".join(texts), _ERROR)["text"] for block, texts in told.items()}


def reason_errors(problems: Sequence[Problem]) -> Mapping[str, str]:
    """What is wrong with a reason."""
    texts = [visible_line(error_text(problem.message)) for problem in problems]
    return {"reason": plain("; ".join(texts), _ERROR)["text"]}


def _view(callback: str, title: str, submit: str, blocks: Sequence[Block], metadata: str) -> Block:
    return {
        "type": "modal",
        "callback_id": callback,
        "title": plain(title, 24),
        "submit": plain(submit, 24),
        "close": plain(gettext("Cancel"), 24),
        "blocks": list(blocks),
        "private_metadata": metadata,
    }


def _asked(question: Question) -> Block:
    prompt, _ = quoted_start(question.prompt, _PROMPT, _MOST_LINES)
    return rich(line(*with_name(gettext("The agent {name} asks:"), question.asker)), prompt)


def _reason(label: str) -> Block:
    return _input("reason", label, {"type": "plain_text_input", "multiline": True}, optional=True)


def _input(block: str, label: str, element: Block, *, optional: bool, hint: str | None = None) -> Block:
    if element["type"] == "plain_text_input":
        element = element | {"max_length": _LONGEST_TEXT}
    made = {
        "type": "input",
        "block_id": block,
        "label": plain(label, 500),
        "element": element | {"action_id": "v"},
        "optional": optional,
    }
    return made | ({"hint": plain(hint, 1_000)} if hint else {})


def _inputs(part: Part) -> list[Block]:
    """The blocks of one thing to fill in: a list if the options are long, the input, and one for a text."""
    asked = _input(
        part.name,
        part.label,
        _text_element(part, part.form) if isinstance(part.form, Open) else _menu(part),
        optional=part.may_be_empty,
        hint=part.description or hint_of(part.form),
    )
    other = {"type": "plain_text_input"}
    return [
        *list_of(part.options),
        asked,
        *([_input(f"{part.name}o", part.other_label, other, optional=True)] if part.has_other else ()),
    ]


def _has_room(part: Part) -> bool:
    return len(initial(part).text) <= _LONGEST_TEXT and len(part.options) <= MOST_OPTIONS


def _menu(part: Part) -> Block:
    labels = labels_of(part.options)
    options = [{"text": plain(label, LABEL), "value": str(place)} for place, label in enumerate(labels)]
    chosen = [options[place] for place in sorted(initial(part).picked)]
    few = len(options) <= MOST_TICKS
    if isinstance(part.form, MultiChoice):
        element: Block = {"type": "checkboxes" if few else "multi_static_select", "options": options}
        return element | ({"initial_options": chosen} if chosen else {})
    element = {"type": "radio_buttons" if few else "static_select", "options": options}
    return element | ({"initial_option": chosen[0]} if chosen else {})


def _text_element(part: Part, form: Open) -> Block:
    """An input of the kind that fits. Its first value is left out if Slack could refuse it."""
    text: str | None = initial(part).text
    match form.type:
        case "text":
            element: Block = {"type": "plain_text_input", "multiline": part.has_lines}
            text = text if text and len(text) <= _LONGEST_TEXT else None
        case "integer" | "number":
            element = {"type": "number_input", "is_decimal_allowed": form.type == "number"}
            text = text if text and _NUMBER.fullmatch(text) else None
        case "email":
            element = {"type": "email_text_input"}
            text = text if text and _EMAIL.fullmatch(text) else None
        case "uri":
            element = {"type": "url_text_input"}
            text = text if text and _WEB_ADDRESS.fullmatch(text) else None
        case "date":
            day = _day(text)
            return {"type": "datepicker"} | ({"initial_date": day} if day else {})
        case "datetime":
            second = _second(text)
            return {"type": "datetimepicker"} | ({"initial_date_time": second} if second else {})
        case _:
            assert_never(form.type)
    return element | ({"initial_value": text} if text else {})


def _day(text: str | None) -> str | None:
    return text if text and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None


def _second(text: str | None) -> int | None:
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    if at.tzinfo is None:
        return None
    second = int(at.timestamp())
    return second if _EARLIEST <= second <= _LATEST else None


def _element(state: Mapping[str, Any], block: str) -> Mapping[str, Any]:
    found = state.get(block)
    element = found.get("v") if isinstance(found, dict) else None
    return element if isinstance(element, dict) else {}


def _entered(part: Part, state: Mapping[str, Any]) -> Entered:
    """What was put into a part."""
    element, form = _element(state, part.name), part.form
    if isinstance(form, Open):
        return Entered(text=_text(form, element))
    if isinstance(form, MultiChoice):
        chosen = element.get("selected_options") or []
    else:
        chosen = [element["selected_option"]] if element.get("selected_option") is not None else []
    if not isinstance(chosen, list):
        raise InvalidPayload("selected_options")
    other = _element(state, f"{part.name}o").get("value")
    own = other if isinstance(other, str) and other.strip() else None
    return Entered(frozenset(_place(each, part) for each in chosen), other=own)


def _place(chosen: object, part: Part) -> int:
    value = chosen.get("value") if isinstance(chosen, dict) else None
    places = {str(place): place for place in range(len(part.options))}
    if not isinstance(value, str) or value not in places:
        raise InvalidPayload("selected_option")
    return places[value]


def _text(form: Open, element: Mapping[str, Any]) -> str:
    match form.type:
        case "date":
            value = element.get("selected_date")
        case "datetime":
            second = element.get("selected_date_time")
            if second is None:
                return ""
            if not isinstance(second, int) or not 0 <= second <= _LATEST:
                raise InvalidPayload("selected_date_time")
            return datetime.fromtimestamp(second, UTC).isoformat()
        case _:
            value = element.get("value")
    if value is not None and not isinstance(value, str):
        raise InvalidPayload("value")
    return value or ""
