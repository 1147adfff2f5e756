"""For whoever watches over the process: is it alive, may it be sent requests, what are its numbers.

None of them needs a caller, and none says more than a stranger may know.
"""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from handraise.model.errors import HandraiseError, StoreUnavailable
from handraise.server.auth.authenticator import Context
from handraise.server.context import ServerContext
from handraise.server.middleware.error_handlers import DOCUMENTED, document_response
from handraise.wire.problems import problem_of

router = APIRouter(tags=["health"])

_PATIENCE = 2.0
_GOOD_FOR = 1.0


class Readiness:
    """Whether the store answers, asked at most once a second however many want to know."""

    def __init__(self, ctx: ServerContext) -> None:
        self._context = ctx
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._answers = False

    async def store_answers(self) -> bool:
        """Whether it did, a second ago at most."""
        async with self._asking:
            if time.monotonic() - self._asked_at > _GOOD_FOR:
                try:
                    async with asyncio.timeout(_PATIENCE):
                        await self._context.store.durability()
                    self._answers = True
                except (HandraiseError, TimeoutError):
                    self._answers = False
                self._asked_at = time.monotonic()
            return self._answers


@router.get("/healthz", response_class=Response)
async def get_health() -> Response:
    """The process is alive; nothing is said about its store."""
    return Response('{"status":"alive"}', media_type="application/json")


@router.get("/readyz", response_class=Response, responses={503: DOCUMENTED[503]})
async def get_readiness(request: Request, ctx: Context) -> Response:
    """The server takes requests and its store answers; else 503, and requests should go elsewhere."""
    readiness: Readiness = request.app.state.readiness
    if ctx.leaving:
        return document_response(problem_of(StoreUnavailable("This server is stopping.")))
    if not await readiness.store_answers():
        return document_response(problem_of(StoreUnavailable("The store does not answer.")))
    return Response('{"status":"ready"}', media_type="application/json")


@router.get("/metrics", response_class=Response)
async def get_metrics(ctx: Context) -> Response:
    """Numbers in the text format of Prometheus. No label names a workspace, a person, an agent or a question."""
    return Response(ctx.metrics.render(), media_type=CONTENT_TYPE_LATEST)
