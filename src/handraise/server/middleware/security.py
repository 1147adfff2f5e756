"""Security for every route: response headers, the size of a body, rate limits."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Mapping, Sequence

import limits
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handraise.model.attachments import MAX_FILE_BYTES
from handraise.model.errors import TooManyRequests
from handraise.server.auth.authenticator import AgentCaller, AnyCaller
from handraise.server.settings import ServerSettings
from handraise.server.uploads import is_upload

STATIC = "/static"
"""The path of the static files."""

_UNFRAMED = "frame-ancestors 'none'"
_POLICY = (
    f"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; {_UNFRAMED}; base-uri 'none'"
)
SCRIPTED_POLICY = f"{_POLICY}; script-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'"
"""The policy of a page with scripts: only this server's files, which connect only to this server."""
WORKER_POLICY = "default-src 'none'; connect-src 'self'"
"""The policy of the service worker: it loads nothing, and connects only to this server."""

_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: browsers would then send `Origin: null` with our own forms. Over plain http they send no
    # `Sec-Fetch-Site` either, so nothing would distinguish our pages from those of other sites.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_FOR_HTTPS = {"strict-transport-security": "max-age=31536000"}
_MAX_PARTS = 20_000
_BODY_TIMEOUT = 60.0
_UPLOAD_TIMEOUT = 300.0
_UPLOAD_LIMIT = MAX_FILE_BYTES
_CLEANUP_INTERVAL = 10.0
_IPV6_NETWORK = 64
"""The bits of an IPv6 address that a customer cannot choose."""


def framed_policy(origins: Sequence[str]) -> str:
    """The policy of a page with scripts that only these sites may show in a frame."""
    framing = f"frame-ancestors {' '.join(origins)}" if origins else _UNFRAMED
    return f"{_POLICY.replace(_UNFRAMED, framing)}; script-src 'self'; connect-src 'self'"


class SecurityMiddleware:
    """Adds the security headers to every response, and refuses a body that is too large."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._body_limit = settings.body_limit
        headers = _HEADERS | (_FOR_HTTPS if settings.is_https else {})
        self._personal = _raw({**headers, "cache-control": "no-store"})
        self._shared = _raw({**headers, "cache-control": "no-cache"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = self._shared if scope["path"].startswith(f"{STATIC}/") else self._personal

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", ())
                names = {name for name, _ in given}
                message["headers"] = [*given, *(each for each in headers if each[0] not in names)]
            await send(message)

        state = scope.setdefault("state", {})
        try:
            await self._app(scope, self._limit_body(scope, receive), send_with_headers)
        finally:
            if received := state.get("body_bytes"):
                scope["app"].state.rate_limits.note_bytes(state.get("caller"), received)

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Limit the body. If `Content-Length` is too large, nothing is read."""
        declared, content_type, has_body = "", "", False
        for name, value in scope["headers"]:
            if name == b"content-length":
                declared, has_body = value.decode("latin-1"), True
            elif name == b"content-type":
                content_type = value.decode("latin-1")
            elif name == b"transfer-encoding":
                has_body = True
        if not has_body:
            return receive
        has_file = is_upload(scope["method"], scope["path"], content_type)
        limit = self._body_limit + (_UPLOAD_LIMIT if has_file else 0)
        within = _UPLOAD_TIMEOUT if has_file else _BODY_TIMEOUT
        too_large = declared.isdecimal() and int(declared[:20]) > limit
        got, parts, whole, until = 0, 0, False, 0.0

        async def limited() -> Message:
            nonlocal got, parts, whole, until
            until = until or asyncio.get_running_loop().time() + within
            if too_large:
                message: Message = {}
            elif whole:
                return await receive()
            else:
                message = await _receive_before(until, receive)
            body = message.get("body", b"")
            whole = not message.get("more_body", False)
            got += len(body)
            scope["state"]["body_bytes"] = got
            parts += body.count(b",") + body.count(b":")
            # FastAPI lets only this kind of exception through while it reads a body.
            if too_large or got > limit:
                raise HTTPException(413, f"The body is larger than {limit} bytes.")
            if parts > _MAX_PARTS and not has_file:
                # Each part becomes an object, and perhaps a problem: few bytes could cause much work.
                raise HTTPException(413, f"The body has more than {_MAX_PARTS} parts.")
            return message

        return limited


