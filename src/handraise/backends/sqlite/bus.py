"""A doorbell between the processes of one host: datagrams on the loopback, listeners found in the file."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import uuid
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from handraise.backends.hints import decoded, encoded
from handraise.backends.sqlite.connecting import SqliteConnections
from handraise.backends.sqlite.store import STATEMENTS
from handraise.model.errors import StoreUnavailable
from handraise.model.questions import Ref
from handraise.ports import Heard

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_HEARTBEAT = 10.0
_FRESH = 30.0


class SqliteBus:
    """Hints beside a SQLite file. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self, connections: SqliteConnections) -> None:
        self._connections = connections
        self._process = uuid.uuid4().hex
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sender.setblocking(False)

    async def wake(self, topics: Collection[Ref]) -> None:
        """Ring at every other process that listens; see the port."""
        try:
            listeners = await self._connections.read(
                lambda connection: connection.execute(
                    STATEMENTS["listening"].named, {"process": self._process, "since": _micros(-_FRESH)}
                ).fetchall()
            )
        except StoreUnavailable:
            _log.warning("a wake-up could not be sent; waits elsewhere will find out by polling")
            return
        for text in encoded(topics) if listeners else ():
            for listener in listeners:
                with suppress(OSError):
                    self._sender.sendto(f"{listener['process']}{text}".encode(), (_HOST, listener["port"]))

    @asynccontextmanager
    async def listen(self, heard: Heard) -> AsyncIterator[None]:
        """Hear the bell; see the port."""
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Bell(self._process, heard), local_addr=(_HOST, 0)
        )
        try:
            port: int = transport.get_extra_info("sockname")[1]
            await self._announce(port)
            async with _task(self._keep_announcing(port)):
                yield
        finally:
            transport.close()
            with suppress(StoreUnavailable):
                await self._write("unhear", process=self._process, before=_micros(-3600))

    def close(self) -> None:
        """Give the sending socket back."""
        self._sender.close()

    async def _announce(self, port: int) -> None:
        await self._write("hear", process=self._process, port=port, now=_micros(0))

    async def _keep_announcing(self, port: int) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT)
            with suppress(StoreUnavailable):
                await self._announce(port)

    async def _write(self, name: str, **values: Any) -> None:
        await self._connections.write(lambda connection: connection.execute(STATEMENTS[name].named, values))


@asynccontextmanager
async def _task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Something done beside, for as long as this lasts."""
    task = asyncio.create_task(work, name="handraise doorbell")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Bell(asyncio.DatagramProtocol):
    """Hears only what carries this process's own name: other programs may send datagrams too."""

    def __init__(self, process: str, heard: Heard) -> None:
        self._process = process.encode()
        self._heard = heard

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """Pass a hint on."""
        del addr
        if data.startswith(self._process):
            self._heard(decoded(data.removeprefix(self._process).decode(errors="replace")))


def _micros(offset: float) -> int:
    return int((time.time() + offset) * 1_000_000)
