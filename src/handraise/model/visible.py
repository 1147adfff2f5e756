"""Text from an agent, made safe to look at: nothing in it moves, hides, reorders or begins anything.

Controls, characters of no width, those that change the direction of writing, private and unassigned ones are
shown by their number, `‹U+202E›`; so are marks that pile up. For every screen, page, line of a log and mail.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
"""Letters and symbols that look like nothing."""
_JOINER = "\u200d"
_VARIATION = "\ufe0f"
_MOST_MARKS = 4


def visible(text: str) -> str:
    """The text with everything unseen shown; line breaks stay."""
    return "\n".join(visible_line(line) for line in text.replace("\r\n", "\n").split("\n"))


def visible_line(text: str) -> str:
    """The text on one line with everything unseen shown, line breaks too."""
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for place, each in enumerate(text):
        category = unicodedata.category(each)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if each == "\t":
            shown.append("    ")
        elif each == _JOINER and _joins_pictures(text, place):
            shown.append(each)
        elif category in _UNSEEN or each in _FILLERS or marks > _MOST_MARKS:
            shown.append(f"‹U+{ord(each):04X}›")
        else:
            shown.append(each)
    return "".join(shown)


def _joins_pictures(text: str, place: int) -> bool:
    """Whether a joiner stands between two pictures, of which it makes one: a family, a flag."""
    before, after = text[max(0, place - 1) : place], text[place + 1 : place + 2]
    if before == _VARIATION or (before and unicodedata.category(before) == "Sk"):
        before = text[max(0, place - 2) : place - 1]
    return all(side and unicodedata.category(side) == "So" for side in (before, after))
