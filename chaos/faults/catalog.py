"""All faults, and how large each is: at the gate, every day, and in full."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaos.faults.clock_skew import expiries
from chaos.faults.cut_commits import cut_commits, cut_commits_behind_server, cut_everywhere
from chaos.faults.failing_fsync import failing_below_postgres, failing_below_sqlite
from chaos.faults.full_disk import full_disk_below_postgres, full_disk_below_sqlite
from chaos.faults.harness import Survived
from chaos.faults.lost_hints import terminations, woken_after_termination, woken_without_hints
from chaos.faults.many_writers import many_writers
from chaos.faults.network_partition import network_cut
from chaos.faults.paused_dispatcher import pauses
from chaos.faults.pooler_crash import pooler_killed
from chaos.faults.rolling_upgrade import side_by_side
from chaos.faults.server_crash import crashes, fail_overs, lagging_fail_overs, led_to_standby
from support.database import own_database

Size = Literal["gate", "everyday", "full"]


@dataclass(frozen=True)
class Place:
    """An empty database and an empty folder, removed at the end."""

    database: str
    folder: Path

    @property
    def file(self) -> Path:
        """Where SQLite has its file."""
        return self.folder / "questions.db"


@dataclass(frozen=True)
class Fault:
    """A size is how often a fault happens, or for how many seconds. The gate uses the smallest useful size."""

    gate: int
    everyday: int
    full: int
    run: Callable[[Place, int], Awaitable[Survived]]


FAULTS = {
    "postgres-killed": Fault(2, 30, 300, lambda _, times: crashes(times)),
    "primary-lost": Fault(1, 5, 30, lambda _, times: fail_overs(times)),
    "primary-lost-ahead": Fault(1, 2, 10, lambda _, times: lagging_fail_overs(times)),
    "led-to-standby": Fault(1, 5, 30, lambda _, times: led_to_standby(times)),
    "cut-at-commit": Fault(15, 150, 1_000, lambda at, times: cut_commits(at.database, times, confined=None)),
    "cut-at-commit-confined": Fault(
        15, 150, 1_000, lambda at, times: cut_commits(at.database, times, confined=True)
    ),
    "cut-behind-server": Fault(
        3, 30, 200, lambda at, times: cut_commits_behind_server(at.database, times, at.folder)
    ),
    "cut-anywhere": Fault(12, 60, 200, lambda at, most: cut_everywhere(at.database, most, confined=None)),
    "cut-anywhere-confined": Fault(
        12, 60, 200, lambda at, most: cut_everywhere(at.database, most, confined=True)
    ),
    "hints-dropped": Fault(3, 12, 12, lambda at, waits: woken_without_hints(at.database, waits)),
    "listener-terminated": Fault(2, 6, 6, lambda at, waits: woken_after_termination(at.database, waits)),
    "sessions-terminated": Fault(3, 6, 60, lambda at, seconds: terminations(at.database, seconds)),
    "dispatcher-stopped": Fault(2, 4, 30, lambda at, times: pauses(at.database, times)),
    "clocks-off": Fault(4, 12, 60, lambda at, questions: expiries(at.database, questions)),
    "disk-full-sqlite": Fault(1, 3, 20, lambda _, times: full_disk_below_sqlite(times)),
    "disk-full-postgres": Fault(1, 3, 20, lambda _, times: full_disk_below_postgres(times)),
    "fsync-fails-sqlite": Fault(2, 4, 20, lambda at, times: failing_below_sqlite(at.file, times)),
    "fsync-fails-postgres": Fault(1, 3, 20, lambda _, times: failing_below_postgres(times)),
    "many-writers": Fault(1, 6, 60, lambda at, seconds: many_writers(at.file, seconds)),
    "pooler-killed": Fault(2, 6, 40, lambda at, times: pooler_killed(at.database, times, confined=None)),
    "pooler-killed-confined": Fault(
        2, 6, 40, lambda at, times: pooler_killed(at.database, times, confined=True)
    ),
    "network-cut": Fault(1, 3, 10, lambda _, seconds: network_cut(seconds)),
    "release-before": Fault(3, 10, 40, lambda at, seconds: side_by_side(at.database, seconds)),
}


async def run_fault(name: str, size: Size = "everyday") -> Survived:
    """Run one of them."""
    fault = FAULTS[name]
    sizes: dict[Size, int] = {"gate": fault.gate, "everyday": fault.everyday, "full": fault.full}
    with tempfile.TemporaryDirectory(prefix="handraise-fault-") as folder:
        async with own_database() as database:
            return await fault.run(Place(database, Path(folder)), sizes[size])
