"""Every error becomes a problem document, without internal details."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from handraise.model.errors import InvalidRequest, NotFound
from handraise.model.problems import HandraiseError, Problem
from handraise.model.type_problems import type_problem, written_place
from handraise.wire.problem_documents import MEDIA_TYPE, ProblemDocument, problem_of

_log = logging.getLogger(__name__)

_RETRY_AFTER = 2.0

PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": text,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
    for status, text in {
        401: "nobody is signed in",
        403: "not allowed",
        404: "no such thing here",
        409: "somebody else was first, or a request with the same idempotency key is in progress",
        408: "the body did not come in time",
        412: "the resource has changed since you read it",
        413: "the body is too large",
        422: "the request is not valid",
        423: "an administrator has stopped this",
        429: "too many requests",
        503: "the store cannot be reached, or the server is stopping",
    }.items()
}
"""The errors that any route may answer with."""


def problem_response(error: HandraiseError) -> Response:
    """The response for an error."""
    document = problem_of(error)
    if document.status >= 500:  # noqa: PLR2004 -- the first status that is our own fault
        _log.warning("refused: %s", error, extra={"event": "request_refused"})
    return document_response(document)


def document_response(document: ProblemDocument) -> Response:
    """The response with a problem document."""
    headers = {}
    if document.status == 401:  # noqa: PLR2004 -- RFC 9110 demands the header
        headers["www-authenticate"] = "Bearer"
    retry_after = _RETRY_AFTER if document.status == 503 else document.retry_after  # noqa: PLR2004 -- come back soon
    if retry_after is not None:
        headers["retry-after"] = str(max(1, round(retry_after)))
    return Response(
        document.model_dump_json(exclude_none=True),
        status_code=document.status,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def add_error_handlers(app: FastAPI) -> None:
    """Let the application answer every error with a problem document."""
    app.add_exception_handler(HandraiseError, _handle_handraise_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_exception_handler(Exception, _handle_unexpected_error)


async def _handle_handraise_error(_: Request, error: Exception) -> Response:
    return problem_response(error if isinstance(error, HandraiseError) else HandraiseError())


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    found = list(error.errors()) if isinstance(error, RequestValidationError) else []
    schema = _body_schema(request) if found else {}
    problems = [_problem(each, schema) for each in found]
    if isinstance(getattr(error, "body", None), bytes):
        problems = [Problem("body", "expected JSON, and the header Content-Type: application/json")]
    return problem_response(InvalidRequest(problems))


def _body_schema(request: Request) -> Mapping[str, Any]:
    """The JSON Schema of the body that this route takes."""
    body = getattr(request.scope.get("route"), "body_field", None)
    model: Any = getattr(getattr(body, "field_info", None), "annotation", None)
    return model.model_json_schema() if hasattr(model, "model_json_schema") else {}


def _problem(found: Mapping[str, Any], schema: Mapping[str, Any]) -> Problem:
    """What is wrong with a part of a request, in the place where somebody wrote it."""
    part, *place = found["loc"]
    written = written_place(schema, place) if part == "body" and place else place
    return Problem(".".join(map(str, (part, *written))), type_problem(found, schema, place))


async def handle_http_exception(_: Request, error: Exception) -> Response:
    """The response for an error of the HTTP layer."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:  # noqa: PLR2004 -- no such path
        return problem_response(NotFound("There is no such page here."))
    detail = str(error.detail) if isinstance(error, HTTPException) else ""
    if status == 400:  # noqa: PLR2004 -- a body that is no JSON at all
        return problem_response(InvalidRequest([Problem("body", detail)]))
    response = document_response(
        ProblemDocument(type="about:blank", title=detail, status=status, code="http_error", detail=detail)
    )
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


async def _handle_unexpected_error(_: Request, error: Exception) -> Response:
    return unexpected_response(error)


def unexpected_response(error: Exception) -> Response:
    """The response to an error that nobody expected, which is logged."""
    _log.error("a request failed unexpectedly", exc_info=error, extra={"event": "request_failed"})
    return document_response(
        ProblemDocument(
            type="urn:handraise:problem:error",
            title="The server failed",
            status=500,
            code="error",
            detail="Something went wrong; the server's log has the details.",
        )
    )
