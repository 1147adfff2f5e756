"""Small bugs, planted one by one in a copy of the product, each of which the tests named for it must catch.

A harness can pass while it tests nothing. `python -m chaos planted` shows that ours finds bugs, and with `--tier gate`
which bugs the gate catches, and which only nightly does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from chaos.planted.bugs import BUGS, Bug
from chaos.planted.planter import DoesNotFit, Field, Tier, Verdict, open_field

__all__ = [
    "BUGS",
    "SAMPLE",
    "Bug",
    "DoesNotFit",
    "Field",
    "Tier",
    "Verdict",
    "is_good",
    "main",
    "open_field",
    "sample",
    "summary",
    "today",
]

SAMPLE = 8


def sample(rotation: int, number: int = SAMPLE) -> Sequence[Bug]:
    """Some of the bugs; with each rotation the next ones, until all have had their turn."""
    first = rotation * number % len(BUGS)
    return (BUGS + BUGS)[first : first + number]


def today() -> int:
    """The rotation of this day."""
    return datetime.now(UTC).date().toordinal()


def main(arguments: Sequence[str]) -> int:
    """Plant the bugs that the arguments name, and say of each whether it was caught; return 1 unless all were.

    At the gate, bugs that are marked for nightly, with a reason, may stay uncaught.
    """
    parser = argparse.ArgumentParser(prog="python -m chaos planted", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="the bugs to plant; all unless said")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--sample", action="store_true", help=f"{SAMPLE} of them, others every day")
    parser.add_argument(
        "--tier",
        choices=("gate", "nightly"),
        default="nightly",
        help="whose tests are run, and at which size",
    )
    parser.add_argument(
        "--unplanted", action="store_true", help="first see the same tests pass without a bug"
    )
    given = parser.parse_args(arguments)
    known = {bug.name: bug for bug in BUGS}
    if unknown := set(given.names) - known.keys():
        parser.error(f"there is no bug called {', '.join(sorted(unknown))}")
    bugs = [known[name] for name in given.names] or list(sample(today()) if given.sample else BUGS)
    if given.list:
        for bug in bugs:
            print(f"{bug.name:32} {bug.says}")
        return 0
    tier: Tier = given.tier
    with open_field(tier) as field:
        if given.unplanted:
            field.check_unplanted(bugs)
        began = time.monotonic()
        missed = [bug for bug in bugs if not _is_caught(field, bug)]
    for line in summary(bugs, missed, tier, time.monotonic() - began):
        print(line)
    return 0 if is_good(missed, tier) else 1


def summary(bugs: Sequence[Bug], missed: Sequence[Bug], tier: Tier, seconds: float) -> Sequence[str]:
    """How many were caught, and which were not."""
    by = " by the gate" if tier == "gate" else ""
    number = len(bugs) - len(missed)
    return [
        f"{number} of {len(bugs)} planted bugs were caught{by}, in {seconds:.0f} s",
        *(
            f"  only nightly: {bug.name}, {f'because {bug.only_nightly}' if bug.only_nightly else 'WITHOUT A REASON'}"
            for bug in missed
            if tier == "gate"
        ),
    ]


def is_good(missed: Sequence[Bug], tier: Tier) -> bool:
    """Whether those that were not caught are allowed in this tier."""
    return all(tier == "gate" and bug.only_nightly for bug in missed)


def _is_caught(field: Field, bug: Bug) -> bool:
    """Plant one and print the result."""
    try:
        verdict = field.try_one(bug)
    except DoesNotFit as misfit:
        print(f"{bug.name:32} DOES NOT FIT: {misfit}", flush=True)
        return False
    missed = "only nightly: its tests are slow" if verdict.left_out else f"NOT CAUGHT\n{verdict.output}"
    said = f"caught by {verdict.by}" if verdict.caught else missed
    print(f"{bug.name:32} {verdict.seconds:5.1f} s  {said}", flush=True)
    return verdict.caught
