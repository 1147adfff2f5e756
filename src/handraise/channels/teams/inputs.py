"""What there is to fill in: the inputs of a card, and the answer in what was put into them.

Every input has a name of ours (`f0`, `f1`, …) and options go by their place, so that nothing an agent wrote is part of
the protocol. Whether an answer fits is the desk's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_never

from handraise.channels.payloads import InvalidPayload
from handraise.channels.teams.card_elements import Element, is_plain, line, small, theirs, words
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import (
    AnyForm,
    Approval,
    Choice,
    Confirm,
    Field,
    Form,
    MultiChoice,
    Open,
    Option,
    SimpleForm,
)
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.visible import visible, visible_line

_SHORT = 120
_LONGEST_DEFAULT = 2_000
_FEW = 5
_NEEDED = "This is needed."
_SAFE_NUMBER = 1 << 50
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing to fill in: `id` is what its input is called, `number` what people call it."""

    id: str
    number: int
    form: SimpleForm
    key: str = ""
    title: str = "Your answer"
    description: str | None = None
    required: bool = True
    default: Json = None

    @property
    def needed(self) -> bool:
        """Whether Teams should insist on it."""
        form = self.form
        if isinstance(form, Choice | MultiChoice) and form.allow_other:
            return False
        if isinstance(form, MultiChoice):
            return form.at_least > 0 and self.required
        return self.required and not (isinstance(form, Open) and form.type == "text" and form.min_length == 0)


def parts_of(form: AnyForm) -> Sequence[Part]:
    """What there is to fill in to answer; for an approval, the arguments that can be changed here."""
    match form:
        case Form():
            return [_part(number, each, each.default) for number, each in enumerate(form.fields)]
        case Approval():
            return [
                _part(number, each, form.action.arguments.get(each.name, each.default))
                for number, each in enumerate(form.editable)
                if _is_editable(form.action.arguments.get(each.name, each.default))
            ]
        case _:
            return [Part(id="f0", number=1, form=form)]


def inputs_of(part: Part) -> Iterator[Element]:
    """The elements of one thing to fill in: what an agent says of it, and one input or two."""
    label = part.title
    if not is_plain(label):
        label = f"Number {part.number}"
        yield theirs(line(words(f"{part.number} · "), words(visible_line(part.title), weight="Bolder")))
    form = part.form
    if isinstance(form, Choice | MultiChoice):
        yield from list_of(form.options)
    if part.description:
        yield theirs(line(words(part.description, isSubtle=True)))
    if bounds := _bounds(form):
        yield small(bounds)
    needed = {"isRequired": True, "errorMessage": _NEEDED} if part.needed else {}
    yield {**_input(part), "id": part.id, "label": label, **needed}
    if isinstance(form, Open) and form.type == "datetime":
        found = _instant(part.default)
        time = {"value": found[1]} if found else {}
        yield {"type": "Input.Time", "id": f"{part.id}t", "label": "Time, in UTC", **time, **needed}
    if isinstance(form, Choice | MultiChoice) and form.allow_other:
        yield {"type": "Input.Text", "id": f"{part.id}o", "label": "Or your own answer"}


def list_of(options: Sequence[Option]) -> list[Element]:
    """The options in full and by number, where a button or a menu cannot show all of them."""
    if not needs_list(options):
        return []
    return [
        theirs(
            *(
                line(
                    words(f"{number} · "),
                    words(visible_line(each.label), weight="Bolder"),
                    words(f": {visible_line(each.description)}") if each.description else (),
                    spacing="Small",
                )
                for number, each in enumerate(options, 1)
            )
        )
    ]


def needs_list(options: Sequence[Option]) -> bool:
    """Whether the options must be listed, because a button or a menu cannot show all of them."""
    return any(each.description or not is_plain(each.label) for each in options)


def labels_of(options: Sequence[Option]) -> list[str]:
    """The options as a button or a menu can show them, by number where a list has them in full."""
    if not needs_list(options):
        return [each.label for each in options]
    return [
        f"{number} · {each.label}" if is_plain(each.label) else f"Number {number}"
        for number, each in enumerate(options, 1)
    ]


def read_answer(form: AnyForm, data: Mapping[str, Any]) -> Json:
    """The answer in what was put into a card; for an approval, the arguments in it.

    Raises `InvalidAnswer`, or `InvalidPayload` for what no card of ours sends.
    """
    read = {part.key: _read(part, data) for part in parts_of(form)}
    if isinstance(form, Form | Approval):
        return {key: value for key, value in read.items() if value is not None}
    return read[""]


def read_reason(data: Mapping[str, Any]) -> str | None:
    """The reason that was written, if there is one."""
    return (_text(data, "reason") or "").strip() or None


def _part(number: int, field: Field, default: Json) -> Part:
    return Part(
        id=f"f{number}",
        number=number + 1,
        form=field.form,
        key=field.name,
        title=field.title or field.name,
        description=field.description,
        required=field.required,
        default=default,
    )


def _is_editable(value: Json) -> bool:
    """Not what has more in it than can be seen or typed."""
    return not isinstance(value, str) or (visible(value) == value and len(value) <= _LONGEST_DEFAULT)


def _bounds(form: SimpleForm) -> str | None:
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


