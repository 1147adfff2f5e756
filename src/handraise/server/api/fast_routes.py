"""The hot operations without FastAPI's routing: the same functions, and so the same rules and responses.

Only ordinary requests are served here. Any other one goes on to FastAPI with what was read of it: one with another content
type, with invalid JSON, or with a body that does not fit. So only FastAPI says what is wrong with a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic
import pydantic_core
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handraise.model.problems import HandraiseError
from handraise.server.api.question_routes import answer_question, get_outcome, post_question
from handraise.server.api.responses import MAX_ID, MAX_WAIT
from handraise.server.auth.authenticator import agent_of, caller_of, context_of, person_of
from handraise.server.middleware.error_handlers import handle_http_exception, problem_response
from handraise.server.middleware.idempotency import handle_once
from handraise.wire.requests import AnswerQuestion, PostQuestion

Model = TypeVar("Model", bound=pydantic.BaseModel)

_QUESTIONS = ["", "v1", "questions"]
_JSON = b"application/json"
_WAIT = b"wait="


class _NotOrdinaryError(Exception):
    """FastAPI must serve this request."""


class FastRoutes:
    """Serves the ordinary requests of hot operations; everything else goes on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route = _find(scope)
        if route is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        scope["route"] = route
        try:
            response = await handle_once(request, route.handle)
        except _NotOrdinaryError:
            del scope["route"]
            await self._app(scope, await _with_body(request, receive), send)
            return
        except HandraiseError as error:
            response = problem_response(error)
        except ClientDisconnect:
            response = await handle_http_exception(request, HTTPException(400, "The body did not come."))
        except HTTPException as error:
            response = await handle_http_exception(request, error)
        await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _FastRoute:
    """The path of an operation as the document writes it, and the function that serves it."""

    path: str
    handle: Callable[[Request], Awaitable[Response]]


async def _post(request: Request) -> Response:
    given = await _json_of(request)
    agent = await agent_of(request)
    return await post_question(request, context_of(request), agent, _checked(PostQuestion, given))


async def _answer(request: Request) -> Response:
    given = await _json_of(request)
    person = await person_of(request)
    return await answer_question(
        request, context_of(request), person, _question_id(request), _checked(AnswerQuestion, given)
    )


async def _outcome(request: Request) -> Response:
    caller = await caller_of(request)
    wait = request.scope["query_string"].removeprefix(_WAIT).decode() or "0s"
    return await get_outcome(request, context_of(request), caller, _question_id(request), wait)


_POST = _FastRoute("/v1/questions", _post)
_ANSWER = _FastRoute("/v1/questions/{question_id}/answer", _answer)
_OUTCOME = _FastRoute("/v1/questions/{question_id}/outcome", _outcome)


def _find(scope: Scope) -> _FastRoute | None:
    """The fast route of a request, if there is one for it."""
    if scope["type"] != "http":
        return None
    method, query, parts = scope["method"], scope["query_string"], scope["path"].split("/")
    if parts[:3] != _QUESTIONS or not (query == b"" or _is_wait(query)):
        return None
    match parts[3:]:
        case [] if method == "POST" and not query and _has_json(scope):
            return _POST
        case [question_id, "answer"] if method == "POST" and not query and _has_json(scope):
            return _ANSWER if 0 < len(question_id) <= MAX_ID else None
        case [question_id, "outcome"] if method == "GET":
            return _OUTCOME if 0 < len(question_id) <= MAX_ID else None
    return None


def _is_wait(query: bytes) -> bool:
    wait = query.removeprefix(_WAIT)
    return wait != query and wait.isalnum() and len(wait) <= MAX_WAIT


def _has_json(scope: Scope) -> bool:
    given = next((value for name, value in scope["headers"] if name == b"content-type"), None)
    return given == _JSON


def _question_id(request: Request) -> str:
    question_id: str = request.scope["path"].split("/")[3]
    return question_id


async def _json_of(request: Request) -> Any:
    body = await request.body()
    try:
        return pydantic_core.from_json(body)  # five times as fast as `json.loads`, and it accepts no more
    except ValueError:
        raise _NotOrdinaryError from None


def _checked(model: type[Model], given: Any) -> Model:
    try:
        return model.model_validate(given)
    except pydantic.ValidationError:
        raise _NotOrdinaryError from None


async def _with_body(request: Request, receive: Receive) -> Receive:
    """Receive a body once more that was read already, and then whatever comes."""
    first: Message | None = {"type": "http.request", "body": await request.body(), "more_body": False}

    async def again() -> Message:
        nonlocal first
        if (message := first) is not None:
            first = None
            return message
        return await receive()

    return again
