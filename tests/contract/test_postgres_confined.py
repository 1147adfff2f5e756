"""The same promises where PostgreSQL itself keeps workspaces apart: on a login that owns nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from handraise.backends.postgres import open_postgres
from handraise.ports import Directory, Store
from handraise.testing import ManualClock
from handraise.testing.contract import AddressBackend, Backend, DeskContract
from handraise.testing.contract.directory import DirectoryContract
from handraise.testing.contract.store import StoreContract


@pytest.fixture(scope="module")
def confined(postgres: str) -> Iterator[str]:
    """The address of a new database for a login that may do what the application may and owns nothing."""
    name = f"handraise_test_{uuid.uuid4().hex[:12]}"
    parts = urlsplit(postgres)._replace(path=f"/{name}")
    asyncio.run(execute(postgres, f"create database {name}"))
    try:
        asyncio.run(migrate(urlunsplit(parts)))
        asyncio.run(execute(postgres, f"create role {name} login in role handraise_app"))
        yield urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
    finally:
        asyncio.run(execute(postgres, f"drop database {name} with (force)"))
        asyncio.run(execute(postgres, f"drop role if exists {name}"))


async def migrate(address: str) -> None:
    async with open_postgres(address):
        pass


async def execute(address: str, sql: str) -> None:
    connection = await asyncpg.connect(address)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


class TestPostgresConfined(DeskContract):
    @pytest.fixture
    def backend(self, confined: str) -> Backend:
        return AddressBackend(confined)


class TestPostgresConfinedStore(StoreContract):
    @pytest.fixture
    async def store(self, confined: str, clock: ManualClock) -> AsyncIterator[Store]:
        async with open_postgres(confined, clock=clock, confined=True) as backend:
            yield backend.store


class TestPostgresConfinedDirectory(DirectoryContract):
    @pytest.fixture
    async def directory(self, confined: str, clock: ManualClock) -> AsyncIterator[Directory]:
        async with open_postgres(confined, clock=clock, confined=True) as backend:
            yield backend.directory
