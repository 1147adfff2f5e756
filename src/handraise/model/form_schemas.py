"""The JSON Schema of the answers to a form."""

from __future__ import annotations

from typing import assert_never

from handraise.model.forms import (
    AnyForm,
    Approval,
    Choice,
    Confirm,
    Field,
    File,
    Form,
    MultiChoice,
    Open,
    Option,
    SimpleForm,
)
from handraise.model.schema_reader import FORMATS, Schema


def form_to_schema(form: AnyForm) -> Schema:
    """The JSON Schema of the canonical answers to a form."""
    match form:
        case Form():
            return {
                "type": "object",
                "properties": {entry.name: _described(entry) for entry in form.fields},
                "required": [entry.name for entry in form.fields if entry.required],
                "additionalProperties": False,
            }
        case Approval():
            properties: Schema = {
                "decision": {"type": "string", "enum": ["approve", "deny"]},
                "reason": {"type": "string"},
                "digest": {"type": "string"},
            }
            if form.editable:
                properties["arguments"] = {
                    "type": "object",
                    "properties": {entry.name: _described(entry) for entry in form.edits},
                }
            return {"type": "object", "properties": properties, "required": ["decision"]}
        case _:
            return _simple_to_schema(form)


def _simple_to_schema(form: SimpleForm) -> Schema:
    match form:
        case Choice():
            return {"type": "string", "oneOf": _titled(form.options)}
        case MultiChoice():
            schema: Schema = {
                "type": "array",
                "items": {"anyOf": _titled(form.options)},
                "minItems": form.at_least,
            }
            return schema if form.at_most is None else {**schema, "maxItems": form.at_most}
        case Confirm():
            return {"type": "boolean"}
        case File():
            return {
                "type": "object",
                "title": "a file that was uploaded before",
                "properties": {
                    "name": {"type": "string"},
                    "media_type": {"type": "string"},
                    "size": {"type": "integer"},
                    "digest": {"type": "string"},
                },
                "required": ["name", "media_type", "size", "digest"],
            }
        case Open(type="integer" | "number"):
            bounds = {"minimum": form.minimum, "maximum": form.maximum}
            return {"type": form.type} | {key: value for key, value in bounds.items() if value is not None}
        case Open():
            names = {ours: theirs for theirs, ours in FORMATS.items()}
            facets = {
                "format": names.get(form.type),
                "minLength": form.min_length,
                "maxLength": form.max_length,
                "pattern": form.pattern,
            }
            return {"type": "string"} | {key: value for key, value in facets.items() if value is not None}
        case _:
            assert_never(form)


def _titled(options: tuple[Option, ...]) -> list[Schema]:
    return [{"const": option.id, "title": option.label} for option in options]


def _described(entry: Field) -> Schema:
    extras = {"title": entry.title, "description": entry.description, "default": entry.default}
    return _simple_to_schema(entry.form) | {key: value for key, value in extras.items() if value is not None}
