"""Forms that open over a conversation: their inputs, and the answer in what was put into them.

Every input has a name of ours (`f0`, `f1`, …) and options go by their place, so that nothing an agent wrote is part of
the protocol. Whether an answer fits is the desk's to say; what it says stands beside the input it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_never

from handraise.channels.payloads import InvalidPayload
from handraise.channels.slack.blocks import (
    LABEL,
    MOST_OPTIONS,
    MOST_TICKS,
    Block,
    cut_to_bytes,
    line,
    literal,
    name,
    plain,
    quote,
    rich,
    size_of,
    words,
)
from handraise.channels.slack.option_labels import labels_of, length_of, list_of
from handraise.channels.slack.references import format_reference
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice, Open, SimpleForm
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.questions import Question
from handraise.model.visible import visible, visible_line

_MOST_BLOCKS = 100
_LONGEST_METADATA = 3_000
_LONGEST_TEXT = 3_000
_LARGEST_VIEW = 200_000
_SHORT = 120
_EARLIEST, _LATEST = 1_000_000_000, 9_999_999_999
"""The seconds that have ten digits, as Slack wants them."""
_ERROR = 300
_PROMPT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing to fill in: `block` is where it is in the view, `path` where it is in the answer."""

    block: str
    path: str
    form: SimpleForm
    title: str = "Your answer"
    description: str | None = None
    required: bool = True
    default: Json = None
    key: str = ""

    @property
    def optional(self) -> bool:
        """Whether it may be left empty, as far as Slack is concerned."""
        form = self.form
        if isinstance(form, Choice):
            return form.allow_other or not self.required
        if isinstance(form, MultiChoice):
            return form.allow_other or form.at_least == 0 or not self.required
        return not self.required or (isinstance(form, Open) and form.type == "text" and form.min_length == 0)


def answer_view(question: Question) -> Block:
    """The form that answers a question."""
    blocks = [_asked(question), *(each for part in parts_of(question.form) for each in _inputs(part))]
    return _view("answer", "Answer", "Send", blocks, format_reference(question))


def can_be_answered(question: Question) -> bool:
    """Whether all of a question's form can be shown in a view."""
    menus = [
        part.form.options for part in parts_of(question.form) if not isinstance(part.form, (Open, Confirm))
    ]
    if any(len(options) > MOST_OPTIONS for options in menus) or sum(map(length_of, menus)) > _LARGEST_VIEW:
        return False
    view = answer_view(question)
    return (
        len(view["blocks"]) <= _MOST_BLOCKS
        and len(view["private_metadata"]) <= _LONGEST_METADATA
        and size_of(view) <= _LARGEST_VIEW
    )


def decline_view(question: Question) -> Block:
    """The form that declines to answer, with a reason or without."""
    blocks = [_asked(question), _reason("Why not? The agent is told.")]
    return _view("decline", "Decline to answer", "Decline", blocks, format_reference(question))


def deny_view(question: Question, digest: Json) -> Block:
    """The form that denies an action with a reason."""
    blocks = [_asked(question), _reason("Why not? The agent is told.")]
    return _view("deny", "Deny", "Deny", blocks, format_reference(question, digest))


def change_view(question: Question, form: Approval) -> Block:
    """The form that changes an action's arguments; what was changed is shown before it is approved."""
    blocks = [_asked(question), *(each for part in editable_parts(form) for each in _inputs(part))]
    return _view(
        "change", "Change arguments", "Show the difference", blocks, format_reference(question, form.digest)
    )


def difference_view(
    question: Question, form: Approval, approved: dict[str, Json], difference: str | None
) -> Block | None:
    """What would be approved and how it differs; None where that is too much for Slack."""
    metadata = format_reference(question, approved)
    if len(metadata) > _LONGEST_METADATA or len(difference or "") > _LONGEST_TEXT:
        return None
    told = literal(difference) if difference else line(words("You changed nothing."))
    heading = line(words("What changes in "), name(form.action.tool), words(":"))
    return _view("changed", "Approve with changes", "Approve", [rich(heading, told)], metadata)


def message_view(text: str) -> Block:
    """A view that says one thing."""
    return {
        "type": "modal",
        "callback_id": "told",
        "title": plain("Handraise", 24),
        "close": plain("Close", 24),
        "blocks": [rich(line(words(text)))],
    }


