"""Ask, answer, long poll and server-sent events over HTTP, against two bare servers.

`handraise serve` checks credentials, rules and the form, and tells other processes. The bare FastAPI server has routes
that write the same rows with plain SQL on a pool of connections. The bare ASGI application coalesces the desk's
statements, and looks up the credentials of each request. Both keep their statements prepared. With keys, every caller has a key and a session of its own, as agents and people do;
otherwise all callers share one of each. The client is the same for all, in this process. The processor time is that of
the server's process for each pair. Latencies are from the call of answer to the end of the long poll, or to the event in
the stream, one at a time.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from benchmarks.bare import EXPIRES_IN, QUESTION, new_key
from benchmarks.harness import Run, Work, cpu_seconds, latencies, main, rate
from handraise.desk_factory import open_backend
from handraise.model.identities import Role
from handraise.wire.credentials import TokenKind, digest_of, make_token
from support.command import serving
from support.database import own_database
from support.raw_http import Caller, Listener, Message, request_bytes

RATIOS = {
    "ratio_with_keys_to_bare_asgi": ("desk_with_keys_pairs_per_s", "bare_asgi_pairs_per_s"),
    "ratio_of_cpu_with_keys_to_bare_asgi": ("desk_with_keys_pairs_cpu_us", "bare_asgi_pairs_cpu_us"),
    "ratio_to_bare_fastapi": ("desk_pairs_per_s", "bare_pairs_per_s"),
    "ratio_of_asks_to_bare_fastapi": ("desk_asks_per_s", "bare_asks_per_s"),
    "ratio_of_long_poll": ("desk_long_poll_p50_ms", "bare_long_poll_p50_ms"),
    "ratio_of_sse": ("desk_sse_p50_ms", "bare_sse_p50_ms"),
}

_ASK = {**QUESTION, "expires_in": EXPIRES_IN.total_seconds()}
_ANSWER = {"value": "Canary"}
_ID = re.compile(rb'\{"id": ?"([^"]+)"')


@dataclass(frozen=True)
class Credentials:
    """The key of an agent, and the session of the person whom it asks, with their name."""

    agent: str = ""
    person: str = ""
    name: str = "ana"


@dataclass(frozen=True)
class Server:
    """Its address, the id of its process, and the credentials there: callers take turns to use them."""

    address: str
    process: int
    credentials: Sequence[Credentials] = (Credentials(),)

    async def ask(self, caller: Caller, own: Credentials | None = None) -> str:
        """Ask; the id."""
        own = own or self.credentials[0]
        body = {**_ASK, "recipients": [own.name], "key": new_key()}
        posted = await caller.send(request_bytes("POST", "/v1/questions", own.agent, body))
        found = _ID.match(posted.body)
        if posted.status != 201 or found is None:
            raise RuntimeError(f"{posted}")
        return found[1].decode()

    async def answer(self, caller: Caller, question_id: str, own: Credentials | None = None) -> None:
        """Answer."""
        path = f"/v1/questions/{question_id}/answer"
        token = (own or self.credentials[0]).person
        answered = await caller.send(request_bytes("POST", path, token, _ANSWER))
        if answered.status != 200:
            raise RuntimeError(f"{answered}")

    async def asks(self, callers: int, seconds: float) -> dict[str, float]:
        """Asks a second, each caller on its own connection."""
        return await self._rate(callers, seconds, answers=False)

    async def pairs(self, callers: int, seconds: float) -> dict[str, float]:
        """Pairs a second, each caller on its own connection."""
        return await self._rate(callers, seconds, answers=True)

    async def _rate(self, callers: int, seconds: float, *, answers: bool) -> dict[str, float]:
        """How many a second, and the processor time of the server for each."""
        mine = [Caller([self.address]) for _ in range(callers)]

        async def work(caller: Caller, own: Credentials) -> None:
            question_id = await self.ask(caller, own)
            if answers:
                await self.answer(caller, question_id, own)

        works = [
            partial(work, caller, own)
            for caller, own in zip(mine, itertools.cycle(self.credentials), strict=False)
        ]
        try:
            began, worked = time.perf_counter(), cpu_seconds(self.process)
            per_second = await rate(works, seconds)
            took, worked = time.perf_counter() - began, cpu_seconds(self.process) - worked
            return {"per_s": per_second, "cpu_us": 1e6 * worked / (per_second * took)}
        finally:
            close(mine)

    async def long_poll(self, count: int) -> dict[str, float]:
        """From the call of answer to the end of a long poll that was waiting."""
        agent, person, times = Caller([self.address]), Caller([self.address]), []
        for _ in range(count):
            question_id = await self.ask(agent)
            path = f"/v1/questions/{question_id}/outcome?wait=30s"
            polling = asyncio.create_task(agent.call("GET", path, token=self.credentials[0].agent))
            await asyncio.sleep(0.01)
            began = time.perf_counter()
            answering = asyncio.create_task(self.answer(person, question_id))
            await polling
            times.append(time.perf_counter() - began)
            await answering
        close([agent, person])
        return latencies(times)

    async def sse(self, count: int) -> dict[str, float]:
        """From the call of answer to the event in a stream."""
        caller, times = Caller([self.address]), []
        heard: asyncio.Queue[Message] = asyncio.Queue()
        listener = Listener([self.address], self.credentials[0].agent, heard.put_nowait)
        listening = asyncio.create_task(listener.run())
        await listener.ready.wait()
        for _ in range(count):
            question_id = await self.ask(caller)
            await asyncio.sleep(0.01)
            began = time.perf_counter()
            answering = asyncio.create_task(self.answer(caller, question_id))
            while (
                message := await heard.get()
            ).event != "answered" or question_id.encode() not in message.data:
                pass
            times.append(time.perf_counter() - began)
            await answering
        listening.cancel()
        close([caller])
        return latencies(times)


def close(callers: list[Caller]) -> None:
    """Close all connections."""
    for caller in callers:
        caller.close()


async def make_credentials(address: str, count: int) -> Sequence[Credentials]:
    """Keys of agents and sessions of people, made where the server would make them."""
    made = []
    async with open_backend(address, connections=2) as backend:
        people = backend.directory
        for number in range(count):
            agent, session = (
                make_token(kind, "bench", secrets.token_bytes(32))
                for kind in (TokenKind.AGENT, TokenKind.SESSION)
            )
            name, person = uuid.uuid4().hex, f"ana{number}"
            await people.add_key(
                "bench", name, digest=digest_of(agent), agent=f"agent{number}", created_by="bench"
            )
            await people.put_person("bench", person, name=person, email=None, role=Role.MEMBER)
            await people.open_session(
                "bench",
                name,
                digest=digest_of(session),
                person=person,
                how="bench",
                lasts=timedelta(days=1),
            )
            made.append(Credentials(agent, session, person))
    return made


@contextmanager
def bare_serving(module: str, address: str) -> Iterator[Server]:
    """A bare server, in its own process."""
    command = [sys.executable, "-m", f"benchmarks.{module}", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or not (port := process.stdout.readline().strip()):
            raise RuntimeError("the bare server did not start")
        yield Server(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.kill()
        process.communicate()


async def measure(run: Run) -> None:
    """Measure everything in each round; all servers run all the time."""
    callers, count = run.options["callers"], run.options["count"]
    with tempfile.TemporaryDirectory() as folder:
        async with own_database() as address:
            known = await make_credentials(address, callers)
            with (
                serving(address, Path(folder), pending_quota="1000000") as ours,
                bare_serving("bare_server", address) as fastapi,
                bare_serving("bare_asgi", address) as asgi,
            ):
                desk = Server(ours.address, ours.process.pid, known[:1])
                works: dict[str, Work] = {
                    "desk_with_keys_pairs": partial(
                        replace(desk, credentials=known).pairs, callers, run.seconds
                    ),
                    "bare_asgi_pairs": partial(replace(asgi, credentials=known).pairs, callers, run.seconds),
                }
                for name, server in {"desk": desk, "bare": fastapi}.items():
                    works[f"{name}_pairs"] = partial(server.pairs, callers, run.seconds)
                    if count:
                        works[f"{name}_asks"] = partial(server.asks, callers, run.seconds / 2)
                        works[f"{name}_long_poll"] = partial(server.long_poll, count)
                        works[f"{name}_sse"] = partial(server.sse, count)
                await run.mixed(works)


if __name__ == "__main__":
    main(measure, RATIOS, rounds=5, quick_seconds=1.2, callers=(64, 64), count=(200, 30))
