"""Whoever does not read an event stream holds up nobody else, and misses nothing when they read on."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from handraise import open_desk
from handraise.desk_factory import open_backend
from handraise.model.provenance import Provenance
from support.command import Serving, serving
from support.issuer import Issuer

WITHIN = 60.0
SLOW, QUESTIONS = 4, 100
LONG = {"note": "y" * 60_000}
"""It stands in the event: with a hundred of them, a stream is longer than all that is kept for who does not read."""

_ANSWERED = re.compile(rb"event: answered\r?\ndata: [^\n]{0,300}?\"question_id\":\"([^\"]+)\"")


class Stream:
    """One event stream, read only when asked to."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._left = b""
        self._answered: list[str] = []

    async def answered(self, count: int) -> list[str]:
        """The ids of that many answered questions, in the order in which they came."""
        while len(self._answered) < count:
            more = await self._reader.read(2**18)
            assert more, "the stream ended"
            self._left += more
            end = 0
            for found in _ANSWERED.finditer(self._left):
                self._answered.append(found[1].decode())
                end = found.end()
            self._left = self._left[max(end, len(self._left) - 1_000) :]  # the next one may have begun
        return self._answered


@asynccontextmanager
async def following(server: Serving, token: str) -> AsyncIterator[Stream]:
    """Somebody who follows, with next to no room for what has not been read."""
    place = urlsplit(server.address)
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    line.setblocking(False)
    await asyncio.get_running_loop().sock_connect(line, (place.hostname, place.port))
    reader, writer = await asyncio.open_connection(sock=line, limit=4_096)
    writer.write(
        f"GET /v1/events HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    try:
        assert b" 200 " in await reader.readline()
        await reader.readuntil(b"event: ready")
        yield Stream(reader)
    finally:
        writer.close()


@pytest.mark.slow("starts a server and fills its buffers; test_live.py reads at any pace in the gate")
async def test_who_does_not_read_holds_up_nobody_and_misses_nothing(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'questions.db'}"
    with serving(address, tmp_path) as server:
        async with (
            asyncio.timeout(WITHIN),
            AsyncExitStack() as stack,
            open_backend(address) as backend,
            open_desk(address, workspace="w", asker="agent") as desk,
        ):
            token = await Issuer(backend.directory).agent("w", "agent")
            slow = [await stack.enter_async_context(following(server, token)) for _ in range(SLOW)]
            swift = await stack.enter_async_context(following(server, token))
            ids: list[str] = []
            for _ in range(QUESTIONS // 10):
                questions = [await desk.post("Which?") for _ in range(10)]
                for question in questions:
                    await desk.answer(question.id, "yes", by="ana", provenance=Provenance(details=LONG))
                    ids.append(question.id)
                assert await swift.answered(len(ids)) == ids
            assert await asyncio.gather(*(each.answered(len(ids)) for each in slow)) == [ids] * SLOW
