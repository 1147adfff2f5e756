"""What there is to fill in: the inputs of a card, and the answer in what was put into them.

Every input has a name of ours (`f0`, `f1`, …) and options go by their place, so that nothing an agent wrote is part of
the protocol. The desk decides whether an answer fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

from handraise.channels.payloads import InvalidPayload
from handraise.channels.teams.card_elements import Element, is_plain, line, small, theirs, words
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, File, MultiChoice, Open, Option
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.visible import visible_line
from handraise.presentation.brief_text import option_text
from handraise.presentation.form_parts import (
    NO,
    YES,
    Entered,
    Part,
    initial,
    parts_of,
    read_parts,
)
from handraise.presentation.form_text import hint_of
from handraise.presentation.translation import gettext, gettext_noop

_LONGEST_DEFAULT = 2_000
_FEW = 5
_NEEDED = gettext_noop("This is needed.")
_SAFE_NUMBER = 1 << 50
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


def shown_parts(form: AnyForm) -> Sequence[Part]:
    """What there is to fill in; for an approval, not the arguments that are too long to be changed here."""
    parts = parts_of(form)
    if isinstance(form, Approval):
        return [each for each in parts if len(initial(each).text) <= _LONGEST_DEFAULT]
    return parts


def inputs_of(part: Part) -> Iterator[Element]:
    """The elements of one thing to fill in: what an agent says about it, and one input or two."""
    label = part.label
    if not is_plain(label):
        label = gettext("Number {number}").format(number=part.number)
        yield theirs(line(words(f"{part.number} · "), words(visible_line(part.label), weight="Bolder")))
    form = part.form
    if isinstance(form, Choice | MultiChoice):
        yield from list_of(form.options)
    if part.description:
        yield theirs(line(words(part.description, isSubtle=True)))
    if hint := hint_of(form):
        yield small(hint)
    needed = {} if part.may_be_empty else {"isRequired": True, "errorMessage": gettext(_NEEDED)}
    yield {**_input(part), "id": part.name, "label": label, **needed}
    if isinstance(form, Open) and form.type == "datetime":
        found = _instant(initial(part).text)
        time = {"value": found[1]} if found else {}
        yield {
            "type": "Input.Time",
            "id": f"{part.name}t",
            "label": gettext("Time, in UTC"),
            **time,
            **needed,
        }
    if part.has_other:
        yield {"type": "Input.Text", "id": f"{part.name}o", "label": part.other_label}


def list_of(options: Sequence[Option]) -> list[Element]:
    """The options in full and by number, if a button or a menu cannot show all of them."""
    if not needs_list(options):
        return []
    return [
        theirs(
            *(
                line(
                    words(f"{number} · "),
                    words(visible_line(each.label), weight="Bolder"),
                    words(f": {visible_line(about)}") if (about := option_text(each)) else (),
                    spacing="Small",
                )
                for number, each in enumerate(options, 1)
            )
        )
    ]


def needs_list(options: Sequence[Option]) -> bool:
    """Whether the options must be listed, because a button or a menu cannot show all of them."""
    return any(option_text(each) or not is_plain(each.label) for each in options)


def labels_of(options: Sequence[Option]) -> list[str]:
    """The options as a button or a menu can show them, by number if a list has them in full."""
    if not needs_list(options):
        return [each.label for each in options]
    return [
        f"{number} · {each.label}"
        if is_plain(each.label)
        else gettext("Number {number}").format(number=number)
        for number, each in enumerate(options, 1)
    ]


def read_answer(form: AnyForm, data: Mapping[str, Any]) -> Json:
    """The answer in a filled-in card; for an approval, the arguments in it.

    Raises `InvalidAnswer`, or `InvalidPayload` for what none of our cards sends.
    """
    return read_parts((part, _entered(part, data)) for part in shown_parts(form)).checked()


def read_reason(data: Mapping[str, Any]) -> str | None:
    """The reason that was written, if there is one."""
    return (_text(data, "reason") or "").strip() or None


def _input(part: Part) -> Element:
    form = part.form
    match form:
        case Confirm():
            return _yes_or_no(initial(part).picked)
        case Choice() | MultiChoice():
            return _menu(part)
        case Open():
            return _typed(part, form)
        case File():
            raise AssertionError("a form with files is filled in on its page")
        case _:
            assert_never(form)


def _yes_or_no(picked: frozenset[int]) -> Element:
    """A switch if the agent says how it is set at first; otherwise nothing is chosen: silence is no answer."""
    if picked:
        return {
            "type": "Input.Toggle",
            "title": gettext("Yes"),
            "value": "true" if YES in picked else "false",
            "valueOn": "true",
            "valueOff": "false",
        }
    choices = [{"title": gettext("Yes"), "value": "true"}, {"title": gettext("No"), "value": "false"}]
    return {"type": "Input.ChoiceSet", "style": "expanded", "choices": choices}


def _menu(part: Part) -> Element:
    labels, picked = labels_of(part.options), initial(part).picked
    choices = [{"title": label, "value": str(place)} for place, label in enumerate(labels)]
    several = isinstance(part.form, MultiChoice)
    style = "expanded" if several or len(choices) <= _FEW else "compact"
    element: Element = {"type": "Input.ChoiceSet", "style": style, "choices": choices}
    if several:
        element["isMultiSelect"] = True
    if picked:
        element["value"] = ",".join(str(place) for place in sorted(picked))
    return element


def _typed(part: Part, form: Open) -> Element:
    """An input of the kind that fits. A first value that it cannot have is left out."""
    text = initial(part).text
    match form.type:
        case "text":
            element: Element = {"type": "Input.Text", "isMultiline": part.has_lines}
        case "email":
            element = {"type": "Input.Text", "style": "Email"}
        case "uri":
            element = {"type": "Input.Text", "style": "Url"}
        case "integer" | "number":
            value = part.default
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return {"type": "Input.Number"} | (
                {"value": value} if is_number and abs(value) < _SAFE_NUMBER else {}
            )
        case "date":
            return {"type": "Input.Date"} | ({"value": text} if _DAY.fullmatch(text) else {})
        case "datetime":
            found = _instant(text)
            return {"type": "Input.Date"} | ({"value": found[0]} if found else {})
        case _:
            assert_never(form.type)
    return element | ({"value": text} if 0 < len(text) <= _LONGEST_DEFAULT else {})


def _instant(text: str) -> tuple[str, str] | None:
    """The day and the time of an instant in UTC, if it is a whole minute."""
    try:
        at = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return None if at.second or at.microsecond else (at.date().isoformat(), f"{at:%H:%M}")


def _text(data: Mapping[str, Any], name: str) -> str | None:
    """What was put into an input, or None if nothing was. Numbers may come as texts."""
    value = data.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise InvalidPayload(name)
    return value or None


def _entered(part: Part, data: Mapping[str, Any]) -> Entered:
    """What was put into a part."""
    given, form = _text(data, part.name), part.form
    match form:
        case Open(type="datetime"):
            return Entered(text=_read_instant(part, given, _text(data, f"{part.name}t")))
        case Open():
            return Entered(text=given or "")
        case Confirm():
            if given not in (None, "true", "false"):
                raise InvalidPayload(part.name)
            return Entered() if given is None else Entered(frozenset({YES if given == "true" else NO}))
        case Choice() | MultiChoice():
            other = _text(data, f"{part.name}o") or ""
            places = (given or "").split(",") if given else ()
            return Entered(
                frozenset(_place(each, part) for each in places), other=other if other.strip() else None
            )
        case File():
            return Entered()
        case _:
            assert_never(form)


def _read_instant(part: Part, day: str | None, time: str | None) -> str:
    if day is None and time is None:
        return ""
    if day is None or time is None:
        raise InvalidAnswer([Problem(part.path, gettext("give both the day and the time"))])
    if not _DAY.fullmatch(day) or not _TIME.fullmatch(time):
        raise InvalidPayload(part.name)
    return f"{day}T{time}:00+00:00"


def _place(text: str, part: Part) -> int:
    places = {str(place): place for place in range(len(part.options))}
    if text not in places:
        raise InvalidPayload(part.name)
    return places[text]
