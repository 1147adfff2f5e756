"""Fill a store with a month of past questions, and replay a policy over it with the command."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import handraise
from handraise import Approval
from handraise.testing import ManualClock

START = (datetime.now(UTC) - timedelta(days=28)).replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True)
class Past:
    """What was asked so long after the start, and how a person decided it a quarter of an hour later."""

    after: timedelta
    agent: str
    prompt: str
    action: Approval
    decision: str
    by: str


async def fill(url: str, history: Sequence[Past]) -> None:
    """Ask and answer everything, by a clock that is moved to each moment."""
    clock = ManualClock(START)
    async with handraise.open_desk(url, clock=clock) as desk:
        for each in sorted(history, key=lambda past: past.after):
            clock.advance(max(START + each.after - clock.now(), timedelta()))
            question = await desk.scoped(asker=each.agent).post(each.prompt, form=each.action)
            clock.advance(timedelta(minutes=15))
            await desk.answer(question.id, each.decision, by=each.by)


def replay(policy: str, history: Sequence[Past]) -> None:
    """Print what `handraise policy test` says about a policy beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/past.db"
        asyncio.run(fill(url, history))
        file = Path(__file__).with_name(policy)
        command = [sys.executable, "-m", "handraise", "policy", "test", str(file), "--since", "30d"]
        done = subprocess.run(command, env={**os.environ, "HANDRAISE_URL": url}, check=False)
    print(f"\nThe exit code is {done.returncode}.")