def _raw(headers: Mapping[str, str]) -> Sequence[tuple[bytes, bytes]]:
    return [(name.encode(), text.encode()) for name, text in headers.items()]


async def _receive_before(until: float, receive: Receive) -> Message:
    """Receive the next part of a body. The whole body has one deadline, against clients that send byte by byte."""
    try:
        async with asyncio.timeout_at(until):
            return await receive()
    except TimeoutError:
        raise HTTPException(408, "The body did not come in time.") from None


class RateLimits:
    """Rate limits: requests per credential, and failed authentication per address. Each process counts for itself."""

    def __init__(self, settings: ServerSettings) -> None:
        self._windows = _RateWindows()
        self._requests = limits.parse(settings.rate_limit)
        self._refusals = limits.parse(settings.sign_in_limit)
        self._daily_bytes = settings.daily_bytes
        self._bytes = limits.parse("1/day")

    def count_request(self, workspace: str, credential: str) -> None:
        """Count a request with this key or session; raises `TooManyRequests`."""
        self._count(self._requests, "credential", workspace, credential)

    def count_refusal(self, host: str) -> None:
        """Count an invalid credential; raises `TooManyRequests`.

        Only invalid credentials are limited, so others behind the same address are not affected.
        """
        self._count(self._refusals, "address", network_of(host))

    def note_bytes(self, caller: AnyCaller | None, received: int) -> None:
        """Count the bytes of a request if it was an agent's."""
        if isinstance(caller, AgentCaller) and self._daily_bytes:
            self._windows.count(self._bytes, ("bytes", caller.workspace, caller.agent), received)

    def check_bytes(self, caller: AnyCaller) -> None:
        """Raise `TooManyRequests` if an agent has sent as many bytes as it may in a day."""
        if isinstance(caller, AgentCaller) and self._daily_bytes:
            ends_in, sent = self._windows.find(("bytes", caller.workspace, caller.agent))
            if sent >= self._daily_bytes:
                raise TooManyRequests(ends_in, f"This agent has sent {self._daily_bytes} bytes in a day")

    def _count(self, limit: limits.RateLimitItem, *who: str) -> None:
        if (wait := self._windows.count(limit, who)) is not None:
            raise TooManyRequests(wait)


class _RateWindows:
    """Fixed windows of time. Not the library's own, which start a thread every 10 ms under load."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, ...], tuple[float, int]] = {}
        self._cleanup_at = 0.0

    def find(self, who: tuple[str, ...]) -> tuple[float, int]:
        """The seconds until the next window, and what was counted in this one."""
        ends_at, times = self._windows.get(who, (0.0, 0))
        left = ends_at - time.monotonic()
        return (left, times) if left > 0 else (0.0, 0)

    def count(self, limit: limits.RateLimitItem, who: tuple[str, ...], number: int = 1) -> float | None:
        """Count one more, or so many; return the seconds until the next window if that is over the limit."""
        now = time.monotonic()
        if now >= self._cleanup_at:
            self._windows = {each: window for each, window in self._windows.items() if window[0] > now}
            self._cleanup_at = now + _CLEANUP_INTERVAL
        ends_at, times = self._windows.get(who, (0.0, 0))
        if ends_at <= now:
            ends_at, times = now + limit.get_expiry(), 0
        self._windows[who] = ends_at, times + number
        return ends_at - now if times >= limit.amount else None


def network_of(host: str) -> str:
    """The key of an address in the counts: for IPv6 its network, because a customer has all of its addresses."""
    try:
        address = plain_address(host)
    except ValueError:
        return host
    if address.version == 4:  # noqa: PLR2004 -- the version of the protocol
        return str(address)
    return str(ipaddress.ip_network((address.packed, _IPV6_NETWORK), strict=False))


def plain_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address; an IPv4 address that is mapped to IPv6 becomes IPv4. Raises `ValueError`."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address
