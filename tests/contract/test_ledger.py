"""The ledger contract on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handraise.desk_factory import open_backend
from handraise.ports import Backend
from handraise.testing import ManualClock
from handraise.testing.contract.ledger import LedgerContract


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_backend("memory:", clock=clock) as ports:
            yield ports


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestSqliteLedger(LedgerContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Backend]:
        async with open_backend(f"sqlite:///{tmp_path / 'questions.db'}", clock=clock) as ports:
            yield ports


@pytest.mark.slow("the statements are those behind row security, which the gate runs")
class TestPostgresLedger(LedgerContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock, postgres: str) -> AsyncIterator[Backend]:
        async with open_backend(postgres, clock=clock) as ports:
            yield ports


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestPostgresConfinedLedger(LedgerContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock, postgres: str) -> AsyncIterator[Backend]:
        async with open_backend(postgres, clock=clock, confined=True) as ports:
            yield ports
