"""A sweep: how many due questions it settles a second, and what it costs while nothing is due.

Measured beside it: one statement that expires what is due, with the same rows, by bare asyncpg.
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
EXPIRE = """
with due as materialized (
    select q.workspace, q.id
    from handraise.inbox as i
    join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.workspace = $1 and i.due_at <= now() and q.status = 'pending'
    order by i.due_at
    limit 1000
    for no key update of q skip locked
),
expired as (
    update handraise.questions as q
    set status = 'expired', settled_at = now(), outcome = '{}'
    from due
    where q.workspace = due.workspace and q.id = due.id
    returning q.workspace, q.id
),
left_inbox as (
    delete from handraise.inbox as i using expired where i.workspace = expired.workspace and i.question_id = expired.id
),
noted as (
    insert into handraise.events (at, workspace, question_id, kind) select now(), workspace, id, 'expired' from expired
)
select id from expired
"""
SWEEP = bare.Statement(EXPIRE, ("bench",))


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
        await run.mixed(
            {
                "desk_swept_per_s": lambda: swept_per_second(address, due, None, run.options["due"]),
                "bare_swept_per_s": lambda: swept_per_second(address, due, SWEEP, run.options["due"]),
                "idle": lambda: idle(address, SWEEP, 200),
            }
        )


if __name__ == "__main__":
    main(measure, RATIOS, quick_rounds=5, rounds=7, pending=(100_000, 20_000), due=(10_000, 3_000))
