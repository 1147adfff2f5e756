"""What an operation gave, as a value that can be compared between desks."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import pydantic

from handraise import Event, Grant, Question

LEFT_OUT = {
    (Grant, "id"): "each store names its own",
    (Event, "cursor"): "each store has its own",
    (Question, "state"): "only the asker is given it over HTTP",
    (Question, "url"): "only a server knows its address",
    (Question, "trace"): "the span in which a call was made",
    (Question, "overdue"): "a note between a store and its desk",
}
"""Fields that may differ, each with its reason."""
_OWN_NAMES = {"grant", "request"}
"""What events name by an id that each desk makes for itself."""


def comparable(value: Any) -> Any:
    """The value in plain lists and dictionaries."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: comparable(getattr(value, each.name))
            for each in fields(value)
            if (type(value), each.name) not in LEFT_OUT
        }
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if name not in _OWN_NAMES}
        return {str(name): comparable(kept[name]) for name in sorted(kept)}
    if isinstance(value, list | tuple):
        return [comparable(each) for each in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    return value if isinstance(value, str | None) else f"{type(value).__name__} {value!r}"


def _number(value: float) -> str:
    """The value of a number. PostgreSQL's jsonb keeps no more than that: 1e22 comes back as an integer, -0.0 as 0.0."""
    if abs(value) < 2**53:
        return f"number {int(value) if value == int(value) else value!r}"
    return f"number {float(value)!r}"


def first_difference(expected: Any, given: Any, where: str = "") -> tuple[str, str, str]:
    """Where two results differ first, and what is there in each."""
    if isinstance(expected, dict) and isinstance(given, dict):
        for name in expected.keys() | given.keys():
            if expected.get(name) != given.get(name):
                return first_difference(expected.get(name), given.get(name), f"{where}.{name}")
    if isinstance(expected, list | tuple) and isinstance(given, list | tuple) and len(expected) == len(given):
        for one, other in zip(expected, given, strict=True):
            if one != other:
                return first_difference(one, other, f"{where}[]")
    return where, repr(expected)[:300], repr(given)[:300]
