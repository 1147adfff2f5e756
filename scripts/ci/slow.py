"""Name each test of the gate that takes more than 3 s by itself and does not say why: `python -m scripts.ci.slow STAGE`.

Run it in the environment in which the stage ran: the tests that took long beside others are run again, one after the
other. Machines are shared and differ by a factor of two and more, so only a test that takes four times as long as it
may fails the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from scripts.ci.costs import read

LIMIT = 3.0
"""Seconds that a test may take by itself, without its fixtures, which others share."""
FAILS_FROM = 4 * LIMIT
BESIDE = 2.0
"""A test takes about so many times as long beside those of two other workers. What took less there is not run again."""
TRIES = 2
BUSY = 1.3
"""Wall-clock time of a busy loop divided by its processor time, from which on this machine is too busy to judge."""
ALONE = "alone"


def main(arguments: Sequence[str]) -> int:
    """Name the tests that are too slow; 1 if one is far too slow."""
    (stage,) = arguments
    slow = too_slow(read(stage))
    for test, seconds in slow.items():
        print(f"takes {seconds:.1f} s by itself, more than {LIMIT:g}: {test}")
    if slow:
        print("Make it faster, mark it `slow` with a reason, or `only_proof_of` what only it proves.")
    return 1 if any(seconds > FAILS_FROM for seconds in slow.values()) else 0


def too_slow(costs: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Tests that took too long beside others and take too long again by themselves, with their best time.

    Nothing is judged on a machine that is busy with something else.
    """
    best = {
        test: cost["call"]
        for test, cost in costs.items()
        if cost["call"] > BESIDE * LIMIT and not cost["only_proof"] and not cost["failed"]
    }
    for _ in range(TRIES):
        suspects = [test for test, seconds in best.items() if seconds > LIMIT]
        if not suspects:
            break
        if (busy := busyness()) > BUSY:
            print(f"this machine is busy ({busy:.1f}): not judged: {', '.join(suspects)}")
            return {}
        for test, seconds in run_alone(suspects).items():
            best[test] = min(best[test], seconds)
    return {test: seconds for test, seconds in best.items() if seconds > LIMIT}


def run_alone(tests: Sequence[str]) -> Mapping[str, float]:
    """Run tests one after the other, and say how long each took."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "scripts.ci.recorder", *tests]
    environment = {**os.environ, "CI_STAGE": ALONE}
    subprocess.run(command, check=False, capture_output=True, env=environment)  # noqa: S603 -- tests of ours
    return {test: cost["call"] for test, cost in read(ALONE).items() if not cost["failed"]}


def busyness() -> float:
    """How much longer a busy loop takes than the processor time it gets: 1.0 on a quiet machine."""
    began, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.5:  # noqa: PLR2004 -- long enough to notice other load
        pass
    return (time.monotonic() - began) / (time.process_time() - used)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
