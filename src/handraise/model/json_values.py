"""JSON as we keep it: what may be stored, its canonical text and its digest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

from handraise.model.errors import Problem

Json = Any

_MAX_BITS = 2_048
"""No whole number is larger, so that Python turns every one into text whatever its limit on digits is."""


def canonical_json(value: Json) -> str:
    """The one text for a value: keys sorted, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Json) -> str:
    """The SHA-256 of the canonical text, as hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def text_problem(text: str) -> str | None:
    """Why no store could keep this text, or None."""
    if "\x00" in text:
        return "contains a NUL character"
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair"
    return None


def json_problems(value: Json, path: str, *, depth: int) -> Iterator[Problem]:
    """Everything that keeps `value` from being stored as JSON no more than `depth` levels deep."""
    match value:
        case int() if value.bit_length() > _MAX_BITS:
            yield Problem(path, "is too large a number")
        case None | bool() | int():
            return
        case float():
            if not math.isfinite(value):
                yield Problem(path, f"{value} is not a JSON number")
        case str():
            if why := text_problem(value):
                yield Problem(path, why)
        case list() | tuple() | dict() if depth <= 0:
            yield Problem(path, "is nested too deeply")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from json_problems(item, f"{path}[{index}]", depth=depth - 1)
        case dict():
            for name, item in value.items():
                if not isinstance(name, str):
                    yield Problem(path, f"has a key that is not a text but a {type(name).__name__}")
                    continue
                if why := text_problem(name):
                    yield Problem(path, f"has a key that {why}")
                    continue  # no path could name what is below it
                yield from json_problems(item, f"{path}.{name}" if path else name, depth=depth - 1)
        case _:
            yield Problem(path, f"{type(value).__name__} is not JSON")
