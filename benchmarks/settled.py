"""Ask, answer and look up as the number of settled questions grows: how long each takes, one caller alone.

There is a database for each size, and each is called in turn, so that noise affects all alike. `poll` is what 64 waits
read at once, `inbox` a page of a person's inbox, `get` and `find` look up a settled question by its id and by its key,
`again` posts it once more, and `page` is the newest page of what is settled. What counts is the time in the largest ÷
the time in the smallest. Each question takes 3 KB with its events: check that the disk is large enough.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from benchmarks import bare
from benchmarks.database import SEEDS, fill, multiply, vacuum
from benchmarks.growth import Calls, measure_growth, name_of
from benchmarks.harness import Run, main
from benchmarks.inbox import page
from handraise import Desk
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.ports import Store
from handraise.questions import Ref
from support.database import fetch_value, own_database

VERBS = ("ask", "answer", "poll", "inbox", "get", "find", "again", "page")
RATIOS = {f"ratio_of_settled_{verb}": (f"{verb}_most_p50_ms", f"{verb}_10k_p50_ms") for verb in VERBS}
WAITS, PENDING = 64, 100


@dataclass
class Filled:
    """A database of one size, a desk at it, and what is pending and settled there."""

    name: str
    store: Store
    desk: Desk
    waiting: Sequence[Ref]
    seeds: Sequence[str]
    times: int

    async def calls(self) -> Calls:
        """See `Grown`."""
        seed, n = random.choice(self.seeds), random.randint(0, self.times)
        settled_id = f"0199{n:09}{seed[13:]}" if n else seed
        asked = await bare.ask(self.desk)
        return {
            "ask": lambda: bare.ask(self.desk),
            "answer": lambda: self.desk.answer(asked, "Canary", by="ana"),
            "poll": lambda: self.store.outcomes(self.waiting),
            "inbox": lambda: page(self.desk, None),
            "get": lambda: self.desk.get(settled_id),
            "find": lambda: self.desk.find_by_key(settled_id),
            "again": lambda: bare.ask(self.desk, settled_id),
            "page": lambda: self.desk.list_settled(limit=50),
        }


async def filled(run: Run, stack: AsyncExitStack, size: int) -> Filled:
    """A new database with this many settled questions, and some that wait."""
    began = time.perf_counter()
    address = await stack.enter_async_context(own_database())
    pair = await bare.desk_pair(address)
    seeds = await multiply(address, pair.ask, size, answer=pair.answer)
    waiting = await fill(address, pair.ask, PENDING)
    await vacuum(address)
    # Written to disk now, so that it does not slow down what is measured.
    await fetch_value(address, "checkpoint")
    large = await fetch_value(address, "select pg_database_size(current_database())")
    took = time.perf_counter() - began
    run.remark(f"{name_of(size)}: filled in {took:.0f} s, {large / size:,.0f} bytes a question")
    backend = await stack.enter_async_context(open_backend(address))
    desk = await stack.enter_async_context(desk_from_store(backend.store, backend.bus, workspace="bench"))
    refs = [Ref("bench", each) for each in waiting[:WAITS]]
    return Filled(name_of(size), backend.store, desk, refs, seeds, size // SEEDS - 1)


async def measure(run: Run) -> None:
    """Measure everything in each round."""
    await measure_growth(run, filled)


if __name__ == "__main__":
    main(measure, RATIOS, rounds=7, quick_rounds=3, largest=(5_000_000, 100_000), count=(200, 30))
