"""HTML pages. Templates always escape values; pages work without scripts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, RedirectResponse, Response

from handraise.model.errors import Unauthenticated
from handraise.model.problems import HandraiseError
from handraise.model.visible import visible, visible_line
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import (
    current_locale,
    gettext,
    grouped,
    ngettext,
    pgettext,
    use_locale,
)
from handraise.server.auth.login_redirect import remember_return_path
from handraise.server.middleware.error_handlers import problem_response
from handraise.server.middleware.security import SCRIPTED_POLICY
from handraise.server.page_locale import page_locale

_HERE = Path(__file__).parent
_FORBIDDEN = 403
STATIC_FILES = _HERE / "static"

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    extensions=["jinja2.ext.i18n"],
)
TEMPLATES.install_gettext_callables(gettext, ngettext, newstyle=True, pgettext=pgettext)  # type: ignore[attr-defined] # the extension adds it
TEMPLATES.globals["language"] = lambda: current_locale().language
TEMPLATES.policies["ext.i18n.trimmed"] = True
TEMPLATES.filters["visible"] = visible
TEMPLATES.filters["visible_line"] = visible_line
TEMPLATES.filters["grouped"] = grouped
TEMPLATES.filters["sentence"] = lambda text: text if text.endswith((".", "?", "!", "…")) else f"{text}."
TEMPLATES.globals["time_zone"] = lambda: current_locale().time_zone
TEMPLATES.globals["now"] = lambda: datetime.now(UTC).isoformat()


class PageRoute(APIRoute):
    """A route of HTML pages: its errors are pages, and people who are not signed in are redirected to sign in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route's handler, so that errors become pages."""
        handle = super().get_route_handler()

        async def handle_with_pages(request: Request) -> Response:
            with use_locale(page_locale(request)):
                return await handle_in_locale(request)

        async def handle_in_locale(request: Request) -> Response:
            try:
                return await handle(request)
            except Unauthenticated:
                redirect = RedirectResponse("/sign-in", 303)
                remember_return_path(request, redirect)
                return redirect
            except HandraiseError as error:
                problem = problem_response(error)
                response = refusal_page(error_text(str(error)), problem.status_code)
                if wait := problem.headers.get("retry-after"):
                    response.headers["retry-after"] = wait
                return response

        return handle_with_pages


def page(template: str, *, status: int = 200, **values: Any) -> Response:
    """Render a page."""
    return HTMLResponse(TEMPLATES.get_template(template).render(values), status_code=status)


def live_page(template: str, *, status: int = 200, **values: Any) -> Response:
    """Render a page that our script keeps up to date, if scripts are on."""
    response = page(template, status=status, **values)
    response.headers["content-security-policy"] = SCRIPTED_POLICY
    return response


def secret_page(template: str, **values: Any) -> Response:
    """Render a page whose address contains a secret, so that no other request gets it as the referrer."""
    response = page(template, **values)
    response.headers["referrer-policy"] = "strict-origin"
    return response


def message(title: str, text: str, *, status: int, lead: tuple[str, str] | None = None) -> Response:
    """Render a page with a message and one link, to the sign-in page unless another is given."""
    lead = lead or ("/sign-in", gettext("Go to the sign-in page"))
    return page("message.html", status=status, title=title, text=text, lead=lead)


def refusal_page(text: str, status: int) -> Response:
    """Render a page that says why something did not work."""
    if status == _FORBIDDEN:
        return message(
            gettext("You may not do this here"), text, status=status, lead=("/", gettext("Go to your inbox"))
        )
    return message(gettext("That did not work"), text, status=status)
