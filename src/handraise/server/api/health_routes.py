"""Health, readiness and metrics of the process.

They need no credential, and say nothing confidential.
"""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from handraise.model.errors import StoreUnavailable
from handraise.server.auth.authenticator import Context
from handraise.server.middleware.error_handlers import PROBLEM_RESPONSES, document_response
from handraise.wire.problem_documents import problem_of

router = APIRouter(tags=["health"])


@router.get("/healthz", response_class=Response)
async def get_health() -> Response:
    """The process is alive; the store is not checked."""
    return Response('{"status":"alive"}', media_type="application/json")


@router.get("/readyz", response_class=Response, responses={503: PROBLEM_RESPONSES[503]})
async def get_readiness(ctx: Context) -> Response:
    """The server accepts requests; 503 once it is stopping, and requests should go to another server.

    The store is not checked. If it is away, it is away from all servers: each request gets a 503 that says so and when to
    come back, which is better than a load balancer without any server.
    """
    if ctx.is_draining:
        return document_response(problem_of(StoreUnavailable("This server is stopping.")))
    return Response('{"status":"ready"}', media_type="application/json")


@router.get("/metrics", response_class=Response)
async def get_metrics(ctx: Context) -> Response:
    """Numbers in the text format of Prometheus. No label names a workspace, a person, an agent or a question."""
    return Response(ctx.metrics.render(), media_type=CONTENT_TYPE_LATEST)
