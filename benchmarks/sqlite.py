"""Pairs on SQLite against the bare sqlite3 module: the desk's statements, its settings, one thread and no desk.

`bare` makes a transaction for each ask and each answer; `bare_coalesced` makes one for 64 of them, as the desk does for
concurrent callers. Then several processes that ask without pause, through desks and bare (BEGIN IMMEDIATE with SQLite's
own back-off): how long 99 of 100 asks take at most in the slowest process, and the fewest asks of a
process ÷ the most.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

from benchmarks import bare
from benchmarks.harness import Run, Work, loop_factory, main, quantile
from benchmarks.pairs import desk_pairs
from handraise import open_desk
from handraise.desks import uuid7_ids

RATIOS = {
    "ratio_to_bare_sqlite": ("desk_pairs_per_s", "bare_pairs_per_s"),
    "ratio_to_bare_sqlite_coalesced": ("desk_pairs_per_s", "bare_coalesced_pairs_per_s"),
    "ratio_of_one_caller": ("desk_1_caller_pairs_per_s", "bare_pairs_per_s"),
    "ratio_of_processes": ("processes_desk_asks_per_s", "processes_bare_asks_per_s"),
    "ratio_of_processes_p99": ("processes_desk_p99_ms", "processes_bare_p99_ms"),
}
AT_ONCE = 64

Transaction: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]


class Recording(sqlite3.Connection):
    """A connection that keeps what is written through it, one list for each transaction."""

    transactions: list[list[tuple[str, Mapping[str, Any]]]]

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        """Record the statement, then run it."""
        if sql == "begin immediate":
            self.transactions.append([])
        elif self.in_transaction:
            self.transactions[-1].append((sql, values))
        return super().execute(sql, values)

    def executemany(self, sql: str, rows: Any, /) -> sqlite3.Cursor:
        """Record the statement with each of the rows, then run it."""
        self.transactions[-1] += [(sql, dict(values)) for values in rows]
        return super().executemany(sql, rows)


async def desk_transactions(address: str) -> tuple[str, Transaction, Transaction]:
    """What a desk writes for an ask and for its answer, and the id it is about."""
    Recording.transactions = []
    connect = partial(sqlite3.connect, factory=Recording)
    with mock.patch.object(sqlite3, "connect", connect):
        ids = bare.ids_known_before()
        async with open_desk(address, workspace="bench", new_id=ids.pop) as desk:
            Recording.transactions.clear()
            question_id = await bare.ask(desk, ids[-1])
            await desk.answer(question_id, "Canary", by="ana")
    ask, answer = (
        next(each for each in Recording.transactions if any(f"{verb} questions" in sql for sql, _ in each))
        for verb in ("insert into", "update")
    )
    return question_id, ask, answer


class Bare:
    """The desk's transactions, for any question, by sqlite3 alone."""

    def __init__(self, path: Path, known: str, ask: Transaction, answer: Transaction) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        for pragma in ("journal_mode = wal", "synchronous = full", "fullfsync = on"):
            self._connection.execute(f"pragma {pragma}")
        self._known, self._ask, self._answer = known, ask, answer
        self._new_id = uuid7_ids()

    def asks(self, count: int) -> list[str]:
        """Ask this many questions in one transaction."""
        ids = [self._new_id() for _ in range(count)]
        self._transact(self._ask, ids)
        return ids

    def pairs(self, count: int) -> None:
        """Ask this many questions in one transaction, and answer them in another."""
        self._transact(self._answer, self.asks(count))

    def pairs_per_second(self, seconds: float, at_once: int) -> float:
        """Pairs a second, with this many in a transaction."""
        count, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            self.pairs(at_once)
            count += at_once
        return count / (time.perf_counter() - began)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _transact(self, statements: Transaction, ids: Sequence[str]) -> None:
        known = self._known
        self._connection.execute("begin immediate")
        for question_id in ids:
            for sql, values in statements:
                mine = {
                    name: value.replace(known, question_id) if isinstance(value, str) else value
                    for name, value in values.items()
                }
                self._connection.execute(sql, mine).fetchall()
        self._connection.commit()


async def many_processes(
    what: str, path: Path, work: Any, processes: int, seconds: float
) -> dict[str, float]:
    """Several processes that ask without pause: how many asks in all, how long one takes, and how fair it is."""
    line = (sys.executable, "-m", "benchmarks.sqlite", "--ask", what, str(path), str(seconds))
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "limit": 2**24}
    started = [await asyncio.create_subprocess_exec(*line, **pipes) for _ in range(processes)]  # type: ignore[arg-type]
    told = json.dumps({"work": work, "begin": time.time() + 1.5}).encode() + b"\n"
    printed = await asyncio.gather(*(each.communicate(told) for each in started))
    times: list[list[float]] = [json.loads(each) for each, _ in printed]
    every = [each for mine in times for each in mine]
    return {
        "asks_per_s": len(every) / seconds,
        # Of the slowest process: one that rarely gets the lock makes few asks, and would not show among all.
        "p99_ms": max(quantile(mine, 99) for mine in times) * 1000,
        "worst_ms": max(every) * 1000,
        "fairness": min(map(len, times)) / max(map(len, times)),
    }


async def ask_without_pause(what: str, path: str, seconds: str) -> None:
    """One of those processes: print how long each ask took."""
    told = json.loads(sys.stdin.readline())
    times: list[float] = []
    async with open_desk(f"sqlite:///{path}", workspace="bench") as desk:
        with closing(Bare(Path(path), *told["work"])) as engine:
            await asyncio.sleep(told["begin"] - time.time())
            until = time.perf_counter() + float(seconds)
            while (began := time.perf_counter()) < until:
                if what == "desk":
                    await bare.ask(desk)
                else:
                    engine.asks(1)
                times.append(time.perf_counter() - began)
    print(json.dumps(times))


@contextmanager
def own_file() -> Iterator[Path]:
    """A new file for each work: all begin with an empty one."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "questions.db"


async def measure(run: Run) -> None:
    """Measure everything in each round, each on its own file."""
    callers, processes = run.options["callers"], run.options["processes"]
    with own_file() as path:
        work = await desk_transactions(f"sqlite:///{path}")

    async def on_desk(count: int) -> float:
        with own_file() as path:
            return await desk_pairs(f"sqlite:///{path}", count, run.seconds)

    async def on_bare(at_once: int) -> float:
        with own_file() as path:
            await desk_transactions(f"sqlite:///{path}")  # makes the tables

            def there() -> float:
                with closing(Bare(path, *work)) as engine:
                    return engine.pairs_per_second(run.seconds, at_once)

            return await asyncio.to_thread(there)

    async def together(what: str) -> dict[str, float]:
        with own_file() as path:
            await desk_transactions(f"sqlite:///{path}")
            return await many_processes(what, path, work, processes, run.seconds)

    works: dict[str, Work] = {
        "desk_pairs_per_s": lambda: on_desk(callers),
        "desk_1_caller_pairs_per_s": lambda: on_desk(1),
        "bare_pairs_per_s": lambda: on_bare(1),
        "bare_coalesced_pairs_per_s": lambda: on_bare(AT_ONCE),
    }
    if processes:
        works |= {"processes_desk": lambda: together("desk"), "processes_bare": lambda: together("bare")}
    await run.mixed(works)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(ask_without_pause(*sys.argv[2:]))
    else:
        main(measure, RATIOS, quick_seconds=1.2, callers=(256, 256), processes=(4, 4))
