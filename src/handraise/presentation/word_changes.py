"""What changed between two lines, word by word."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

_WORDS = re.compile(r"\w++|\s++|.", re.DOTALL)
_LONGEST_LINE = 2_000
_MOST_EQUALS = 600
"""How many pairs of equal words are compared: the time grows with them, and an agent chooses them."""
_ALIKE = 0.35
"""How much of two lines must be equal: else they are two lines, and no line with changes."""


class Piece(NamedTuple):
    """A part of a line, and whether the other line does not have it."""

    text: str
    changed: bool


def word_changes(before: str, after: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both lines in pieces. If they have little in common, each is one piece that changed."""
    whole = (Piece(before, changed=True),), (Piece(after, changed=True),)
    if max(len(before), len(after)) > _LONGEST_LINE:
        return whole
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    counts = Counter(new)
    if sum(counts[word] for word in old) > _MOST_EQUALS:
        return whole
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    equal = sum(
        len("".join(old[each.a : each.a + each.size]).strip()) for each in matcher.get_matching_blocks()
    )
    if equal < _ALIKE * max(len(before.strip()), len(after.strip()), 1):
        return whole
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        changed = tag != "equal"
        left += _piece(old[i1:i2], changed=changed)
        right += _piece(new[j1:j2], changed=changed)
    return tuple(left), tuple(right)


def _piece(words: Sequence[str], *, changed: bool) -> list[Piece]:
    return [Piece("".join(words), changed)] if words else []
