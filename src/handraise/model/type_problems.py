"""Say in our words what Pydantic found wrong, and name the field or the value that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pydantic

from handraise.model.problems import Problem

MAX_LISTED = 20
"""If there are more fields than this, a list of them helps nobody."""
MAX_SHOWN_CHARS = 40
"""A longer value is not repeated in a sentence."""
_LIKENESS = 0.5


def problems_of(
    error: pydantic.ValidationError,
    model: type[pydantic.BaseModel] | None = None,
    *,
    under: str = "",
    show_values: bool = True,
) -> list[Problem]:
    """What is wrong with each part of what was given; `under` is what the paths begin with.

    Give the `model` for which fields are to be suggested. No value is shown with `show_values=False`, as for answers.
    """
    found = error.errors(include_url=False, include_input=show_values)
    schema = model.model_json_schema() if model and any(map(_is_unknown, found)) else {}
    return [
        Problem(".".join(filter(None, (under, *map(str, each["loc"])))), type_problem(each, schema))
        for each in found
    ]


def type_problem(found: Mapping[str, Any], schema: Mapping[str, Any], place: Sequence[int | str] = ()) -> str:
    """What is wrong with one part; `place` is where it is in the JSON Schema, if that is not where Pydantic says."""
    context: Mapping[str, Any] = found.get("ctx", {})
    match found["type"]:
        case "extra_forbidden":
            return unknown_field(schema, place or found["loc"])
        case "missing":
            return "is required"
        case "literal_error" | "enum":
            return f"expected {context['expected']}" + _got(found) + _value_meant(found, context["expected"])
        case "model_type" | "dataclass_type":
            return (
                f"expected {_with_article(context['class_name'])}, or a dictionary with its fields"
                + _got_type(found)
            )
        case _:
            said = str(found["msg"]).removeprefix("Value error, ")
            return re.sub("^Input should be ", "expected ", said)


def unknown_field(schema: Mapping[str, Any], place: Sequence[int | str]) -> str:
    """What to tell somebody who wrote a field that a JSON Schema does not have at this place."""
    name, known = str(place[-1]), _fields_at(schema, place[:-1])
    near = difflib.get_close_matches(name.casefold(), known, 1, cutoff=_LIKENESS)
    if near:
        return f"there is no such field; did you mean {near[0]!r}?"
    return "there is no such field" + (
        f"; there are {', '.join(known)}" if 0 < len(known) <= MAX_LISTED else ""
    )


def _is_unknown(found: Mapping[str, Any]) -> bool:
    return bool(found["type"] == "extra_forbidden")


def _got(found: Mapping[str, Any]) -> str:
    given = repr(found["input"]) if "input" in found else ""
    return f", got {given}" if 0 < len(given) <= MAX_SHOWN_CHARS else ""


def _got_type(found: Mapping[str, Any]) -> str:
    return f", got {type(found['input']).__name__}" if "input" in found else ""


def _value_meant(found: Mapping[str, Any], expected: str) -> str:
    values = re.findall("'([^']+)'", expected)
    near = difflib.get_close_matches(str(found.get("input", "")).casefold(), values, 1, cutoff=_LIKENESS)
    return f"; did you mean {near[0]!r}?" if near else ""


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def written_place(schema: Mapping[str, Any], place: Sequence[int | str]) -> list[int | str]:
    """A place without the names of branches of a union, which Pydantic adds and nobody has written."""
    return [*_walked(schema, place[:-1])[1], *place[-1:]]


def _fields_at(schema: Mapping[str, Any], place: Sequence[int | str]) -> list[str]:
    """The fields that may be written at a place of the document."""
    found, _ = _walked(schema, place)
    names = {
        name for each in found for name in _resolved(schema, each) for name in name.get("properties", ())
    }
    return sorted(names)


def _walked(
    schema: Mapping[str, Any], place: Sequence[int | str]
) -> tuple[list[Mapping[str, Any]], list[int | str]]:
    """What may be at a place, and the parts of the place that somebody wrote."""
    found, written = [schema], list[int | str]()
    for part in place:
        branches = [each for at in found for each in _resolved(schema, at) if each.get("type") != "null"]
        chosen = [each for each in branches if part == _kind_of(each)]
        inner = [each for at in branches for each in _inside(at, part)]
        if inner or len(branches) <= 1:
            found = inner
            written.append(part)
        elif chosen:
            found = chosen
    return found, written


def _kind_of(at: Mapping[str, Any]) -> str | None:
    """The value of `kind` by which this branch of a union is known."""
    kind: str | None = at.get("properties", {}).get("kind", {}).get("const")
    return kind


def _inside(at: Mapping[str, Any], part: int | str) -> Iterator[Mapping[str, Any]]:
    if isinstance(part, int):
        yield from filter(None, [at.get("items")])
    elif part in at.get("properties", {}):
        yield at["properties"][part]
    elif isinstance(more := at.get("additionalProperties"), Mapping):
        yield more


def _resolved(schema: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What may be at a place, with references followed."""
    branches: Iterable[Mapping[str, Any]] = (*at.get("anyOf", ()), *at.get("oneOf", ()))
    if "$ref" in at:
        yield from _resolved(schema, schema["$defs"][at["$ref"].rpartition("/")[2]])
    for each in branches:
        yield from _resolved(schema, each)
    if "$ref" not in at and not branches:
        yield at
