"""The release before and this one side by side, while this one brings the schema up to date under load."""

from __future__ import annotations

import asyncio
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.database import fetch_value
from chaos.faults.running import Survived, judged
from chaos.faults.worker import merged, working
from handraise.backends.postgres.schema import MIGRATIONS

PREVIOUS = Path(__file__).with_name("previous.tar.xz")
"""The folder `src` of the release before, whose schema is older. It is not on any index yet, and a clone may have no history."""


@contextmanager
def previous_release() -> Iterator[Path]:
    """The source of the release before: `HANDRAISE_PREVIOUS`, or what is kept here."""
    if given := os.environ.get("HANDRAISE_PREVIOUS"):
        yield Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="handraise-previous-") as folder, tarfile.open(PREVIOUS) as kept:
        kept.extractall(folder, filter="data")
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
