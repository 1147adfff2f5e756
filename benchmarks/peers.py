"""Pairs through the desk, embedded and over HTTP, against the peers, each with its own means on the same work and durability.

A pair is asked, answered, and gone on with in the program that asked. Over HTTP, 64 agents and 64 people have their own keys
and sessions; an agent waits for the answer in a long poll. Restate, Temporal and awaithumans have servers of their own too;
DBOS and LangGraph are libraries on the database, as the embedded desk is. Each peer runs in an environment that has it:
`.venv-integrations` (made by `.ci/run integrations`), the interpreters in HANDRAISE_PEERS (separated like PATH), or
that of this program. A peer that is not installed anywhere is left out, and a note says so. Each is tried with several
numbers of concurrent callers; its best counts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks import bare
from benchmarks.harness import Run, Work, main, rate
from benchmarks.http import Credentials, Server, close, make_credentials
from handraise import open_desk
from support.command import serving
from support.database import own_database
from support.raw_http import Caller

ROOT = Path(__file__).parent.parent
PEERS = {
    "dbos": "dbos",
    "langgraph": "langgraph.checkpoint.postgres",
    "restate": "restate",
    "temporal": "temporalio",
    "awaithumans": "awaithumans.server",
}
"""The name of each, and the module that must be installed."""

NETWORKED = ("restate", "temporal", "awaithumans")
"""Those that are reached over a network protocol, as a server is."""

RATIOS = {
    "ratio_to_best_peer": ("desk_pairs_per_s", "best_peer_pairs_per_s"),
    "ratio_over_http_to_best_networked_peer": ("http_pairs_per_s", "best_networked_peer_pairs_per_s"),
    **{f"ratio_to_{name}": ("desk_pairs_per_s", f"{name}_pairs_per_s") for name in PEERS},
}


async def desk_pairs(address: str, callers: int, seconds: float) -> float:
    """Pairs a second with a wait for each, as in the peers."""
    async with open_desk(address, workspace="bench") as desk:

        async def pair() -> None:
            question_id = await bare.ask(desk)
            waiting = asyncio.create_task(desk.wait(question_id))
            await desk.answer(question_id, "Canary", by="ana")
            await waiting

        return await rate([pair] * callers, seconds)


async def http_pairs(address: str, callers: int, seconds: float) -> float:
    """Pairs a second over HTTP, each waited for in a long poll of its agent."""
    known = await make_credentials(address, callers)
    with tempfile.TemporaryDirectory() as folder, serving(address, Path(folder)) as started:
        server = Server(started.address, started.process.pid, known)
        askers, people = ([Caller([server.address]) for _ in known] for _ in range(2))

        async def pair(asker: Caller, person: Caller, own: Credentials) -> None:
            question_id = await server.ask(asker, own)
            path = f"/v1/questions/{question_id}/outcome?wait=30s"
            waiting = asyncio.create_task(asker.call("GET", path, token=own.agent))
            await server.answer(person, question_id, own)
            if (await waiting).json()["outcome"]["value"] != "Canary":
                raise RuntimeError("the answer did not arrive")

        pairs = [partial(pair, *each) for each in zip(askers, people, known, strict=True)]
        try:
            await asyncio.gather(*(each() for each in pairs))  # to warm up, as the peers do
            return await rate(pairs, seconds)
        finally:
            close([*askers, *people])


async def peer_pairs(run: Run, python: str, name: str, callers: int) -> float:
    """Pairs a second that a peer makes, in its own process and database; none if it fails."""
    async with own_database() as address:
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", f"benchmarks.peer.{name}", address, str(callers), str(run.seconds)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, said = await process.communicate()
    if process.returncode:
        run.say(said.decode()[-2000:])
        run.remark(f"{name} failed with {callers} callers")
        return 0.0
    return float(printed.split()[-1])


async def interpreter_with(module: str) -> str | None:
    """The first interpreter that can import this."""
    named = os.environ.get("HANDRAISE_PEERS", "").split(os.pathsep)
    for python in (*filter(None, named), str(ROOT / ".venv-integrations" / "bin" / "python"), sys.executable):
        if shutil.which(python):
            trying = await asyncio.create_subprocess_exec(
                *(python, "-c", f"import {module}"), stderr=asyncio.subprocess.DEVNULL
            )
            if await trying.wait() == 0:
                return python
    return None


async def measure(run: Run) -> None:
    """The desk and every peer in each round."""
    wanted, counts = run.options["only"].split(","), [int(each) for each in run.options["callers"].split(",")]
    found: dict[str, str] = {}
    for name, module in PEERS.items():
        if name in wanted:
            python = await interpreter_with(module)
            if python is None:
                run.remark(f"{name} is not installed: left out")
            else:
                found[name] = python
    async with own_database() as address:
        works: dict[str, Work] = {
            "desk_pairs_per_s": partial(desk_pairs, address, 256, run.seconds),
            "http_pairs_per_s": partial(http_pairs, address, 64, run.seconds),
        }
        for name, python in found.items():
            for count in counts:
                works[f"{name}_{count}_callers_pairs_per_s"] = partial(peer_pairs, run, python, name, count)
        await run.mixed(works)
    for name in found:
        run.best_of(f"{name}_pairs_per_s", [f"{name}_{count}_callers_pairs_per_s" for count in counts])
    networked = [f"{name}_pairs_per_s" for name in NETWORKED if name in found]
    run.best_of("best_networked_peer_pairs_per_s", networked)
    if found:
        best = run.best_of("best_peer_pairs_per_s", [f"{name}_pairs_per_s" for name in found])
        run.remark(f"the best peer was {best.removesuffix('_pairs_per_s')}")


if __name__ == "__main__":
    main(
        measure,
        RATIOS,
        rounds=3,
        quick_rounds=1,
        quick_seconds=2.0,
        callers=("16,64", "64"),
        only=(",".join(PEERS), ",".join(PEERS)),
    )
