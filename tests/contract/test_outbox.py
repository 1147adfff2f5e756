"""The outbox contract on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handraise.desk_factory import open_backend
from handraise.ports import Backend
from handraise.testing import ManualClock
from handraise.testing.contract.outbox import OutboxContract


class TestMemoryOutbox(OutboxContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_backend("memory:", clock=clock) as ports:
            yield ports


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestSqliteOutbox(OutboxContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Backend]:
        async with open_backend(f"sqlite:///{tmp_path / 'questions.db'}", clock=clock) as ports:
            yield ports


@pytest.mark.slow("the statements are those behind row security, which the gate runs")
class TestPostgresOutbox(OutboxContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock, postgres: str) -> AsyncIterator[Backend]:
        async with open_backend(postgres, clock=clock) as ports:
            yield ports


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestPostgresConfinedOutbox(OutboxContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock, postgres: str) -> AsyncIterator[Backend]:
        async with open_backend(postgres, clock=clock, confined=True) as ports:
            yield ports
