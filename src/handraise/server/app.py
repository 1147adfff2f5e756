"""The ASGI application: routes, error handlers and middleware around a server context."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from handraise import __version__
from handraise.server.api import (
    address_routes,
    admin_routes,
    answer_routes,
    away_routes,
    batch_post_routes,
    bulk_answer_routes,
    calendar_routes,
    channel_routes,
    config_routes,
    event_routes,
    file_routes,
    health_routes,
    heartbeat_routes,
    passkey_routes,
    policy_routes,
    push_routes,
    question_link_routes,
    question_routes,
    receipt_routes,
    search_routes,
    sharing_routes,
    standing_answer_routes,
    statistics_routes,
    stop_routes,
    thread_routes,
    tool_result_routes,
)
from handraise.server.api.fast_routes import FastRoutes
from handraise.server.api.openapi import document_problems, operation_id
from handraise.server.auth.authenticator import BEARER, Authenticator
from handraise.server.auth.last_used import LastUsed
from handraise.server.context import ServerContext
from handraise.server.live.broadcaster import Streams
from handraise.server.live.long_responses import LongResponseMiddleware
from handraise.server.live.stream_credentials import StreamCredentials
from handraise.server.live.stream_limits import StreamLimits
from handraise.server.live.visibility import VisibilityCache
from handraise.server.middleware.busy_limit import BusyLimit
from handraise.server.middleware.error_handlers import PROBLEM_RESPONSES, add_error_handlers
from handraise.server.middleware.security import STATIC, RateLimits, SecurityMiddleware
from handraise.server.observability import RequestLogMiddleware
from handraise.server.uploads import UploadSlots
from handraise.server.web import api_page, embedded_question, sign_in
from handraise.server.web.admin import (
    account_pages,
    audit_pages,
    channel_pages,
    grant_pages,
    group_pages,
    key_pages,
    overview_page,
    people_pages,
    retention_pages,
    setup_page,
)
from handraise.server.web.error_pages import add_error_pages
from handraise.server.web.inbox import (
    account_page,
    agent_page,
    app_manifest,
    aside_page,
    connect_pages,
    conversation_page,
    file_pages,
    insights_page,
    own_hours,
    passkey_pages,
    person_page,
    policy_page,
    question_page,
    queue_page,
    saved_view_pages,
    search_page,
    settled_page,
    standing_answers_page,
    stops_page,
    together_page,
    tool_page,
)
from handraise.server.web.pages import STATIC_FILES

API: tuple[APIRouter, ...] = (
    question_routes.router,
    batch_post_routes.router,
    bulk_answer_routes.router,
    thread_routes.router,
    heartbeat_routes.router,
    sharing_routes.router,
    standing_answer_routes.router,
    search_routes.router,
    file_routes.router,
    statistics_routes.router,
    answer_routes.router,
    receipt_routes.router,
    question_link_routes.router,
    address_routes.router,
    policy_routes.router,
    push_routes.router,
    event_routes.router,
    tool_result_routes.router,
    admin_routes.router,
    admin_routes.secret_router,
    away_routes.router,
    calendar_routes.router,
    config_routes.router,
    stop_routes.router,
    passkey_routes.router,
    sign_in.router,
)
OPEN_API = (receipt_routes.open_router,)
"""What needs no key and no session."""


def create_app(ctx: ServerContext) -> FastAPI:
    """Create the application of this server context."""
    app = _application()
    app.state.ctx = ctx
    app.state.visibility = visibility = VisibilityCache(ctx)
    app.state.rate_limits = RateLimits(ctx.settings)
    app.state.upload_slots = UploadSlots()
    app.state.image_encoder = ctx.image_encoder
    app.state.stream_limits = StreamLimits(ctx.settings)
    app.state.authenticator = authenticator = Authenticator(ctx.directory)
    app.state.streams = Streams(ctx, visibility, StreamCredentials(ctx, authenticator))
    app.state.last_used = LastUsed(ctx)
    if ctx.settings.oidc_issuer:
        _add_oidc(app, ctx)
    if find_spec("scim2_models"):
        _add_scim(app)
    return app


def document() -> dict[str, Any]:
    """The OpenAPI document, which is the same for every server."""
    return _application().openapi()


class _Application(FastAPI):
    def build_middleware_stack(self) -> ASGIApp:
        """Put the security middleware around everything, also around error handlers, and log all of it."""
        ctx: ServerContext = self.state.ctx
        limited = BusyLimit(super().build_middleware_stack(), ctx.settings.busy_limit)
        secured = LongResponseMiddleware(SecurityMiddleware(limited, ctx.settings))
        return RequestLogMiddleware(secured, metrics=ctx.metrics, traces=ctx.traces, stopping=ctx.stopping)


def _add_oidc(app: FastAPI, ctx: ServerContext) -> None:
    from handraise.server.api import backchannel_logout_routes  # noqa: PLC0415 -- Authlib is an extra
    from handraise.server.auth import oidc  # noqa: PLC0415 -- Authlib is an extra
    from handraise.server.web import sign_in_oidc  # noqa: PLC0415 -- Authlib is an extra

    app.state.oidc = oidc.Provider(ctx.settings)
    app.include_router(sign_in_oidc.pages)
    app.include_router(backchannel_logout_routes.router)


def _add_scim(app: FastAPI) -> None:
    from handraise.server.api import scim_routes  # noqa: PLC0415 -- scim2-models is an extra

    app.include_router(scim_routes.router)


def _application() -> _Application:
    app = _Application(
        title="Handraise",
        version=__version__,
        summary="A program asks a person something, stops durably, and continues with a validated answer.",
        routes=_routes(),
        openapi_url="/v1/openapi.json",
        generate_unique_id_function=operation_id,
        docs_url=None,
        redirect_slashes=False,
        redoc_url=None,
        # Ours instead: FastAPI's has query strings in spans and the texts of exceptions in logs.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.add_middleware(FastRoutes)
    add_error_handlers(app)
    add_error_pages(app)
    document_problems(app)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """The routes of every application of this process. FastAPI builds them once, at the first request."""
    routes = APIRouter(generate_unique_id_function=operation_id)
    for router in API:
        routes.include_router(router, dependencies=[Depends(BEARER)], responses=PROBLEM_RESPONSES)
    for router in OPEN_API:
        routes.include_router(router, responses=PROBLEM_RESPONSES)
    routes.include_router(health_routes.router)
    routes.include_router(channel_routes.router)
    # Before the sign-in pages, whose `/` only shows who you are.
    routes.include_router(queue_page.pages)
    routes.include_router(saved_view_pages.pages)
    routes.include_router(settled_page.pages)
    routes.include_router(search_page.pages)
    routes.include_router(aside_page.pages)
    routes.include_router(standing_answers_page.pages)
    routes.include_router(conversation_page.pages)
    routes.include_router(agent_page.pages)
    routes.include_router(tool_page.pages)
    routes.include_router(person_page.pages)
    routes.include_router(insights_page.pages)
    routes.include_router(stops_page.pages)
    routes.include_router(policy_page.pages)
    routes.include_router(overview_page.pages)
    routes.include_router(people_pages.pages)
    routes.include_router(group_pages.pages)
    routes.include_router(key_pages.pages)
    routes.include_router(account_pages.pages)
    routes.include_router(channel_pages.pages)
    routes.include_router(grant_pages.pages)
    routes.include_router(audit_pages.pages)
    routes.include_router(retention_pages.pages)
    routes.include_router(setup_page.pages)
    routes.include_router(question_page.pages)
    routes.include_router(together_page.pages)
    routes.include_router(file_pages.pages)
    routes.include_router(account_page.pages)
    routes.include_router(connect_pages.pages)
    routes.include_router(own_hours.pages)
    routes.include_router(passkey_pages.pages)
    routes.include_router(app_manifest.pages)
    routes.include_router(sign_in.pages)
    routes.include_router(api_page.pages)
    routes.include_router(embedded_question.pages)
    routes.include_router(embedded_question.frames)
    # Only files that are the same for everybody are compressed: the size of a page must not tell what is on it.
    shared = embedded_question.SharedFiles(directory=STATIC_FILES)
    routes.mount(STATIC, GZipMiddleware(shared, minimum_size=1_000))
    return routes.routes
