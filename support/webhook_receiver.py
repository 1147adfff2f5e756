"""A system at the other end of a webhook: a small HTTP server on loopback that keeps what it gets, to the byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_REASON = b"Said"


@dataclass(frozen=True)
class Got:
    """One request as it came; names of headers are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Says:
    """What to answer; with a status of 0 the connection is closed instead."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Answer = Callable[[Got], Awaitable[Says]]


async def yes(got: Got) -> Says:
    """Accept everything."""
    del got
    return Says()


@dataclass
class Receiver:
    """What a listener got, and how it answers from now on."""

    port: int
    host: str
    scheme: str = "http"
    answer: Answer = yes
    got: list[Got] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self.scheme}://{self.host}:{self.port}/hook?from=handraise"


@asynccontextmanager
async def receiving(
    answer: Answer = yes, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """A listener for as long as this context lasts."""
    receiver = Receiver(port, host, "https" if tls else "http", answer)
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.connections += 1
        task = asyncio.create_task(_serve(receiver, reader, writer))
        tasks[task] = writer
        task.add_done_callback(tasks.pop)

    server = await asyncio.start_server(come, host, port, ssl=tls, backlog=1_000)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task, writer in tasks.items():
            # Here too: a task that has not begun yet does not run its own end.
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _serve(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while (got := await _read(reader)) is not None:
            receiver.got.append(got)
            says = await receiver.answer(got)
            if says.status == 0:
                break
            head = b"HTTP/1.1 %d %s\r\n" % (says.status, _REASON)
            for name, text in (says.headers | {"content-length": str(len(says.body))}).items():
                head += f"{name}: {text}\r\n".encode()
            writer.write(head + b"\r\n" + says.body)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Got | None:
    line = await reader.readline()
    if not line:
        return None
    headers = {}
    while (header := await reader.readline()).strip():
        name, _, text = header.decode("latin-1").partition(":")
        headers[name.lower()] = text.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Got(line.decode("latin-1").strip(), headers, body)
