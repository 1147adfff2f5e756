"""A page that shows the HTTP API with commands to copy, and the usual paths of the OpenAPI document."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from handraise.server.auth.authenticator import Context
from handraise.server.web.pages import PageRoute, page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_EXAMPLES = {"string": "…", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on the page."""

    tag: str
    method: str
    path: str
    summary: str
    command: str


@pages.get("/openapi.json")
async def find_document() -> Response:
    """Redirect to the OpenAPI document."""
    return RedirectResponse("/v1/openapi.json", 308)


@pages.get("/docs")
async def show_api(request: Request, ctx: Context) -> Response:
    """Show every operation, with a command that makes it."""
    return page("api.html", operations=list(_operations(request.app.openapi(), ctx.settings.base_url)))


def _operations(document: dict[str, Any], base_url: str) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            line = ["curl", "--request", method.upper(), base_url + path]
            if path.startswith("/v1/"):
                line += ["--header", "Authorization: Bearer $HANDRAISE_KEY"]
            if (body := _body(document, operation)) is not None:
                line += ["--json", json.dumps(body, ensure_ascii=False)]
            command = shlex.join(line).replace(
                "'Authorization: Bearer $HANDRAISE_KEY'", '"Authorization: Bearer $HANDRAISE_KEY"'
            )
            tag = (operation.get("tags") or ["other"])[0]
            yield Operation(tag, method.upper(), path, operation.get("summary", ""), command)


def _body(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
    """The smallest body of an operation, with placeholders; None if it takes no JSON."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return None
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    fields = schema.get("properties", {})
    return {name: _EXAMPLES.get(fields[name].get("type"), "…") for name in schema.get("required", [])}
