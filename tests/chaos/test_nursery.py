"""Lives begin, end by themselves or by SIGKILL, and none outlives its nursery."""

from __future__ import annotations

import asyncio
import os

import pytest

from chaos.nursery import Death, open_nursery

pytestmark = pytest.mark.slow(
    "only the harness has a nursery; without it test_every_failpoint.py fails in the gate"
)


async def test_it_says_how_each_life_ended() -> None:
    async with open_nursery() as nursery:
        assert await nursery.run("well", "asyncio:sleep", 0) == Death(0, 0)
        assert await nursery.run("ill", "asyncio:sleep", "x") == Death(0, 1)
        killed = await nursery.begin("killed", "asyncio:sleep", 60)
        nursery.kill(killed)
        async with asyncio.timeout(30):
            assert (await killed.death).killed
        nursery.kill(killed)  # which is nobody any more
        with pytest.raises(TimeoutError):
            await nursery.run("slow", "asyncio:sleep", 60, within=0.05)


async def test_nobody_outlives_it() -> None:
    async with open_nursery() as nursery:
        lives = [await nursery.begin(f"life-{n}", "asyncio:sleep", 60) for n in range(3)]
        pids = [await life.pid for life in lives]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
