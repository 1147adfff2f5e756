"""Every operation of the OpenAPI document, with a request that could be made of it.

What walks over these covers a new route by itself; a new path parameter must be taught here once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from handraise.server.app import document

SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    body: Any
    form: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def url(self, ids: dict[str, str]) -> str:
        """The path with these ids in it; an id that nobody taught is an error."""
        return self.path.format(**ids)


def operations() -> list[Operation]:
    """All operations that the document has."""
    whole = document()
    found = []
    for path, methods in whole["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            kind = next(iter(content), None)
            schema = content[kind]["schema"] if kind else None
            body = None if schema is None else minimal(schema, whole)
            found.append(Operation(method.upper(), path, body, kind != "application/json"))
    return found


def minimal(schema: dict[str, Any], whole: dict[str, Any]) -> Any:
    """The smallest value that a schema takes."""
    if "$ref" in schema:
        return minimal(whole["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], whole)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return minimal(schema[several][0], whole)
    for fixed in ("default", "const"):
        if fixed in schema:
            return schema[fixed]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: minimal(schema["properties"][name], whole) for name in schema.get("required", ())}
        case "array":
            return [minimal(schema["items"], whole)] * schema.get("minItems", 0)
        case "string":
            return "text"
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return False
        case _:
            return "text"
