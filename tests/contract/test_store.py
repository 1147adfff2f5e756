from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handraise.backends.postgres import open_postgres
from handraise.backends.sqlite import open_sqlite
from handraise.backends.sqlite.memory import open_memory
from handraise.ports import Store
from handraise.testing import ManualClock
from handraise.testing.contract.store import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self, clock: ManualClock) -> AsyncIterator[Store]:
        async with open_memory(clock=clock) as backend:
            yield backend.store


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
        async with open_sqlite(tmp_path / "questions.db", clock=clock) as backend:
            yield backend.store


@pytest.mark.slow("the statements are those behind row security, which the gate runs")
class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, postgres: str, clock: ManualClock) -> AsyncIterator[Store]:
        async with open_postgres(postgres, clock=clock) as backend:
            yield backend.store
