"""Many processes that write to one SQLite file, some of which do not know of each other."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from chaos.faults.harness import Survived, desks_on, judged
from chaos.faults.worker import loaded


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program locks the file for writing while inside."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
        connection.execute("begin immediate")
        try:
            yield
        finally:
            connection.execute("rollback")


async def many_writers(path: Path, seconds: float, *, number: int = 8, seed: int = 7) -> Survived:
    """This many processes at one file, and another program that locks it for a while."""
    began = time.monotonic()
    address = f"sqlite:///{path}"
    async with desks_on(address, 1):
        names = [f"writer-{place}" for place in range(number)]
        working = asyncio.create_task(loaded(address, names, seconds=seconds, callers=2, seed=seed))
        await asyncio.to_thread(_lock_now_and_then, path, seconds)
        entries = await working
    return await judged(address, entries, f"{number} processes", began=began, most=0)


def _lock_now_and_then(path: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with locked(path):
            time.sleep(0.2)
        time.sleep(0.3)
