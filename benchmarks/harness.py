"""What all benchmarks share: the command line, rounds that mix the works, medians with their spread, one line of JSON.

A benchmark is a coroutine that takes a `Run`. It records figures by name, one for each round. A ratio is made of two of
them within each round, so that noise affects both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

RESULTS = Path(__file__).parent.parent / ".cache" / "benchmarks"

Ratios: TypeAlias = Mapping[str, tuple[str, str]]
"""By the name of a ratio, the figure that is divided and the one that it is divided by."""

Work: TypeAlias = Callable[[], Awaitable[float | Mapping[str, float]]]
"""Gives one figure, or several by the ends of their names."""


@dataclass
class Run:
    """One run of a benchmark: how much there is to do, and what was seen so far."""

    name: str
    quick: bool = False
    seconds: float = 4.0
    rounds: int = 3
    options: dict[str, Any] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def note(self, name: str, value: float) -> None:
        """Keep a figure of this round."""
        self.series.setdefault(name, []).append(value)
        self.say(f"  {name:44} {value:>12,.4g}")

    def remark(self, text: str) -> None:
        """Keep something that a reader of the figures must know."""
        self.remarks.append(text)
        self.say(f"  {text}")

    def say(self, text: str) -> None:
        """Print progress, for anyone who watches."""
        print(text, file=sys.stderr, flush=True)

    def each_round(self) -> Iterator[int]:
        """The rounds, one after another."""
        for number in range(self.rounds):
            self.say(f"{self.name}: round {number + 1} of {self.rounds}")
            yield number

    async def mixed(self, works: Mapping[str, Work]) -> None:
        """Each work once a round, in alternating order: what comes first in one round comes last in the next."""
        for number in self.each_round():
            for name in [*works][:: -1 if number % 2 else 1]:
                figures = await works[name]()
                if isinstance(figures, Mapping):
                    for end, value in figures.items():
                        self.note(f"{name}_{end}", value)
                else:
                    self.note(name, figures)

    def best_of(self, name: str, candidates: Sequence[str]) -> str:
        """Give the highest of these figures, by its median over all rounds, its own name; return which one it was."""
        if not candidates:
            return ""
        chosen = max(candidates, key=lambda each: statistics.median(self.series[each]))
        self.series[name] = list(self.series[chosen])
        return chosen

    def summary(self, ratios: Ratios) -> dict[str, Spread]:
        """Medians of all figures, then of the ratios within each round."""
        found = {name: Spread.of(values) for name, values in self.series.items()}
        for name, (over, under) in ratios.items():
            pairs = [*zip(self.series.get(over, ()), self.series.get(under, ()), strict=False)]
            if pairs and all(theirs for _, theirs in pairs):
                found[name] = Spread.of([ours / theirs for ours, theirs in pairs])
        return found


@dataclass(frozen=True)
class Spread:
    """The median of a figure over the rounds, the least and the most."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The summary of these values."""
        return cls(statistics.median(values), min(values), max(values))


def quantile(values: Sequence[float], hundredth: int) -> float:
    """The percentile: this many hundredths of all values are below it."""
    return sorted(values)[min(len(values) - 1, len(values) * hundredth // 100)]


def latencies(seconds: Sequence[float]) -> dict[str, float]:
    """The median and the 99th percentile of a series of seconds, in milliseconds."""
    return {"p50_ms": quantile(seconds, 50) * 1000, "p99_ms": quantile(seconds, 99) * 1000}


async def rate(callers: Sequence[Callable[[], Awaitable[object]]], seconds: float) -> float:
    """How often a second these are called, each again as soon as it has returned."""
    count = itertools.count()
    until = time.perf_counter() + seconds

    async def keep_calling(call: Callable[[], Awaitable[object]]) -> None:
        while time.perf_counter() < until:
            await call()
            next(count)

    began = time.perf_counter()
    await asyncio.gather(*map(keep_calling, callers))
    return next(count) / (time.perf_counter() - began)


async def costed(counting: Awaitable[float]) -> dict[str, float]:
    """A number a second, and the processor time of each in this process, which does not depend on other load."""
    began, worked = time.perf_counter(), time.process_time()
    per_second = await counting
    took, worked = time.perf_counter() - began, time.process_time() - worked
    return {"per_s": per_second, "cpu_us": 1e6 * worked / (per_second * took)}


def cpu_seconds(process: int) -> float:
    """The processor time that a process and its children that have ended have used; only on Linux."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, after_name[11:15])) / os.sysconf("SC_CLK_TCK")


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """How many seconds a call takes."""
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


def main(
    measure: Callable[[Run], Awaitable[None]],
    ratios: Ratios,
    *,
    rounds: int = 3,
    seconds: float = 4.0,
    quick_rounds: int = 3,
    quick_seconds: float = 2.0,
    **own: tuple[Any, Any],
) -> None:
    """Read the command line, measure, and print. `own` are the benchmark's own options: their full and quick values."""
    name = Path(sys.argv[0]).stem
    module = sys.modules["__main__"]
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="less than 50 seconds in all")
    parser.add_argument("--json", action="store_true", help="one line of JSON, last")
    parser.add_argument("--rounds", type=int, help=f"{rounds}, or {quick_rounds} with --quick")
    parser.add_argument("--seconds", type=float, help=f"of each work: {seconds}, or {quick_seconds}")
    for option, (full, quick) in own.items():
        parser.add_argument(f"--{option}", type=type(full), help=f"{full}, or {quick} with --quick")
    given = parser.parse_args()
    run = Run(
        name=name,
        quick=given.quick,
        rounds=given.rounds or (quick_rounds if given.quick else rounds),
        seconds=given.seconds or (quick_seconds if given.quick else seconds),
        options={
            option: getattr(given, option)
            if getattr(given, option) is not None
            else values[1 if given.quick else 0]
            for option, values in own.items()
        },
    )
    load = os.getloadavg()[0]
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_whole(measure, run))
    found = run.summary(ratios)
    _print(run, found)
    if not given.quick:
        _keep(run, found, load)
    if given.json:
        print(json.dumps(_line(run, found)))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop if it is installed, for the desk and the bare engine alike."""
    try:
        import uvloop  # noqa: PLC0415 -- an extra
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _whole(measure: Callable[[Run], Awaitable[None]], run: Run) -> None:
    await measure(run)


def _print(run: Run, found: Mapping[str, Spread]) -> None:
    print(f"{run.name}: medians of {run.rounds} rounds (least to most)")
    for name, spread in found.items():
        print(f"  {name:44} {spread.median:>12,.4g}   ({spread.low:,.4g} to {spread.high:,.4g})")
    for remark in run.remarks:
        print(f"  {remark}")


def _line(run: Run, found: Mapping[str, Spread]) -> dict[str, Any]:
    return {
        "benchmark": run.name,
        "rounds": run.rounds,
        **{name: _round(spread.median) for name, spread in found.items()},
        "spread": {name: [_round(spread.low), _round(spread.high)] for name, spread in found.items()},
        **({"remarks": run.remarks} if run.remarks else {}),
    }


def _keep(run: Run, found: Mapping[str, Spread], load: float) -> None:
    """Write the figures to the place that the page of results is made from."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    about = {
        "at": datetime.now(UTC).date().isoformat(),
        "seconds": run.seconds,
        "options": run.options,
        "cores": os.cpu_count(),
        "load": load,
        "python": platform.python_version(),
        "uvloop": loop_factory() is not None,
    }
    (RESULTS / f"{run.name}.json").write_text(json.dumps({**_line(run, found), **about}, indent=1) + "\n")


def _round(value: float) -> float:
    return float(f"{value:.4g}")
