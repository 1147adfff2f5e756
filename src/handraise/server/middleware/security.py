"""What stands before every route: the headers of every response, the size of a body, how often one may come."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Sequence

import limits
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handraise.model.errors import TooManyRequests
from handraise.server.settings import ServerSettings

STATIC = "/static"
"""Where files are that are the same for everybody."""

_UNFRAMED = "frame-ancestors 'none'"
_POLICY = (
    f"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; {_UNFRAMED}; base-uri 'none'"
)
SCRIPTED_POLICY = f"{_POLICY}; script-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'"
"""The policy of a page that has scripts: files of ours, which speak to us."""
WORKER_POLICY = "default-src 'none'; connect-src 'self'"
"""The policy of the script that works while no page is open: it loads nothing, and speaks to us."""

_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: that makes browsers say `Origin: null` of our own forms, and over plain http, where
    # they send no `Sec-Fetch-Site`, nothing would be left to tell our pages from those of others.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_FOR_HTTPS = {"strict-transport-security": "max-age=31536000"}
_MOST_PARTS = 20_000
_BODY_WITHIN = 60.0
_FORGET_EVERY = 10.0
_IPV6_NETWORK = 64
"""The bits of an IPv6 address that one customer cannot choose."""


def framed_policy(origins: Sequence[str]) -> str:
    """The policy of a page with scripts that these sites may show in a frame, and no other."""
    framing = f"frame-ancestors {' '.join(origins)}" if origins else _UNFRAMED
    return f"{_POLICY.replace(_UNFRAMED, framing)}; script-src 'self'; connect-src 'self'"


class SecurityMiddleware:
    """Puts the security headers on every response, and ends a body that is too large."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._body_limit = settings.body_limit
        self._headers = _HEADERS | (_FOR_HTTPS if settings.is_https else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        personal = not scope["path"].startswith(f"{STATIC}/")
        headers = self._headers | {"cache-control": "no-store" if personal else "no-cache"}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, text in headers.items():
                    given.setdefault(name, text)
            await send(message)

        await self._app(scope, self._counted(scope, receive), guarded)

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """The same body up to the limit. One that says that it is larger is not read at all."""
        declared = Headers(scope=scope).get("content-length", "")
        too_large = declared.isdecimal() and int(declared) > self._body_limit
        got, parts, whole, until = 0, 0, False, 0.0

        async def counted() -> Message:
            nonlocal got, parts, whole, until
            until = until or asyncio.get_running_loop().time() + _BODY_WITHIN
            if too_large:
                message: Message = {}
            elif whole:
                return await receive()
            else:
                message = await _before(until, receive)
            body = message.get("body", b"")
            whole = not message.get("more_body", False)
            got += len(body)
            parts += body.count(b",") + body.count(b":")
            # The one kind of exception that FastAPI lets through while it reads a body.
            if too_large or got > self._body_limit:
                raise HTTPException(413, f"The body is larger than {self._body_limit} bytes.")
            if parts > _MOST_PARTS:
                # Each is an object, and perhaps a problem: few bytes would be much work.
                raise HTTPException(413, f"The body has more than {_MOST_PARTS} parts.")
            return message

        return counted


async def _before(until: float, receive: Receive) -> Message:
    """The next part of a body. All of it has its time, so that nobody keeps us waiting with one byte after the other."""
    try:
        async with asyncio.timeout_at(until):
            return await receive()
    except TimeoutError:
        raise HTTPException(408, "The body did not come in time.") from None


class Rates:
    """How often one caller may come, and how often one address in vain; each process counts for itself."""

    def __init__(self, settings: ServerSettings) -> None:
        self._windows = _Windows()
        self._requests = limits.parse(settings.rate_limit)
        self._refusals = limits.parse(settings.sign_in_limit)

    def count_request(self, workspace: str, credential: str) -> None:
        """Count a request of whoever has this key or session; raises `TooManyRequests`."""
        self._count(self._requests, "credential", workspace, credential)

    def count_refusal(self, host: str) -> None:
        """Count a credential that was no good; raises `TooManyRequests`.

        Only what is no good is refused so: neighbours behind the same address do not suffer.
        """
        self._count(self._refusals, "address", network_of(host))

    def _count(self, limit: limits.RateLimitItem, *who: str) -> None:
        if (wait := self._windows.count(limit, who)) is not None:
            raise TooManyRequests(wait)


class _Windows:
    """How often each came in its window of time. By hand: the library's own counts start a thread every 10 ms of load."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, ...], tuple[float, int]] = {}
        self._forget_at = 0.0

    def count(self, limit: limits.RateLimitItem, who: tuple[str, ...]) -> float | None:
        """Count once more; the seconds until the next window where that is once too often."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._windows = {each: window for each, window in self._windows.items() if window[0] > now}
            self._forget_at = now + _FORGET_EVERY
        ends_at, times = self._windows.get(who, (0.0, 0))
        if ends_at <= now:
            ends_at, times = now + limit.get_expiry(), 0
        self._windows[who] = ends_at, times + 1
        return ends_at - now if times >= limit.amount else None


def network_of(host: str) -> str:
    """An address as it is counted; whoever has one of IPv6 has a whole network of them."""
    try:
        address = plain_address(host)
    except ValueError:
        return host
    if address.version == 4:  # noqa: PLR2004 -- the version of the protocol
        return str(address)
    return str(ipaddress.ip_network((address.packed, _IPV6_NETWORK), strict=False))


def plain_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address that a text stands for; one of IPv4 also where the socket is for both. Raises `ValueError`."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address
