"""The release before and this one side by side, while this one brings the schema up to date under load."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.database import fetch_value
from chaos.faults.running import Survived, judged
from chaos.faults.worker import merged, working
from handraise.backends.postgres.schema import MIGRATIONS

PREVIOUS = "8f2e6b1"
"""The last commit of the release before, whose schema is older."""


@contextmanager
def previous_release() -> Iterator[Path]:
    """The source of the release before: `HANDRAISE_PREVIOUS`, or out of git's history."""
    if given := os.environ.get("HANDRAISE_PREVIOUS"):
        yield Path(given)
        return
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory(prefix="handraise-previous-") as folder:
        archive = Path(folder, "previous.tar")
        made = subprocess.run(
            ["git", "-C", str(root), "archive", "-o", str(archive), PREVIOUS, "src"],  # noqa: S607 -- as in any shell
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(
                f"The release before is not in git's history here ({made.stderr.strip()}). Set HANDRAISE_PREVIOUS to the "
                f"folder `src` of {PREVIOUS}, or fetch the whole history."
            )
        subprocess.run(["tar", "xf", str(archive), "-C", folder], check=True)  # noqa: S607 -- as in any shell
        yield Path(folder, "src")


async def migrated(address: str) -> int:
    """The number of the newest migration in a database."""
    number: int = await fetch_value(address, "select max(number) from handraise.migrations")
    return number


async def side_by_side(address: str, seconds: float, *, seed: int = 7) -> Survived:
    """Two old processes under load; then two new ones migrate and join."""
    began = time.monotonic()
    with previous_release() as source:
        async with (
            working(address, "old-1", source=source) as old,
            working(address, "old-2", source=source) as other,
        ):
            before = await migrated(address)
            for worker in (old, other):
                worker.tell("load", seconds=seconds, callers=3, seed=seed)
            await asyncio.sleep(seconds / 4)
            async with working(address, "new-1") as new, working(address, "new-2") as newer:
                for worker in (new, newer):
                    worker.tell("load", seconds=seconds / 2, callers=3, seed=seed)
                said = [await worker.heard() for worker in (old, other, new, newer)]
        after = await migrated(address)
    figures = f"schema {before} to {after}"
    short = [] if before < after == MIGRATIONS[-1].number else [f"it should end at {MIGRATIONS[-1].number}"]
    return await judged(address, merged(said), figures, began=began, also=short)
