"""A desk in its own process that follows commands: `python -m chaos.faults.worker ADDRESS WORKSPACE NAME`.

A line of JSON on standard input is a command, a line on standard output its result. It uses public names only, so
that it also runs on the previous release.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaos.faults.load import Load
from chaos.history import Entry, seen
from handraise import AlreadySettled, Desk, open_desk

POLL = 0.3
PATIENCE = 90.0


async def main(address: str, workspace: str, name: str) -> None:
    """Open a desk, and do what each line says."""
    async with open_desk(address, workspace=workspace, asker=name, poll_interval=POLL) as desk:
        _say({"ready": name})
        while line := await asyncio.to_thread(sys.stdin.readline):
            _say(await _done(desk, name, json.loads(line)))


async def _done(desk: Desk, name: str, command: dict[str, Any]) -> dict[str, Any]:
    try:
        match command.pop("do"):
            case "load":
                return await _load(desk, name, **command)
            case "post":
                question = await desk.post("Ship it?", **command)
                return {"id": question.id}
            case "answer":
                question = await desk.answer(command["id"], command["value"], by=f"{name}'s person")
                return {"outcome": seen(question.outcome)}
            case "sweep":
                return {"settled": await desk.run_due()}
            case other:
                raise ValueError(f"{other!r} is no command")
    except AlreadySettled as error:
        return {"error": "AlreadySettled", "outcome": seen(error.outcome)}


async def _load(desk: Desk, name: str, *, seconds: float, callers: int, seed: int) -> dict[str, Any]:
    load, over = Load(name, seed, meddles=True), asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await load.run([desk], over, callers=callers)
    return {"entries": [asdict(entry) for entry in load.entries]}


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


class Worker:
    """Such a process, seen from outside."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self.name = name

    async def do(self, what: str, **options: Any) -> Any:
        """Send it a command, and get the result."""
        self.tell(what, **options)
        return await self.heard()

    def tell(self, what: str, **options: Any) -> None:
        """Send it a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **options}).encode() + b"\n")

    async def heard(self) -> Any:
        """The result of the oldest open command."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
        if not line:
            raise RuntimeError(f"{self.name} ended with {await self._process.wait()}")
        return json.loads(line)


@asynccontextmanager
async def working(
    address: str,
    name: str,
    *,
    workspace: str = "chaos",
    source: Path | None = None,
    under: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Worker]:
    """A worker for as long as this context lasts, on the code in `source`, started by the command `under`."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join(map(str, (source or root / "src", root)))
    process = await asyncio.create_subprocess_exec(
        *(*under, sys.executable, "-m", "chaos.faults.worker", address, workspace, name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        limit=2**28,
    )
    worker = Worker(process, name)
    try:
        await worker.heard()
        yield worker
    finally:
        if process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), 30)
            except TimeoutError:
                process.kill()
                await process.wait()


async def loaded(
    address: str, names: Sequence[str], *, seconds: float, callers: int = 3, seed: int = 7
) -> list[Entry]:
    """The history of several workers that work side by side."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(working(address, name)) for name in names]
        for worker in workers:
            worker.tell("load", seconds=seconds, callers=callers, seed=seed)
        return merged([await worker.heard() for worker in workers])


def merged(said: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The histories of several workers as one."""
    entries = [Entry(**entry) for each in said for entry in each["entries"]]
    return sorted(entries, key=lambda entry: entry.time)


if __name__ == "__main__":
    logging.disable()  # a store that is gone is expected here
    asyncio.run(main(*sys.argv[1:4]))
