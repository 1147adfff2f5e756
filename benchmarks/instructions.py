"""How many processor instructions an ask-and-answer pair costs the process that makes it, next to bare coalesced asyncpg.

Counted by valgrind's callgrind, so the figure does not depend on what else the machine does. Each way is counted at two
lengths, and the difference is divided by the pairs between them: start-up, and what is done once, drop out. PostgreSQL
and the kernel are not counted. Both use the same event loop, statements and number of callers; under callgrind a
process is some fifty times slower, so its batches are as large as they can be.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks import bare
from benchmarks.harness import Run, loop_factory, main
from handraise import open_desk
from support.database import own_database

RATIOS = {"ratio_of_instructions": ("desk_instructions_per_pair", "bare_instructions_per_pair")}
WAYS = ("desk", "bare")


async def make_pairs(way: str, address: str, count: int, callers: int) -> None:
    """Ask and answer this often, through a desk or without one."""
    left = iter(range(count))

    async def keep_calling(pair: Callable[[], Awaitable[object]]) -> None:
        for _ in left:
            await pair()

    if way == "desk":
        async with open_desk(address, workspace="bench") as desk:

            async def pair() -> None:
                await desk.answer(await bare.ask(desk), "Canary", by="ana")

            await asyncio.gather(*(keep_calling(pair) for _ in range(callers)))
    else:
        both = await bare.desk_pair(address)
        async with bare.coalescing(address, both, at_most=64) as call:
            await asyncio.gather(*(keep_calling(call) for _ in range(callers)))


async def counted(way: str, address: str, count: int, callers: int) -> int:
    """The instructions of a process that makes this many pairs."""
    process = await asyncio.create_subprocess_exec(
        *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
        *(sys.executable, "-m", "benchmarks.instructions", way, address, str(count), str(callers)),
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    found = re.search(r"Collected : (\d+)", said.decode())
    if process.returncode or found is None:
        raise RuntimeError(f"valgrind failed: {said.decode()[-2_000:]}")
    return int(found[1])


async def measure(run: Run) -> None:
    """Count both ways at two lengths in each round."""
    if not shutil.which("valgrind"):
        run.remark("valgrind is not installed: nothing is counted")
        return
    short: int = run.options["short"]
    more: int = run.options["more"]
    callers: int = run.options["callers"]
    async with own_database() as address:
        await make_pairs("desk", address, callers, 8)  # the tables exist, and modules are compiled

        async def per_pair(way: str) -> float:
            least = await counted(way, address, short, callers)
            return (await counted(way, address, short + more, callers) - least) / more

        await run.mixed({f"{way}_instructions_per_pair": partial(per_pair, way) for way in WAYS})


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WAYS:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(make_pairs(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        main(
            measure,
            RATIOS,
            rounds=1,
            quick_rounds=1,
            short=(1_000, 500),
            more=(3_000, 1_000),
            callers=(256, 256),
        )
