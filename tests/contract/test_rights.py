from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handraise.backends.postgres import open_postgres
from handraise.backends.sqlite import open_sqlite
from handraise.backends.sqlite.memory import open_memory
from handraise.ports import Backend
from handraise.testing import ManualClock
from handraise.testing.contract.permission_cases import PermissionCases
from handraise.testing.contract.policy_cases import NeedCases


class TestMemoryRights(PermissionCases):
    @pytest.fixture
    async def parts(self, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_memory(clock=clock) as backend:
            yield backend


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestSqliteRights(PermissionCases):
    @pytest.fixture
    async def parts(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_sqlite(tmp_path / "questions.db", clock=clock) as backend:
            yield backend


@pytest.mark.slow("the statements are those behind row security, which the gate runs")
class TestPostgresRights(PermissionCases):
    @pytest.fixture
    async def parts(self, postgres: str, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_postgres(postgres, clock=clock) as backend:
            yield backend


class TestMemoryNeeds(NeedCases):
    @pytest.fixture
    async def parts(self, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_memory(clock=clock) as backend:
            yield backend


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestSqliteNeeds(NeedCases):
    @pytest.fixture
    async def parts(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_sqlite(tmp_path / "questions.db", clock=clock) as backend:
            yield backend


@pytest.mark.slow("the statements are those behind row security, which the gate runs")
class TestPostgresNeeds(NeedCases):
    @pytest.fixture
    async def parts(self, postgres: str, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_postgres(postgres, clock=clock) as backend:
            yield backend
