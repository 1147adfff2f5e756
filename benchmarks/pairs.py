"""Ask-and-answer pairs a second, and wake-up latency, against the bare engine in the same run.

    python -m benchmarks.pairs [--callers 256] [--seconds 4] [--rounds 3] [--quick] [--json]

A pair is one question asked and answered: two commits, two events, and all of the desk's checks. Medians over
the rounds; the machine is shared, so read the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

import asyncpg

from benchmarks import bare
from benchmarks.database import own_database
from handraise import Desk, open_desk

CHOICES = ["Blue-green", "Canary", "Rolling"]
_RARE = 0.005


async def desk_pairs(address: str, callers: int, seconds: float) -> float:
    """Pairs a second through one desk with many concurrent callers."""
    async with open_desk(address, workspace="bench") as desk:
        count = itertools.count()
        until = time.perf_counter() + seconds

        async def caller() -> None:
            while time.perf_counter() < until:
                question = await desk.post("Which strategy?", choices=CHOICES)
                await desk.answer(question.id, "Canary", by="ana")
                next(count)

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return next(count) / (time.perf_counter() - began)


def pgbench_pairs(address: str, clients: int, seconds: float) -> float:
    """Pairs a second that pgbench makes with the same statements."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(bare.pgbench_script())
        script.flush()
        command = ["pgbench", "-n", "-f", script.name, "-c", str(clients), "-j", "2", "-M", "prepared"]
        done = subprocess.run(
            [*command, "-T", str(max(1, round(seconds))), address],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PGOPTIONS": "-c plan_cache_mode=force_generic_plan"},
        )
    return next(float(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("tps"))


async def wakeups(address: str, count: int) -> list[float]:
    """Seconds from calling `answer` in another process to the woken wait in this one."""
    async with open_desk(address, workspace="wake") as desk:
        questions = [await desk.post(f"Which {n}?") for n in range(count)]
        waits = [asyncio.create_task(_woken(desk, question.id)) for question in questions]
        answering = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.answerer", address, "wake"), stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await answering.communicate()
        called: dict[str, float] = json.loads(printed)
        woken = dict(await asyncio.gather(*waits))
    return [woken[question_id] - at for question_id, at in called.items()]


async def bare_notify(address: str, count: int) -> list[float]:
    """Seconds from a NOTIFY call on one connection to its arrival on another."""
    listener, sender = await asyncpg.connect(address), await asyncpg.connect(address)
    try:
        heard: asyncio.Queue[float] = asyncio.Queue()
        await listener.add_listener("bare", lambda *_: heard.put_nowait(time.time()))
        latencies = []
        for _ in range(count):
            await asyncio.sleep(_RARE)
            began = time.time()
            await sender.execute("select pg_notify('bare', 'x')")
            latencies.append(await heard.get() - began)
        return latencies
    finally:
        await listener.close()
        await sender.close()


async def lone_ask(address: str, count: int) -> tuple[float, float]:
    """Median seconds of one ask alone: through the desk, and bare."""
    rows = bare.Rows()
    connection = await asyncpg.connect(address, server_settings=bare.SETTINGS)
    desk_times, bare_times = [], []
    async with open_desk(address, workspace="bench") as desk:
        for _ in range(count):
            began = time.perf_counter()
            await desk.post("Which strategy?", choices=CHOICES)
            desk_times.append(time.perf_counter() - began)
            ask, _ = rows.pair()
            arguments = bare.parameters("insert", [ask])
            began = time.perf_counter()
            await connection.fetch(bare.STATEMENTS["insert"].numbered, *arguments)
            bare_times.append(time.perf_counter() - began)
    await connection.close()
    return statistics.median(desk_times), statistics.median(bare_times)


async def _woken(desk: Desk, question_id: str) -> tuple[str, float]:
    await desk.wait(question_id)
    return question_id, time.time()


async def measure(callers: int, seconds: float, rounds: int) -> dict[str, float]:
    """Every figure by name, the work of each round interleaved so that noise hits all alike."""
    series: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        series.setdefault(name, []).append(value)
        print(f"  {name:42} {value:>12,.4g}", file=sys.stderr, flush=True)

    async with own_database() as address:
        await desk_pairs(address, 8, 0.3)
        works: dict[str, Callable[[], Awaitable[float]]] = {
            "desk_pairs_per_s": lambda: desk_pairs(address, callers, seconds),
            "bare_coalesced_pairs_per_s": lambda: bare.coalesced(address, callers, seconds),
            "bare_single_8_pairs_per_s": lambda: bare.single(address, 8, seconds),
            "desk_1_caller_pairs_per_s": lambda: desk_pairs(address, 1, seconds / 2),
        }
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for name, work in works.items():
                note(name, await work())
            if shutil.which("pgbench"):
                best = max([pgbench_pairs(address, clients, seconds) for clients in (4, 8)])
                note("pgbench_best_pairs_per_s", best)
            through_desk, without = await lone_ask(address, 200)
            note("desk_ask_alone_ms", through_desk * 1000)
            note("bare_ask_alone_ms", without * 1000)
            woken, notified = await wakeups(address, 200), await bare_notify(address, 200)
            note("desk_wake_p50_ms", statistics.median(woken) * 1000)
            note("desk_wake_p99_ms", statistics.quantiles(woken, n=100)[98] * 1000)
            note("bare_notify_p50_ms", statistics.median(notified) * 1000)
            note("bare_notify_p99_ms", statistics.quantiles(notified, n=100)[98] * 1000)
    figures = {name: statistics.median(values) for name, values in series.items()}
    return {**figures, **ratios(series)}


def ratios(series: dict[str, list[float]]) -> dict[str, float]:
    """Medians of the ratios within each round."""
    pairs = {
        "ratio_to_pgbench": ("desk_pairs_per_s", "pgbench_best_pairs_per_s"),
        "ratio_to_bare_coalesced": ("desk_pairs_per_s", "bare_coalesced_pairs_per_s"),
        "ratio_to_bare_single": ("desk_pairs_per_s", "bare_single_8_pairs_per_s"),
        "ratio_of_lone_ask": ("desk_ask_alone_ms", "bare_ask_alone_ms"),
        "ratio_of_wake_p50": ("desk_wake_p50_ms", "bare_notify_p50_ms"),
        "ratio_of_wake_p99": ("desk_wake_p99_ms", "bare_notify_p99_ms"),
    }
    return {
        name: statistics.median(
            ours / theirs for ours, theirs in zip(series[over], series[under], strict=True)
        )
        for name, (over, under) in pairs.items()
        if over in series and under in series
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Ask-and-answer pairs against the bare engine.")
    parser.add_argument("--callers", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="less than 50 seconds in all")
    parser.add_argument("--json", action="store_true", help="one line of JSON, last")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 2, 2
    runner = asyncio.Runner(loop_factory=_loop_factory())
    with runner:
        figures = runner.run(measure(options.callers, options.seconds, options.rounds))
    for name, value in figures.items():
        print(f"{name:32} {value:>12,.4g}")
    if options.json:
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where it is installed, for the desk and the bare engine alike."""
    try:
        import uvloop  # noqa: PLC0415 -- an extra
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
