"""Every step of every transaction struck, in each way, and the check of what is left.

python -m chaos failpoints                 all of them, on PostgreSQL and SQLite
python -m chaos failpoints --pairs --backend postgres    two, in two lives of the same verb
python -m chaos failpoints --list          which there are, and which statements have none and why
python -m chaos failpoints --write         write which there are into points.txt, from runs in which nothing is struck

Exit code 1: a promise was broken, a failpoint was never reached, or a step has none.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from chaos.failpoints.catalog import BACKENDS, OUTSIDE, OUTSIDE_FILES, load_points, write_points

_SHOWN = 20


def main(arguments: list[str]) -> int:
    """Strike, or list; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m chaos failpoints", description=__doc__)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--pairs", action="store_true", help="two, in two lives of the same verb")
    parser.add_argument("--only", default="", help="what the names of failpoints must begin with")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--write", action="store_true", help="write anew which there are")
    given = parser.parse_args(arguments)
    backends = given.backend or list(BACKENDS)
    if given.write:
        asyncio.run(_write(backends))
        return 0
    if given.list:
        _list(backends)
        return 0
    return 0 if asyncio.run(_strike(backends, pairs=given.pairs, only=given.only)) else 1


async def _strike(backends: list[str], *, pairs: bool, only: str) -> bool:
    from chaos.failpoints.runner import Struck, step_through  # noqa: PLC0415 -- scenes are imported in every process

    found = Struck()
    try:
        await step_through(backends, pairs=pairs, only=only, found=found)
    finally:  # also if somebody stops it
        for name, number in sorted(found.runs.items()):
            print(f"  {name:22} {number:>6,} runs")
        print(f"  {found.runs.total():,} runs in {found.seconds:.0f} s")
        for what, which in (
            ("never reached", found.missed),
            ("steps without a failpoint", sorted(found.unlisted)),
            ("violations", found.broken),
        ):
            print(f"  {what}: {len(which)}", flush=True)
            for each in which[:_SHOWN]:
                print(f"    {each}")
    return found.good


async def _write(backends: list[str]) -> None:
    from chaos.failpoints.runner import steps_made  # noqa: PLC0415 -- as above

    with tempfile.TemporaryDirectory(prefix="handraise-chaos-") as folder:
        for backend in backends:
            write_points({backend: await steps_made(backend, Path(folder) / backend)})


def _list(backends: list[str]) -> None:
    from chaos.failpoints.injection import ACTIONS  # noqa: PLC0415 -- as above

    points = load_points()
    for backend in backends:
        for verb, steps in points[backend].items():
            for step in steps:
                print(f"{backend:9} {verb}.{step}")
    number = sum(len(steps) for verbs in points.values() for steps in verbs.values())
    print(f"{number} failpoints, each with {', '.join(ACTIONS)}")
    for why, names in OUTSIDE.items():
        print(f"none, because {why}: {', '.join(sorted(names))}")
    for file, why in OUTSIDE_FILES.items():
        print(f"none of {file} that no verb has, because {why}")
