"""What a run tries of many forgeries and hostile texts: all of them nightly, in the gate some of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from tests.tiers import NIGHTLY, drawn

T = TypeVar("T")

SORTS: tuple[Callable[[str], object], ...] = (
    re.compile(r"<(script|img|svg|iframe)\b", re.IGNORECASE).search,
    re.compile(r"\son\w+ *=", re.IGNORECASE).search,
    re.compile(r"</\w").search,
    re.compile(r"\]\(").search,
    re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]").search,
    re.compile(r"[\u200b-\u200f\u2028-\u202e\u2060-\u206f]").search,
    re.compile(r"[\r\n]").search,
    re.compile(r"[{}$%]").search,
    re.compile("\x1b").search,
    re.compile(r"[\u202a-\u202e]").search,
)
"""Markup, handlers, the end of something of ours, links, controls, what is unseen, lines, templates; escapes and turned text, which
must not be missing where they are all that a test finds a mistake by."""


def turns(number: int, *, kinds: int, each: int) -> Sequence[int]:
    """The turns of a loop that makes its forgery of the kind `turn % kinds`; in the gate so many `each` kind."""
    if NIGHTLY:
        return range(number)
    return sorted(turn for kind in range(kinds) for turn in drawn(range(kind, number, kinds), each))


def hostile(texts: Sequence[str], places: Sequence[int], number: int) -> Sequence[int]:
    """All these places of hostile texts; in the gate so many, and one more of each sort that there is."""
    if NIGHTLY:
        return places
    chosen = {*drawn(places, number)}
    for sort in SORTS:
        chosen.update(drawn([place for place in places if sort(texts[place])], 1))
    return sorted(chosen)


def with_slow(cases: Sequence[T], *gate: T, reason: str) -> list[Any]:
    """The cases of a test, of which all but those named are for the night."""
    assert set(gate) <= set(cases)
    return [each if each in gate else pytest.param(each, marks=pytest.mark.slow(reason)) for each in cases]


ON_DISK = with_slow(
    ["sqlite", "postgres"],
    "sqlite",
    reason="a channel does the same on every store; tests/contract has PostgreSQL",
)
"""The stores of a test that is about a channel."""
OTHER_LETTERS = "the gate has the letters that grow most when they are written out"
"""Why the rest of them is for the night, where a message must not be too long."""
