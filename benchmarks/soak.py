"""A steady load for a long time: latency must stay flat and the tables bounded, with autovacuum at work.

    python -m benchmarks.soak [--minutes 60] [--share 0.5] [--keep 120] [--quick] [--json]

It starts its own PostgreSQL. First the top speed is measured, then pairs are asked and answered at a share of it,
while settled questions are removed after `--keep` seconds. The run is cut into ten parts.
What counts are the ratios: latency in the last third to that in the first (`flat_ask`, `flat_answer`), the same
divided by that of a bare insert at the same time, which shows the machine's other work (`flat_ask_to_bare`,
`flat_answer_to_bare`), and the size of the tables at the end to what it was when the first questions had just been
removed (`bounded`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import asyncpg

from benchmarks.bare import CHOICES
from benchmarks.harness import loop_factory
from benchmarks.pairs import desk_pairs
from chaos.servers import own_servers
from handraise import Desk
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.ports import Store

PARTS = 10
_CALLERS = 64
_TIDY_EVERY = 1.0
_COMPARE_EVERY = 0.05
_SIZES = """
select c.relname as name, c.relkind = 'i' as is_index, pg_relation_size(c.oid) as bytes
from pg_class as c
where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'i') and c.relpersistence = 'p'
"""
_ROWS = """
select
    (select count(*) from handraise.questions) as stored,
    (select count(distinct question_id) from handraise.events) as kept
