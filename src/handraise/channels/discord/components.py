"""The pieces of a message and of a form that can be pressed or filled in. Discord reads no markup in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

from handraise.channels.discord.markup import is_short, plain
from handraise.channels.discord.references import QuestionReference
from handraise.model.forms import Option
from handraise.model.visible import visible_line
from handraise.presentation.brief_text import option_text
from handraise.presentation.translation import gettext

Component: TypeAlias = dict[str, Any]
"""A piece of a message or a form, as Discord takes it."""

MOST_BUTTONS = 5
MOST_OPTIONS = 25
MOST_INPUTS = 5
LONGEST_TEXT = 4_000
BUTTON = 80
LABEL = 45
TITLE = 45
_OPTION = 100
_HINT = 100
_ROW, _BUTTON, _SELECT, _TEXT, _SHOWN, _LABEL = 1, 2, 3, 4, 10, 18
_GREY, _LINK = 2, 5
_SHORT, _LONG = 1, 2


def button(reference: QuestionReference, text: str) -> Component:
    """A button. All are grey, so that nobody is nudged."""
    return {"type": _BUTTON, "style": _GREY, "label": plain(text, BUTTON), "custom_id": reference.text}


def link_row(text: str, url: str) -> Component:
    """A row with one button that opens a page."""
    return row({"type": _BUTTON, "style": _LINK, "label": plain(text, BUTTON), "url": url})


def row(*elements: Component) -> Component:
    """A row of buttons, or one menu."""
    return {"type": _ROW, "components": list(elements)}


def menu(reference: QuestionReference, labels: Sequence[str]) -> Component:
    """A menu in which one option is chosen."""
    return {
        "type": _SELECT,
        "custom_id": reference.text,
        "placeholder": gettext("Choose one"),
        "options": [
            {"label": plain(label, _OPTION), "value": str(number)} for number, label in enumerate(labels)
        ],
    }


def select_input(
    name: str, options: Sequence[Option], *, chosen: Collection[int], required: bool, most: int
) -> Component:
    """A menu in a form, with at most so many choices; `chosen` are the places of those that are chosen at first."""
    return {
        "type": _SELECT,
        "custom_id": name,
        "required": required,
        "min_values": 1 if required else 0,
        "max_values": max(1, min(most, len(options))),
        "options": [
            {
                "label": plain(each.label, _OPTION),
                "value": str(number),
                **({"description": plain(about, _OPTION)} if (about := option_text(each)) else {}),
                **({"default": True} if number in chosen else {}),
            }
            for number, each in enumerate(options)
        ],
    }


def shows_in_full(option: Option) -> bool:
    """Whether a menu in a form shows all of an option."""
    about = option_text(option)
    return (about is None or is_short(about, _OPTION)) and is_short(option.label, _OPTION)


def text_input(
    name: str, *, several_lines: bool, required: bool, longest: int | None = None, text: str | None = None
) -> Component:
    """A field to write in."""
    return {
        "type": _TEXT,
        "custom_id": name,
        "style": _LONG if several_lines else _SHORT,
        "required": required,
        "max_length": min(max(1, longest or LONGEST_TEXT), LONGEST_TEXT),
        **({"value": text} if text else {}),
    }


def with_label(label: str, component: Component, hint: str | None = None) -> Component:
    """A field of a form with its name, and with what people should know about it."""
    return {
        "type": _LABEL,
        "label": plain(label, LABEL),
        "component": component,
        **({"description": plain(hint, _HINT)} if hint and visible_line(hint).strip() else {}),
    }


def shown(text: str) -> Component:
    """A text in a form; Discord reads it as Markdown."""
    return {"type": _SHOWN, "content": text}


def modal(reference: QuestionReference, title: str, components: Sequence[Component]) -> Component:
    """A form that opens over the conversation."""
    return {"custom_id": reference.text, "title": plain(title, TITLE), "components": list(components)}
