"""A disk that is full for a while, below PostgreSQL and below SQLite."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from chaos.faults.harness import Survived, desks_on, judged, under_load
from chaos.faults.load import Load
from chaos.servers import Server, own_servers

SMALL = {"min_wal_size": "2MB", "max_wal_size": "6MB", "checkpoint_timeout": "30s", "shared_buffers": "16MB"}


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A file system of so many megabytes, for as long as this context lasts."""
    if os.geteuid() != 0:
        raise RuntimeError("A small disk is a tmpfs of our own, which only root may mount.")
    folder = Path(tempfile.mkdtemp(prefix="handraise-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield folder
    finally:
        for _ in range(50):
            if subprocess.run(["umount", str(folder)], check=False, capture_output=True).returncode == 0:  # noqa: S607
                break
            time.sleep(0.1)
        folder.rmdir()


@asynccontextmanager
async def full(disk: Path) -> AsyncIterator[None]:
    """Nothing more fits on a disk while inside."""
    ballast = disk / "ballast"
    await asyncio.to_thread(_fill, ballast)
    try:
        yield
    finally:
        ballast.unlink()


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


async def full_disk_below_sqlite(times: int, *, seed: int = 7) -> Survived:
    """Fill the disk of a SQLite file this often under load."""
    began = time.monotonic()
    with small_disk(64) as disk:
        address = f"sqlite:///{disk / 'questions.db'}"
        async with desks_on(address) as desks, under_load(desks, seed=seed, callers=4) as load:
            for _ in range(times):
                await load.busy()
                async with full(disk):
                    await load.refused()
        return await judged(address, load.entries, f"full {times} times", began=began, least=times)


async def full_disk_below_postgres(times: int, *, seed: int = 7) -> Survived:
    """Fill the disk of a PostgreSQL this often under load; if that ends the server, restart it afterwards."""
    began = time.monotonic()
    with (
        small_disk(160) as disk,
        own_servers(1, SMALL, disk=disk, initdb=["--wal-segsize=1"]) as (server,),
    ):
        async with desks_on(server.address) as desks, under_load(desks, seed=seed, callers=4) as load:
            for _ in range(times):
                await load.busy()
                async with full(disk):
                    await load.refused()
                await back(server, load)
        return await judged(server.address, load.entries, f"full {times} times", began=began, least=times)


async def back(server: Server, load: Load) -> None:
    """Wait until the load continues; if the server has ended, it is restarted."""
    done = load.done
    async with asyncio.timeout(60):
        while load.done == done:
            if not server.is_running:
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.sleep(0.05)
