"""From JSON Schema to forms: the flat subset that MCP elicitation allows, and no more.

Only references to the schema's own `$defs` are followed; nothing is ever fetched.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from handraise.model.form_fields import (
    Choice,
    Confirm,
    Field,
    Form,
    MultiChoice,
    Open,
    OpenType,
    Option,
    SimpleForm,
)
from handraise.model.json_values import MAX_INTEGER, Json
from handraise.model.problems import InvalidQuestion, Problem

Schema = dict[str, Any]

FORMATS: dict[str, OpenType] = {"email": "email", "uri": "uri", "date": "date", "date-time": "datetime"}
"""The formats of texts in JSON Schema, and what they are called here."""

_MAX_REFERENCES = 8
_LARGEST = sys.float_info.max


def form_from_schema(schema: Schema) -> Form:
    """A form from a flat JSON Schema of an object; `InvalidQuestion` names every property that is not flat."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise InvalidQuestion([Problem("form", "a schema must be an object with properties")])
    required = schema.get("required", [])
    if not isinstance(required, (list, tuple)) or not all(
        isinstance(name, str) and name in properties for name in required
    ):
        raise InvalidQuestion([Problem("form.required", "must be a list of names of properties")])
    problems: list[Problem] = []
    fields = []
    for name, part in properties.items():
        try:
            fields.append(_field(name, part, name in required, _definitions(schema)))
        except InvalidQuestion as error:
            problems.extend(_placed(each, f"form.{name}") for each in error.problems)
    if problems:
        raise InvalidQuestion(problems)
    return Form(fields=tuple(fields))


def _placed(problem: Problem, place: str) -> Problem:
    """The same problem in the schema, if it is that of a form that was made from a part of it."""
    if problem.path.startswith("form"):
        return problem
    return Problem(f"{place}.{problem.path.partition('.')[2]}", problem.message)


def simple_form_from_schema(schema: Schema, path: str = "form") -> SimpleForm:
    """A simple form from the schema of one value."""
    resolved, _ = _resolved(schema, path, _definitions(schema))
    return _simple(resolved, path, _definitions(schema))


def _definitions(schema: Schema) -> Schema:
    definitions = schema.get("$defs")
    return definitions if isinstance(definitions, dict) else {}


def _field(name: str, schema: Json, required: bool, definitions: Schema) -> Field:  # noqa: FBT001 -- a value, not a switch
    path = f"form.{name}"
    resolved, optional = _resolved(schema, path, definitions)
    return Field(
        name=name,
        form=_simple(resolved, path, definitions),
        title=_text(resolved.get("title")),
        description=_text(resolved.get("description")),
        required=required and not optional,
        default=resolved.get("default"),
    )


def _resolved(schema: Json, path: str, definitions: Schema) -> tuple[Schema, bool]:
    """The schema with its references followed, and whether null was allowed beside it."""
    optional = False
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, dict):
            raise _unfit(path, "expected a schema")
        around = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "allOf")}
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix("#/$defs/")
            if name not in definitions or not isinstance(definitions[name], dict):
                raise _unfit(path, f"{schema['$ref']!r} is not in the schema's own $defs")
            schema = {**definitions[name], **around}
        elif isinstance(schema.get("anyOf"), list):
            parts = [part for part in schema["anyOf"] if part != {"type": "null"}]
            optional = optional or len(parts) < len(schema["anyOf"])
            if parts and all(isinstance(part, dict) and "const" in part for part in parts):
                schema = {**around, "oneOf": parts}
            elif len(parts) == 1 and isinstance(parts[0], dict):
                schema = {**parts[0], **around}
            else:
                raise _unfit(path, "several types for one field cannot be shown to a person")
        elif "allOf" in schema:
            match schema["allOf"]:
                case [dict(only)]:
                    schema = {**only, **around}
                case _:
                    raise _unfit(path, "several schemas for one field cannot be shown to a person")
        else:
            return schema, optional
    raise _unfit(path, "its references are circular")


def _simple(schema: Schema, path: str, definitions: Schema) -> SimpleForm:
    if schema.get("format") == "password" or schema.get("writeOnly"):
        raise _unfit(path, "a question must not ask for a secret")
    if (options := _options(schema, path)) is not None:
        return Choice(options=options)
    match schema.get("type"):
        case "boolean":
            return Confirm()
        case "string":
            return _open_text(schema, path)
        case "integer" | "number" as kind:
            return Open(type=kind, minimum=_minimum(schema, path), maximum=_maximum(schema, path))
        case "array":
            items, _ = _resolved(schema.get("items"), path, definitions)
            options = _options(items, path)
            if options is None:
                raise _unfit(path, "a list must be of listed choices")
            least, most = schema.get("minItems", 0), schema.get("maxItems")
            return MultiChoice(options=options, at_least=least, at_most=most)
        case other:
            raise _unfit(path, f"type {other!r} is not flat; use text, number, boolean, or listed choices")


def _open_text(schema: Schema, path: str) -> Open:
    named = schema.get("format")
    if named is not None and (not isinstance(named, str) or named not in FORMATS):
        raise _unfit(path, f"format {named!r} is unknown; use one of {', '.join(FORMATS)}")
    return Open(
        type=FORMATS[named] if named else "text",
        min_length=schema.get("minLength", 1),
        max_length=schema.get("maxLength"),
        pattern=schema.get("pattern"),
    )


def _options(schema: Schema, path: str) -> tuple[Option, ...] | None:
    """The listed choices of a schema, or None if it lists none."""
    titled = schema.get("oneOf")
    if isinstance(titled, list):
        if not all(isinstance(one, dict) and isinstance(one.get("const"), str) for one in titled):
            raise _unfit(path, "each choice needs a text as its const")
        return tuple(Option(id=one["const"], label=one.get("title", one["const"])) for one in titled)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is None:
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _unfit(path, "choices must be texts")
    labels = schema.get("enumNames", values)
    if not isinstance(labels, list) or len(labels) != len(values):
        raise _unfit(path, "enumNames must name every choice")
    return tuple(Option(id=value, label=label) for value, label in zip(values, labels, strict=True))


def _minimum(schema: Schema, path: str) -> float | int | None:
    bounds = _bound(schema, "minimum", path)
    for exclusive in _bound(schema, "exclusiveMinimum", path):
        whole = schema["type"] == "integer"
        bounds.append(math.floor(exclusive) + 1 if whole else math.nextafter(exclusive, math.inf))
    return _kept(max(bounds, default=None))


def _maximum(schema: Schema, path: str) -> float | int | None:
    bounds = _bound(schema, "maximum", path)
    for exclusive in _bound(schema, "exclusiveMaximum", path):
        whole = schema["type"] == "integer"
        bounds.append(math.ceil(exclusive) - 1 if whole else math.nextafter(exclusive, -math.inf))
    return _kept(min(bounds, default=None))


def _kept(bound: float | None) -> float | int | None:
    """A bound that JSON can hold: the limits of 64-bit integers are beyond what an answer can be."""
    return bound if bound is None or abs(bound) <= MAX_INTEGER else float(bound)


def _bound(schema: Schema, name: str, path: str) -> list[float | int]:
    """The bound, if the schema has it."""
    value = schema.get(name)
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
        raise _unfit(path, f"{name} must be a number")
    return [value]


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _unfit(path: str, message: str) -> InvalidQuestion:
    return InvalidQuestion([Problem(path, message)])
