"""The ASGI application: routes, problems and guards around a house."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from handraise import __version__
from handraise.server import (
    administration,
    api_page,
    embedding,
    events,
    health,
    inbound,
    pushing,
    question_links,
    questions,
    reaching,
    signing_in,
    statistics,
    tool_results,
)
from handraise.server.callers import BEARER, Doorkeeper
from handraise.server.documenting import document_problems, operation_id
from handraise.server.failing import DOCUMENTED, handle_errors
from handraise.server.guards import STATIC, Guards, Rates
from handraise.server.health import Readiness
from handraise.server.house import House
from handraise.server.inbox import answering, conversation, insights, installing, myself, queue, settled
from handraise.server.last_used import LastUsed
from handraise.server.live import Streams
from handraise.server.observing import ObservedRequests
from handraise.server.pages import STATIC_FILES, handle_unknown_pages
from handraise.server.sights import Sights
from handraise.server.stream_limits import StreamLimits

API: tuple[APIRouter, ...] = (
    questions.router,
    statistics.router,
    question_links.router,
    reaching.router,
    pushing.router,
    events.router,
    tool_results.router,
    administration.router,
    administration.secret_router,
    signing_in.router,
)


def create_app(house: House) -> FastAPI:
    """The application that serves this house."""
    app = _application()
    app.state.house = house
    app.state.sights = sights = Sights(house)
    app.state.streams = Streams(house, sights)
    app.state.rates = Rates(house.settings)
    app.state.stream_limits = StreamLimits(house.settings)
    app.state.doorkeeper = Doorkeeper(house.directory)
    app.state.last_used = LastUsed(house)
    app.state.readiness = Readiness(house)
    if house.settings.oidc_issuer:
        _add_oidc(app, house)
    return app


def document() -> dict[str, Any]:
    """The OpenAPI document of the application, whatever house it serves."""
    return _application().openapi()


class _Application(FastAPI):
    def build_middleware_stack(self) -> ASGIApp:
        """Guards around everything, also around what answers a failure; and all of it is observed."""
        house: House = self.state.house
        guarded = Guards(super().build_middleware_stack(), house.settings)
        return ObservedRequests(guarded, metrics=house.metrics, traces=house.traces, stopping=house.stopping)


def _add_oidc(app: FastAPI, house: House) -> None:
    from handraise.server import oidc, signing_in_oidc  # noqa: PLC0415 -- Authlib is an extra

    app.state.oidc = oidc.Provider(house.settings)
    app.include_router(signing_in_oidc.pages)


def _application() -> _Application:
    app = _Application(
        title="Handraise",
        version=__version__,
        summary="A program asks a person something, stops durably, and carries on with a validated answer.",
        routes=_routes(),
        openapi_url="/v1/openapi.json",
        generate_unique_id_function=operation_id,
        docs_url=None,
        redirect_slashes=False,
        redoc_url=None,
        # Ours instead: FastAPI's puts query strings into spans, and exceptions with their texts into logs.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    handle_errors(app)
    handle_unknown_pages(app)
    document_problems(app)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """The routes of every application of this process. FastAPI builds them at the first request, once for all."""
    routes = APIRouter(generate_unique_id_function=operation_id)
    for router in API:
        routes.include_router(router, dependencies=[Depends(BEARER)], responses=DOCUMENTED)
    routes.include_router(health.router)
    routes.include_router(inbound.router)
    # Before the sign-in pages, whose `/` only says who one is.
    routes.include_router(queue.pages)
    routes.include_router(settled.pages)
    routes.include_router(conversation.pages)
    routes.include_router(insights.pages)
    routes.include_router(answering.pages)
    routes.include_router(myself.pages)
    routes.include_router(installing.pages)
    routes.include_router(signing_in.pages)
    routes.include_router(api_page.pages)
    routes.include_router(embedding.pages)
    routes.include_router(embedding.frames)
    routes.mount(STATIC, embedding.SharedFiles(directory=STATIC_FILES))
    return routes.routes
