"""One log line, one count and one span for every request, without body, query or token."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handraise.model.questions import Question, Ref
from handraise.server.observability.metrics import Metrics
from handraise.server.observability.traces import Traces, end_span, set_question_attributes

_log = logging.getLogger(__name__)

_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_UNLOGGED = frozenset({"/healthz", "/readyz", "/metrics"})
_ASKING = frozenset({"/v1/questions", "/v1/questions:batch"})
_FAILED = 500


@dataclass(slots=True)
class ActiveRequest:
    """A request in progress."""

    id: str
    method: str
    path: str
    headers: Headers
    span: Span
    began: float = field(default_factory=time.perf_counter)
    status: int | None = None
    is_stream: bool = False
    is_whole: bool = False
    questions: dict[Ref, Question] = field(default_factory=dict)

    @property
    def is_asking(self) -> bool:
        """Whether it asks questions, so that its span is the asker's."""
        return self.method == "POST" and self.path in _ASKING

    @property
    def question(self) -> Question | None:
        """The one question that the request is about; None if there is none, or several."""
        return next(iter(self.questions.values())) if len(self.questions) == 1 else None

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.perf_counter() - self.began


ACTIVE_REQUEST: ContextVar[ActiveRequest | None] = ContextVar("handraise_request", default=None)


class RequestLogMiddleware:
    """The outermost ASGI middleware."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, traces: Traces, stopping: asyncio.Event) -> None:
        self._app = app
        self._metrics = metrics
        self._traces = traces
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = self._begin(scope)

        async def send_and_observe(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._on_response_start(request, scope, message)
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                request.is_whole = True

        token = ACTIVE_REQUEST.set(request)
        try:
            if request.span is trace.INVALID_SPAN:
                await self._app(scope, receive, send_and_observe)
            else:
                with trace.use_span(request.span, record_exception=False, set_status_on_exception=False):
                    await self._app(scope, receive, send_and_observe)
        finally:
            self._finish(request, scope)
            ACTIVE_REQUEST.reset(token)

    def _begin(self, scope: Scope) -> ActiveRequest:
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        return ActiveRequest(
            id=given if given and _SANE_ID.fullmatch(given) else secrets.token_hex(16),
            method=method,
            path=scope["path"],
            headers=headers,
            span=self._traces.start_span(method, headers),
        )

    def _on_response_start(self, request: ActiveRequest, scope: Scope, message: Message) -> None:
        request.status = message["status"]
        given = dict(message.get("headers", ()))
        added = [(b"x-request-id", request.id.encode())]
        if self._stopping.is_set():
            # The next request on this connection would be lost.
            added.append((b"connection", b"close"))
        message["headers"] = [*message.get("headers", ()), *added]
        if given.get(b"idempotency-replayed"):
            self._metrics.count_replayed()
        if given.get(b"content-type", b"").startswith(b"text/event-stream"):
            request.is_stream = True
            self._metrics.stream_opened()
            # A stream lasts as long as its client; its span only covers the start.
            self._end_span(request, scope)

    def _finish(self, request: ActiveRequest, scope: Scope) -> None:
        status = request.status or _FAILED
        route = _route(scope)
        if request.is_stream:
            self._metrics.stream_closed()
        else:
            self._end_span(request, scope)
        self._metrics.observe_request(
            request.method, route or "none", status, None if request.is_stream else request.seconds
        )
        level = (
            logging.DEBUG if route in _UNLOGGED else logging.WARNING if status >= _FAILED else logging.INFO
        )
        if _log.isEnabledFor(level):
            _log.log(level, "request", extra={"event": "request", **_line(request, scope, route, status)})

    def _end_span(self, request: ActiveRequest, scope: Scope) -> None:
        span, question = request.span, request.question
        if question is not None and span.is_recording():
            set_question_attributes(span, question)
            if request.method not in _SAFE and not request.is_asking:
                self._traces.link_to_asker(question, span)
        end_span(
            span,
            method=request.method,
            route=_route(scope),
            status=request.status or _FAILED,
            workspace=_caller(scope, "workspace"),
        )


def note_question(question: Question) -> None:
    """Note that the active request, if there is one, is about this question."""
    request = ACTIVE_REQUEST.get()
    if request is None or (len(request.questions) > 1 and question.ref not in request.questions):
        return
    request.questions[question.ref] = question


def _line(request: ActiveRequest, scope: Scope, route: str | None, status: int) -> dict[str, Any]:
    """The fields of a request's log line."""
    line: dict[str, Any] = {
        "method": request.method,
        "route": route,
        "status": status,
        "seconds": round(request.seconds, 6),
        "client": _client(scope),
        "workspace": _caller(scope, "workspace"),
        "caller": _caller(scope, "name"),
        "question": request.question.id if request.question else None,
        # The client went away before the end; a stream always ends so.
        "cut": None if request.is_whole else True,
    }
    return {name: value for name, value in line.items() if value is not None}


def _route(scope: Scope) -> str | None:
    """The template of the route, which has no id and no secret in it."""
    return getattr(scope.get("route"), "path", None)


def _client(scope: Scope) -> str | None:
    """The client's network address: the one that a trusted proxy names, else that of the connection."""
    client = scope.get("client")
    return client[0] if client else None


def _caller(scope: Scope, what: str) -> str | None:
    """The workspace or the name of the caller, if they were authenticated."""
    return getattr(scope.get("state", {}).get("caller"), what, None)
