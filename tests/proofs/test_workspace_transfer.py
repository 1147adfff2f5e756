"""A workspace of 200,000 questions goes to PostgreSQL in a few minutes, its import killed at three points, and back.

Each store has the same counts, digests and head of the audit trail as the first one, which is verified with the key.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest

from support.command import environment, handraise
from support.many_questions import multiply_questions
from tests.conftest import own_database
from tests.proofs.test_answer_export import resident
from tests.release.older import main as leave_questions
from tests.tiers import sized

QUESTIONS = sized(gate=20_000, nightly=200_000)
SECONDS, MEGABYTES = 900.0, 400.0
WHY = "it fills the machine for minutes; tests/backends/test_workspace_transfer.py has what goes along, and kills"

pytestmark = [pytest.mark.proof, pytest.mark.slow(WHY), pytest.mark.timeout(3_600)]


class Run(NamedTuple):
    """How long a command took, and its memory."""

    seconds: float
    megabytes: float

    @classmethod
    def of(cls, address: str, *line: str) -> Run:
        """Run a command to its end."""
        began, most = time.monotonic(), 0.0
        running = started(address, *line)
        while running.poll() is None:
            most = max(most, resident(running.pid, "VmHWM"))
            time.sleep(0.05)
        assert running.returncode == 0, line
        return cls(time.monotonic() - began, most)

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s ({QUESTIONS / self.seconds:,.0f} questions a second, {self.megabytes:.0f} MB)"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A SQLite file with real questions of all kinds, repeated, all sealed and signed, and the key."""
    folder = tmp_path_factory.mktemp("transfer")
    file, key = folder / "questions.db", folder / "audit.key"
    asyncio.run(leave_questions(f"sqlite:///{file}"))
    multiply_questions(file, QUESTIONS)
    assert handraise("audit", "key", str(key)).returncode == 0
    settings = {"HANDRAISE_AUDIT_KEY": str(key)}
    sealed = handraise("audit", "export", str(folder / "trail.jsonl"), url=f"sqlite:///{file}", **settings)
    assert sealed.returncode == 0, sealed.stderr
    return f"sqlite:///{file}", key


def test_200_000_questions_go_there_though_the_import_is_killed_at_three_points_and_back(
    filled: tuple[str, Path], tmp_path: Path
) -> None:
    source, key = filled
    here, there, back = (tmp_path / f"{name}.jsonl" for name in ("here", "there", "back"))
    file = f"sqlite:///{tmp_path / 'back.db'}"
    with own_database(empty=True) as database:
        exported = Run.of(source, "export", "workspace", str(here))
        rows = end_of(here)["rows"]
        began = time.monotonic()
        for table, share in (("events", 0.3), ("events", 0.8), ("questions", 0.3)):
            asyncio.run(killed_when(here, database, table, share * rows[table]))
        imported = Run.of(database, "import", str(here))
        whole = time.monotonic() - began
        exported_there = Run.of(database, "export", "workspace", str(there))
        imported_back = Run.of(file, "import", str(there))
        exported_back = Run.of(file, "export", "workspace", str(back))
        trail = tmp_path / "trail.jsonl"
        assert handraise("audit", "export", str(trail), url=database).returncode == 0
    head = end_of(here)["audit_head"]
    verified = handraise("audit", "verify", str(trail), "--key", f"{key}.pub", "--head", head)
    print(
        f"\n{rows['questions']:,} questions, {sum(rows.values()):,} rows. SQLite: exported in {exported}, imported in {imported_back}. "
        f"PostgreSQL: exported in {exported_there}, imported in {whole:.1f} s, killed three times, the last run in {imported}",
        end="",
    )
    assert end_of(here) == end_of(there) == end_of(back)
    assert verified.returncode == 0, verified.stderr
    assert max(whole, imported_back.seconds) <= SECONDS
    assert max(each.megabytes for each in (exported, imported, imported_back, exported_back)) <= MEGABYTES


def end_of(file: Path) -> Mapping[str, Any]:
    """The last line of a file, which has the counts, the digests and the head."""
    with file.open("rb") as lines:
        lines.seek(-min(file.stat().st_size, 100_000), os.SEEK_END)
        end: Mapping[str, Any] = json.loads(lines.read().splitlines()[-1])
    return end


def started(address: str, *line: str) -> subprocess.Popen[bytes]:
    """A command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "handraise", *line], env=environment(address), stdout=subprocess.DEVNULL
    )


async def killed_when(file: Path, database: str, table: str, rows: float) -> None:
    """Start an import, and kill it when a table has so many rows."""
    running = started(database, "import", str(file))
    looking = await asyncpg.connect(database, server_settings={"application_name": "a look at an import"})
    try:
        async with asyncio.timeout(SECONDS):
            while await rows_of(looking, table) < rows:
                assert running.poll() is None
                await asyncio.sleep(0.02)
    finally:
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        await looking.close()


async def rows_of(looking: asyncpg.Connection[asyncpg.Record], table: str) -> int:
    """How many rows a table has by now."""
    if not await looking.fetchval("select to_regclass('handraise.imports') is not null"):
        return 0
    number: int = await looking.fetchval(f"select count(*) from handraise.{table}")  # noqa: S608 -- one of ours
    return number
