"""Askers, servers, sweepers and dispatchers killed at random under load, and the check of what is left.

python -m chaos kills                      500 on PostgreSQL and 500 on SQLite
python -m chaos kills --kills 5000 --backend postgres --keep FOLDER
python -m chaos kills --check FOLDER       a history that was kept

It prints the seed that it drew. Exit code 1: a promise was broken, or too little succeeded for the run to count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.history import read
from chaos.history_checker import ENOUGH, Stored, Verdict, check
from support.database import own_store

if TYPE_CHECKING:
    from chaos.kills.workloads import Workload

BACKENDS = ("postgres", "sqlite")
_SHOWN = 20


def main(arguments: list[str]) -> int:
    """Kill, or check a stored history; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m chaos kills", description=__doc__)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--kills", type=int, default=500, help="on each backend")
    parser.add_argument("--seed", type=int, help="draw what was drawn before")
    parser.add_argument("--keep", type=Path, help="a folder in which the history stays")
    parser.add_argument("--check", type=Path, help="a folder in which a history stayed")
    given = parser.parse_args(arguments)
    if given.check:
        return 0 if _checked(given.check) else 1
    good = True
    for backend in given.backend or BACKENDS:
        work = asyncio.run(run_kills(backend, given.kills, seed=given.seed, keep=given.keep))
        good &= said(backend, work)
    return 0 if good else 1


async def run_kills(
    backend: str, number: int, *, seed: int | None = None, keep: Path | None = None
) -> Workload:
    """Kill this often on one backend; `keep` is the folder in which the history stays."""
    from chaos.kills.workloads import workload  # noqa: PLC0415 -- roles are imported in every process that is killed

    drawn = secrets.randbelow(2**32) if seed is None else seed
    print(f"{backend}: {number} kills, seed {drawn}", flush=True)
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="handraise-chaos-")))
        folder = folder / backend
        folder.mkdir(parents=True, exist_ok=True)
        async with own_store(backend, folder) as address:
            began = time.monotonic()
            async with workload(address, folder=folder, seed=drawn) as work:
                await work.kill(number)
                print(f"  killed in {time.monotonic() - began:.0f} s; now to the end of it", flush=True)
    return work


def said(backend: str, work: Workload) -> bool:
    """Print the result of a workload; return whether it is good."""
    verdict = work.verdict
    assert verdict is not None
    killed = ", ".join(f"{number} {role}" for role, number in sorted(work.kills.items()))
    print(f"  {work.kills.total()} kills ({killed}); {len(work.stored)} questions")
    if work.failures:
        print(f"  ended by themselves: {dict(work.failures)}")
    if not work.drained:
        print("  did not come to its end in time")
    _tell(backend, verdict)
    return verdict.good and work.drained


def _checked(folder: Path) -> bool:
    kept = json.loads((folder / "stored.json").read_text())
    stored = [Stored(**{**each, "events": [tuple(one) for one in each["events"]]}) for each in kept]
    verdict = check(read(folder.glob("*.jsonl")), stored)
    _tell(str(folder), verdict)
    return verdict.good


def _tell(name: str, verdict: Verdict) -> None:
    for op, types in sorted(verdict.by_op.items()):
        print(f"    {op:9}" + "".join(f" {kind} {types[kind]:>7,}" for kind in ("ok", "fail", "unknown")))
    counts = "" if verdict.counts else f", which does not count: below {ENOUGH:.0%}"
    print(f"  {name}: {verdict.calls:,} calls, {verdict.share:.0%} succeeded{counts}")
    print(f"  {name}: {len(verdict.violations)} violations", flush=True)
    for each in verdict.violations[:_SHOWN]:
        print(f"    {each}")
