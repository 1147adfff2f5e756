"""Lives begin, end by themselves or by SIGKILL, and none outlives its pool."""

from __future__ import annotations

import asyncio
import os

import pytest

from chaos.process_pool import ProcessExit, open_process_pool

pytestmark = pytest.mark.slow(
    "only the harness has a pool; without it test_every_failpoint.py fails in the gate"
)


async def test_it_says_how_each_life_ended() -> None:
    async with open_process_pool() as pool:
        assert await pool.run("well", "asyncio:sleep", 0) == ProcessExit(0, 0)
        assert await pool.run("ill", "asyncio:sleep", "x") == ProcessExit(0, 1)
        killed = await pool.begin("killed", "asyncio:sleep", 60)
        pool.kill(killed)
        async with asyncio.timeout(30):
            assert (await killed.death).killed
        pool.kill(killed)  # which is nobody any more
        with pytest.raises(TimeoutError):
            await pool.run("slow", "asyncio:sleep", 60, within=0.05)


async def test_nobody_outlives_it() -> None:
    async with open_process_pool() as pool:
        lives = [await pool.begin(f"life-{n}", "asyncio:sleep", 60) for n in range(3)]
        pids = [await life.pid for life in lives]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
