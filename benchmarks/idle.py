"""Idle clients of one server process: event streams and long polls that hear nothing for a long time.

The server is `handraise serve` on PostgreSQL; the clients are bare sockets in this process. Figures: the memory of the
server for each client, its processor time for each client and minute, and how long after the call of answer the asker's
stream or long poll hears of it while all others are connected.

`--keys` says how many agents the clients are: an event is heard by every client of its agent.

`calculated_*_per_core` is how many would take the whole processor time of one core, from the time that one takes: those
that a machine can hold at once are fewer.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from benchmarks.harness import Run, main, quantile
from handraise.desk_factory import open_backend
from handraise.model.identities import Role
from handraise.wire.credentials import TokenKind, digest_of, make_token
from support.command import serving
from support.database import own_database
from support.raw_http import Caller

OPENING = 64
SETTLING = 2.0
WITHIN = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Client(asyncio.Protocol):
    """One connection with one request that lasts. It only looks whether something came that matters."""

    def __init__(self, request: bytes, begins: bytes, awaited: bytes) -> None:
        self.begun = asyncio.get_running_loop().create_future()
        self.heard: asyncio.Future[float] | None = None
        self._request = request
        self._begins = begins
        self._awaited = awaited
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)
        if not self._begins:
            self.begun.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Look for what is awaited."""
        if not self.begun.done() and self._begins in data:
            self.begun.set_result(None)
        elif self.heard is not None and not self.heard.done() and self._awaited in data:
            self.heard.set_result(time.perf_counter())

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()


def memory_of(process: int) -> int:
    """The resident bytes of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor_time_of(process: int) -> float:
    """The seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def credentials(address: str, keys: int) -> tuple[list[str], str]:
    """The keys of this many agents, and the session of a person who answers."""
    agents = [make_token(TokenKind.AGENT, "bench", secrets.token_bytes(32)) for _ in range(keys)]
    person = make_token(TokenKind.SESSION, "bench", secrets.token_bytes(32))
    async with open_backend(address, connections=2) as backend:
        people = backend.directory
        for number, agent in enumerate(agents):
            await people.add_key(
                "bench",
                uuid.uuid4().hex,
                digest=digest_of(agent),
                agent=f"agent {number}",
                created_by="bench",
            )
        await people.put_person("bench", "ana", name="ana", email=None, role=Role.MEMBER)
        await people.open_session(
            "bench",
            uuid.uuid4().hex,
            digest=digest_of(person),
            person="ana",
            how="bench",
            lasts=timedelta(days=1),
        )
    return agents, person


