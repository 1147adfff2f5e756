"""Every error leaves as a problem document; nothing of the inside comes with it."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from handraise.model.errors import HandraiseError, InvalidRequest, NotFound, Problem
from handraise.wire.problems import MEDIA_TYPE, ProblemDocument, problem_of

_log = logging.getLogger(__name__)

_UNAVAILABLE_FOR = 2.0

DOCUMENTED: dict[int | str, dict[str, Any]] = {
    status: {
        "description": text,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
    for status, text in {
        401: "nobody is signed in",
        403: "not allowed",
        404: "no such thing here",
        409: "somebody was first, or a request with the same idempotency key is under way",
        408: "the body did not come in time",
        412: "what was to be replaced has changed since it was read",
        413: "the body is too large",
        422: "the request cannot be read, or what it asks for is not possible",
        429: "too many requests",
        503: "the store cannot be reached, or the server is stopping",
    }.items()
}
"""What any route may answer besides what it is for."""


def problem_response(error: HandraiseError) -> Response:
    """The response for an error."""
    document = problem_of(error)
    if document.status >= 500:  # noqa: PLR2004 -- the first status that is our own fault
        _log.warning("refused: %s", error)
    return document_response(document)


def document_response(document: ProblemDocument) -> Response:
    """The response with a problem document."""
    headers = {}
    if document.status == 401:  # noqa: PLR2004 -- RFC 9110 wants to say how to come back
        headers["www-authenticate"] = "Bearer"
    retry_after = _UNAVAILABLE_FOR if document.status == 503 else document.retry_after  # noqa: PLR2004 -- come back soon
    if retry_after is not None:
        headers["retry-after"] = str(max(1, round(retry_after)))
    return Response(
        document.model_dump_json(exclude_none=True),
        status_code=document.status,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def handle_errors(app: FastAPI) -> None:
    """Let the application answer every error with a problem document."""
    app.add_exception_handler(HandraiseError, _ours)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _of_the_framework)
    app.add_exception_handler(Exception, _unexpected)


async def _ours(_: Request, error: Exception) -> Response:
    return problem_response(error if isinstance(error, HandraiseError) else HandraiseError())


async def _unreadable(_: Request, error: Exception) -> Response:
    found = list(error.errors()) if isinstance(error, RequestValidationError) else []
    problems = [Problem(".".join(map(str, each["loc"])), str(each["msg"])) for each in found]
    if isinstance(getattr(error, "body", None), bytes):
        problems = [Problem("body", "expected JSON, and the header Content-Type: application/json")]
    return problem_response(InvalidRequest(problems))


async def _of_the_framework(_: Request, error: Exception) -> Response:
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


async def _unexpected(_: Request, error: Exception) -> Response:
    _log.error("a request failed unexpectedly", exc_info=error)
    return document_response(
        ProblemDocument(
            type="urn:handraise:problem:error",
            title="The server failed",
            status=500,
            code="error",
            detail="Something went wrong here; it is in the server's log.",
        )
    )
