"""Whoever opens connections and asks for nothing keeps nobody else from connecting."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI, Request

from handraise.server import ServerContext, ServerSettings
from handraise.server.middleware.connection_limits import Connection, ConnectionLimits
from handraise.server.middleware.security import network_of
from support.command import serving

WITHIN = 30.0
HALF_A_HEAD = b"GET /healthz HTTP/1.1\r\nX-A: "
HEAD = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
OFFICE, HOME = "127.0.0.1", "127.0.0.2"
Open = Callable[..., "Any"]


@pytest.fixture
def store() -> str:
    """What is bounded here does not depend on the store."""
    return "memory:"


class OpenConnection:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def status(self, head: bytes = HEAD) -> int | None:
        """The status that the rest of a head gets; None where the server hung up."""
        try:
            self._writer.write(head)
            await self._writer.drain()
            async with asyncio.timeout(WITHIN):
                answer = await self._reader.readuntil(b"\r\n\r\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            return None
        length = re.search(rb"content-length: (\d+)", answer)
        await self._reader.readexactly(int(length[1]) if length else 0)
        return int(answer.split()[1])

    async def body(self, request: bytes) -> bytes:
        """The body of the response to a request."""
        self._writer.write(request)
        async with asyncio.timeout(WITHIN):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            return await self._reader.readexactly(int(length[1]) if length else 0)

    async def is_cut(self) -> bool:
        """Whether the server hangs up before it says anything."""
        async with asyncio.timeout(WITHIN):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def connect(app: FastAPI, ctx: ServerContext) -> AsyncIterator[Open]:
    """Connects to a real server from any address of this machine, and says something."""
    http = partial(Connection, ConnectionLimits(ctx.settings, ctx.metrics.count_cut_connection))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, http=http))  # type: ignore[arg-type]
    opened: list[OpenConnection] = []
    with socket.create_server((OFFICE, 0)) as door:
        address = door.getsockname()

        async def connect(said: bytes = b"", *, host: str = OFFICE) -> OpenConnection:
            reader, writer = await asyncio.open_connection(*address, local_addr=(host, 0))
            writer.write(said)
            opened.append(OpenConnection(reader, writer))
            return opened[-1]

        serving = asyncio.create_task(server.serve([door]))
        try:
            async with asyncio.timeout(WITHIN):
                while not server.started:
                    await asyncio.sleep(0.01)
            yield connect
        finally:
            for connected in opened:
                connected.close()
            server.should_exit = server.force_exit = True
            await serving


@pytest.mark.parametrize("settings", [{"head_seconds": 0.2}])
class TestHeads:
    @pytest.mark.parametrize("said", [b"", HALF_A_HEAD], ids=["nothing", "half a head"])
    async def test_that_do_not_come_in_time_end_the_connection(
        self, connect: Open, ctx: ServerContext, said: bytes
    ) -> None:
        line = await connect(said)
        assert await line.is_cut()
        assert b'handraise_connections_cut_total{why="slow"} 1.0' in ctx.metrics.render()

    async def test_after_the_first_one_have_the_same_time(self, connect: Open) -> None:
        line = await connect()
        assert await line.status() == 200
        assert await line.status(HALF_A_HEAD) is None

    async def test_that_come_in_time_keep_the_connection(self, connect: Open) -> None:
        line = await connect(HEAD[:10])
        assert await line.status(HEAD[10:]) == 200
        await asyncio.sleep(0.5)  # longer than a head may take: between requests nobody has begun one
        assert await line.status() == 200


class TestLargeHeads:
    async def test_an_endless_head_ends_the_connection_with_a_400(self, connect: Open) -> None:
        line = await connect(HALF_A_HEAD)
        assert await line.status(b"a" * 20_000) == 400
        assert await line.is_cut()

    async def test_a_head_that_comes_whole_is_bounded_too(self, connect: Open) -> None:
        line = await connect()
        assert await line.status(HALF_A_HEAD + b"a" * 20_000 + b"\r\nHost: here\r\n\r\n") == 400
        assert await line.is_cut()

    async def test_a_head_of_many_small_fields_is_bounded(self, connect: Open) -> None:
        line = await connect()
        assert await line.status(HEAD[:-2] + b"a:b\r\n" * 5_000 + b"\r\n") == 400
        assert await line.is_cut()

    async def test_endless_trailers_end_the_connection(self, connect: Open) -> None:
        line = await connect(
            b"POST /v1/questions HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: "
        )
        assert await line.status(b"a" * 2_000_000) in (400, None)  # None if it is cut while this is sent
        assert await line.is_cut()

    async def test_the_largest_head_is_served_in_parts_and_after_a_body(self, connect: Open) -> None:
        head = b"GET /healthz HTTP/1.1\r\nHost: here\r\nX-A: " + b"a" * 16_000
        line = await connect(head[:9_000])
        assert await line.status(head[9_000:] + b"\r\n\r\n") == 200
        body = b"a" * 60_000
        post = b"POST /healthz HTTP/1.1\r\nHost: here\r\nContent-Length: 60000\r\n\r\n" + body
        assert await line.status(post) == 405


class TestRequests:
    @pytest.mark.parametrize("hosts", [b"", b"Host: here\r\nHost: there\r\n"], ids=["none", "two"])
    async def test_without_exactly_one_host_are_refused(self, connect: Open, hosts: bytes) -> None:
        line = await connect()
        assert await line.status(b"GET /healthz HTTP/1.1\r\n" + hosts + b"\r\n") == 400
        assert await line.is_cut()

    @pytest.mark.parametrize(
        "lengths",
        [
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"Content-Length: 5\r\nContent-Length: 6\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Content-Length: +5\r\n",
        ],
    )
    async def test_with_two_ends_are_refused(self, connect: Open, lengths: bytes) -> None:
        line = await connect()
        head = b"POST /healthz HTTP/1.1\r\nHost: here\r\n" + lengths + b"\r\n"
        assert await line.status(head + b"5\r\nhello\r\n0\r\n\r\n") == 400
        assert await line.is_cut()

    async def test_that_come_before_the_first_is_answered_are_bounded(self, connect: Open) -> None:
        line = await connect()
        assert await line.status(HEAD * 10) == 200
        assert [await line.status(b"") for _ in range(9)] == [200] * 9
        said = [await line.status(HEAD * 1_000)]
        while said[-1] == 200:
            said.append(await line.status(b""))
        assert len(said) < 100

    @pytest.mark.only_proof_of("the body of a request is never read as the next request")
    async def test_with_a_body_that_want_another_protocol_are_refused(self, connect: Open) -> None:
        line = await connect()
        head = b"POST /healthz HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
        assert await line.status(head + f"Content-Length: {len(HEAD)}\r\n\r\n".encode()) == 400
        assert await line.status(HEAD) is None

    async def test_that_want_another_protocol_are_served_and_the_last_of_their_connection(
        self, connect: Open
    ) -> None:
        line = await connect()
        assert await line.status(HEAD[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n") == 200
        assert await line.status() is None

    async def test_have_no_headers_that_come_after_their_body(self, connect: Open, app: FastAPI) -> None:
        async def told(request: Request) -> str:
            await request.body()
            return request.headers.get("x-forwarded-for", "none")

        app.add_api_route("/told", told, methods=["POST"])
        line = await connect()
        head = b"POST /told HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert await line.body(head + b"0\r\nX-Forwarded-For: 192.0.2.9\r\n\r\n") == b'"none"'

    @pytest.mark.only_proof_of("a client that leaves is noticed, whatever it has sent in advance")
    async def test_that_come_in_advance_do_not_hide_that_the_client_has_left(
        self, connect: Open, app: FastAPI
    ) -> None:
        begun, left = asyncio.Event(), asyncio.Event()

        async def lasting(request: Request) -> None:
            begun.set()
            while not await request.is_disconnected():
                await asyncio.sleep(0.01)
            left.set()

        app.add_api_route("/lasting", lasting)
        line = await connect(b"GET /lasting HTTP/1.1\r\nHost: here\r\n\r\n" + HEAD)
        async with asyncio.timeout(WITHIN):
            await begun.wait()
            line.close()
            await left.wait()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handraise.server.middleware.connection_limits.max_connections", lambda: 8)


@pytest.mark.usefixtures("few")
class TestNumbers:
    async def test_one_address_takes_half_at_most_and_its_oldest_gives_way(self, connect: Open) -> None:
        lines = [await connect(HALF_A_HEAD) for _ in range(6)]
        assert await lines[0].is_cut()
        assert await lines[1].is_cut()
        assert await lines[2].status(b"b\r\nHost: here\r\n\r\n") == 200
        for host in (OFFICE, HOME):
            assert await (await connect(host=host)).status() == 200

    @pytest.mark.parametrize("settings", [{"connection_limit": 2}])
    async def test_of_one_address_are_a_setting(self, connect: Open, ctx: ServerContext) -> None:
        first = await connect()
        await connect()
        await connect()
        assert await first.is_cut()
        assert b'handraise_connections_cut_total{why="address"} 1.0' in ctx.metrics.render()

    async def test_who_is_served_stays_and_a_newcomer_is_sent_away(self, connect: Open, app: FastAPI) -> None:
        going, gone = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            going.set()
            await gone.wait()

        app.add_api_route("/slow", slow)
        busy = [await connect(b"GET /slow HTTP/1.1\r\nHost: here\r\n\r\n") for _ in range(4)]
        async with asyncio.timeout(WITHIN):
            await going.wait()
        assert await (await connect()).is_cut()
        assert await (await connect(host=HOME)).status() == 200
        gone.set()
        assert [await each.status(b"") for each in busy] == [200] * 4

    @pytest.mark.parametrize("settings", [{"trusted_proxies": f"{OFFICE},::1"}])
    async def test_of_a_trusted_proxy_are_bounded_by_the_process_alone(
        self, connect: Open, ctx: ServerContext
    ) -> None:
        lines = [await connect() for _ in range(9)]
        assert await lines[0].is_cut()
        assert await lines[1].status() == 200
        assert b'handraise_connections_cut_total{why="process"} 1.0' in ctx.metrics.render()


def test_a_proxy_is_trusted_by_its_own_address_and_no_neighbour_is() -> None:
    settings = ServerSettings(trusted_proxies="10.0.0.7, 10.1.0.0/16, 2001:db8::7")
    limits = ConnectionLimits(settings, lambda _: None)
    trusted = {"10.0.0.7", "::ffff:10.0.0.7", "10.1.2.3", "2001:db8::7"}
    others = {"10.0.0.8", "2001:db8::8", "::ffff:10.0.0.8", "", "unix:"}
    assert {host for host in trusted | others if limits.is_trusted_proxy(host)} == trusted
    assert ConnectionLimits(ServerSettings(trusted_proxies="*"), lambda _: None).is_trusted_proxy("192.0.2.1")


def test_addresses_of_ipv4_are_told_apart_where_the_socket_is_for_both() -> None:
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("2001:db8::1") == network_of("2001:db8::2") != network_of("2001:db8:1::1")


@pytest.mark.slow("starts a server with few files; the tests above have the same bounds in one process")
def test_a_server_with_few_files_answers_while_hundreds_ask_for_nothing(tmp_path: Path) -> None:
    with (
        serving(f"sqlite:///{tmp_path / 'q.db'}", tmp_path, files=256, head_seconds="600") as server,
        contextlib.ExitStack() as lines,
    ):
        place = urlsplit(server.address)
        for _ in range(300):
            line = lines.enter_context(socket.create_connection((place.hostname, place.port), timeout=WITHIN))
            line.sendall(HALF_A_HEAD)
        for path in ("/healthz", "/readyz"):
            assert httpx2.get(server.address + path, timeout=WITHIN).status_code == 200
        # If it can open nothing more, nobody gets in. Afterwards everybody does.
        pid = server.process.pid
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, 256))
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(f"{server.address}/healthz", timeout=2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (256, 256))
        assert httpx2.get(f"{server.address}/healthz", timeout=WITHIN).status_code == 200
