"""Pairs a second of 256 callers in 1, 16 and 256 workspaces, with row security on.

A server has many workspaces, and PostgreSQL itself keeps them apart: each transaction says which workspaces it is for. All
callers use one desk, so concurrent calls of different workspaces become one batch. `server_cpu_us` is what a pair costs the
sessions of PostgreSQL, if it runs on this machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

from benchmarks import bare
from benchmarks.harness import Run, Work, costed, main, rate
from benchmarks.server_cpu import server_cpu, spent
from handraise import Desk
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from support.database import own_database

WORKSPACES = (1, 16, 256)

RATIOS = {
    "ratio_of_16_workspaces": ("in_16_workspaces_per_s", "in_1_workspaces_per_s"),
    "ratio_of_256_workspaces": ("in_256_workspaces_per_s", "in_1_workspaces_per_s"),
    "ratio_of_cpu_of_256_workspaces": ("in_256_workspaces_cpu_us", "in_1_workspaces_cpu_us"),
    "ratio_of_server_cpu_of_256_workspaces": (
        "in_256_workspaces_server_cpu_us",
        "in_1_workspaces_server_cpu_us",
    ),
}


async def pairs_in(address: str, workspaces: int, callers: int, seconds: float) -> dict[str, float]:
    """Pairs a second in so many workspaces, and what a pair costs here and in PostgreSQL."""
    async with (
        open_backend(address, confined=True) as ports,
        desk_from_store(ports.store, ports.bus, asker="agent") as desk,
    ):
        desks = [desk.scoped(f"bench-{number}") for number in range(workspaces)]

        def pair_at(own: Desk) -> Callable[[], Awaitable[object]]:
            async def pair() -> None:
                await own.answer(await bare.ask(own), "Canary", by="ana")

            return pair

        calls = [pair_at(own) for own in itertools.islice(itertools.cycle(desks), callers)]
        await rate(calls, 0.2)  # opens the connections, and makes the plans
        pairs = 0

        def counted(call: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
            async def again() -> None:
                nonlocal pairs
                await call()
                pairs += 1

            return again

        before = await server_cpu(address)
        figures = await costed(rate([counted(call) for call in calls], seconds))
        worked = spent(before, await server_cpu(address))
    return figures if worked is None else {**figures, "server_cpu_us": 1e6 * worked / pairs}


async def measure(run: Run) -> None:
    """Measure each number of workspaces in each round."""
    callers, seconds = run.options["callers"], run.seconds
    async with own_database() as address:

        def work(workspaces: int) -> Work:
            return lambda: pairs_in(address, workspaces, callers, seconds)

        await work(callers)()
        await run.mixed({f"in_{number}_workspaces": work(number) for number in WORKSPACES})


if __name__ == "__main__":
    main(measure, RATIOS, quick_seconds=1.4, callers=(256, 256))
