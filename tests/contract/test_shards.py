"""Every contract over three shards: whoever works with them notices nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from handraise.desk_factory import open_backend
from handraise.ports import Backend as Ports
from handraise.ports import Directory, Store
from handraise.testing import ManualClock
from handraise.testing.contract import AddressBackend, Backend, DeskContract
from handraise.testing.contract.directory import DirectoryContract
from handraise.testing.contract.ledger import LedgerContract
from handraise.testing.contract.outbox import OutboxContract
from handraise.testing.contract.policy_cases import NeedCases
from handraise.testing.contract.store import StoreContract
from tests.conftest import own_shards

pytestmark = pytest.mark.slow(
    "shards forward each verb to PostgreSQL; tests/backends/test_shards.py has their own promises"
)


class TestShards(DeskContract):
    @pytest.fixture
    def backend(self, shards: str) -> Backend:
        return AddressBackend(shards)


class TestShardedStore(StoreContract):
    @pytest.fixture
    async def store(self, shards: str, clock: ManualClock) -> AsyncIterator[Store]:
        async with open_backend(shards, clock=clock) as backend:
            yield backend.store


class TestConfinedShardedStore(StoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def shards(cls) -> Iterator[str]:
        with own_shards(3) as address:  # the suite counts what is pending in the whole store
            yield address

    @pytest.fixture
    async def store(self, shards: str, clock: ManualClock) -> AsyncIterator[Store]:
        async with open_backend(shards, clock=clock, confined=True) as backend:
            yield backend.store


class TestShardedDirectory(DirectoryContract):
    @pytest.fixture
    async def directory(self, shards: str, clock: ManualClock) -> AsyncIterator[Directory]:
        async with open_backend(shards, clock=clock, confined=True) as backend:
            yield backend.directory


class TestShardedOutbox(OutboxContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock, shards: str) -> AsyncIterator[Ports]:
        async with open_backend(shards, clock=clock, confined=True) as ports:
            yield ports


class TestShardedLedger(LedgerContract):
    @pytest.fixture
    async def ports(self, clock: ManualClock, shards: str) -> AsyncIterator[Ports]:
        async with open_backend(shards, clock=clock, confined=True) as ports:
            yield ports


class TestShardedNeeds(NeedCases):
    @pytest.fixture
    async def parts(self, clock: ManualClock, shards: str) -> AsyncIterator[Ports]:
        async with open_backend(shards, clock=clock, confined=True) as ports:
            yield ports
