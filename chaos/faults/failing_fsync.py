"""A disk whose fsync fails for a while, below PostgreSQL and below SQLite."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.faults.full_disk import back
from chaos.faults.harness import Survived, desks_on, judged, under_load
from chaos.faults.server_crash import SAFE
from chaos.faults.worker import merged, working
from chaos.servers import own_servers

_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int fails(void) { const char *flag = getenv("HANDRAISE_FSYNC_FAILS"); return flag && access(flag, F_OK) == 0; }
int fsync(int file) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(file);
}
int fdatasync(int file) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(file);
}
"""


@dataclass(frozen=True)
class Shim:
    """A library that makes fsync fail while a file exists."""

    library: Path
    flag: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that loads it."""
        return {"LD_PRELOAD": str(self.library), "HANDRAISE_FSYNC_FAILS": str(self.flag)}

    @contextmanager
    def failing(self) -> Iterator[None]:
        """No fsync succeeds while inside."""
        self.flag.touch()
        try:
            yield
        finally:
            self.flag.unlink()


@contextmanager
def shim() -> Iterator[Shim]:
    """Such a library, made for as long as this context lasts."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("An fsync that fails needs a C compiler. Run: apt-get install gcc libc6-dev")
    with tempfile.TemporaryDirectory(prefix="handraise-fsync-") as folder:
        Path(folder).chmod(0o755)
        source, library = Path(folder, "shim.c"), Path(folder, "shim.so")
        source.write_text(_SHIM)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        yield Shim(library, Path(folder, "fails"))


async def failing_below_postgres(times: int, *, seed: int = 7) -> Survived:
    """Make fsync fail this often under load: PostgreSQL stops at once, and is restarted."""
    began = time.monotonic()
    with shim() as failing:
        words = [f"{name}={value}" for name, value in failing.environment.items()]
        with own_servers(1, SAFE, under=["env", *words]) as (server,):
            async with desks_on(server.address) as desks, under_load(desks, seed=seed, callers=4) as load:
                for _ in range(times):
                    await load.busy()
                    with failing.failing():
                        await load.refused()
                    await back(server, load)
            return await judged(
                server.address, load.entries, f"failed {times} times", began=began, least=times
            )


async def failing_below_sqlite(path: Path, times: int, *, seed: int = 7) -> Survived:
    """Make fsync fail this often for the only process that uses a SQLite file."""
    began, address = time.monotonic(), f"sqlite:///{path}"
    with shim() as failing:
        async with working(address, "writer", environment=failing.environment) as worker:
            worker.tell("load", seconds=1.0 * times, callers=3, seed=seed)
            for _ in range(times):
                await asyncio.sleep(0.6)
                with failing.failing():
                    await asyncio.sleep(0.15)
            entries = merged([await worker.heard()])
    return await judged(address, entries, f"failed {times} times", began=began, least=times)
