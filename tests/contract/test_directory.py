from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handraise.backends.postgres import open_postgres
from handraise.backends.sqlite import open_sqlite
from handraise.backends.sqlite.memory import open_memory
from handraise.ports import Directory
from handraise.testing import ManualClock
from handraise.testing.contract.directory import DirectoryContract


class TestMemoryDirectory(DirectoryContract):
    @pytest.fixture
    async def directory(self, clock: ManualClock) -> AsyncIterator[Directory]:
        async with open_memory(clock=clock) as backend:
            yield backend.directory


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestSqliteDirectory(DirectoryContract):
    @pytest.fixture
    async def directory(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Directory]:
        async with open_sqlite(tmp_path / "questions.db", clock=clock) as backend:
            yield backend.directory


@pytest.mark.slow("the statements are those behind row security, which the gate runs")
class TestPostgresDirectory(DirectoryContract):
    @pytest.fixture
    async def directory(self, postgres: str, clock: ManualClock) -> AsyncIterator[Directory]:
        async with open_postgres(postgres, clock=clock) as backend:
            yield backend.directory
