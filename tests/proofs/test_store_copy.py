"""A store of 200,000 questions is copied to PostgreSQL in a few minutes, killed at three points, and back.

Each copy is equal by count and digest, and its audit trail is verified with the key and the heads of the source.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import asyncpg
import pytest

from support.command import environment, handraise
from support.many_questions import multiply_questions
from tests.conftest import own_database
from tests.proofs.test_answer_export import resident
from tests.release.older import main as leave_questions
from tests.tiers import sized

QUESTIONS = sized(gate=2_000, nightly=200_000)
SECONDS, MEGABYTES = 900.0, 400.0
WHY = "it fills the machine for minutes; tests/backends/test_store_copy.py has what is copied, and kills"

pytestmark = [pytest.mark.proof, pytest.mark.slow(WHY), pytest.mark.timeout(3_600)]


class Store(NamedTuple):
    """A store with many questions and a signed audit trail, and the settings of its key."""

    address: str
    settings: Mapping[str, str]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A SQLite file with real questions of all kinds, repeated, all sealed and signed."""
    folder = tmp_path_factory.mktemp("copy")
    file, key = folder / "questions.db", folder / "audit.key"
    asyncio.run(leave_questions(f"sqlite:///{file}"))
    multiply_questions(file, QUESTIONS)
    assert handraise("audit", "key", str(key)).returncode == 0
    settings = {"HANDRAISE_AUDIT_KEY": str(key)}
    sealed = handraise("audit", "export", str(folder / "trail.jsonl"), url=f"sqlite:///{file}", **settings)
    assert sealed.returncode == 0, sealed.stderr
    return Store(f"sqlite:///{file}", settings)


def test_200_000_questions_are_copied_though_the_copy_is_killed_at_three_points_and_back(
    filled: Store, tmp_path: Path
) -> None:
    with own_database(empty=True) as database:
        began = time.monotonic()
        for table, share in (("events", 0.3), ("events", 0.8), ("questions", 0.5)):
            asyncio.run(killed_when(filled, database, table, share))
        there = Copied.run(filled, filled.address, database)
        whole = time.monotonic() - began
        back = Copied.run(filled, database, f"sqlite:///{tmp_path / 'back.db'}")
    print(
        f"\nto PostgreSQL, killed three times: {whole:.0f} s in all, the last run {there.seconds:.0f} s and {there.megabytes:.0f} MB "
        f"until the audit; back: {back.seconds:.0f} s, {back.megabytes:.0f} MB; {there.rows} rows",
        end="",
    )
    assert there.digest == back.digest
    assert there.head == back.head
    assert max(whole, back.seconds) <= SECONDS
    assert max(there.megabytes, back.megabytes) <= MEGABYTES


class Copied(NamedTuple):
    """What a copy printed, how long it took, and its memory until it was compared."""

    rows: str
    digest: str
    head: str
    seconds: float
    megabytes: float

    @classmethod
    def run(cls, store: Store, source: str, target: str) -> Copied:
        """Copy to the end."""
        began, most = time.monotonic(), 0.0
        running = started(store, source, target)
        assert running.stdout is not None
        os.set_blocking(running.stdout.fileno(), False)
        printed = b""
        while running.poll() is None:
            printed += running.stdout.read() or b""
            if b"Digest:" not in printed:
                most = max(most, resident(running.pid, "VmHWM"))
            time.sleep(0.05)
        with running.stdout:
            printed += running.stdout.read() or b""
        text = printed.decode()
        assert running.returncode == 0, text
        assert "DIFFERENT" not in text
        same = re.search(r"([\d,]+) rows are the same in both\. Digest: (\w+)", text)
        good = re.search(r"The audit trail of default is GOOD: .* signed by \w+\. Head: (\S+)", text)
        assert same is not None, text
        assert good is not None, text
        return cls(same[1], same[2], good[1], time.monotonic() - began, most)


def started(store: Store, source: str, target: str) -> subprocess.Popen[bytes]:
    """A copy in a process of its own."""
    command = [sys.executable, "-m", "handraise", "copy", source, target]
    return subprocess.Popen(
        command,
        env=environment(None, **store.settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


async def killed_when(store: Store, database: str, table: str, share: float) -> None:
    """Start a copy, and kill it when so much of a table is there."""
    whole = counted(store.address, table)
    running = started(store, store.address, database)
    looking = await asyncpg.connect(database, server_settings={"application_name": "a look at a copy"})
    try:
        async with asyncio.timeout(SECONDS):
            while await rows_of(looking, table) < share * whole:
                assert running.poll() is None, running.stdout and running.stdout.read()
                await asyncio.sleep(0.02)
    finally:
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        if running.stdout:
            running.stdout.close()
        await looking.close()


async def rows_of(looking: asyncpg.Connection[asyncpg.Record], table: str) -> int:
    """How many rows a table has by now."""
    if not await looking.fetchval("select to_regclass('handraise.store_copy') is not null"):
        return 0
    number: int = await looking.fetchval(f"select count(*) from handraise.{table}")  # noqa: S608 -- one of ours
    return number


def counted(address: str, table: str) -> int:
    """How many rows a table of a SQLite file has."""
    with closing(sqlite3.connect(f"file:{address.removeprefix('sqlite:///')}?mode=ro", uri=True)) as file:
        number: int = file.execute(f"select count(*) from {table}").fetchone()[0]  # noqa: S608 -- one of ours
        return number
