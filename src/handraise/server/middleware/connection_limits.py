"""Limits of connections: how long and how large a request's head may be, and how many connections may be open.

A client that opens many idle connections could use up the file descriptors of the process. So a request's head must
come in time, and at a limit the connection that is idle for longest is closed for the new one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from handraise.server.file_descriptors import max_connections
from handraise.server.middleware.security import network_of, plain_address
from handraise.server.settings import ServerSettings

_log = logging.getLogger(__name__)

DISCONNECTED = "handraise.disconnected"
"""The key in a scope of a function that returns a future, which is done when the client has disconnected."""

_LOG_INTERVAL = 60.0
_SHARE_OF_ADDRESS = 0.5
_MAX_HEAD = 16_384
_MAX_PIPELINED = 16
_SEPARATORS = len(": \r\n")
_OF_BODIES = (b"content-length", b"transfer-encoding")


class ConnectionLimits:
    """The connections of a process, by network address.

    A trusted proxy serves many clients, so only the limit of the process applies to it.
    `cut` is called with the reason when a connection is closed: `slow`, `address` or `process`.
    """

    def __init__(self, settings: ServerSettings, cut: Callable[[str], None]) -> None:
        self._process_limit = max_connections()
        share = int(self._process_limit * _SHARE_OF_ADDRESS)
        self._address_limit = min(settings.connection_limit or share, share)
        self._trusted_networks = _trusted_networks(settings.trusted_proxies)
        self._cut = cut
        self._open: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._idle: dict[str, dict[Connection, None]] = {}
        self._log_at = 0.0
        self.head_seconds = settings.head_seconds

    def add(self, connection: Connection) -> None:
        """Add a connection. At a limit an idle one is closed; if all are busy, the new one is closed."""
        at = connection.address
        if len(self._open) >= self._process_limit:
            self._evict_idle(
                "process", max(self._idle, key=lambda each: len(self._idle[each]), default=at), connection
            )
        elif self._per_address[at] >= self._address_limit and not connection.is_trusted:
            self._evict_idle("address", at, connection)
        if not connection.transport.is_closing():
            self._open.add(connection)
            self._per_address[at] += 1
            self.mark_idle(connection)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self.mark_busy(connection)
        if connection in self._open:
            self._open.remove(connection)
            self._per_address[connection.address] -= 1
            if not self._per_address[connection.address]:
                del self._per_address[connection.address]

    def mark_busy(self, connection: Connection) -> None:
        """Note that a connection has a request."""
        if (idle := self._idle.get(connection.address)) is not None:
            idle.pop(connection, None)
            if not idle:
                del self._idle[connection.address]

    def mark_idle(self, connection: Connection) -> None:
        """Note that a connection is idle; one that was idle keeps its place."""
        if connection in self._open:
            self._idle.setdefault(connection.address, {}).setdefault(connection)

    def is_trusted_proxy(self, host: str) -> bool:
        """Whether a trusted proxy is at this address."""
        try:
            place = plain_address(host)
        except ValueError:
            return False
        return any(place in network for network in self._trusted_networks)

    def abort(self, connection: Connection, why: str) -> None:
        """Close a connection at once."""
        self._cut(why)
        self.remove(connection)
        connection.transport.abort()

    def _evict_idle(self, why: str, at: str, newcomer: Connection) -> None:
        self._log_limit(why, at)
        self.abort(next(iter(self._idle.get(at, {})), newcomer), why)

    def _log_limit(self, why: str, at: str) -> None:
        """Log it, at most once a minute."""
        if (now := time.monotonic()) < self._log_at:
            return
        self._log_at = now + _LOG_INTERVAL
        if why == "process":
            _log.warning(
                "this process has %d connections and can have no more",
                self._process_limit,
                extra={"event": "connection_limit"},
            )
        else:
            _log.warning(
                "%s has %d connections and may have no more. If a proxy is there, name it in HANDRAISE_TRUSTED_PROXIES; "
                "the limit is HANDRAISE_CONNECTION_LIMIT",
                at,
                self._address_limit,
                extra={"event": "connection_limit"},
            )


class Connection(HttpToolsProtocol):
    """Uvicorn's connection with httptools, with the limits that httptools does not have.

    A head, the trailers of a body, and the number of requests that are sent before the first is answered are limited. A
    request that breaks a limit, or has not exactly one `Host`, gets 400, and its connection is closed. So does one with a
    body that wants another protocol: httptools would read its body as the next request. Trailers are ignored.
    """

    def __init__(self, limits: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self.address, self.is_trusted = "", False
        self._limits = limits
        self._unread = 0
        """The bytes that have come since the last end of a head or part of a body."""
        self._is_in_head = False
        self._running: RequestResponseCycle | None = None
        """The request that is being served. `cycle` is the last one that has come."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """A client has connected."""
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        self.address, self.is_trusted = network_of(host), self._limits.is_trusted_proxy(host)
        self._limits.add(self)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._limits.remove(self)
        self._stop_head_timer()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Data has come: perhaps the rest of a head, or the start of the next."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > _MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")
        if self._is_busy:
            self._stop_head_timer()
            self._limits.mark_busy(self)
        else:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has come, or a trailer."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A head is complete. An error here is a bad request."""
        self._is_in_head = False
        if _size(self.url, self.headers) > _MAX_HEAD:
            raise ValueError("the head is too large")
        wants_other_protocol = self.parser.should_upgrade()
        if wants_other_protocol and any(name in _OF_BODIES for name, _ in self.headers):
            raise ValueError("a request with a body cannot change the protocol")
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise ValueError("there are too many requests before the first is answered")
        if [name for name, _ in self.headers].count(b"host") != 1 and self.parser.get_http_version() == "1.1":
            raise ValueError("there must be one Host")
        self._unread = 0
        super().on_headers_complete()
        if wants_other_protocol:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A part of a body has come."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has come completely."""
        self._unread = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is done. From here on uvicorn closes the connection if no other comes."""
        is_whole = self._running is None or not self._running.more_body
        super().on_response_complete()
        if not is_whole:
            self.transport.close()  # the rest of the body would be read for nothing
        elif not self._is_busy:
            self._limits.mark_idle(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running, self._gone = cycle, None
        cast("Scope", cycle.scope)[DISCONNECTED] = self._disconnected
        super()._start_asgi_task(cycle, app)

    def _disconnected(self) -> asyncio.Future[None]:
        """Return a future that is done when the client of the running request has disconnected."""
        self._gone = self.loop.create_future()
        if self._running is None or self._running.disconnected:
            self._gone.set_result(None)
        self.flow.resume_reading()  # of a connection that is not read, the end is not seen
        return self._gone

    @property
    def _is_busy(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)  # there is none before the first request

    def _start_head_timer(self) -> None:
        if self._head_timer is None and not (self.is_trusted or self.transport.is_closing()):
            self._head_timer = self.loop.call_later(self._limits.head_seconds, self._time_out)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _time_out(self) -> None:
        self._limits.abort(self, "slow")


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + _SEPARATORS for name, value in headers)


def _trusted_networks(proxies: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    names = [each for each in map(str.strip, proxies.split(",")) if each]
    if "*" in names:
        return [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]
    return [ipaddress.ip_network(each) for each in names]
