"""Ask, answer, long poll and server-sent events over HTTP, against a bare FastAPI server with the same two statements.

`handraise serve` checks credentials, rules and the form, and tells other processes; the bare server has routes that
make the two statements on a pool of connections. The client is the same for both, in this process. Latencies are from
the call of answer to the end of the long poll, or to the event in the stream, one at a time.
"""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from benchmarks.bare import CHOICES
from benchmarks.harness import Run, Work, latencies, main, rate
from handraise.desk_factory import open_backend
from handraise.model.identities import Role
from handraise.wire.credentials import TokenKind, digest_of, make_token
from support.command import serving
from support.database import own_database
from support.raw_http import Caller, Listener, Message

RATIOS = {
    "ratio_to_bare_fastapi": ("desk_pairs_per_s", "bare_pairs_per_s"),
    "ratio_of_asks_to_bare_fastapi": ("desk_asks_per_s", "bare_asks_per_s"),
    "ratio_of_long_poll": ("desk_long_poll_p50_ms", "bare_long_poll_p50_ms"),
    "ratio_of_sse": ("desk_sse_p50_ms", "bare_sse_p50_ms"),
}


@dataclass(frozen=True)
class Server:
    """Its address, and the credentials of an agent and a person there."""

    address: str
    agent: str = ""
    person: str = ""

    async def ask(self, caller: Caller) -> str:
        """Ask; the id."""
        body = {"prompt": "Which strategy?", "choices": CHOICES}
        posted = await caller.call("POST", "/v1/questions", body, token=self.agent)
        if posted.status != 201:
            raise RuntimeError(f"{posted}")
        return str(posted.json()["id"])

    async def answer(self, caller: Caller, question_id: str) -> None:
        """Answer."""
        path = f"/v1/questions/{question_id}/answer"
        answered = await caller.call("POST", path, {"value": "Canary"}, token=self.person)
        if answered.status != 200:
            raise RuntimeError(f"{answered}")

    async def asks_per_second(self, callers: int, seconds: float) -> float:
        """Asks a second, each caller on its own connection."""
        mine = [Caller([self.address]) for _ in range(callers)]
        try:
            return await rate([partial(self.ask, each) for each in mine], seconds)
        finally:
            close(mine)

    async def pairs_per_second(self, callers: int, seconds: float) -> float:
        """Pairs a second, each caller on its own connection."""
        mine = [Caller([self.address]) for _ in range(callers)]

        async def pair(caller: Caller) -> None:
            await self.answer(caller, await self.ask(caller))

        try:
            return await rate([partial(pair, each) for each in mine], seconds)
        finally:
            close(mine)

    async def long_poll(self, count: int) -> dict[str, float]:
        """From the call of answer to the end of a long poll that was waiting."""
        agent, person, times = Caller([self.address]), Caller([self.address]), []
        for _ in range(count):
            question_id = await self.ask(agent)
            path = f"/v1/questions/{question_id}/outcome?wait=30s"
            polling = asyncio.create_task(agent.call("GET", path, token=self.agent))
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
        listener = Listener([self.address], self.agent, heard.put_nowait)
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


async def credentials(address: str) -> tuple[str, str]:
    """The key of an agent and the session of a person, made where the server would make them."""
    agent, person = (
        make_token(kind, "bench", secrets.token_bytes(32)) for kind in (TokenKind.AGENT, TokenKind.SESSION)
    )
    async with open_backend(address, connections=2) as backend:
        people = backend.directory
        name = uuid.uuid4().hex
        await people.add_key("bench", name, digest=digest_of(agent), agent="agent", created_by="bench")
        await people.put_person("bench", "ana", name="ana", email=None, role=Role.MEMBER)
        lasts = timedelta(days=1)
        await people.open_session(
            "bench", name, digest=digest_of(person), person="ana", how="bench", lasts=lasts
        )
    return agent, person


@contextmanager
def bare_serving(address: str) -> Iterator[str]:
    """The bare server, in its own process; its address."""
    command = [sys.executable, "-m", "benchmarks.bare_server", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or not (port := process.stdout.readline().strip()):
            raise RuntimeError("the bare server did not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


async def measure(run: Run) -> None:
    """Measure everything in each round; both servers run all the time."""
    callers, count = run.options["callers"], run.options["count"]
    with tempfile.TemporaryDirectory() as folder:
        async with own_database() as address:
            agent, person = await credentials(address)
            with serving(address, Path(folder)) as ours, bare_serving(address) as theirs:
                servers = {"desk": Server(ours.address, agent, person), "bare": Server(theirs)}
                works: dict[str, Work] = {}
                for name, server in servers.items():
                    works[f"{name}_pairs_per_s"] = partial(server.pairs_per_second, callers, run.seconds)
                    if count:
                        works[f"{name}_asks_per_s"] = partial(
                            server.asks_per_second, callers, run.seconds / 2
                        )
                        works[f"{name}_long_poll"] = partial(server.long_poll, count)
                        works[f"{name}_sse"] = partial(server.sse, count)
                await run.mixed(works)


if __name__ == "__main__":
    main(measure, RATIOS, quick_seconds=1.2, callers=(64, 64), count=(200, 30))
