"""Desks for tools: one in memory, and each backend where a store could make a difference."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from handraise import Desk
from handraise.testing import ManualClock
from handraise.testing.contract import MemoryBackend


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def desk(clock: ManualClock) -> AsyncIterator[Desk]:
    async with MemoryBackend().open(clock=clock, poll_interval=0.01) as desk:
        yield desk
