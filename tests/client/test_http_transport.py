"""What the proofs found out about going from one server to the next, as small as it gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handraise.client.http_transport import HttpTransport

CALLS = 20
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


@asynccontextmanager
async def server(says: bytes, *, together: int = 1) -> AsyncIterator[tuple[str, list[int]]]:
    """Says the same to everybody, or hangs up where that is nothing, as soon as so many have come."""
    came: list[int] = []
    there = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        if len(came) >= together:
            there.set()
        await reader.readuntil(b"\r\n\r\n")
        await there.wait()
        writer.write(says)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", came


async def test_of_many_who_find_a_server_gone_none_goes_back_there() -> None:
    async with server(b"", together=CALLS) as (gone, tried), server(OK) as (other, came):
        line = HttpTransport([gone, other])
        try:
            async with asyncio.timeout(30):
                said = await asyncio.gather(
                    *(line.call("GET", "/v1/me", token="none") for _ in range(CALLS))  # noqa: S106 -- no secret
                )
        finally:
            await line.close()
    assert said == [b"{}"] * CALLS
    assert len(came) == CALLS
    assert len(tried) == CALLS
