"""After sign-in, back to the page that the person wanted.

A cookie remembers the page, because the sign-in link is opened from a message. It holds a path and no secret. Only a
page of this server is ever redirected to, whatever the cookie says.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from handraise.server.auth.authenticator import context_of, cookie_name
from handraise.server.context import ServerContext

HOME = "/"

_HOUR = 3_600
_LONGEST = 1_000
_SAFE = r"[A-Za-z0-9_.~-]|%[0-9A-F]{2}"
_PAGES = re.compile(
    rf"/(?:questions/(?:{_SAFE})+|admin(?:/(?:{_SAFE})+){{0,2}}|settled|insights(?:\.csv)?|search|aside|together|conversation"
    rf"|agent|tool|person|standing-answers|stops|policy|me)?(?:\?(?:{_SAFE}|[=&+])*)?"
)
"""The pages for people who are signed in. No other page is redirected to."""
_NEVER = re.compile(r"%(?:[01][0-9A-F]|7F|2E|2F|5C)|/\.{1,2}(?:$|\?)")
"""Never in a path of this server: control characters, encoded slashes, parent folders."""


def own_page(text: str) -> str | None:
    """Return the text if it is the path of a page of this server for people who are signed in, else None."""
    fits = len(text) <= _LONGEST and _PAGES.fullmatch(text) and not _NEVER.search(text)
    return text if fits else None


def return_path(request: Request) -> str:
    """The page that this browser remembers, or the home page."""
    kept = unquote(request.cookies.get(_cookie_name(context_of(request)), ""))
    return own_page(kept) or HOME


def remember_return_path(request: Request, response: Response) -> None:
    """Let the browser remember the page of this request, if a person navigated to it."""
    ctx = context_of(request)
    if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
        return  # a script's request, not a person's
    place = _requested_path(request)
    if request.method != "GET" and not place.startswith("/questions/"):
        return  # the address of a form may have no page
    if place != HOME:
        response.set_cookie(
            _cookie_name(ctx),
            quote(place, safe=""),
            max_age=int(ctx.settings.link_hours * _HOUR),
            path="/",
            secure=ctx.settings.is_https,
            httponly=True,
            samesite="lax",
        )
    else:
        forget_return_path(request, response)


def forget_return_path(request: Request, response: Response) -> None:
    """Delete the cookie, if there is one."""
    ctx = context_of(request)
    if _cookie_name(ctx) in request.cookies:
        response.delete_cookie(
            _cookie_name(ctx), path="/", secure=ctx.settings.is_https, httponly=True, samesite="lax"
        )


def _requested_path(request: Request) -> str:
    path = quote(request.scope["path"], safe="/")
    query = request.scope["query_string"].decode("latin-1")
    return own_page(f"{path}?{query}" if query else path) or own_page(path) or HOME


def _cookie_name(ctx: ServerContext) -> str:
    return f"{cookie_name(ctx)}-place"
