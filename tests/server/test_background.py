"""The tasks that a server runs in the background."""

from __future__ import annotations

import asyncio

import pytest

from handraise.model.errors import StoreUnavailable
from handraise.server.context import _run_periodically


async def test_a_task_that_fails_is_named_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    runs = 0

    async def fail() -> None:
        nonlocal runs
        runs += 1
        raise StoreUnavailable("no answer") if runs == 1 else RuntimeError("odd")

    task = asyncio.create_task(_run_periodically("seal", 0.001, fail))
    async with asyncio.timeout(10):
        while runs < 3:
            await asyncio.sleep(0.001)
    task.cancel()
    told = [(each.levelname, each.getMessage(), vars(each)["task"]) for each in caplog.records[:2]]
    assert told == [
        ("WARNING", "the background task 'seal' failed and will run again: no answer", "seal"),
        ("ERROR", "the background task 'seal' failed and will run again", "seal"),
    ]
