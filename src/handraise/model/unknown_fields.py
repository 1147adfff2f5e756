"""Name the field that was probably meant, where Pydantic only says that an extra one is not permitted."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MAX_LISTED = 20
"""If there are more fields than this, a list of them helps nobody."""


def unknown_field(schema: Mapping[str, Any], place: Sequence[int | str]) -> str:
    """What to tell somebody who wrote a field that a JSON Schema does not have at this place."""
    name, known = str(place[-1]), _fields_at(schema, place[:-1])
    near = difflib.get_close_matches(name.casefold(), known, 1, cutoff=0.5)
    if near:
        return f"there is no such field; did you mean {near[0]!r}?"
    return "there is no such field" + (
        f"; there are {', '.join(known)}" if 0 < len(known) <= MAX_LISTED else ""
    )


def _fields_at(schema: Mapping[str, Any], place: Sequence[int | str]) -> list[str]:
    """The fields that may be written at a place of the document."""
    found = [schema]
    for part in place:
        found = [inner for each in found for inner in _inside(schema, each, part)]
    names = {
        name for each in found for name in _resolved(schema, each) for name in name.get("properties", ())
    }
    return sorted(names)


def _inside(schema: Mapping[str, Any], at: Mapping[str, Any], part: int | str) -> Iterator[Mapping[str, Any]]:
    for each in _resolved(schema, at):
        if isinstance(part, int):
            yield from filter(None, [each.get("items")])
        elif part in each.get("properties", {}):
            yield each["properties"][part]
        elif isinstance(more := each.get("additionalProperties"), Mapping):
            yield more


def _resolved(schema: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What may be at a place, with references followed."""
    if "$ref" in at:
        yield from _resolved(schema, schema["$defs"][at["$ref"].rpartition("/")[2]])
    for each in at.get("anyOf", ()):
        yield from _resolved(schema, each)
    if "$ref" not in at and "anyOf" not in at:
        yield at