def _input(part: Part) -> Element:
    form = part.form
    match form:
        case Confirm():
            return _yes_or_no(part.default)
        case Choice() | MultiChoice():
            return _menu(form, part.default)
        case Open():
            return _typed(form, part.default)
        case _:
            assert_never(form)


def _yes_or_no(default: Json) -> Element:
    """A switch where the agent says how it stands at first; else nothing is chosen: silence is no answer."""
    if isinstance(default, bool):
        standing = str(default).lower()
        return {
            "type": "Input.Toggle",
            "title": "Yes",
            "value": standing,
            "valueOn": "true",
            "valueOff": "false",
        }
    choices = [{"title": "Yes", "value": "true"}, {"title": "No", "value": "false"}]
    return {"type": "Input.ChoiceSet", "style": "expanded", "choices": choices}


def _menu(form: Choice | MultiChoice, default: Json) -> Element:
    choices = [{"title": label, "value": str(place)} for place, label in enumerate(labels_of(form.options))]
    wanted = default if isinstance(default, list | tuple) else [default]
    chosen = [str(place) for place, each in enumerate(form.options) if each.id in wanted]
    several = isinstance(form, MultiChoice)
    style = "expanded" if several or len(choices) <= _FEW else "compact"
    element: Element = {"type": "Input.ChoiceSet", "style": style, "choices": choices}
    if several:
        element["isMultiSelect"] = True
    if chosen and (several or len(chosen) == 1):
        element["value"] = ",".join(chosen)
    return element


def _typed(form: Open, default: Json) -> Element:
    """An input of the kind that fits. What cannot stand in it at first is left out."""
    text = default if isinstance(default, str) and 0 < len(default) <= _LONGEST_DEFAULT else None
    if text is not None and visible(text) != text:
        text = None
    match form.type:
        case "text":
            multiline = form.max_length is None or form.max_length > _SHORT
            element: Element = {"type": "Input.Text", "isMultiline": multiline}
        case "email":
            element = {"type": "Input.Text", "style": "Email"}
        case "uri":
            element = {"type": "Input.Text", "style": "Url"}
        case "integer" | "number":
            is_number = isinstance(default, int | float) and not isinstance(default, bool)
            given = is_number and abs(default) < _SAFE_NUMBER
            return {"type": "Input.Number"} | ({"value": default} if given else {})
        case "date":
            return {"type": "Input.Date"} | ({"value": text} if text and _DAY.fullmatch(text) else {})
        case "datetime":
            found = _instant(default)
            return {"type": "Input.Date"} | ({"value": found[0]} if found else {})
        case _:
            assert_never(form.type)
    return element | ({"value": text} if text else {})


def _instant(default: Json) -> tuple[str, str] | None:
    """The day and the time of an instant in UTC, where it is a whole minute."""
    try:
        at = datetime.fromisoformat(default if isinstance(default, str) else "").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return None if at.second or at.microsecond else (at.date().isoformat(), f"{at:%H:%M}")


def _text(data: Mapping[str, Any], name: str) -> str | None:
    """What was put into an input, or None where nothing was. Numbers come as texts, or not."""
    value = data.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise InvalidPayload(name)
    return value or None


def _read(part: Part, data: Mapping[str, Any]) -> Json:
    """What was put into a part, or None where nothing was."""
    form = part.form
    match form:
        case Confirm():
            given = _text(data, part.id)
            if given not in (None, "true", "false"):
                raise InvalidPayload(part.id)
            return None if given is None else given == "true"
        case Choice():
            return _read_one(part, form, data)
        case MultiChoice():
            places = _text(data, part.id)
            chosen: list[Json] = [
                _option(form, place, part.id) for place in (places.split(",") if places else ())
            ]
            if other := _other(part, form, data):
                chosen.append(other)
            return chosen if chosen or part.required else None
        case Open(type="datetime"):
            return _read_instant(part, data)
        case Open():
            typed = _text(data, part.id)
            empty = "" if form.type == "text" and form.min_length == 0 and part.required else None
            return empty if typed is None else typed
        case _:
            assert_never(form)


def _read_one(part: Part, form: Choice, data: Mapping[str, Any]) -> Json:
    place, other = _text(data, part.id), _other(part, form, data)
    if place is not None and other is not None:
        raise InvalidAnswer([Problem(part.key, "choose one, or write your own answer, but not both")])
    return other if place is None else _option(form, place, part.id)


def _read_instant(part: Part, data: Mapping[str, Any]) -> Json:
    day, time = _text(data, part.id), _text(data, f"{part.id}t")
    if day is None and time is None:
        return None
    if day is None or time is None:
        raise InvalidAnswer([Problem(part.key, "give both the day and the time")])
    if not _DAY.fullmatch(day) or not _TIME.fullmatch(time):
        raise InvalidPayload(part.id)
    return f"{day}T{time}:00+00:00"


def _option(form: Choice | MultiChoice, place: str, name: str) -> str:
    if not (place.isascii() and place.isdecimal() and len(place) <= 6 and int(place) < len(form.options)):  # noqa: PLR2004 -- more digits than options
        raise InvalidPayload(name)
    return form.options[int(place)].id


def _other(part: Part, form: Choice | MultiChoice, data: Mapping[str, Any]) -> Json:
    text = _text(data, f"{part.id}o") if form.allow_other else None
    return {"other": text} if text and text.strip() else None
