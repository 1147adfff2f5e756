"""The end of `.ci/run`: what each stage cost, and which tests are flaky: `python -m scripts.ci.report`.

It prints a table and writes it, with the cost of every test, to .cache/ci.json. Flaky tests are added to
.cache/flaky.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.ci.costs import FOLDER, read

COSTS = Path(".cache/ci.json")
FLAKY = Path(".cache/flaky.json")
STAGES = FOLDER / "stages.txt"
AGAIN = "-again"
"""The suffix of a stage in which failed tests ran a second time."""


def main() -> None:
    """Print the table, store it, and name the flaky tests."""
    stages = [(name, float(seconds)) for name, seconds in map(str.split, STAGES.read_text().splitlines())]
    costs = {name: read(name) for name, _ in stages}
    flaky = [test for name in costs for test in passed_on_second_try(costs[name], read(name + AGAIN))]
    print(table(stages, costs))
    keep(stages, costs, flaky)
    for test in flaky:
        print(f"passed only on its second try: {test}")


def passed_on_second_try(first: Mapping[str, Any], again: Mapping[str, Any]) -> Sequence[str]:
    """The tests that failed first and then passed."""
    return [
        test for test, cost in first.items() if cost["failed"] and test in again and not again[test]["failed"]
    ]


def table(stages: Sequence[tuple[str, float]], costs: Mapping[str, Mapping[str, Any]]) -> str:
    """Stage, seconds and tests, then the ten slowest tests."""
    lines = [f"{'stage':14} {'seconds':>8} {'tests':>7}"]
    for name, seconds in stages:
        ran = sum(cost["ran"] for cost in costs[name].values())
        lines.append(f"{name:14} {seconds:8.0f} {ran or '':>7}")
    lines.append(f"{'total':14} {sum(seconds for _, seconds in stages):8.0f} {_ran(costs):7}")
    lines.append("\nthe ten slowest tests, beside the others")
    lines += [f"{seconds:8.1f} s  {test}" for test, seconds in slowest(costs)]
    return "\n".join(lines)


def slowest(costs: Mapping[str, Mapping[str, Any]], number: int = 10) -> Sequence[tuple[str, float]]:
    """The tests that took longest."""
    every = [(test, cost["seconds"]) for each in costs.values() for test, cost in each.items()]
    return sorted(every, key=lambda pair: -pair[1])[:number]


def keep(
    stages: Sequence[tuple[str, float]], costs: Mapping[str, Mapping[str, Any]], flaky: Sequence[str]
) -> None:
    """Write the table as JSON, and add what was flaky to what was before."""
    when = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    COSTS.write_text(
        json.dumps(
            {
                "when": when,
                "seconds": sum(seconds for _, seconds in stages),
                "tests": _ran(costs),
                "stages": [
                    {"stage": name, "seconds": seconds, "tests": costs[name]} for name, seconds in stages
                ],
                "slowest": slowest(costs),
                "flaky": flaky,
            },
            indent=1,
        )
        + "\n"
    )
    before = json.loads(FLAKY.read_text()) if FLAKY.exists() else []
    FLAKY.write_text(
        json.dumps([*before, *({"when": when, "test": test} for test in flaky)], indent=1) + "\n"
    )


def _ran(costs: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(cost["ran"] for each in costs.values() for cost in each.values())


if __name__ == "__main__":
    main()