def parts_of(form: AnyForm) -> Sequence[Part]:
    """What there is to fill in to answer."""
    match form:
        case Form():
            return tuple(
                Part(
                    block=f"f{number}",
                    path=field.name,
                    form=field.form,
                    title=field.title or field.name,
                    description=field.description,
                    required=field.required,
                    default=field.default,
                    key=field.name,
                )
                for number, field in enumerate(form.fields)
            )
        case Approval():
            return editable_parts(form)
        case _:
            return (Part(block="f0", path="", form=form),)


def editable_parts(form: Approval) -> Sequence[Part]:
    """The arguments that can be changed here: not those with more in them than can be seen or typed."""
    found = []
    for number, field in enumerate(form.editable):
        value = form.action.arguments.get(field.name, field.default)
        if isinstance(value, str) and (visible(value) != value or len(value) > _LONGEST_TEXT):
            continue
        if isinstance(field.form, (Choice, MultiChoice)) and len(field.form.options) > MOST_OPTIONS:
            continue
        found.append(
            Part(
                block=f"f{number}",
                path=f"arguments.{field.name}",
                form=field.form,
                title=field.title or field.name,
                description=field.description,
                required=field.required,
                default=value,
                key=field.name,
            )
        )
    return tuple(found)


def read_answer(form: AnyForm, values: object) -> Json:
    """The answer in what was put into a view; for an approval, the arguments in it.

    Raises `InvalidAnswer`, or `InvalidPayload` for what no view of ours sends.
    """
    state = values if isinstance(values, dict) else {}
    read = {part.key: _read(part, state) for part in parts_of(form)}
    if isinstance(form, (Form, Approval)):
        return {key: value for key, value in read.items() if value is not None}
    return read[""]


def read_reason(values: object) -> str | None:
    """The reason that was written, if there is one."""
    state = values if isinstance(values, dict) else {}
    text = _element(state, "reason").get("value")
    return text.strip() or None if isinstance(text, str) else None


def errors_of(form: AnyForm, problems: Sequence[Problem]) -> Mapping[str, str]:
    """What is wrong, for the inputs it is wrong with; what is about none of them is at the first."""
    parts = parts_of(form)
    told: dict[str, list[str]] = {}
    for problem in problems:
        about = next((part.block for part in parts if _is_about(part.path, problem.path)), parts[0].block)
        told.setdefault(about, []).append(visible_line(problem.message))
    return {block: plain("; ".join(texts), _ERROR)["text"] for block, texts in told.items()}


def _is_about(path: str, problem: str) -> bool:
    return problem == path or bool(path and problem.startswith((f"{path}.", f"{path}[")))


def _view(callback: str, title: str, submit: str, blocks: Sequence[Block], metadata: str) -> Block:
    return {
        "type": "modal",
        "callback_id": callback,
        "title": plain(title, 24),
        "submit": plain(submit, 24),
        "close": plain("Cancel", 24),
        "blocks": list(blocks),
        "private_metadata": metadata,
    }


def _asked(question: Question) -> Block:
    prompt = visible(question.prompt[: _PROMPT + 1])
    shorter = cut_to_bytes(prompt, _PROMPT)
    return rich(
        line(words("The agent "), name(question.asker), words(" asks:")),
        quote(words(prompt if shorter is None else f"{shorter} […]")),
    )


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
    """The blocks of one thing to fill in: a list where the options are long, the input, and one for a text."""
    form = part.form
    asked = _input(
        part.block,
        part.title,
        _element_of(part),
        optional=part.optional,
        hint=part.description or _hint(form),
    )
    if not isinstance(form, (Choice, MultiChoice)):
        return [asked]
    other = {"type": "plain_text_input"}
    return [
        *list_of(form.options),
        asked,
        *([_input(f"{part.block}o", "Or your own answer", other, optional=True)] if form.allow_other else ()),
    ]


def _hint(form: SimpleForm) -> str | None:
    """What we say of the bounds of an answer."""
    match form:
        case MultiChoice(at_least=low, at_most=None) if low > 1:
            return f"At least {low} of them."
        case MultiChoice(at_least=low, at_most=int(high)):
            return f"From {low} to {high} of them."
        case Open(minimum=None, maximum=None):
            return None
        case Open(minimum=low, maximum=None):
            return f"No less than {low}."
        case Open(minimum=None, maximum=high):
            return f"No more than {high}."
        case Open(minimum=low, maximum=high):
            return f"From {low} to {high}."
        case _:
            return None


def _element_of(part: Part) -> Block:
    form = part.form
    match form:
        case Open():
            return _text_element(form, part.default)
        case Confirm():
            options = [_choice("Yes", "yes"), _choice("No", "no")]
            chosen = {True: options[0], False: options[1]}.get(part.default)
            return {"type": "radio_buttons", "options": options} | (
                {"initial_option": chosen} if isinstance(part.default, bool) else {}
            )
        case Choice() | MultiChoice():
            return _menu(form, part.default)
        case _:
            assert_never(form)


