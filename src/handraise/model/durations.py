"""Lengths of time as people write them: `timedelta(hours=2)`, seconds, or a text such as "2h"."""

from __future__ import annotations

import re
from datetime import timedelta

Span = timedelta | float | str
"""A length of time: a timedelta, seconds, or a text such as "90s", "10m", "2h", "3d" or "1h30m"."""

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhdw])")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")

SPAN_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,6})?$|^([0-9]{1,9}(\.[0-9]{1,6})?[smhdw])+$"
"""The same for a JSON Schema."""


def seconds_of(span: Span) -> float:
    """A span in seconds; `ValueError` or `TypeError` says what to write instead."""
    if isinstance(span, timedelta):
        return span.total_seconds()
    if isinstance(span, str):
        return _seconds_in(span.strip())
    if isinstance(span, bool) or not isinstance(span, (int, float)):
        raise TypeError(f"expected a span such as '10m', a timedelta or seconds, got {type(span).__name__}")
    return float(span)


def span_of(span: Span) -> timedelta:
    """A span as a timedelta; raises what `seconds_of` raises, and `OverflowError` if it is too long."""
    return span if isinstance(span, timedelta) else timedelta(seconds=seconds_of(span))


def _seconds_in(text: str) -> float:
    if _SECONDS.fullmatch(text):
        return float(text)
    if _SPAN.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    raise ValueError(f"{text[:100]!r} is not a span: write it as '90s', '10m', '2h', '3d' or '1h30m'")
