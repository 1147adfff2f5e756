"""The previous release and a later one side by side, while the later one migrates the schema under load."""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.faults.harness import Survived, judged
from chaos.faults.worker import merged, working
from handraise import __version__
from handraise.backends.postgres.schema import MIGRATIONS
from support.database import fetch_value

SOURCE = Path(__file__).parents[2] / "src"
PREVIOUS = Path(__file__).with_name("previous.tar.xz")
"""The folder `src` of the previous release. There is none yet."""
LATER = {
    "postgres": "alter table handraise.questions add column later integer;\n",
    "sqlite": "alter table questions add column later integer;\n",
}
"""What a later release might change, for each engine."""


@contextmanager
def previous_release() -> Iterator[Path]:
    """The source of the previous release: `HANDRAISE_PREVIOUS`, or what is kept here. If there is none, of this one."""
    if given := os.environ.get("HANDRAISE_PREVIOUS"):
        yield Path(given)
    elif PREVIOUS.exists():
        with (
            tempfile.TemporaryDirectory(prefix="handraise-previous-") as folder,
            tarfile.open(PREVIOUS) as kept,
        ):
            kept.extractall(folder, filter="data")
            yield Path(folder, "src")
    else:
        yield SOURCE


@contextmanager
def later_release() -> Iterator[Path]:
    """The source of this release with one more migration, on whose schema this release still works."""
    name = f"{MIGRATIONS[-1].number + 1:04d}_later.sql"
    with tempfile.TemporaryDirectory(prefix="handraise-later-") as folder:
        source = shutil.copytree(SOURCE, Path(folder, "src"), ignore=shutil.ignore_patterns("__pycache__"))
        migrations = source / "handraise" / "backends" / "postgres" / "migrations"
        (migrations / name).write_text(f"-- oldest release: {__version__}\n{LATER['postgres']}")
        yield source


async def migrated(address: str) -> int:
    """The number of the newest migration in a database."""
    number: int = await fetch_value(address, "select max(number) from handraise.migrations")
    return number


async def side_by_side(address: str, seconds: float, *, seed: int = 7) -> Survived:
    """Two old processes under load; then two new ones migrate and join."""
    began = time.monotonic()
    newest = MIGRATIONS[-1].number + 1
    with previous_release() as source, later_release() as later:
        async with (
            working(address, "old-1", source=source) as old,
            working(address, "old-2", source=source) as other,
        ):
            before = await migrated(address)
            for worker in (old, other):
                worker.tell("load", seconds=seconds, callers=3, seed=seed)
            await asyncio.sleep(seconds / 4)
            async with (
                working(address, "new-1", source=later) as new,
                working(address, "new-2", source=later) as newer,
            ):
                for worker in (new, newer):
                    worker.tell("load", seconds=seconds / 2, callers=3, seed=seed)
                said = [await worker.heard() for worker in (old, other, new, newer)]
        after = await migrated(address)
    figures = f"schema {before} to {after}"
    short = [] if before < after == newest else [f"it should end at {newest}"]
    return await judged(address, merged(said), figures, began=began, also=short)
