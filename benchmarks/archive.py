"""Ask, answer and look up as the number of settled questions grows: they are in the archive, over two years of months.

There is a database for each size, and each is called in turn, so that noise affects all alike. `get` and `find` look
up an archived question by its id and by its key, `again` posts it once more, `page` is the newest page of what is
settled. What counts is the time in the largest ÷ the time in the smallest. Each question takes its rows in the archive
and two events, 1.3 KB in all: check that the disk is large enough.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta

from benchmarks import bare
from benchmarks.database import filling, vacuum
from benchmarks.growth import Calls, measure_growth, name_of
from benchmarks.harness import Run, main
from handraise import Desk, Question, open_desk
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store, uuid7_ids
from support.database import own_database

VERBS = ("ask", "answer", "get", "find", "again", "page")
RATIOS = {f"ratio_of_archive_{verb}": (f"{verb}_most_p50_ms", f"{verb}_10k_p50_ms") for verb in VERBS}
SEEDS, MONTHS, AT_ONCE = 1_000, 24, 100

# Every seed again, under another id and another key, in one month after the other.
_ARCHIVE = """
insert into handraise.archive ({columns})
select {values} from generate_series($1::int, $2::int) as n, handraise.archive as seed where seed.id like '0198%'
"""
_INDEX = """
insert into handraise.archive_index (settled_at, workspace, id, key)
select {settled_at}, seed.workspace, {id}, {key}
from generate_series($1::int, $2::int) as n, handraise.archive as seed
where seed.id like '0198%'
"""
_EVENTS = """
insert into handraise.events (at, workspace, question_id, kind, actor, data)
select seed.at, seed.workspace, {question_id}, seed.kind, seed.actor, seed.data
from generate_series($1::int, $2::int) as n, handraise.events as seed
where seed.question_id like '0198%'
order by n, seed.number
"""
_COLUMNS = """
select a.attname from pg_attribute as a
where a.attrelid = 'handraise.archive'::regclass and a.attnum > 0 and not a.attisdropped
"""


@dataclass
class Filled:
    """A database of one size, a desk at it, and what is archived there."""

    name: str
    desk: Desk
    seeds: Sequence[Question]
    times: int

    async def calls(self) -> Calls:
        """See `Grown`."""
        seed, n = random.choice(self.seeds), random.randint(1, self.times)
        question_id, key = f"0199{n:09}{seed.id[13:]}", f"{seed.key} {n}"
        waiting = await bare.ask(self.desk)
        return {
            "ask": lambda: bare.ask(self.desk),
            "answer": lambda: self.desk.answer(waiting, "Canary", by="ana"),
            "get": lambda: self.desk.get(question_id),
            "find": lambda: self.desk.find_by_key(key),
            "again": lambda: self.desk.post(seed.prompt, choices=bare.CHOICES, key=key),
            "page": lambda: self.desk.list_settled(limit=50),
        }


async def filled(run: Run, stack: AsyncExitStack, size: int) -> Filled:
    """A new database with this many archived questions: some that were asked and answered, and copies of them."""
    began, times = time.perf_counter(), size // SEEDS
    address = await stack.enter_async_context(own_database())
    seeds = await _seeds(address)
    async with bare.connected(address, 1) as (connection,):
        columns = [row["attname"] for row in await connection.fetch(_COLUMNS)]
        for month in range(MONTHS):
            add = "select handraise.add_archive_month(date_trunc('month', now(), 'UTC') - $1::int * interval '1 month')"
            await connection.execute(add, month)
    values = {
        "id": "'0199' || lpad(n::text, 9, '0') || substr(seed.id, 14)",
        "key": "seed.key || ' ' || n",
        "settled_at": f"seed.settled_at - ({MONTHS - 1} - (n - 1) * {MONTHS} / {times}) * interval '1 month'",
        "question_id": "'0199' || lpad(n::text, 9, '0') || substr(seed.question_id, 14)",
    }
    archive = _ARCHIVE.format(
        columns=", ".join(columns), values=", ".join(values.get(each, f"seed.{each}") for each in columns)
    )
    await asyncio.gather(
        *(_multiply(address, text.format(**values), times) for text in (archive, _INDEX, _EVENTS))
    )
    await vacuum(address)
    async with bare.connected(address, 1) as (connection,):
        await connection.execute("update handraise.archive_hand set mark = '0199~'")
        # Written to disk now, so that it does not slow down what is measured.
        await connection.execute("checkpoint")
        large = await connection.fetchval("select pg_database_size(current_database())")
    took = time.perf_counter() - began
    run.remark(f"{name_of(size)}: filled in {took:.0f} s, {large / size:,.0f} bytes a question")
    desk = await stack.enter_async_context(open_desk(address, workspace="bench"))
    return Filled(name_of(size), desk, seeds, times)


async def _seeds(address: str) -> list[Question]:
    """Questions that were asked, answered and archived, with ids that differ from others."""
    new_id = uuid7_ids()
    async with (
        open_backend(address) as backend,
        desk_from_store(
            backend.store, backend.bus, workspace="bench", new_id=lambda: f"0198{new_id()[4:]}"
        ) as desk,
    ):
        seeds = await asyncio.gather(
            *(desk.post("Which strategy?", choices=bare.CHOICES, key=f"key {n}") for n in range(SEEDS))
        )
        await asyncio.gather(*(desk.answer(each.id, "Canary", by="ana") for each in seeds))
        await backend.store.tidy(rest=timedelta(0), keep=None, limit=SEEDS)
        return seeds


async def _multiply(address: str, statement: str, times: int) -> None:
    async with filling(address) as connection:
        for start in range(1, times + 1, AT_ONCE):
            await connection.execute(statement, start, min(start + AT_ONCE - 1, times))


async def measure(run: Run) -> None:
    """Measure everything in each round."""
    await measure_growth(run, filled)


if __name__ == "__main__":
    main(measure, RATIOS, rounds=7, quick_rounds=3, largest=(20_000_000, 100_000), count=(200, 30))
