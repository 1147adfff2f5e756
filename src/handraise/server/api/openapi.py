"""The OpenAPI document: what FastAPI generates from the routes, and the schema of problems."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from handraise.wire.problem_documents import ProblemDocument

_PLACE = "#/components/schemas/{model}"


def operation_id(route: APIRoute) -> str:
    """The name of an operation in generated clients."""
    return route.name


def document_problems(app: FastAPI) -> None:
    """Add the schema of problems to the application's document."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        made = plain()
        schemas = made["components"]["schemas"]
        problem = ProblemDocument.model_json_schema(ref_template=_PLACE, mode="serialization")
        for name, schema in {**problem.pop("$defs", {}), ProblemDocument.__name__: problem}.items():
            schemas.setdefault(name, schema)
        return made

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation says
