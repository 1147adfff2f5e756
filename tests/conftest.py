"""Fixtures for everybody: a database of our own on the real PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from handraise.testing.contract import AddressBackend, Backend, MemoryBackend

POSTGRES = os.environ.get("HANDRAISE_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a new database that is dropped at the end. A missing server is a failure."""
    with own_database() as address:
        yield address


@pytest.fixture
def empty_address(address: str) -> Iterator[str]:
    """Like `address`, but no test has used the database before."""
    if address.startswith("postgresql:"):
        with own_database() as own:
            yield own
    else:
        yield address


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of each backend in turn; `indirect` parameters choose some of them."""
    match request.param:
        case "postgres":
            found: str = request.getfixturevalue("postgres")
            return found
        case "sqlite":
            return f"sqlite:///{tmp_path / 'questions.db'}"
        case _:
            return "memory:"


@pytest.fixture
def backend(address: str) -> Backend:
    """Any number of desks on one store, of each backend in turn."""
    return MemoryBackend() if address == "memory:" else AddressBackend(address)


@pytest.fixture
def workspace() -> str:
    """A workspace that no other test uses."""
    return f"test-{uuid.uuid4().hex}"


@contextmanager
def own_database() -> Iterator[str]:
    """The address of a new database that is dropped at the end."""
    name = f"handraise_test_{uuid.uuid4().hex[:12]}"
    asyncio.run(_execute(f'create database "{name}"'))
    try:
        yield urlunsplit(urlsplit(POSTGRES)._replace(path=f"/{name}"))
    finally:
        asyncio.run(_execute(f'drop database "{name}" with (force)'))


async def _execute(sql: str) -> None:
    try:
        connection = await asyncpg.connect(POSTGRES)
    except (OSError, asyncpg.PostgresError) as error:
        pytest.fail(
            f"These tests need PostgreSQL at {POSTGRES} ({error}). Start it, or set HANDRAISE_TEST_POSTGRES.",
            pytrace=False,
        )
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