"""
_VACUUMS = """
select coalesce(sum(autovacuum_count), 0)::int as vacuums, coalesce(sum(n_dead_tup), 0)::bigint as dead
from pg_stat_user_tables where schemaname = 'handraise'
"""


class Part:
    """One stretch of the run."""

    def __init__(self) -> None:
        self.asks: list[float] = []
        self.answers: list[float] = []
        self.bares: list[float] = []
        self.behind = 0.0
        self.sizes: dict[str, int] = {}
        self.stored = self.kept = 0
        self.vacuums = 0
        self.dead = 0

    @property
    def bytes(self) -> int:
        """The size of everything on disk."""
        return sum(self.sizes.values())


class Run:
    """The parts of a run, and the current one."""

    def __init__(self, address: str, seconds: float) -> None:
        self.address = address
        self.seconds = seconds
        self.began = time.perf_counter()
        self.parts = [Part() for _ in range(PARTS)]

    @property
    def part(self) -> Part:
        """The current part."""
        return self.parts[min(PARTS - 1, int((time.perf_counter() - self.began) / self.seconds * PARTS))]


async def soak(address: str, *, seconds: float, rate: float, keep: float) -> list[Part]:
    """Ask and answer this many pairs a second, and remove old ones meanwhile, as a server does."""
    async with (
        open_backend(address) as backend,
        open_backend(address, connections=2) as beside,
        desk_from_store(backend.store, backend.bus, workspace="soak") as desk,
    ):
        run = Run(address, seconds)
        turns = iter(range(round(rate * seconds)))
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(_watch(run))
            others = (_tidy(beside.store, keep=keep), _compare(run))
            chores = list(map(tasks.create_task, others))
            await asyncio.gather(*(_ask_and_answer(run, desk, turns, rate) for _ in range(_CALLERS)))
            await watch
            for chore in chores:
                chore.cancel()
        return run.parts


async def _ask_and_answer(run: Run, desk: Desk, turns: Iterator[int], rate: float) -> None:
    for turn in turns:
        due, now = run.began + turn / rate, time.perf_counter()
        if now < due:
            await asyncio.sleep(due - now)
        part = run.part
        part.behind = max(part.behind, now - due)
        before = time.perf_counter()
        question = await desk.post("Which strategy?", choices=CHOICES)
        between = time.perf_counter()
        await desk.answer(question.id, "Canary", by="ana")
        part.asks.append(between - before)
        part.answers.append(time.perf_counter() - between)


async def _tidy(store: Store, *, keep: float) -> None:
    while True:
        await asyncio.sleep(_TIDY_EVERY)
        await store.tidy(keep=timedelta(seconds=keep), limit=20_000)


async def _compare(run: Run) -> None:
    connection = await asyncpg.connect(run.address)
    try:
        await connection.execute("create table yardstick (at timestamptz)")
        while True:
            await asyncio.sleep(_COMPARE_EVERY)
            before = time.perf_counter()
            await connection.execute("insert into yardstick values (now())")
            run.part.bares.append(time.perf_counter() - before)
    finally:
        await connection.close()


async def _watch(run: Run) -> None:
    connection = await asyncpg.connect(run.address)
    try:
        for number, part in enumerate(run.parts, 1):
            until = run.began + number * run.seconds / PARTS - 0.2
            await asyncio.sleep(max(0.0, until - time.perf_counter()))
            part.sizes = await sizes(connection)
            (rows,) = await connection.fetch(_ROWS)
            part.stored, part.kept = rows["stored"], rows["kept"]
            (vacuumed,) = await connection.fetch(_VACUUMS)
            part.vacuums, part.dead = vacuumed["vacuums"], vacuumed["dead"]
            print(f"  {number:>2}/{PARTS} {_line(part)}", file=sys.stderr, flush=True)
    finally:
        await connection.close()


async def sizes(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, int]:
    """Bytes of each table and index."""
    return {row["name"]: row["bytes"] for row in await connection.fetch(_SIZES)}


def figures_of(parts: list[Part], *, seconds: float, keep: float) -> dict[str, Any]:
    """The ratios, and what they are made of."""
    third = max(1, PARTS // 3)
    # The first part warms up. Sizes can only be bounded once the first questions have been removed.
    early, late = parts[1 : 1 + third], parts[-third:]
    full = parts[min(PARTS - 2, int(keep / seconds * PARTS) + 1)]

    def p(share: float, which: str, some: list[Part]) -> float:
        times: list[float] = sorted(each for part in some for each in getattr(part, which))
        return times[int(share * (len(times) - 1))]

    flat = {which: p(0.5, which, late) / p(0.5, which, early) for which in ("asks", "answers", "bares")}
    return {
        "pairs": sum(len(part.answers) for part in parts),
        "ask_p50_ms": [1000 * statistics.median(part.asks) for part in parts if part.asks],
        "answer_p50_ms": [1000 * statistics.median(part.answers) for part in parts if part.answers],
        "ask_p99_ms": 1000 * p(0.99, "asks", parts),
        "answer_p99_ms": 1000 * p(0.99, "answers", parts),
        "behind_s": parts[-1].behind,
        "stored": [part.stored for part in parts],
        "removed": sum(len(part.answers) for part in parts) - parts[-1].kept,
        "mib": [part.bytes / 2**20 for part in parts],
        "sizes": parts[-1].sizes,
        "autovacuums": parts[-1].vacuums,
        "flat_ask": flat["asks"],
        "flat_answer": flat["answers"],
        "flat_ask_to_bare": flat["asks"] / flat["bares"],
        "flat_answer_to_bare": flat["answers"] / flat["bares"],
        "bounded": parts[-1].bytes / max(1, full.bytes),
    }


async def measure(*, minutes: float, share: float, keep: float, top_seconds: float) -> dict[str, Any]:
    """Every figure by name, on its own server, because autovacuum may be off on the existing one."""
    with own_servers(1, {"autovacuum": "on", "shared_buffers": "512MB"}) as (server,):
        address = server.address
        await desk_pairs(address, 8, 0.3)
        top = await desk_pairs(address, 256, top_seconds)
        print(f"top speed {top:,.0f} pairs/s", file=sys.stderr, flush=True)
        seconds = 60 * minutes
        parts = await soak(address, seconds=seconds, rate=share * top, keep=keep)
        return {"top_pairs_per_s": top, **figures_of(parts, seconds=seconds, keep=keep)}


def _line(part: Part) -> str:
    if not part.asks:
        return "nothing asked"
    ask, answer = (1000 * statistics.median(each) for each in (part.asks, part.answers))
    return (
        f"ask p50 {ask:6.2f} ms  answer p50 {answer:6.2f} ms  {part.bytes / 2**20:8.1f} MiB  "
        f"{part.stored} stored  {part.dead} dead  {part.vacuums} vacuums  {part.behind:.1f} s behind"
    )


def main() -> None:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="how long")
    parser.add_argument("--share", type=float, default=0.5, help="of the top speed")
    parser.add_argument(
        "--keep", type=float, default=120.0, help="seconds until a settled question is removed"
    )
    parser.add_argument("--quick", action="store_true", help="under a minute, for a first look")
    parser.add_argument("--json", action="store_true", help="the figures as one line of JSON, last")
    given = parser.parse_args()
    top = 4.0
    if given.quick:
        given.minutes, given.keep, top = min(given.minutes, 0.5), 8.0, 2.0
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        figures = runner.run(
            measure(minutes=given.minutes, share=given.share, keep=given.keep, top_seconds=top)
        )
    if given.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        if name == "sizes":
            for relation, size in sorted(value.items(), key=lambda each: -each[1])[:15]:
                print(f"  {relation:36} {size / 2**20:10.1f} MiB")
        else:
            shown = " ".join(f"{each:.3g}" for each in value) if isinstance(value, list) else f"{value:,.3f}"
            print(f"{name:18} {shown}")


if __name__ == "__main__":
    main()
