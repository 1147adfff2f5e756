"""Faults of what Handraise depends on: databases, networks, disks, clocks, other processes.

python -m chaos faults                     each at its everyday size; some need root, and programs of the system
python -m chaos faults --full              each at its full size, which takes hours
python -m chaos faults postgres-killed     one of them

Each makes what it breaks: a database at HANDRAISE_TEST_POSTGRES, or its own server. Exit code 1: a promise was broken,
or too little happened for the run to count.
"""

from __future__ import annotations

import argparse
import asyncio
import logging

_SHOWN = 20


def main(arguments: list[str]) -> int:
    """Run some faults or all; return the exit code."""
    from chaos.faults.catalog import FAULTS, run_fault  # noqa: PLC0415 -- workers of the release before import this package
    from chaos.faults.harness import Survived  # noqa: PLC0415 -- the same

    parser = argparse.ArgumentParser(
        prog="python -m chaos faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help=f"one of: {', '.join(FAULTS)}")
    parser.add_argument("--full", action="store_true", help="at full size")
    given = parser.parse_args(arguments)
    if unknown := set(given.name) - set(FAULTS):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    logging.disable()  # a store that is gone is expected here
    good = True
    for name in given.name or FAULTS:
        try:
            survived = asyncio.run(run_fault(name, "full" if given.full else "everyday"))
        except RuntimeError as error:  # something is missing here
            survived = Survived("could not be run", [str(error)])
        print(f"{name}: {survived}", *survived.problems[:_SHOWN], sep="\n    ", flush=True)
        good &= not survived.problems
    return 0 if good else 1