def _menu(form: Choice | MultiChoice, default: Json) -> Block:
    options = [_choice(label, str(place)) for place, label in enumerate(labels_of(form.options))]
    wanted = default if isinstance(default, (list, tuple)) else [default]
    chosen = [made for made, each in zip(options, form.options, strict=True) if each.id in wanted]
    few = len(options) <= MOST_TICKS
    if isinstance(form, MultiChoice):
        element: Block = {"type": "checkboxes" if few else "multi_static_select", "options": options}
        return element | ({"initial_options": chosen} if chosen else {})
    element = {"type": "radio_buttons" if few else "static_select", "options": options}
    return element | ({"initial_option": chosen[0]} if chosen else {})


def _choice(label: str, value: str) -> Block:
    return {"text": plain(label, LABEL), "value": value}


def _text_element(form: Open, default: Json) -> Block:
    """An input of the kind that fits. What stands in it at first is left out where Slack could refuse it."""
    text = default if isinstance(default, str) and 0 < len(default) <= _LONGEST_TEXT else None
    if text is not None and visible(text) != text:
        text = None
    match form.type:
        case "text":
            multiline = form.max_length is None or form.max_length > _SHORT
            element: Block = {"type": "plain_text_input", "multiline": multiline}
        case "integer" | "number":
            element = {"type": "number_input", "is_decimal_allowed": form.type == "number"}
            is_number = isinstance(default, (int, float)) and not isinstance(default, bool)
            text = str(default) if is_number and abs(default) < 1 << 50 and "e" not in str(default) else None
        case "email":
            element = {"type": "email_text_input"}
            text = text if text and re.fullmatch(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", text, re.ASCII) else None
        case "uri":
            element = {"type": "url_text_input"}
            text = text if text and re.fullmatch(r"https?://[\w.-]+(/[\w./-]*)?", text, re.ASCII) else None
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


def _read(part: Part, state: Mapping[str, Any]) -> Json:
    """What was put into a part, or None where nothing was."""
    element, form = _element(state, part.block), part.form
    match form:
        case Confirm():
            return {None: None, "yes": True, "no": False}[_one_of(element, ("yes", "no"))]
        case Choice():
            picked = _one_of(element, [str(place) for place in range(len(form.options))])
            other = _other(part, form, state)
            if other is not None and picked is not None:
                raise InvalidAnswer(
                    [Problem(part.path, "choose one, or write your own answer, but not both")]
                )
            return other if picked is None else form.options[int(picked)].id
        case MultiChoice():
            return _several(part, form, element, state)
        case Open():
            return _open(part, form, element)
        case _:
            assert_never(form)


def _several(part: Part, form: MultiChoice, element: Mapping[str, Any], state: Mapping[str, Any]) -> Json:
    places = [str(place) for place in range(len(form.options))]
    chosen = element.get("selected_options") or []
    if not isinstance(chosen, list):
        raise InvalidPayload("selected_options")
    found: list[Json] = []
    for each in chosen:
        picked = _one_of({"selected_option": each}, places)
        if picked is None:
            raise InvalidPayload("selected_options")
        found.append(form.options[int(picked)].id)
    other = _other(part, form, state)
    if other is not None:
        found.append(other)
    return found if found or part.required else None


def _other(part: Part, form: Choice | MultiChoice, state: Mapping[str, Any]) -> Json:
    text = _element(state, f"{part.block}o").get("value")
    return {"other": text} if form.allow_other and isinstance(text, str) and text.strip() else None


def _one_of(element: Mapping[str, Any], known: Sequence[str]) -> str | None:
    chosen = element.get("selected_option")
    if chosen is None:
        return None
    value = chosen.get("value") if isinstance(chosen, dict) else None
    if value not in known:
        raise InvalidPayload("selected_option")
    return str(value)


def _open(part: Part, form: Open, element: Mapping[str, Any]) -> Json:
    match form.type:
        case "date":
            value = element.get("selected_date")
        case "datetime":
            second = element.get("selected_date_time")
            if second is None:
                return None
            if not isinstance(second, int) or not 0 <= second <= _LATEST:
                raise InvalidPayload("selected_date_time")
            return datetime.fromtimestamp(second, UTC).isoformat()
        case _:
            value = element.get("value")
    if value is None:
        return "" if form.type == "text" and form.min_length == 0 and part.required else None
    if not isinstance(value, str):
        raise InvalidPayload("value")
    return value
