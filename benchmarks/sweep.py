"""A sweep: how many due questions it settles a second, and what it costs while nothing is due.

Measured beside it: the statement that the desk sends, made by bare asyncpg as often as it finds something.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from benchmarks import bare
from benchmarks.database import fill, vacuum
from benchmarks.harness import Run, main, quantile, timed
from handraise import open_desk
from support.database import own_database

RATIOS = {
    "ratio_of_sweep": ("desk_swept_per_s", "bare_swept_per_s"),
    "ratio_of_idle_sweep": ("idle_desk_p50_ms", "idle_bare_p50_ms"),
}
SOON = timedelta(milliseconds=50)


async def desk_sweep(address: str) -> int:
    """Sweep once through a desk; return how many questions that settled."""
    async with open_desk(address, workspace="bench") as desk:
        return await desk.run_due()


async def swept_per_second(address: str, due: bare.Sent, sweep: bare.Statement | None, count: int) -> float:
    """How fast questions are settled that have just become due."""
    await fill(address, due, count)
    await asyncio.sleep(2 * SOON.total_seconds())
    began = time.perf_counter()
    if sweep is None:
        settled = await desk_sweep(address)
    else:
        settled = 0
        async with bare.connected(address, 1) as (connection,):
            while rows := await connection.fetch(sweep.sql, *sweep.arguments):
                settled += len(rows)
    took = time.perf_counter() - began
    if settled != count:
        raise RuntimeError(f"{settled} were settled, not {count}")
    return count / took


async def idle(address: str, sweep: bare.Statement, count: int) -> dict[str, float]:
    """How long a sweep takes that finds nothing, through the desk and bare, in turns."""
    desk_times, bare_times = [], []
    async with open_desk(address, workspace="bench") as desk, bare.connected(address, 1) as (connection,):
        for _ in range(count):
            desk_times.append(await timed(desk.run_due))
            bare_times.append(await timed(lambda: connection.fetch(sweep.sql, *sweep.arguments)))
    return {
        "desk_p50_ms": quantile(desk_times, 50) * 1000,
        "bare_p50_ms": quantile(bare_times, 50) * 1000,
    }


async def measure(run: Run) -> None:
    """Measure everything in each round, on new questions each time."""
    async with own_database() as address:
        await fill(address, await bare.desk_ask(address), run.options["pending"])
        due = await bare.desk_ask(address, expires_in=SOON)
        await vacuum(address)
        await asyncio.sleep(2 * SOON.total_seconds())
        await desk_sweep(address)
        with bare.recorded() as sent:
            await desk_sweep(address)
        sweep = next(each for each in sent if "update handraise.questions" in each.sql)
        await run.mixed(
            {
                "desk_swept_per_s": lambda: swept_per_second(address, due, None, run.options["due"]),
                "bare_swept_per_s": lambda: swept_per_second(address, due, sweep, run.options["due"]),
                "idle": lambda: idle(address, sweep, 200),
            }
        )


if __name__ == "__main__":
    main(measure, RATIOS, quick_rounds=5, rounds=7, pending=(100_000, 20_000), due=(10_000, 3_000))
