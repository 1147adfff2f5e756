"""The contract of a bus, on every one that there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handraise.backends.sqlite.memory import MemoryBus
from handraise.desk_factory import open_backend, open_bus
from handraise.testing.contract import BusContract, Buses


class TestMemory(BusContract):
    @pytest.fixture
    def buses(self) -> Buses:
        bus = MemoryBus()
        return Buses(bus, bus)


class TestSqlite(BusContract):
    @pytest.fixture
    async def buses(self, tmp_path: Path) -> AsyncIterator[Buses]:
        address = f"sqlite:///{tmp_path / 'questions.db'}"
        async with open_backend(address) as one, open_backend(address) as other:
            yield Buses(one.bus, other.bus)


class TestPostgres(BusContract):
    @pytest.fixture
    async def buses(self, postgres: str) -> AsyncIterator[Buses]:
        async with open_backend(postgres) as one, open_backend(postgres) as other:
            yield Buses(one.bus, other.bus)


class TestNats(BusContract):
    @pytest.fixture
    async def buses(self, nats: str) -> AsyncIterator[Buses]:
        async with open_bus(nats) as one, open_bus(nats) as other:
            yield Buses(one, other)
