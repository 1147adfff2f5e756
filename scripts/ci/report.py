"""The end of `.ci/run`: what each stage cost, which tests are flaky, and which are too slow for the gate.

python -m scripts.ci.report             print the table and write .cache/ci.json and .cache/flaky.json
python -m scripts.ci.report --check     also fail if a test of the gate takes more than 3 s by itself without saying why
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.ci.recorder import FOLDER, read

COSTS = Path(".cache/ci.json")
FLAKY = Path(".cache/flaky.json")
STAGES = FOLDER / "stages.txt"
AGAIN = "-again"
"""How the name of a stage ends in which failed tests were tried a second time."""

LIMIT = 3.0
"""Seconds that a test of the gate may take by itself without saying which promise only it proves."""
TRIES = 2
BUSY = 1.3
"""Wall-clock time of a busy loop divided by its processor time, from which on this machine is too busy to judge."""


def main(arguments: Sequence[str]) -> int:
    """Print the table, keep it, and say which tests need attention; 1 if one is too slow for the gate."""
    parser = argparse.ArgumentParser(prog="python -m scripts.ci.report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a test is too slow for the gate")
    given = parser.parse_args(arguments)
    stages = [(name, float(seconds)) for name, seconds in map(str.split, STAGES.read_text().splitlines())]
    costs = {name: read(name) for name, _ in stages}
    flaky = [test for name in costs for test in passed_on_second_try(costs[name], read(name + AGAIN))]
    print(table(stages, costs))
    keep(stages, costs, flaky)
    for test in flaky:
        print(f"passed only on its second try: {test}")
    if not given.check:
        return 0
    slow = too_slow({test: cost for each in costs.values() for test, cost in each.items()})
    for test, seconds in slow.items():
        print(f"takes {seconds:.1f} s by itself, more than {LIMIT:g}: {test}")
    if slow:
        print("Make it faster, mark it `slow` with a reason, or `only_proof_of` what only it proves.")
    return 1 if slow else 0


def passed_on_second_try(first: Mapping[str, Any], again: Mapping[str, Any]) -> Sequence[str]:
    """The tests that failed, and then did not."""
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


def too_slow(costs: Mapping[str, Any]) -> dict[str, float]:
    """Tests that took too long beside others and, tried by themselves, take too long again, with their best time.

    Nothing is judged on a machine that is busy with something else.
    """
    suspects = [
        test
        for test, cost in costs.items()
        if cost["call"] > LIMIT and not cost["only_proof"] and not cost["failed"]
    ]
    best = dict.fromkeys(suspects, float("inf"))
    for _ in range(TRIES):
        if not (left := [test for test, seconds in best.items() if seconds > LIMIT]):
            break
        if (busy := busyness()) > BUSY:
            print(f"this machine is busy ({busy:.1f}); {len(left)} tests over {LIMIT:g} s are not judged")
            return {}
        for test, seconds in alone(left).items():
            best[test] = min(best.get(test, float("inf")), seconds)
    return {test: seconds for test, seconds in best.items() if LIMIT < seconds < float("inf")}


def alone(tests: Sequence[str]) -> Mapping[str, float]:
    """Run tests one after the other, and say how long each took without its fixtures, which others share."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "scripts.ci.recorder", *tests]
    environment = {**os.environ, "CI_STAGE": "alone"}
    subprocess.run(command, check=False, capture_output=True, env=environment)  # noqa: S603 -- tests of ours
    return {test: cost["call"] for test, cost in read("alone").items() if not cost["failed"]}


def busyness() -> float:
    """How much longer a busy loop takes than the processor time it gets: 1.0 on a quiet machine."""
    began, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.5:  # noqa: PLR2004 -- long enough to meet others
        pass
    return (time.monotonic() - began) / (time.process_time() - used)


def _ran(costs: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(cost["ran"] for each in costs.values() for cost in each.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
