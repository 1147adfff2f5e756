"""Texts for Discord, which reads Markdown, mentions and addresses in all of them.

Whatever somebody else wrote is escaped, so that it shows as it is: no format, mention, link or picture comes of it.
"""

from __future__ import annotations

import json
import re

from handraise.model.forms import Approval
from handraise.model.visible import visible, visible_line

_SPECIAL = re.compile(r"[\\`*_~|\[\]<@:]")
"""What means something anywhere: formats, links, mentions, and the colon of pictures and addresses."""
_FIRST = re.compile(r"^( *)([>#+-])", re.MULTILINE)
_NUMBERED = re.compile(r"^( *[0-9]+)([.)])", re.MULTILINE)
"""What means something at the beginning of a line: quotes, headings, small type and lists."""
_FENCE = "```"
_LOOSE = " \n\u200d"
"""What must not be left at an end: a joiner with nothing behind it could join with our own words."""


def escaped(text: str) -> str:
    """A text that shows as it is. What cannot be seen is shown by its number; line breaks stay."""
    plain = _SPECIAL.sub(r"\\\g<0>", visible(text))
    return _NUMBERED.sub(r"\1\\\2", _FIRST.sub(r"\1\\\2", plain))


def escaped_line(text: str) -> str:
    """The same on one line."""
    return escaped(visible_line(text))


def bold(text: str) -> str:
    """A text in bold, as it is otherwise."""
    return f"**{escaped_line(text).strip() or '…'}**"


def quoted(text: str) -> str:
    """What somebody else wrote, with a bar beside it."""
    return "\n".join(f"> {line}" for line in escaped(text).split("\n"))


def literal(text: str) -> str:
    """A text to the letter, in a box. What would end the box is shown by its number."""
    inside = visible(text).replace(_FENCE, "‹U+0060›" * 3)
    return f"{_FENCE}\n{inside}\n{_FENCE}"


def action_text(form: Approval) -> str:
    """A frozen action in full."""
    arguments = json.dumps(form.action.arguments, indent=2, ensure_ascii=False)
    return f"{visible_line(form.action.tool)}\n{arguments}"


def length_of(text: str) -> int:
    """How long a text is to Discord, at the most: a picture may count as two."""
    return len(text.encode("utf-16-le", errors="replace")) // 2


def quoted_start(text: str, most: int) -> tuple[str, bool]:
    """As much of a text as fits, with a bar beside it, and whether that is all."""
    shown = text[: _longest(text, most)]
    if len(shown) == len(text):
        return quoted(shown), True
    return quoted(f"{shown[:-8].rstrip(_LOOSE)} […]"), False


def _longest(text: str, most: int) -> int:
    """How many characters of a text have room behind a bar."""
    low, high = 0, min(len(text), max(0, most))
    while low < high:
        middle = (low + high + 1) // 2
        if length_of(quoted(text[:middle])) <= most:
            low = middle
        else:
            high = middle - 1
    return low


def plain(text: str, most: int) -> str:
    """A short text on one line for where Discord reads no markup, cut where it would refuse it."""
    shown = visible_line(text[: most + 1]).strip()
    if length_of(shown) <= most:
        return shown or "…"
    while length_of(shown) >= most:
        shown = shown[:-1]
    return shown.rstrip(_LOOSE) + "…"


def is_short(text: str, most: int) -> bool:
    """Whether all of a text is shown where there is room for so much of it."""
    return plain(text, most) == visible_line(text).strip() != ""
