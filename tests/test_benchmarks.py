"""What the benchmarks compare is the same work, and what they say of it is what they saw."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from benchmarks import bare, database, report, scale
from benchmarks import sqlite as bare_sqlite
from benchmarks.failover import Scene, simulate
from benchmarks.goals import GOALS, Goal
from benchmarks.harness import Run, Spread, quantile
from benchmarks.pairs import desk_pairs
from handraise import open_desk
from support.database import own_database

ROOT = Path(__file__).parent.parent
TABLES = ("questions", "inbox", "events")
OWN = [
    *(
        "id",
        "question_id",
        "key",
        "asked_at",
        "expires_at",
        "settled_at",
        "due_at",
        "urgency",
        "at",
        "number",
    ),
    *("place", "transaction"),
]
"""What is each row's own, whoever wrote it."""

Writer = Callable[[str, bare.Pair], Awaitable[object]]


async def desk_asks(address: str, pair: bare.Pair) -> None:
    del pair
    async with open_desk(address, workspace="bench") as desk:
        await bare.ask(desk)


async def plain_pgbench(address: str, pair: bare.Pair) -> None:
    plain = await bare.plain_pair(address, pair)
    await emptied(address)
    await bare.pgbench(address, plain, 2, 1)


ASKS: dict[str, Writer] = {
    "desk": desk_asks,
    "single": lambda address, pair: bare.single(address, [pair.ask], 1, 0.01),
    "coalesced": lambda address, pair: bare.coalesced(address, [pair.ask], 8, 0.01),
    "pgbench": lambda address, pair: bare.pgbench(address, [pair.ask], 1, 1),
    "fill": lambda address, pair: database.fill(address, pair.ask, 10),
    "multiply": lambda address, pair: database.multiply(address, pair.ask, 20_000),
}
PAIRS: dict[str, Writer] = {
    "desk": lambda address, _: desk_pairs(address, 2, 0.01),
    "single": lambda address, pair: bare.single(address, pair, 1, 0.01),
    "coalesced": lambda address, pair: bare.coalesced(address, pair, 8, 0.01, connections=2),
    "pgbench": lambda address, pair: bare.pgbench(address, pair, 2, 1),
    "pgbench, plain": plain_pgbench,
}


@pytest.mark.slow("only the benchmarks on PostgreSQL rely on it, and those run nightly")
@pytest.mark.parametrize("writers", [ASKS, PAIRS], ids=["asks", "pairs"])
async def test_the_bare_engine_writes_the_rows_that_the_desk_writes(writers: dict[str, Writer]) -> None:
    async with own_database() as address:
        pair = await bare.desk_pair(address)
        seen = {}
        for name, write in writers.items():
            await emptied(address)
            await write(address, pair)
            seen[name] = await written(address)
    assert seen["desk"]["questions"]
    assert seen["desk"]["events"]
    for name, rows in seen.items():
        assert rows == seen["desk"], name


async def written(address: str) -> dict[str, dict[str, float]]:
    """What rows of each table are like, and how many there are of each kind for a question."""
    connection = await asyncpg.connect(address)
    try:
        questions = await connection.fetchval("select count(*) from handraise.questions")
        return {
            table: {
                row["row"]: row["count"] / questions
                for row in await connection.fetch(
                    "select (to_jsonb(t) - $1::text[])::text as row, count(*) "  # noqa: S608 -- a table of ours
                    f"from handraise.{table} as t group by 1",
                    OWN,
                )
            }
            for table in TABLES
        }
    finally:
        await connection.close()


async def emptied(address: str) -> None:
    connection = await asyncpg.connect(address)
    try:
        await connection.execute(f"truncate {', '.join(f'handraise.{table}' for table in TABLES)}")
    finally:
        await connection.close()


