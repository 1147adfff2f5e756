"""Back to where a person was going when they were led to sign in.

A cookie remembers the page, and not a form field: the sign-in link is opened from a message, in a page that nothing
here leads to. It holds a path and no secret, and whatever it says, only a page of our own is ever led to.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from handraise.server.auth.authenticator import cookie_name, house_of
from handraise.server.context import ServerContext

HOME = "/"

_HOUR = 3_600
_LONGEST = 1_000
_SAFE = r"[A-Za-z0-9_.~-]|%[0-9A-F]{2}"
_PAGES = re.compile(rf"/(?:questions/(?:{_SAFE})+|settled|insights|me)?(?:\?(?:{_SAFE}|[=&+])*)?")
"""The pages for somebody who is signed in. One that is not named here is not led back to."""
_NEVER = re.compile(r"%(?:[01][0-9A-F]|7F|2E|2F|5C)|/\.{1,2}(?:$|\?)")
"""What no address of ours has: control characters, slashes in disguise, steps upwards."""


def page_of_ours(text: str) -> str | None:
    """This text where it is the address of a page for somebody who is signed in, here and nowhere else."""
    fits = len(text) <= _LONGEST and _PAGES.fullmatch(text) and not _NEVER.search(text)
    return text if fits else None


def place_of(request: Request) -> str:
    """Where the person at this browser was going, or home."""
    kept = unquote(request.cookies.get(_cookie(house_of(request)), ""))
    return page_of_ours(kept) or HOME


def remember_place(request: Request, response: Response) -> None:
    """Let the browser remember the page that this request was for, if it is one that a person went to."""
    ctx = house_of(request)
    if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
        return  # a page that looks for news is not a person on their way
    place = _asked_for(request)
    if place != HOME:
        response.set_cookie(
            _cookie(ctx),
            quote(place, safe=""),
            max_age=int(ctx.settings.link_hours * _HOUR),
            path="/",
            secure=ctx.settings.is_https,
            httponly=True,
            samesite="lax",
        )
    else:
        forget_place(request, response)


def forget_place(request: Request, response: Response) -> None:
    """Let the browser forget it, if it remembers one."""
    ctx = house_of(request)
    if _cookie(ctx) in request.cookies:
        response.delete_cookie(
            _cookie(ctx), path="/", secure=ctx.settings.is_https, httponly=True, samesite="lax"
        )


def _asked_for(request: Request) -> str:
    path = quote(request.scope["path"], safe="/")
    query = request.scope["query_string"].decode("latin-1")
    return page_of_ours(f"{path}?{query}" if query else path) or page_of_ours(path) or HOME


def _cookie(ctx: ServerContext) -> str:
    return f"{cookie_name(ctx)}-place"
