"""Lines of styled text that fit into a width: broken at blanks if there are some, and never cut."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

Run: TypeAlias = tuple[str, str]
"""A style and a text."""
Measure: TypeAlias = Callable[[str], int]
"""How many columns a text takes."""


def cells(text: str) -> int:
    """How many columns a text takes, unless a place measures it better."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def wrapped(line: Sequence[Run], width: int, *, indent: int = 0, measure: Measure = cells) -> list[list[Run]]:
    """A line as several that fit, the later ones indented. A word that is longer than a line is broken."""
    width = max(width, indent + 10)
    lines: list[list[Run]] = [[]]
    room = width

    def go_on() -> None:
        nonlocal room
        lines.append([("", " " * indent)] if indent else [])
        room = width - indent

    for word in _words(line):
        text = "".join(part for _, part in word)
        size = measure(text)
        is_blank = not text.strip(" ")
        if size > room and not is_blank and room < width - (indent if len(lines) > 1 else 0):
            go_on()
        if size <= room:
            lines[-1] += word
            room -= size
        elif is_blank:
            go_on()
        else:
            for style, part in word:
                for each in part:
                    if measure(each) > room:
                        go_on()
                    lines[-1].append((style, each))
                    room -= measure(each)
    return lines


def _words(line: Sequence[Run]) -> Iterator[list[Run]]:
    """The words and blanks of a line. The style may change inside a word."""
    word: list[Run] = []
    for style, text in line:
        start = 0
        for place in range(1, len(text) + 1):
            if place < len(text) and (text[place] == " ") == (text[start] == " "):
                continue
            part = (style, text[start:place])
            if word and (text[start] == " ") != (word[-1][1][0] == " "):
                yield word
                word = []
            word.append(part)
            start = place
    if word:
        yield word


def _cell(each: str) -> int:
    if unicodedata.category(each) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(each) in "WF" else 1
