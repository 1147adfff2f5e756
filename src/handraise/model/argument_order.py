"""The order in which people read the arguments of an action.

A frozen action sorts its arguments by name, which puts the body of a mail before its recipient.
"""

from __future__ import annotations

from collections.abc import Mapping

from handraise.model.json_values import Json
from handraise.model.visible import visible

_FIRST = ("to", "recipient", "recipients", "cc", "bcc", "from", "sender", "subject", "title", "name")
_SHORT = 80


def reading_order(arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Sort arguments for reading: recipients and subjects first, then short values, then long ones; else by name."""

    def place(name: str) -> tuple[bool, int]:
        known = _FIRST.index(name.casefold()) if name.casefold() in _FIRST else len(_FIRST)
        return _is_long(arguments[name]), known

    return {name: arguments[name] for name in sorted(arguments, key=place)}


def _is_long(value: Json) -> bool:
    match value:
        case str():
            return "\n" in value or len(visible(value)) > _SHORT
        case dict() | list() | tuple():
            return bool(value)
        case _:
            return False
