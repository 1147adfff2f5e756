"""HTTP/1.1 by hand, so that thousands of clients fit into one process and every byte is checked.

`Caller` makes one request at a time over a connection that stays open. `Listener` keeps an event stream and comes
back with `Last-Event-ID` if it was cut off. Both continue with the next address when a server is gone.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

PAUSE = 0.05


class CutOff(ConnectionError):
    """The connection ended before the response did. `begun` says whether any of it had come."""

    def __init__(self, *, begun: bool) -> None:
        super().__init__("the response was cut off" if begun else "no response came")
        self.begun = begun


class Response(NamedTuple):
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """What the body says."""
        return json.loads(self.body)


class Message(NamedTuple):
    """One message of an event stream, and when it came by the clock of `time.monotonic`."""

    id: str
    event: str
    data: bytes
    came: float

    def json(self) -> Any:
        """What the data says."""
        return json.loads(self.data)


class Decoding:
    """Puts a response together from whatever pieces arrive; the body goes to `on_body` as it comes."""

    def __init__(self, on_body: Callable[[bytes], None]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.complete = False
        self._on_body = on_body
        self._buffer = bytearray()
        self._left: int | None = None
        self._step = self._head

    def feed(self, data: bytes) -> None:
        """Read what has come."""
        self._buffer += data
        while not self.complete and self._step():
            pass

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        self.status = int(first.split(" ", 2)[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        if self.headers.get("transfer-encoding") == "chunked":
            self._step = self._chunk_size
        else:
            self._left = int(self.headers.get("content-length", "0"))
            self._step = self._plain
        return True

    def _plain(self) -> bool:
        assert self._left is not None
        if self._buffer:
            part = bytes(self._buffer[: self._left])
            del self._buffer[: self._left]
            self._left -= len(part)
            self._on_body(part)
        self.complete = not self._left
        return False

    def _chunk_size(self) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return False
        self._left = int(self._buffer[:end], 16)
        del self._buffer[: end + 2]
        self._step = self._chunk
        return True

    def _chunk(self) -> bool:
        assert self._left is not None
        if len(self._buffer) < self._left + 2:
            return False
        part = bytes(self._buffer[: self._left])
        del self._buffer[: self._left + 2]
        if part:
            self._on_body(part)
        self.complete = not part
        self._step = self._chunk_size
        return True


class _Connection(asyncio.Protocol):
    """One connection with one response under way at a time."""

    def __init__(self) -> None:
        self.lost = asyncio.get_running_loop().create_future()
        self._decoding: Decoding | None = None
        self._done: asyncio.Future[Decoding] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own do not say that they are

    def data_received(self, data: bytes) -> None:
        if self._decoding is None or self._done is None:
            return
        self._decoding.feed(data)
        if self._decoding.complete and not self._done.done():
            self._done.set_result(self._decoding)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.lost.done():
            self.lost.set_result(None)
        if self._done is not None and not self._done.done():
            begun = self._decoding is not None and self._decoding.status > 0
            self._done.set_exception(CutOff(begun=begun))

    async def send(self, request: bytes, decoding: Decoding) -> Decoding:
        """The response, when it is whole; raises `CutOff`."""
        if self._transport is None or not self.is_open:
            raise CutOff(begun=False)
        self._decoding = decoding
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._done
        finally:
            self._decoding = self._done = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        """Close the connection at once, even during a request."""
        if self._transport is not None:
            self._transport.abort()


async def _connect(address: str) -> _Connection:
    """A connection; raises `OSError`."""
    host, _, port = urlsplit(address).netloc.partition(":")
    _, connection = await asyncio.get_running_loop().create_connection(_Connection, host, int(port))
    return connection


def request_bytes(method: str, path: str, token: str, body: Any = None, **headers: str) -> bytes:
    """A whole request."""
    content = b"" if body is None else json.dumps(body).encode()
    given = {"host": "handraise", "authorization": f"Bearer {token}", **headers}
    if body is not None:
        given |= {"content-type": "application/json"}
    if method == "POST":
        given |= {"content-length": str(len(content))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Caller:
    """Makes one request at a time, each on the connection of the last if that is still open.

    It counts what went wrong: connections that were `refused`, the names of requests that
    were `unanswered`, and responses that were `cut`.
    """

    def __init__(self, addresses: Sequence[str], token: str = "") -> None:
        self.refused = 0
        self.unanswered: list[str] = []
        self.cut = 0
        self._addresses = list(addresses)
        self._token = token
        self._connection: _Connection | None = None

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        token: str | None = None,
        within: float = 120.0,
    ) -> Response:
        """The response. What is cut off is sent again, so a POST needs the `key` that makes that safe."""
        token = token or self._token
        headers = {} if key is None else {"idempotency-key": key}
        async with asyncio.timeout(within):
            while True:
                name = uuid.uuid4().hex
                headers["x-request-id"] = name
                try:
                    response = await self.send(request_bytes(method, path, token, body, **headers))
                except CutOff as cut:
                    self.cut += cut.begun
                    self.unanswered += [] if cut.begun else [name]
                except OSError:
                    self.refused += 1
                else:
                    conflict = response.status == 409 and response.json()["code"] == "request_conflict"
                    if response.status != 503 and not conflict:
                        return response
                    await asyncio.sleep(PAUSE)
                    continue
                self._addresses.append(self._addresses.pop(0))
                await asyncio.sleep(PAUSE)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()

    async def send(self, request: bytes) -> Response:
        """The response to one request, sent once; raises `CutOff`."""
        if self._connection is None or not self._connection.is_open:
            self._connection = await _connect(self._addresses[0])
        parts: list[bytes] = []
        try:
            done = await self._connection.send(request, Decoding(parts.append))
        except asyncio.CancelledError:
            self._connection.close()
            raise
        if done.headers.get("connection") == "close":
            self._connection.close()
        return Response(done.status, done.headers, b"".join(parts))


class Listener:
    """One event stream, for as long as `run` does. Whole messages go to `on_message`, each of them once."""

    def __init__(self, addresses: Sequence[str], token: str, on_message: Callable[[Message], None]) -> None:
        self.place = ""
        self.ready = asyncio.Event()
        self.connects = 0
        self.signs = 0
        self.cut = 0
        self.last_status = 0
        self._addresses = list(addresses)
        self._token = token
        self._on_message = on_message
        self._connection: _Connection | None = None
        self._rest = b""

    async def run(self) -> None:
        """Listen until cancelled, or until a server refuses the credential."""
        try:
            while self.last_status != 401:
                try:
                    await self._listen()
                except CutOff as cut:
                    self.cut += cut.begun
                except OSError:
                    pass
                self._addresses.append(self._addresses.pop(0))
                await asyncio.sleep(PAUSE)
        finally:
            self.drop()

    def drop(self) -> None:
        """Lose the connection; `run` reconnects and continues where it was."""
        if self._connection is not None:
            self._connection.close()

    async def _listen(self) -> None:
        self._connection = await _connect(self._addresses[0])
        self._rest = b""
        self.connects += 1
        headers = {"last-event-id": self.place} if self.place else {}
        request = request_bytes("GET", "/v1/events", self._token, **headers)
        done = await self._connection.send(request, Decoding(self._heard))
        self.last_status = done.status
        self.drop()

    def _heard(self, data: bytes) -> None:
        came = time.monotonic()
        *messages, self._rest = (self._rest + data).split(b"\n\n")
        for text in messages:
            fields = dict(line.split(b": ", 1) for line in text.split(b"\n"))
            place = fields.get(b"id", b"").decode()
            if b"data" not in fields:
                self.signs += 1
            elif fields.get(b"event") == b"ready":
                self.ready.set()
            else:
                self._on_message(Message(place, fields[b"event"].decode(), fields[b"data"], came))
            self.place = place or self.place