class Crowd:
    """Many idle clients of a server, and one more that asks and answers."""

    def __init__(self, address: str, process: int, agents: list[str], person: str) -> None:
        self._address = address
        self._process = process
        self._agents = agents
        self._person = person
        self._caller = Caller([address])

    async def streams(self, count: int, seconds: float, events: int) -> dict[str, float]:
        """Measure this many event streams."""

        def request(number: int) -> bytes:
            return self._head("/v1/events", number)

        async with self._connected(count, request, b"event: ready", b"event: answered") as (clients, opened):

            async def wake() -> float:
                mine = clients[0]
                mine.heard = asyncio.get_running_loop().create_future()
                return await self._answered(await self._ask(0), mine.heard)

            return opened | await self._idle(count, seconds) | await self._waking(wake, events)

    async def long_polls(self, count: int, seconds: float, events: int) -> dict[str, float]:
        """Measure this many long polls. Those that are woken are besides the others."""
        questions = [await self._ask(number) for number in range(min(len(self._agents), count))]

        def request(number: int) -> bytes:
            return self._head(f"/v1/questions/{questions[number % len(questions)]}/outcome?wait=300s", number)

        async with self._connected(count, request, b"", b"answered") as (_, opened):

            async def wake() -> float:
                question = await self._ask(0)
                woken = self._head(f"/v1/questions/{question}/outcome?wait=300s", 0)
                async with self._connected(1, lambda _: woken, b"", b"answered") as ((mine,), _):
                    mine.heard = asyncio.get_running_loop().create_future()
                    await asyncio.sleep(0.1)
                    return await self._answered(question, mine.heard)

            return opened | await self._idle(count, seconds) | await self._waking(wake, events)

    def close(self) -> None:
        """Close the connection of the one that asks."""
        self._caller.close()

    def _head(self, path: str, number: int) -> bytes:
        token = self._agents[number % len(self._agents)]
        return f"GET {path} HTTP/1.1\r\nhost: handraise\r\nauthorization: Bearer {token}\r\n\r\n".encode()

    @asynccontextmanager
    async def _connected(
        self, count: int, request: Callable[[int], bytes], begins: bytes, awaited: bytes
    ) -> AsyncIterator[tuple[list[Client], dict[str, float]]]:
        """Open the connections, and measure the memory that they take."""
        host, _, port = urlsplit(self._address).netloc.partition(":")
        clients: list[Client] = []
        before = memory_of(self._process)
        try:
            for start in range(0, count, OPENING):
                opening = [
                    asyncio.get_running_loop().create_connection(
                        partial(Client, request(number), begins, awaited), host, int(port)
                    )
                    for number in range(start, min(start + OPENING, count))
                ]
                clients += [client for _, client in await asyncio.gather(*opening)]
                async with asyncio.timeout(WITHIN):
                    await asyncio.gather(*(client.begun for client in clients[start:]))
            await self._settled(count, polls=not begins)
            yield clients, {"kb": (memory_of(self._process) - before) / count / 1_000}
        finally:
            for client in clients:
                client.close()

    async def _settled(self, count: int, *, polls: bool) -> None:
        """Wait until the server has taken all requests. A stream has said so itself."""
        while polls and count > 1:
            said = (await self._caller.call("GET", "/metrics")).body.decode()
            waits = next(line for line in said.splitlines() if line.startswith("handraise_waits "))
            if float(waits.split()[1]) >= count:
                break
            await asyncio.sleep(SETTLING)
        await asyncio.sleep(SETTLING)

    async def _idle(self, count: int, seconds: float) -> dict[str, float]:
        used, began = processor_time_of(self._process), time.perf_counter()
        await asyncio.sleep(seconds)
        share = (processor_time_of(self._process) - used) / (time.perf_counter() - began)
        return {"cpu_ms_per_minute": share * 60_000 / count, "per_core": count / max(share, 1e-9)}

    async def _waking(self, wake: Callable[[], Awaitable[float]], events: int) -> dict[str, float]:
        await wake()
        times = [await wake() for _ in range(events)]
        return {f"wake_p{percent}_ms": quantile(times, percent) * 1000 for percent in (50, 90)}

    async def _ask(self, number: int) -> str:
        body = {"prompt": "Which strategy?", "choices": ["Canary", "All at once"]}
        posted = await self._caller.call("POST", "/v1/questions", body, token=self._agents[number])
        if posted.status != 201:
            raise RuntimeError(f"{posted}")
        return str(posted.json()["id"])

    async def _answered(self, question: str, heard: asyncio.Future[float]) -> float:
        """Answer, and return how long it took until this was heard."""
        began = time.perf_counter()
        path = f"/v1/questions/{question}/answer"
        answering = asyncio.create_task(
            self._caller.call("POST", path, {"value": "Canary"}, token=self._person)
        )
        async with asyncio.timeout(WITHIN):
            at = await heard
        await answering
        return at - began


async def measure(run: Run) -> None:
    """Measure a new server in each round, so that its memory is not that of the round before."""
    count, keys, events = (run.options[name] for name in ("clients", "keys", "events"))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for number in run.each_round():
        for kind in ("stream", "long_poll")[:: -1 if number % 2 else 1]:
            with tempfile.TemporaryDirectory() as folder:
                async with own_database() as address:
                    agents, person = await credentials(address, keys)
                    with serving(
                        address, Path(folder), stream_limit="0", trusted_proxies="127.0.0.1", heartbeat="15"
                    ) as server:
                        crowd = Crowd(server.address, server.process.pid, agents, person)
                        await crowd.streams(OPENING, 0.1, 1)  # everything is imported and cached
                        work = crowd.streams if kind == "stream" else crowd.long_polls
                        for name, value in (await work(count, run.seconds, events)).items():
                            run.note(
                                f"calculated_{kind}s_per_core" if name == "per_core" else f"{kind}_{name}",
                                value,
                            )
                        crowd.close()


if __name__ == "__main__":
    main(
        measure,
        {},
        rounds=5,
        seconds=30.0,
        quick_seconds=3.0,
        clients=(2_000, 200),
        keys=(64, 64),
        events=(50, 5),
    )
