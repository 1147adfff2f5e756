"""Lengths of time as people write them: `timedelta(hours=2)`, seconds, or a text such as "2h" or "2 working hours"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Literal, Self

Span = timedelta | float | str
"""A length of time: a timedelta, seconds, or a text such as "90s", "10m", "2h", "3d" or "1h30m"."""

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhdw])")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")

SPAN_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,6})?$|^([0-9]{1,9}(\.[0-9]{1,6})?[smhdw])+$"
"""The same for a JSON Schema."""


_WORKING = re.compile(r"([1-9][0-9]{0,3}) working (minute|hour|day)s?")
WORKING_PATTERN = r"^[1-9][0-9]{0,3} working (minute|hour|day)s?$"
"""How a JSON Schema describes working time."""

WorkingUnit = Literal["minute", "hour", "day"]


class WorkingSpan(timedelta):
    """A length of working time. `words` is how it was written; as a timedelta it is what that comes to.

    Nobody knows what it comes to before a question is posted, because that depends on the hours of the people who
    are asked. Until then it is as long as if all time were working time.
    """

    words: str

    def __new__(cls, words: str, length: timedelta | None = None) -> Self:
        """Raise `ValueError` for words that are not working time."""
        found = _WORKING.fullmatch(words)
        if found is None:
            raise ValueError(f"{words[:100]!r} is not working time: write it as '2 working hours'")
        if length is None:
            length = timedelta(**{f"{found[2]}s": int(found[1])})
        made = super().__new__(cls, length.days, length.seconds, length.microseconds)
        made.words = words
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, timedelta]]:
        """Keep the words in copies."""
        return type(self), (self.words, timedelta(self.days, self.seconds, self.microseconds))

    @property
    def count(self) -> int:
        """How many units of working time it is."""
        return int(self.words.partition(" ")[0])

    @property
    def unit(self) -> WorkingUnit:
        """In which unit it is counted."""
        units: tuple[WorkingUnit, ...] = ("minute", "hour", "day")
        return next(unit for unit in units if unit in self.words)


def timeline_span_of(span: Span) -> timedelta:
    """A span of a timeline, which may count working time; raises what `span_of` raises."""
    if isinstance(span, str) and _WORKING.fullmatch(span.strip()):
        return WorkingSpan(span.strip())
    try:
        return span_of(span)
    except ValueError as error:
        raise ValueError(f"{error}, or '2 working hours'") from None


def seconds_of(span: Span) -> float:
    """A span in seconds; `ValueError` or `TypeError` says what to write instead."""
    if isinstance(span, timedelta):
        return span.total_seconds()
    if isinstance(span, str):
        return _seconds_in(span.strip())
    if isinstance(span, bool) or not isinstance(span, (int, float)):
        raise TypeError(f"expected a span such as '10m', a timedelta or seconds, got {type(span).__name__}")
    return float(span)


def timeout_of(span: Span | None) -> float | None:
    """How long a wait may take, in seconds; raises what `seconds_of` raises, and `ValueError` if it is negative."""
    if span is None:
        return None
    seconds = seconds_of(span)
    if not seconds >= 0:
        raise ValueError(
            f"timeout must not be negative, as {span} is. Leave it out to wait as long as it takes"
        )
    return seconds


def span_of(span: Span) -> timedelta:
    """A span as a timedelta; raises what `seconds_of` raises, and `OverflowError` if it is too long."""
    return span if isinstance(span, timedelta) else timedelta(seconds=seconds_of(span))


def _seconds_in(text: str) -> float:
    if _SECONDS.fullmatch(text):
        return float(text)
    if _SPAN.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    raise ValueError(f"{text[:100]!r} is not a span: write it as '90s', '10m', '2h', '3d' or '1h30m'")
