"""Memory for each wait held: many waits in one process, on as many pending questions.

Each wait is its own task in `desk.wait`. Measured beside it: what asyncio itself takes for a task that waits for a
future in a dictionary. Each is measured in its own process, after a whole poll of all waits.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import bare
from benchmarks.database import fill
from benchmarks.harness import Run, loop_factory, main
from handraise import open_desk
from support.database import own_database

RATIOS = {"ratio_of_wait_to_bare_task": ("desk_bytes_per_wait", "bare_bytes_per_wait")}


async def measure(run: Run) -> None:
    """Measure everything in each round."""
    async with own_database() as address:
        ids = await fill(address, (await bare.desk_pair(address)).ask, run.options["waits"])
        await run.mixed(
            {
                "desk_bytes_per_wait": lambda: held("desk", address, ids),
                "bare_bytes_per_wait": lambda: held("bare", address, ids),
            }
        )


async def held(what: str, address: str, ids: Sequence[str]) -> float:
    """Bytes for each wait, in its own process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.waits", "--hold", what, address),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate(json.dumps(ids).encode() + b"\n")
    return float(printed)


async def hold(what: str, address: str) -> None:
    """Wait for all of them, print what that took, and exit."""
    ids: list[str] = json.loads(sys.stdin.readline())
    futures: dict[str, asyncio.Future[None]] = {}

    async def wait(question_id: str) -> None:
        futures[question_id] = asyncio.get_running_loop().create_future()
        await futures[question_id]

    async with open_desk(address, workspace="bench") as desk:
        await asyncio.gather(desk.get(ids[0]), desk.list_pending(limit=500))
        before = memory()
        entering = desk.wait if what == "desk" else wait
        waits = [asyncio.create_task(entering(question_id)) for question_id in ids]
        # Until all have been read once, and the poll has read them all again.
        await asyncio.sleep(2 + len(ids) / 10_000)
        used = memory() - before
        pending = sum(not each.done() for each in waits)
        if pending != len(ids):
            raise RuntimeError(f"{len(ids) - pending} waits have ended")
        print(used / len(ids), flush=True)
        os._exit(0)  # cancelling all of them takes longer than all the rest


def memory() -> int:
    """Bytes of private memory of this process, without garbage."""
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(hold(*sys.argv[2:]))
    else:
        main(measure, RATIOS, quick_rounds=1, waits=(100_000, 100_000))
