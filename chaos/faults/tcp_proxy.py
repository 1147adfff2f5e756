"""A proxy that understands enough of PostgreSQL's protocol to cut a connection exactly at a commit.

It knows which statement is executed, whether a transaction is open, and so which message commits what was written.
There it may lose the reply, lose the message, or leave both ends hanging. It may drop notifications, or all messages.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

_SSL, _GSS = 80877103, 80877104
_WRITES = re.compile(r"\b(insert\s+into|update|delete\s+from)\s+handraise\.(questions|events)\b")


class Fate(StrEnum):
    """What happens to a commit."""

    PASSED = "passed"
    REPLY_LOST = "reply lost"
    """It is committed, and nobody is told."""
    RACED = "raced"
    """It was sent, and the connection is gone at both ends before anybody knows more."""
    UNSENT = "unsent"
    """It never reaches the server, which then undoes what was written."""
    HELD = "held"
    """It never reaches the server, and both connections stay as they are."""


Decide = Callable[[str], Fate]
"""Says what happens to the commit of a statement."""


def pass_all(sql: str) -> Fate:
    """Let everybody commit."""
    del sql
    return Fate.PASSED


@dataclass
class Proxy:
    """A proxy in front of a server; what is set here applies from the next message on."""

    host: str
    port: int
    address: str = ""
    decide: Decide = pass_all
    hints_dropped: int = 0
    drops_hints: bool = False
    fates: Counter[Fate] = field(default_factory=Counter)
    left: dict[str, int] = field(default_factory=dict)
    """How many messages still pass before a connection is cut, "up" to the server or "down" from it."""
    connections: set[_Connection] = field(default_factory=set)

    def cut_all(self) -> None:
        """End every connection at once."""
        for each in list(self.connections):
            each.cut()

    def is_cut_here(self, way: str) -> bool:
        """Whether the connection ends instead of the message that is on its way now."""
        if way not in self.left:
            return False
        self.left[way] -= 1
        if self.left[way] > 0:
            return False
        del self.left[way]
        return True

    def silence(self, whose: str = "") -> None:
        """Let nothing through on the current connections with such an application name; none of them ends."""
        for each in self.connections:
            each.is_silent = each.is_silent or whose.encode() in each.startup


@asynccontextmanager
async def proxy_to(address: str) -> AsyncIterator[Proxy]:
    """A proxy in front of the server at an address, for as long as this context lasts."""
    parts = urlsplit(address)
    proxy = Proxy(parts.hostname or "127.0.0.1", parts.port or 5432)
    tasks: set[asyncio.Task[None]] = set()

    def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_Connection(proxy, reader, writer).run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(come, "127.0.0.1", 0)
    user = f"{parts.username}@" if parts.username else ""
    port = server.sockets[0].getsockname()[1]
    proxy.address = urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}"))
    try:
        yield proxy
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        proxy.cut_all()
        await server.wait_closed()


class _Connection:
    """One client's connection, and the one to the server that goes with it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = reader, writer
        self._to_server: asyncio.StreamWriter | None = None
        self._prepared: dict[bytes, str] = {}
        self._bound = ""
        self._written = ""
        self._open = False
        self._losing = False
        self.is_silent = False
        self.startup = b""

    async def run(self) -> None:
        """Pass messages on until one end is gone."""
        self._proxy.connections.add(self)
        try:
            self.startup = await self._startup()
            from_server, self._to_server = await asyncio.open_connection(self._proxy.host, self._proxy.port)
            self._to_server.write(self.startup)
            up = asyncio.create_task(self._upwards(self._to_server))
            down = asyncio.create_task(self._downwards(from_server))
            try:
                await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in (up, down):
                    each.cancel()
                await asyncio.gather(up, down, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.cut()
            self._proxy.connections.discard(self)

    def cut(self) -> None:
        """End it at both ends, without a message."""
        for writer in (self._to_client, self._to_server):
            if writer is not None:
                writer.transport.abort()

    async def _startup(self) -> bytes:
        """The first message, which has no type; encryption is refused."""
        while True:
            head = await self._from_client.readexactly(8)
            length, code = struct.unpack("!ii", head)
            rest = await self._from_client.readexactly(length - 8)
            if code not in (_SSL, _GSS):
                return head + rest
            self._to_client.write(b"N")

    async def _upwards(self, to_server: asyncio.StreamWriter) -> None:
        while True:
            kind, message = await _message(self._from_client)
            await self._unless_silent()
            if self._proxy.is_cut_here("up"):
                return
            fate = self._fate_of(kind, message)
            self._losing = fate is Fate.REPLY_LOST
            if fate in (Fate.UNSENT, Fate.HELD):
                if fate is Fate.HELD:
                    await asyncio.Event().wait()
                return
            to_server.write(message)
            await to_server.drain()
            if fate is Fate.RACED:
                # Closed after everything was written: an abort could discard some of it.
                to_server.close()
                self._to_client.transport.abort()
                with suppress(OSError):
                    await to_server.wait_closed()
                return

    async def _downwards(self, from_server: asyncio.StreamReader) -> None:
        while True:
            kind, message = await _message(from_server)
            await self._unless_silent()
            if self._proxy.is_cut_here("down"):
                return
            if kind == b"Z":
                self._open = message[5:6] != b"I"
                if self._losing:
                    return
            if kind == b"A" and self._proxy.drops_hints:
                self._proxy.hints_dropped += 1
            elif not self._losing:
                self._to_client.write(message)
                await self._to_client.drain()

    async def _unless_silent(self) -> None:
        if self.is_silent:
            await asyncio.Event().wait()

    def _fate_of(self, kind: bytes, message: bytes) -> Fate:
        """What happens to a message: it passes, unless it commits what was written."""
        body = message[5:]
        match kind:
            case b"P":
                name, sql, *_ = body.split(b"\0", 2)
                self._prepared[name] = sql.decode(errors="replace")
            case b"B":
                _, name, *_ = body.split(b"\0", 2)
                self._bound = self._prepared.get(name, "")
            case b"E":
                if _WRITES.search(self._bound):
                    self._written = self._bound
            case b"Q":
                said = body.rstrip(b"\0").strip().lower()
                if said == b"commit":
                    return self._decided()
                if said.startswith((b"begin", b"rollback")):
                    self._written = ""
            case b"S" if not self._open:
                return self._decided()
        return Fate.PASSED

    def _decided(self) -> Fate:
        written, self._written = self._written, ""
        if not written:
            return Fate.PASSED
        fate = self._proxy.decide(written)
        self._proxy.fates[fate] += 1
        return fate


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The next message: its type, and all of it."""
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!i", head[1:])
    return head[:1], head + await reader.readexactly(length - 4)
