"""Health, readiness and metrics of the process.

They need no credential, and say nothing confidential.
"""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from handraise.model.errors import StoreUnavailable
from handraise.model.problems import HandraiseError
from handraise.server.auth.authenticator import Context
from handraise.server.context import ServerContext
from handraise.server.middleware.error_handlers import PROBLEM_RESPONSES, document_response
from handraise.wire.problem_documents import problem_of

router = APIRouter(tags=["health"])

_TIMEOUT = 2.0
_CACHE_SECONDS = 1.0


class Readiness:
    """Checks whether the store answers, at most once a second."""

    def __init__(self, ctx: ServerContext) -> None:
        self._context = ctx
        self._lock = asyncio.Lock()
        self._checked_at = float("-inf")
        self._answers = False

    async def store_answers(self) -> bool:
        """Whether it answered, at most a second ago."""
        async with self._lock:
            if time.monotonic() - self._checked_at > _CACHE_SECONDS:
                try:
                    async with asyncio.timeout(_TIMEOUT):
                        await self._context.store.durability()
                    self._answers = True
                except (HandraiseError, TimeoutError):
                    self._answers = False
                self._checked_at = time.monotonic()
            return self._answers


@router.get("/healthz", response_class=Response)
async def get_health() -> Response:
    """The process is alive; the store is not checked."""
    return Response('{"status":"alive"}', media_type="application/json")


@router.get("/readyz", response_class=Response, responses={503: PROBLEM_RESPONSES[503]})
async def get_readiness(request: Request, ctx: Context) -> Response:
    """The server accepts requests and its store answers; else 503, and requests should go to another server."""
    readiness: Readiness = request.app.state.readiness
    if ctx.is_draining:
        return document_response(problem_of(StoreUnavailable("This server is stopping.")))
    if not await readiness.store_answers():
        return document_response(problem_of(StoreUnavailable("The store does not answer.")))
    return Response('{"status":"ready"}', media_type="application/json")


@router.get("/metrics", response_class=Response)
async def get_metrics(ctx: Context) -> Response:
    """Numbers in the text format of Prometheus. No label names a workspace, a person, an agent or a question."""
    return Response(ctx.metrics.render(), media_type=CONTENT_TYPE_LATEST)
