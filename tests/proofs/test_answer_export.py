"""A million answers are exported in a minute and 200 MB: from PostgreSQL, half of them archived, and from a SQLite file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from handraise.desk_factory import open_backend
from support.command import environment, handraise, serving
from support.past_questions import fill_file_with_past_questions, fill_with_past_questions
from tests.conftest import own_database
from tests.tiers import sized

ANSWERS = sized(gate=2_000, nightly=1_000_000)
SECONDS, MEGABYTES = 60.0, 200.0
WHY = "it compares wall-clock times; tests/cli/test_export.py has what is exported"

pytestmark = [pytest.mark.proof, pytest.mark.slow(WHY), pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store with all these answers."""
    if request.param == "sqlite":
        file = tmp_path_factory.mktemp("export") / "questions.db"
        asyncio.run(make(f"sqlite:///{file}"))
        fill_file_with_past_questions(file, "default", ANSWERS)
        yield f"sqlite:///{file}"
        return
    with own_database() as address:
        asyncio.run(fill(address))
        yield address


async def make(address: str) -> None:
    async with open_backend(address):
        pass


async def fill(address: str) -> None:
    connection = await asyncpg.connect(address, command_timeout=900)
    try:
        await fill_with_past_questions(connection, "default", ANSWERS)
    finally:
        await connection.close()


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_million_answers_are_exported_in_a_minute(url: str, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"answers.{kind}"
    seconds, worked, megabytes = measured(url, "export", "answers", str(file))
    print(
        f"\n{ANSWERS:,} answers as {kind} in {seconds:.1f} s, {worked:.1f} s of processor, {megabytes:.0f} MB at most",
        end="",
    )
    if kind == "jsonl":
        with file.open() as lines:
            ids = {json.loads(line)["id"] for line in lines}
        assert len(ids) == ANSWERS
    assert (seconds <= SECONDS, megabytes <= MEGABYTES) == (True, True)


def test_at_a_server_they_take_no_more_memory(url: str, tmp_path: Path) -> None:
    made = handraise("keys", "create", "warehouse", "--read-only", "--json", url=url)
    key = json.loads(made.stdout)["key"]
    with serving(url, tmp_path) as server:
        before = resident(server.process.pid)
        file = tmp_path / "answers.jsonl"
        seconds, _, megabytes = measured(server.address, "export", "answers", str(file), key=key)
        grown = resident(server.process.pid, "VmHWM") - before
    print(
        f"\n{ANSWERS:,} answers over HTTP in {seconds:.1f} s, {megabytes:.0f} MB at most; the server grew by {grown:.0f} MB",
        end="",
    )
    with file.open() as lines:
        assert sum(1 for _ in lines) == ANSWERS
    assert (megabytes <= MEGABYTES, grown <= MEGABYTES) == (True, True)


def test_an_export_that_is_killed_leaves_no_file_that_looks_complete(url: str, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    command = [sys.executable, "-m", "handraise", "export", "answers", str(file)]
    running = subprocess.Popen(command, env=environment(url), stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not any(tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.001)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert not file.exists()
    assert [each.suffix for each in tmp_path.iterdir()] == [".part"]


def measured(url: str, *line: str, **settings: str) -> tuple[float, float, float]:
    """How many seconds a command took, how many of its own processor time, and how many megabytes at most.

    Not the memory in its resource usage: there, a process begins with that of the process that started it.
    """
    began, most = time.monotonic(), 0.0
    running = subprocess.Popen(
        [sys.executable, "-m", "handraise", *line],
        env=environment(url, **settings),
        stdout=subprocess.DEVNULL,
    )
    while not (done := os.wait4(running.pid, os.WNOHANG))[0]:
        most = max(most, resident(running.pid, "VmHWM"))
        time.sleep(0.01)
    _, status, used = done
    running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0
    return time.monotonic() - began, used.ru_utime + used.ru_stime, most


def resident(process: int, name: str = "VmRSS") -> float:
    """The megabytes of a process; none if it has just ended."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)
