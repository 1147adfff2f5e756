"""Small bugs, planted one by one in a copy of the product, each of which the tests named for it must catch.

A harness can pass while it tests nothing. `python -m chaos planted` shows that ours bites.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from chaos.planted.bugs import BUGS, Bug
from chaos.planted.planting import DoesNotFit, Field, Verdict, open_field

__all__ = ["BUGS", "SAMPLE", "Bug", "DoesNotFit", "Field", "Verdict", "main", "open_field", "sample", "today"]

SAMPLE = 8


def sample(rotation: int, number: int = SAMPLE) -> Sequence[Bug]:
    """Some of the bugs; with each rotation the next ones, until all have had their turn."""
    first = rotation * number % len(BUGS)
    return (BUGS + BUGS)[first : first + number]


def today() -> int:
    """The rotation of this day."""
    return datetime.now(UTC).date().toordinal()


def main(arguments: Sequence[str]) -> int:
    """Plant what the arguments name, say of each whether it was caught; 1 unless all were."""
    parser = argparse.ArgumentParser(prog="python -m chaos planted", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="the bugs to plant; all unless said")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--sample", action="store_true", help=f"{SAMPLE} of them, others every day")
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
    with open_field() as field:
        if given.unplanted:
            field.check_unplanted(bugs)
        began = time.monotonic()
        caught = sum(_is_caught(field, bug) for bug in bugs)
    print(f"{caught} of {len(bugs)} planted bugs were caught, in {time.monotonic() - began:.0f} s")
    return 0 if caught == len(bugs) else 1


def _is_caught(field: Field, bug: Bug) -> bool:
    """Plant one and say what came of it."""
    try:
        verdict = field.try_one(bug)
    except DoesNotFit as misfit:
        print(f"{bug.name:32} DOES NOT FIT: {misfit}", flush=True)
        return False
    said = f"caught by {verdict.by}" if verdict.caught else f"NOT CAUGHT\n{verdict.output}"
    print(f"{bug.name:32} {verdict.seconds:5.1f} s  {said}", flush=True)
    return verdict.caught
