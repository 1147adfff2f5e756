"""Hints between the processes of one host: datagrams on the loopback interface, listeners registered in the file."""

from __future__ import annotations

import asyncio
import logging
import socket
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from handraise.backends.hint_codec import decoded, encoded
from handraise.backends.sqlite.connections import Connections
from handraise.backends.sqlite.statements import run
from handraise.model.errors import StoreUnavailable
from handraise.model.questions import Ref
from handraise.ports import HintHandler, Interest

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_HEARTBEAT = 10.0
_FRESH = 30.0
_UNFOLLOWED = 1.0


class SqliteBus:
    """Hints next to a SQLite file. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._listener_ids: set[str] = set()
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._unfollowed_until = 0.0

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints to every other process that listens; see the port."""
        settled = [topic for topic in topics if topic.id]
        feeds = [topic for topic in topics if not topic.id]
        # Every post changes a feed, and must not cost a read for feeds that nobody follows.
        if not settled and (not feeds or time.monotonic() < self._unfollowed_until):
            return
        try:
            listeners = await self._connections.read(
                lambda connection: run(connection, "listeners", since=_micros(-_FRESH))
            )
        except StoreUnavailable:
            _log.warning(
                "a wake-up could not be sent; waits elsewhere will find out by polling",
                extra={"event": "hint_not_sent"},
            )
            return
        others = [listener for listener in listeners if listener["listener"] not in self._listener_ids]
        followers = [listener for listener in others if listener["feeds"]]
        if not followers:
            self._unfollowed_until = time.monotonic() + _UNFOLLOWED
        self._send(others, settled)
        self._send(followers, feeds)

    @asynccontextmanager
    async def listen(
        self,
        on_hint: HintHandler,
        *,
        feeds: bool = False,
        shared_feeds: bool = False,
        interest: Interest | None = None,
    ) -> AsyncIterator[None]:
        """Receive hints; see the port."""
        del interest  # the processes of one host are few
        # One id for each listener, not for the process: a new listener may start before the old one stops.
        listener_id = uuid.uuid4().hex
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _HintProtocol(listener_id, on_hint), local_addr=(_HOST, 0)
        )
        self._listener_ids.add(listener_id)
        try:
            listener = {
                "listener": listener_id,
                "port": transport.get_extra_info("sockname")[1],
                "feeds": feeds or shared_feeds,
            }
            await self._announce(listener)
            async with _task(self._keep_announcing(listener)):
                yield
        finally:
            transport.close()
            self._listener_ids.remove(listener_id)
            with suppress(StoreUnavailable):
                await self._write("forget_listener", listener=listener_id, before=_micros(-3600))

    def close(self) -> None:
        """Close the sending socket."""
        self._sender.close()

    def _send(self, listeners: Collection[sqlite3.Row], topics: Collection[Ref]) -> None:
        for text in encoded(topics) if listeners else ():
            for listener in listeners:
                with suppress(OSError):
                    self._sender.sendto(f"{listener['listener']}{text}".encode(), (_HOST, listener["port"]))

    async def _announce(self, listener: dict[str, Any]) -> None:
        await self._write("announce_listener", now=_micros(0), **listener)

    async def _keep_announcing(self, listener: dict[str, Any]) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT)
            with suppress(StoreUnavailable):
                await self._announce(listener)

    async def _write(self, name: str, **values: Any) -> None:
        await self._connections.write(lambda connection: run(connection, name, **values))


@asynccontextmanager
async def _task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a task for as long as this context lasts."""
    task = asyncio.create_task(work, name="handraise hints")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _HintProtocol(asyncio.DatagramProtocol):
    """Accepts only datagrams that begin with its listener id, because other programs may send some too."""

    def __init__(self, listener_id: str, on_hint: HintHandler) -> None:
        self._prefix = listener_id.encode()
        self._on_hint = on_hint

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """Pass a hint on."""
        del addr
        if data.startswith(self._prefix):
            self._on_hint(decoded(data.removeprefix(self._prefix).decode(errors="replace")))


def _micros(offset: float) -> int:
    return int((time.time() + offset) * 1_000_000)
