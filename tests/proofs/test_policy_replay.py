"""A policy is replayed over 200,000 past questions on PostgreSQL, in bounded time and memory."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from support.command import environment
from support.past_questions import fill_with_past_questions
from tests.tiers import sized

QUESTIONS = sized(gate=2_000, nightly=200_000)
SECONDS, MEGABYTES = 60.0, 300.0
POLICY = {
    "rules": [
        {
            "name": "small",
            "when": "tool == 'refund' && args.amount <= 40",
            "then": {"allow": {"check": 0.05}},
        },
        {
            "name": "large",
            "when": "args.amount > 500",
            "then": {"require": {"people": ["group:finance"], "quorum": 2}},
        },
        {"name": "night", "when": "hour < 6", "then": {"deny": "not at night"}, "mode": "observe"},
        {"name": "huge", "when": "args.amount > 990", "then": {"deny": "too much"}},
    ]
}


@pytest.mark.proof
@pytest.mark.slow("it compares wall-clock times; tests/policies has what a replay counts")
@pytest.mark.timeout(600)
def test_a_long_history_is_replayed_in_a_minute(postgres: str, workspace: str, tmp_path: Path) -> None:
    async def fill() -> None:
        connection = await asyncpg.connect(postgres)
        try:
            await fill_with_past_questions(connection, workspace, QUESTIONS)
        finally:
            await connection.close()

    asyncio.run(fill())
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(POLICY))
    command = [sys.executable, "-m", "handraise", "policy", "test", str(file), "--since", "31d", "--json"]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "-w", workspace], capture_output=True, text=True, env=environment(postgres), check=False
    )
    seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    megabytes = used.ru_maxrss / 1024
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    print(
        f"{report['questions']:,} questions in {seconds:.1f} s, {used.ru_utime:.1f} s of processor, {megabytes:.0f} MB"
    )
    assert report["questions"] == QUESTIONS
    assert report["denied_but_allowed"] == QUESTIONS // 200
    assert (seconds <= SECONDS, megabytes <= MEGABYTES) == (True, True)