async def test_bare_sqlite_writes_the_rows_that_the_desk_writes(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "desk.db", tmp_path / "bare.db"
    known, ask, answer = await bare_sqlite.desk_transactions(f"sqlite:///{mine}")
    async with open_desk(f"sqlite:///{theirs}"):
        pass
    with closing(bare_sqlite.Bare(theirs, known, ask, answer)) as engine:
        engine.pairs(3)
        assert sqlite_rows(theirs) == sorted(3 * sqlite_rows(mine), key=str)
        engine.asks(1)
    assert [row for row in sqlite_rows(theirs) if "recipient" in row] != []


def sqlite_rows(path: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [
            {name: value for name, value in dict(row).items() if name not in OWN}
            for table in TABLES
            for row in connection.execute(f"select * from {table}")  # noqa: S608 -- a table of ours
        ]
        return sorted(rows, key=str)


async def test_a_ratio_is_made_within_each_round_and_works_change_places() -> None:
    run, order = Run("trial", rounds=3), list[str]()
    figures = {"ours": iter([10.0, 30.0, 20.0]), "theirs": iter([5.0, 10.0, 40.0])}

    def work(name: str) -> Callable[[], Awaitable[float]]:
        async def call() -> float:
            order.append(name)
            return next(figures[name])

        return call

    await run.mixed({"ours": work("ours"), "theirs": work("theirs")})
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert run.summary({"ratio": ("ours", "theirs")}) == {
        "ours": Spread(20, 10, 30),
        "theirs": Spread(10, 5, 40),
        "ratio": Spread(2, 0.5, 3),
    }
    run.series["none"] = [0.0, 1.0, 1.0]
    assert "of_none" not in run.summary({"of_none": ("ours", "none"), "of_unknown": ("ours", "unknown")})


def test_the_best_is_chosen_by_its_median_and_not_by_its_luck() -> None:
    run = Run("trial", series={"steady": [5, 6, 5], "lucky": [1, 9, 1]})
    assert run.best_of("best", ["steady", "lucky"]) == "steady"
    assert run.series["best"] == [5, 6, 5]
    assert quantile([4, 1, 3, 2], 50) == 3


def test_a_guard_stops_at_a_quarter_worse_than_the_goal_or_than_today_where_that_misses_it() -> None:
    most, least = Goal("b", "f", "", 1.0), Goal("b", "f", "", 2.0, at_least=True)
    assert (most.a_quarter_worse(0.5), most.a_quarter_worse(2.0)) == (1.25, 2.5)
    assert (least.a_quarter_worse(4.0), least.a_quarter_worse(1.0)) == (1.5, 0.75)
    assert most.reached(1.0)
    assert not most.reached(1.1)
    assert least.reached(2.0)
    assert not least.reached(1.9)


def test_the_page_of_results_has_every_goal_and_what_was_run() -> None:
    kept = {
        "rounds": 3,
        "at": "2026-11-15",
        "uvloop": True,
        "cores": 2,
        "python": "3.11",
        "options": {"callers": 256},
    }
    runs = {"pairs": {**kept, "ratio_to_pgbench": 1.5, "spread": {"ratio_to_pgbench": [1.0, 2.5]}}}
    page = "\n".join(report.page(runs))
    assert [goal.what for goal in GOALS if goal.what not in page] == []
    assert "| ≥ 2 | 1.5 | 1 to 2.5 | not reached |" in page
    assert page.count("not run") == len(GOALS) - 1
    assert report.plot(runs).count("<rect") == 2


def test_a_run_smaller_than_its_goal_is_meant_for_does_not_count_as_reaching_it() -> None:
    kept = {"rounds": 3, "at": "2026-11-15", "uvloop": True, "cores": 2, "python": "3.11"}
    said = {"ratio_of_growth_ask": 1.0, "spread": {"ratio_of_growth_ask": [1.0, 1.0]}}
    small = {"growth": {**kept, **said, "options": {"largest": 100_000}}}
    whole = {"growth": {**kept, **said, "options": {"largest": 10_000_000}}}
    assert "shows nothing yet: run with largest 100,000" in "\n".join(report.page(small))
    assert report.plot(small).count("<rect") == 1
    assert "| 1 to 1 | reached |" in "\n".join(report.page(whole))


def test_the_page_tells_of_every_benchmark_of_which_results_are_shown() -> None:
    page = (ROOT / "docs" / "explanation" / "performance.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert shown == list(report.ORDER)
    assert [name for name in shown if not (ROOT / "benchmarks" / f"{name}.py").exists()] == []
    assert {goal.benchmark for goal in GOALS} <= set(report.ORDER)


@pytest.mark.slow("runs benchmarks, small ones; nightly runs them all")
@pytest.mark.parametrize(
    ("benchmark", "options", "ratios"),
    [
        ("inbox", ["--pending", "2000", "--pages", "10"], ["ratio_of_page", "ratio_of_deep_page"]),
        ("sweep", ["--pending", "100", "--due", "50"], ["ratio_of_sweep", "ratio_of_idle_sweep"]),
    ],
)
async def test_a_benchmark_prints_its_ratios_as_one_line_of_json_last(
    benchmark: str, options: list[str], ratios: list[str]
) -> None:
    command = [
        sys.executable,
        "-m",
        f"benchmarks.{benchmark}",
        "--quick",
        "--json",
        "--rounds",
        "1",
        *options,
    ]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    printed, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, said.decode()
    line = json.loads(printed.splitlines()[-1])
    assert [name for name in ratios if not line[name] > 0] == []
    assert set(ratios) <= set(line["spread"])


def test_clients_of_a_dead_server_come_back_only_if_the_others_refuse_what_is_too_much() -> None:
    few = Scene(clients=3_000, servers=10, open_cost=0.0015)
    assert simulate(few).all_of_them < 2
    crowd = Scene(clients=1_500, servers=1, open_cost=0.06, poll_cost=0.06, most_busy=100)
    assert simulate(crowd, within=600).all_of_them < 600
    assert simulate(replace(crowd, most_busy=None), within=600).half == float("inf")


def test_the_page_on_scale_has_the_table_that_is_calculated() -> None:
    page = (ROOT / "docs" / "explanation" / "scale.md").read_text()
    needs = [scale.Need(each) for each in scale.SHOWN]
    assert "\n".join(scale.rows(*needs)) in page
