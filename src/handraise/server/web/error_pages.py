"""Pages instead of problem documents, if a browser asked for a page and no route of ours could answer."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from handraise.presentation.translation import gettext, use_locale
from handraise.server.page_locale import page_locale
from handraise.server.web.pages import message, refusal_page

_FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED = 403, 404, 405
_API = ("/v1/", "/mcp", "/metrics", "/health")


def add_error_pages(app: FastAPI) -> None:
    """Answer errors with a page for browsers; other clients, and the API, get the problem document."""
    for kind in (HTTPException, Exception):
        _wrap(app, kind)


def _wrap(app: FastAPI, kind: type[Exception]) -> None:
    default_handler: Any = app.exception_handlers[kind]

    async def show(request: Request, error: Exception) -> Response:
        answer: Response = await default_handler(request, error)
        if not _wants_page(request):
            return answer
        with use_locale(page_locale(request)):
            shown = _page(answer.status_code)
        if shown is None:
            return answer
        for name in ("allow", "retry-after"):
            if name in answer.headers:
                shown.headers[name] = answer.headers[name]
        return shown

    app.add_exception_handler(kind, show)


def _wants_page(request: Request) -> bool:
    """Whether a person looks at the answer: browsers ask for pages, and programs do not."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(_API)


def _page(status: int) -> Response | None:
    lead = ("/", gettext("Go to your inbox"))
    if status == _NOT_FOUND:
        return message(
            gettext("There is no such page here"),
            gettext("The link may be old or incomplete."),
            status=status,
            lead=lead,
        )
    if status == _NOT_ALLOWED:
        return message(
            gettext("This address is not a page"),
            gettext("It only takes what a form sends. Nothing was changed."),
            status=status,
            lead=lead,
        )
    if status == _FORBIDDEN:
        return refusal_page(gettext("Nothing was changed."), status)
    if status >= 500:  # noqa: PLR2004 -- the first status that is our own fault
        return message(
            gettext("Something went wrong on our side"),
            gettext("Nothing is lost: what was recorded before still is. Try again in a moment."),
            status=status,
            lead=lead,
        )
    return None
