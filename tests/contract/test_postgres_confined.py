"""The same promises where PostgreSQL itself keeps workspaces apart: on a login that owns nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest

from handraise.backends.postgres import open_postgres
from handraise.ports import Backend as Parts
from handraise.ports import Directory, Store
from handraise.testing import ManualClock
from handraise.testing.contract import AddressBackend, Backend, DeskContract
from handraise.testing.contract.directory import DirectoryContract
from handraise.testing.contract.permission_cases import PermissionCases
from handraise.testing.contract.policy_cases import NeedCases
from handraise.testing.contract.store import StoreContract
from support.database import fetch_value
from tests.conftest import own_database


@pytest.fixture(scope="module")
def confined(postgres: str) -> Iterator[str]:
    """The address of a new database for a login that may do what the application may and owns nothing."""
    with own_database() as address:
        parts = urlsplit(address)
        name = parts.path[1:]
        asyncio.run(
            fetch_value(postgres, f"create role {name} login in role handraise_app, handraise_keeper")
        )
        yield urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
    asyncio.run(fetch_value(postgres, f"drop role {name}"))


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestPostgresConfined(DeskContract):
    @pytest.fixture
    def backend(self, confined: str) -> Backend:
        return AddressBackend(confined)


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestPostgresConfinedStore(StoreContract):
    @pytest.fixture
    async def store(self, confined: str, clock: ManualClock) -> AsyncIterator[Store]:
        async with open_postgres(confined, clock=clock, confined=True) as backend:
            yield backend.store


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestPostgresConfinedDirectory(DirectoryContract):
    @pytest.fixture
    async def directory(self, confined: str, clock: ManualClock) -> AsyncIterator[Directory]:
        async with open_postgres(confined, clock=clock, confined=True) as backend:
            yield backend.directory


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestPostgresConfinedRights(PermissionCases):
    @pytest.fixture
    async def parts(self, confined: str, clock: ManualClock) -> AsyncIterator[Parts]:
        async with open_postgres(confined, clock=clock, confined=True) as backend:
            yield backend


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestPostgresConfinedNeeds(NeedCases):
    @pytest.fixture
    async def parts(self, confined: str, clock: ManualClock) -> AsyncIterator[Parts]:
        async with open_postgres(confined, clock=clock, confined=True) as backend:
            yield backend
