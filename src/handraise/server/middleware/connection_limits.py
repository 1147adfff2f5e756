"""Connections: how long each may take to ask for something, and how many there may be at a time.

A connection that asks for nothing is quiet. Somebody who opens many of them would use up the files of the process, and nobody
else could connect. So a request's head has to come in time, and at a bound the quiet connection that is quiet for longest gives
way to a new one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from handraise.server.file_descriptors import most_connections
from handraise.server.middleware.security import network_of, plain_address
from handraise.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_SAY_EVERY = 60.0
_SHARE_OF_ADDRESS = 0.5


class ConnectionLimits:
    """The connections of a process, by the network address that they come from.

    Trusted proxies speak for many, and have bounds of their own: only that of the whole process holds for them.
    `cut` hears why a connection was ended: `slow`, `address` or `process`.
    """

    def __init__(self, settings: ServerSettings, cut: Callable[[str], None]) -> None:
        self._most = most_connections()
        share = int(self._most * _SHARE_OF_ADDRESS)
        self._of_address = min(settings.connection_limit or share, share)
        self._trusted = _trusted(settings.trusted_proxies)
        self._cut = cut
        self._open: set[Connection] = set()
        self._from: Counter[str] = Counter()
        self._quiet: dict[str, dict[Connection, None]] = {}
        self._say_at = 0.0
        self.head_seconds = settings.head_seconds

    def enter(self, connection: Connection) -> None:
        """Count a new connection. At a bound another one ends for it; if all others are busy, it ends itself."""
        at = connection.address
        if len(self._open) >= self._most:
            self._make_room(
                "process", max(self._quiet, key=lambda each: len(self._quiet[each]), default=at), connection
            )
        elif self._from[at] >= self._of_address and not connection.is_trusted:
            self._make_room("address", at, connection)
        if not connection.transport.is_closing():
            self._open.add(connection)
            self._from[at] += 1
            self.rest(connection)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self.work(connection)
        if connection in self._open:
            self._open.remove(connection)
            self._from[connection.address] -= 1
            if not self._from[connection.address]:
                del self._from[connection.address]

    def work(self, connection: Connection) -> None:
        """A connection has a request under way."""
        if (quiet := self._quiet.get(connection.address)) is not None:
            quiet.pop(connection, None)
            if not quiet:
                del self._quiet[connection.address]

    def rest(self, connection: Connection) -> None:
        """A connection is quiet; for as long as it has been, if it was."""
        if connection in self._open:
            self._quiet.setdefault(connection.address, {}).setdefault(connection)

    def trusts(self, host: str) -> bool:
        """Whether a trusted proxy is at this address."""
        try:
            place = plain_address(host)
        except ValueError:
            return False
        return any(place in network for network in self._trusted)

    def end(self, connection: Connection, why: str) -> None:
        """End a connection at once, whatever it has still to say."""
        self._cut(why)
        self.leave(connection)
        connection.transport.abort()

    def _make_room(self, why: str, at: str, newcomer: Connection) -> None:
        self._say(why, at)
        self.end(next(iter(self._quiet.get(at, {})), newcomer), why)

    def _say(self, why: str, at: str) -> None:
        """Log it, but not as often as it happens."""
        if (now := time.monotonic()) < self._say_at:
            return
        self._say_at = now + _SAY_EVERY
        if why == "process":
            _log.warning("this process has %d connections and can have no more", self._most)
        else:
            _log.warning(
                "%s has %d connections and may have no more. If a proxy is there, name it in HANDRAISE_TRUSTED_PROXIES; "
                "the bound is HANDRAISE_CONNECTION_LIMIT",
                at,
                self._of_address,
            )


class Connection(H11Protocol):
    """Uvicorn's connection, which is bounded.

    With h11, because that bounds what it keeps of an unfinished head, which httptools does not.
    """

    def __init__(self, limits: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self.address, self.is_trusted = "", False
        self._limits = limits
        self._head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Somebody has connected."""
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        self.address, self.is_trusted = network_of(host), self._limits.trusts(host)
        self._limits.enter(self)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._limits.leave(self)
        self._has_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something has come; perhaps the rest of a head, and perhaps the beginning of the next."""
        super().data_received(data)
        if self._is_busy:
            self._has_head()
            self._limits.work(self)
        else:
            self._expect_head()

    def on_response_complete(self) -> None:
        """A request is done. From here on uvicorn closes the connection if nothing comes."""
        super().on_response_complete()
        if not self._is_busy:
            self._limits.rest(self)

    @property
    def _is_busy(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)  # there is none before the first request

    def _expect_head(self) -> None:
        if self._head_due is None and not (self.is_trusted or self.transport.is_closing()):
            self._head_due = self.loop.call_later(self._limits.head_seconds, self._give_up)

    def _has_head(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _give_up(self) -> None:
        self._limits.end(self, "slow")


def _trusted(proxies: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    names = [each for each in map(str.strip, proxies.split(",")) if each]
    if "*" in names:
        return [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]
    return [ipaddress.ip_network(each) for each in names]
