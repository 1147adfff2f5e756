"""Make text from an agent safe to show: nothing in it moves, hides, reorders or starts anything.

Control characters, invisible characters, blanks other than the usual one, characters that change the direction of
writing, private and unassigned ones are shown as their code point, `‹U+202E›`; so are marks that pile up. Used for every screen, page, log
line and mail.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\U0001d159")
"""Letters and symbols that are invisible."""
_SELECTORS = frozenset(
    map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]),
)
"""Marks that choose between shapes of a letter. Most fonts know none of them and show nothing."""
_JOINER = "\u200d"
_AS_PICTURE = "\ufe0f"
"""The one selector that is common: the character before it is shown as an emoji."""
_SKINS = frozenset("🏻🏼🏽🏾🏿")
_PERSONS = "👦👧👨👩🧑🧒"
_ROLES = "⚕⚖✈🌾🍳🍼🎄🎓🎤🎨🏫🏭💻💼🔧🔬🚀🚒🦯🦰🦱🦲🦳🦼🦽"
_OF_EITHER_SEX = (
    "⛹🏃🏄🏊🏋🏌👮👯👰👱👳👷💁💂💆💇🕵🙅🙆🙇🙋🙍🙎🚣🚴🚵🚶🤦🤵🤷🤸🤹🤼🤽🤾🦸🦹🧍🧎🧏🧔🧖🧗🧘🧙🧚🧛🧜🧝🧞🧟"
)
_JOINED = frozenset(
    {first + second for first in _PERSONS for second in _PERSONS + _ROLES + "❤🤝"}
    | {first + second for first in "❤💋🤝" for second in _PERSONS}
    | {first + second for first in _OF_EITHER_SEX for second in "♀♂"}
    | {first + "➡" for first in "♀♂🏃🚶🧎🦯🦼🦽"}
    | {
        first + second
        for first, second in zip(
            "❤🏳🏳🏴👁❤❤😮😵😶🐕🐈🐦🐦🐻🍋🍄⛓🙂🙂", "💋🌈⚧☠🗨🔥🩹💨💫🌫🦺⬛⬛🔥❄🟩🟫💥↔↕", strict=True
        )
    }
)
"""Every two emoji that Unicode joins to one. Between any others a joiner is invisible."""
_KEYCAP = "\u20e3"
_OTHER_PICTURES = frozenset("©®‼⁉ℹ↔◽◾〰〽")
"""Emoji that Unicode does not count as symbols, or that are among its letters."""
_FIRST_PICTURE = "\u2190"
_MOST_MARKS = 4


def visible(text: str) -> str:
    """The text with everything invisible shown; line breaks stay."""
    return "\n".join(visible_line(line) for line in text.replace("\r\n", "\n").split("\n"))


def visible_line(text: str) -> str:
    """The text on one line with everything invisible shown, also line breaks."""
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for place, each in enumerate(text):
        category = unicodedata.category(each)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if each == " ":
            shown.append(each)
        elif each == "\t":
            shown.append("    ")
        elif (each == _JOINER and _joins_pictures(text, place)) or (
            each == _AS_PICTURE and _follows_picture(text, place)
        ):
            shown.append(each)
        elif category in _UNSEEN or each in _FILLERS or each in _SELECTORS or marks > _MOST_MARKS:
            shown.append(f"‹U+{ord(each):04X}›")
        else:
            shown.append(each)
    return "".join(shown)


def _joins_pictures(text: str, place: int) -> bool:
    """Whether a joiner is between two emoji and makes them one: a family, a flag."""
    before, after = text[max(0, place - 1) : place], text[place + 1 : place + 2]
    if before == _AS_PICTURE or before in _SKINS:
        before = text[max(0, place - 2) : place - 1]
    return before + after in _JOINED


def _follows_picture(text: str, place: int) -> bool:
    """Whether this selector follows something that it turns into an emoji: a symbol, or a digit on a key."""
    before = text[max(0, place - 1) : place]
    if before in tuple("#*0123456789"):
        return text[place + 1 : place + 2] == _KEYCAP
    if not before:
        return False
    return before in _OTHER_PICTURES or (before >= _FIRST_PICTURE and unicodedata.category(before) == "So")
