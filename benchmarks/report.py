"""Makes docs/reference/benchmarks.md, with its table and plot, from the last full run of each benchmark.

    python -m benchmarks.report

Full runs leave their figures under .cache/benchmarks/; with `--quick` a benchmark leaves none.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.goals import GOALS, Goal
from benchmarks.harness import RESULTS

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PLOT = DOCS / "reference" / "benchmarks.md", DOCS / "images" / "benchmarks.svg"
ORDER = (
    *("pairs", "instructions", "workspaces", "asks", "wakeups", "waits", "inbox", "sweep", "http", "idle"),
    *("sqlite", "growth", "settled", "peers", "buses"),
)

ABOUT = """# Benchmarks

What the desk does beside the bare engine, in the same run. Made by `python -m benchmarks.report` from the last full run of
each benchmark; [Performance](../explanation/performance.md) says what is measured and how to run it yourself. The machine is
shared with others, so read the ratios, and their spread over the rounds.
"""


def main() -> None:
    """Read what the runs left, and write page and plot."""
    runs = {
        name: json.loads(path.read_text()) for name in ORDER if (path := RESULTS / f"{name}.json").exists()
    }
    if not runs:
        sys.exit(f"There are no results under {RESULTS}. Run a benchmark first: python -m benchmarks.pairs")
    PLOT.write_text(plot(runs), encoding="utf-8")
    PAGE.write_text("\n".join(page(runs)), encoding="utf-8")
    print(f"{PAGE.name} and {PLOT.name} from {len(runs)} of {len(ORDER)} benchmarks", file=sys.stderr)


def page(runs: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The lines of the page."""
    yield ABOUT
    yield "## Against the goals\n"
    yield "![How far each figure is from its goal](../images/benchmarks.svg)\n"
    yield "| figure | goal | measured | spread | |\n|---|---|---|---|---|"
    for goal in GOALS:
        found = figure(runs, goal)
        if found is None:
            yield f"| {goal.what} | {goal} | not run | | |"
        else:
            value, (low, high) = found
            mark = "reached" if goal.reached(value) else "not reached"
            if is_too_small(runs, goal):
                mark = f"shows nothing yet: run with {options_of(runs, goal)}"
            yield f"| {goal.what} | {goal} | {number(value)} | {number(low)} to {number(high)} | {mark} |"
    for name, run in runs.items():
        yield f"\n## {name}\n"
        yield f"`python -m benchmarks.{name}` on {run['at']}: {conditions(run)}.\n"
        yield "| figure | median | spread |\n|---|---|---|"
        for each, (low, high) in run["spread"].items():
            strong = "**" if each.startswith("ratio_") else ""
            yield f"| {strong}{each}{strong} | {number(run[each])} | {number(low)} to {number(high)} |"
        if run.get("remarks"):
            yield "\n" + "\n".join(f"- {remark}" for remark in run["remarks"])
    yield ""


def conditions(run: dict[str, Any]) -> str:
    """A short description of a run."""
    loop = "uvloop" if run["uvloop"] else "asyncio"
    options = [f"{name} {value}" for name, value in run["options"].items()]
    if "load" in run:
        options.append(f"load {run['load']:.1f} at its beginning")
    return ", ".join(
        [f"{run['rounds']} rounds", f"{run['cores']} cores", f"Python {run['python']} with {loop}", *options]
    )


def figure(runs: dict[str, dict[str, Any]], goal: Goal) -> tuple[float, Sequence[float]] | None:
    """What a run says about a goal, and its spread."""
    run = runs.get(goal.benchmark, {})
    return (run[goal.figure], run["spread"][goal.figure]) if goal.figure in run else None


def is_too_small(runs: dict[str, dict[str, Any]], goal: Goal) -> bool:
    """Whether the run was smaller than the goal is meant for."""
    return goal.size is not None and runs[goal.benchmark]["options"].get(goal.size[0], 0) < goal.size[1]


def options_of(runs: dict[str, dict[str, Any]], goal: Goal) -> str:
    """The size of a run, if the goal is meant for one size."""
    return "" if goal.size is None else f"{goal.size[0]} {runs[goal.benchmark]['options'][goal.size[0]]:,}"


def number(value: float) -> str:
    """A figure as people read it."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


WIDTH, ROW, LEFT, RIGHT = 760, 26, 250, 125


def plot(runs: dict[str, dict[str, Any]]) -> str:
    """A bar for each goal: how many times better or worse than it, on a logarithmic scale around the goal."""
    shown = [
        (goal, found)
        for goal in GOALS
        if (found := figure(runs, goal)) is not None and not is_too_small(runs, goal)
    ]
    reach = max(
        [
            2.0,
            *(
                better(goal, each) ** sign
                for goal, (_, spread) in shown
                for each in spread
                for sign in (1, -1)
            ),
        ]
    )
    span = WIDTH - LEFT - RIGHT

    def across(factor: float) -> float:
        return LEFT + span * (0.5 + 0.5 * math.log(factor) / math.log(reach))

    height = ROW * (len(shown) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        '<g font-family="sans-serif" font-size="12"><title>Each figure beside its goal</title>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{across(1)}" y="16" text-anchor="middle" fill="#333333">goal</text>',
        f'<text x="{WIDTH - RIGHT}" y="16" text-anchor="end" fill="#333333">better ▸</text>',
        f'<text x="{LEFT}" y="16" fill="#333333">◂ worse</text>',
    ]
    for place, (goal, (value, (low, high))) in enumerate(shown):
        y = ROW * (place + 1) + 4
        at, one = across(better(goal, value)), across(1)
        ends = sorted(across(better(goal, each)) for each in (low, high))
        fill = "#2a7d4f" if goal.reached(value) else "#b5541c"
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end" fill="#222222">{escape(short(goal))}</text>',
            f'<rect x="{min(at, one):.1f}" y="{y + 3}" width="{abs(at - one):.1f}" height="{ROW - 10}" fill="{fill}"/>',
            f'<line x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y + 11}" y2="{y + 11}" stroke="#222222"/>',
            f'<text x="{WIDTH - RIGHT + 6}" y="{y + 14}" fill="#222222">{number(value)} ({escape(str(goal))})</text>',
        ]
    parts += [
        f'<line x1="{across(1):.1f}" x2="{across(1):.1f}" y1="{ROW}" y2="{height - ROW / 2}" stroke="#222222"/>',
        "</g></svg>",
    ]
    return "\n".join(parts) + "\n"


def better(goal: Goal, value: float) -> float:
    """How many times better than its goal a figure is; below 1 it is worse."""
    value = max(value, 1e-9)
    return value / goal.bound if goal.at_least else goal.bound / value


def short(goal: Goal) -> str:
    """The text beside a bar."""
    return f"{goal.benchmark}: {goal.figure.removeprefix('ratio_').replace('_', ' ')}"


if __name__ == "__main__":
    main()
