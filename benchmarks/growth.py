"""Ask, answer and an inbox page as the number of pending questions grows: how long each takes, one caller alone.

There is a database for each size, and each is called in turn, so that noise affects all alike. The page has the same
rows everywhere: those of one small workspace, while another one grows; `wide_page` is a page in the one that grows.
What counts is the time in the largest ÷ the time in the smallest.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from benchmarks import bare
from benchmarks.database import fill, multiply, vacuum
from benchmarks.harness import Run, main, quantile, timed
from benchmarks.inbox import ANA, page
from handraise import Desk, open_desk
from support.database import own_database

VERBS = ("ask", "answer", "page", "wide_page")
SIZES = (10_000, 1_000_000, 10_000_000)
RATIOS = {f"ratio_of_growth_{verb}": (f"{verb}_most_p50_ms", f"{verb}_10k_p50_ms") for verb in VERBS}


Calls: TypeAlias = Mapping[str, Callable[[], Awaitable[object]]]


class Grown(Protocol):
    """A database of one size."""

    name: str

    async def calls(self) -> Calls:
        """Each verb, to be called once."""
        ...


@dataclass
class Filled:
    """A database of one size, a desk at it, and some of what is pending there."""

    name: str
    desk: Desk
    waiting: list[str]

    async def calls(self) -> Calls:
        """See `Grown`."""
        question_id = self.waiting.pop(random.randrange(len(self.waiting)))
        return {
            "ask": lambda: bare.ask(self.desk),
            "answer": lambda: self.desk.answer(question_id, "Canary", by=ANA),
            "page": lambda: page(self.desk.scoped("page"), None),
            "wide_page": lambda: page(self.desk, None),
        }


async def filled(run: Run, stack: AsyncExitStack, size: int) -> Filled:
    """A new database with this many pending questions."""
    began = time.perf_counter()
    address = await stack.enter_async_context(own_database())
    await fill(address, (await bare.desk_pair(address, workspace="page", by=ANA)).ask, 100)
    ask = (await bare.desk_pair(address)).ask
    await multiply(address, ask, size)
    await vacuum(address)
    async with bare.connected(address, 1) as (connection,):
        # Written to disk now, so that it does not slow down what is measured.
        await connection.execute("checkpoint")
        everywhere = "select id from handraise.questions where workspace = 'bench' and status = 'pending'"
        sample = f"{everywhere} and random() < {10_000 / size} limit 5000"
        waiting = [row["id"] for row in await connection.fetch(sample)]
        large = await connection.fetchval("select pg_database_size(current_database())")
    run.remark(
        f"{name_of(size)}: filled in {time.perf_counter() - began:.0f} s, {large / size:,.0f} bytes a question"
    )
    return Filled(
        name_of(size), await stack.enter_async_context(open_desk(address, workspace="bench")), waiting
    )


def name_of(size: int) -> str:
    """A size as part of a name."""
    return f"{size // 1_000_000}m" if size >= 1_000_000 else f"{size // 1_000}k"


async def measure(run: Run) -> None:
    """Measure everything in each round."""
    await measure_growth(run, filled)


async def measure_growth(run: Run, fill_one: Callable[[Run, AsyncExitStack, int], Awaitable[Grown]]) -> None:
    """Fill a database of each size, then call every verb of each in turn."""
    async with AsyncExitStack() as stack:
        most = run.options["largest"]
        sizes = [*(size for size in SIZES if size < most), most]
        databases = [await fill_one(run, stack, size) for size in sizes]
        for number in run.each_round():
            times: dict[str, list[float]] = {}
            for _ in range(run.options["count"]):
                for each in databases[:: -1 if number % 2 else 1]:
                    for verb, call in (await each.calls()).items():
                        times.setdefault(f"{verb}_{each.name}_p50_ms", []).append(await timed(call))
            for name in sorted(times):
                run.note(name, quantile(times[name][5:], 50) * 1000)
        largest = f"_{name_of(most)}_p50_ms"
        for name in [name for name in run.series if name.endswith(largest)]:
            run.series[f"{name.removesuffix(largest)}_most_p50_ms"] = run.series[name]


if __name__ == "__main__":
    main(measure, RATIOS, rounds=7, quick_rounds=5, largest=(10_000_000, 1_000_000), count=(200, 40))
