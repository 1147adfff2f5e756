"""JSON values: what may be stored, its canonical text and its digest."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring
from pathlib import PurePath
from typing import Any, TypeAlias
from uuid import UUID

from handraise.model.problems import Problem

JsonValue: TypeAlias = bool | int | float | str | Sequence[object] | Mapping[str, object] | None
"""JSON that a program gives: an answer, arguments, a context. `json_problems` looks at what is inside.

Not recursive: type checkers make `dict[str, object]` of `{"amount": 10, "note": "late"}`, which would not fit.
"""

Json = Any
"""JSON that is read back. Its shape follows from the form or the record, which a type cannot say."""

MAX_INTEGER = 2**53 - 1
"""Up to this, every program reads a whole number exactly, whatever its number type is."""

_MOST_DIGITS, _MOST_ZEROS = 21, 6
"""Beyond these numbers of digits or zeros, JavaScript writes a number with an exponent."""


def not_json(value: object) -> str:
    """What to tell a program that gave a value which JSON does not have."""
    match value:
        case date() | time():
            hint = ": write its isoformat()"
        case set() | frozenset():
            hint = ": write it as a list"
        case Enum():
            hint = ": write its value"
        case UUID() | Decimal() | PurePath():
            hint = ": write str(…) of it"
        case _:
            hint = ""
    return f"{type(value).__name__} is not JSON{hint}"


def canonical_json(value: Json) -> str:
    """The canonical text of a value according to RFC 8785: programs in other languages can compute the same digests.

    Written by hand because it is this short: a dependency would be installed for everybody.
    """
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        names = sorted(value) if all(map(str.isascii, value)) else sorted(value, key=_utf_16)
        return (
            "{"
            + ",".join([f"{encode_basestring(name)}:{canonical_json(value[name])}" for name in names])
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ",".join([canonical_json(each) for each in value]) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value) if abs(value) <= MAX_INTEGER else _number_text(_exact(value))
    if isinstance(value, float):
        return _number_text(value)
    raise TypeError(not_json(value))


def _utf_16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _exact(value: int) -> float:
    """A large whole number as JavaScript writes it. PostgreSQL returns a large float as one, with zeros: 1e23 is 10**23."""
    try:
        number = float(value)
        if value in (number, Decimal(repr(number))):
            return number
    except OverflowError:
        pass
    raise ValueError("canonical JSON has no whole numbers beyond 2^53: write it as text")


def _number_text(value: float) -> str:
    """A number as JavaScript writes it: with the fewest digits that identify it."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    sign, places, exponent = Decimal(float.__repr__(value)).as_tuple()
    digits = "".join(map(str, places)).rstrip("0")
    point = len(places) + int(exponent)
    if len(digits) <= point <= _MOST_DIGITS:
        text = digits.ljust(point, "0")
    elif 0 < point <= _MOST_DIGITS:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -_MOST_ZEROS < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1:+d}"
    return f"{'-' * sign}{text}"


def digest(value: Json) -> str:
    """The SHA-256 of the canonical text, as hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def text_problem(text: str) -> str | None:
    """Why a store cannot keep this text, or None."""
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
    """Every reason why `value` cannot be stored as JSON that is at most `depth` levels deep."""
    match value:
        case None | bool():
            return
        case int():
            if abs(value) > MAX_INTEGER:
                yield Problem(
                    path,
                    "is a whole number beyond 2^53, which some programs read inexactly: write it as text",
                )
        case float():
            if not math.isfinite(value):
                yield Problem(path, f"{value} is not a JSON number: write it as text, or leave it out")
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
                    continue  # no path can name the values below it
                yield from json_problems(item, f"{path}.{name}" if path else name, depth=depth - 1)
        case _:
            yield Problem(path, not_json(value))
