"""Asks alone: how many a second with many callers, and how long one takes when nobody else asks.

Measured beside it, with the statement that the desk sends: pgbench at its best client count, bare asyncpg in batches,
and for one and for one and for one caller the bare insert, in turns with the desk's.
"""

from __future__ import annotations

from functools import partial

from benchmarks import bare
from benchmarks.harness import Run, main, quantile, rate, timed
from handraise import open_desk
from handraise.desks import uuid7_ids
from support.database import own_database

RATIOS = {
    "ratio_of_asks_to_pgbench": ("desk_asks_per_s", "pgbench_asks_per_s"),
    "ratio_of_asks_to_bare_coalesced": ("desk_asks_per_s", "bare_coalesced_asks_per_s"),
    "ratio_of_lone_ask": ("alone_desk_p50_ms", "alone_bare_p50_ms"),
    "ratio_of_lone_ask_p99": ("alone_desk_p99_ms", "alone_bare_p99_ms"),
}


async def desk_asks(address: str, callers: int, seconds: float) -> float:
    """Asks a second through one desk with concurrent callers."""
    async with open_desk(address, workspace="bench") as desk:
        return await rate([lambda: bare.ask(desk)] * callers, seconds)


async def alone(address: str, ask: bare.Sent, count: int) -> dict[str, float]:
    """How long one ask takes, through the desk and bare, one after the other."""
    new_id = uuid7_ids()
    desk_times, bare_times = [], []
    async with open_desk(address, workspace="bench") as desk, bare.connected(address, 1) as (connection,):
        for _ in range(count):
            desk_times.append(await timed(lambda: bare.ask(desk)))
            values = ask.arguments([ask.row(new_id())])
            bare_times.append(await timed(partial(connection.fetch, ask.sql, *values)))
    return {
        f"{who}_p{hundredth}_ms": quantile(times[count // 10 :], hundredth) * 1000
        for who, times in (("desk", desk_times), ("bare", bare_times))
        for hundredth in (50, 99)
    }


async def measure(run: Run) -> None:
    """Measure everything in each round."""
    callers, seconds, tried = run.options["callers"], run.seconds, bare.clients_for(run)
    async with own_database() as address:
        ask = (await bare.desk_pair(address)).ask
        await run.mixed(
            {
                "desk_asks_per_s": lambda: desk_asks(address, callers, seconds),
                "bare_coalesced_asks_per_s": lambda: bare.coalesced(address, [ask], callers, seconds),
                **{
                    f"pgbench_{clients}_asks_per_s": partial(bare.pgbench, address, [ask], clients, seconds)
                    for clients in tried
                },
                "alone": lambda: alone(address, ask, run.options["lone"]),
            }
        )
        run.best_of("pgbench_asks_per_s", [f"pgbench_{clients}_asks_per_s" for clients in tried])


if __name__ == "__main__":
    main(measure, RATIOS, quick_seconds=1.4, callers=(256, 256), lone=(500, 200))
