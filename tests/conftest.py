"""Fixtures for everybody: a database of our own on the real PostgreSQL."""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from handraise.backends.postgres.schema import migrate
from handraise.testing.contract import AddressBackend, Backend, MemoryBackend
from support.database import POSTGRES, create_database, drop_database
from tests.tiers import SEED, mark_what_leaves_the_gate

os.environ["LC_ALL"] = "C.UTF-8"
os.environ.pop("HANDRAISE_LANGUAGE", None)
"""The terminal speaks the language of its environment."""

NATS = os.environ.get("HANDRAISE_TEST_NATS", "nats://127.0.0.1:4222")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Where tests run side by side, a file stays with one worker, and all browsers with one: they are heavy."""
    from xdist.scheduler import (  # type: ignore[import-untyped]  # it has none  # noqa: PLC0415 -- only side by side
        LoadFileScheduling,
    )

    class Files(LoadFileScheduling):  # type: ignore[misc]  # same
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "browsers" if "/test_browser" in file else file

    return Files(config, log)


SERVICES = {"postgres", "nats"}
"""Fixtures, and names of backends, that something must be running for."""


def pytest_report_header() -> str:
    """Say how to draw the same cases again."""
    return f"HANDRAISE_SEED={SEED}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what leaves the gate, and what needs a service, so that `-m "not service"` needs none."""
    mark_what_leaves_the_gate(items)
    for item in items:
        chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if SERVICES & {
            *getattr(item, "fixturenames", ()),
            *(each for each in chosen if isinstance(each, str)),
        }:
            item.add_marker(pytest.mark.service)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a new database that is dropped at the end. A missing server is a failure."""
    with own_database() as address:
        yield address


@pytest.fixture
def nats() -> str:
    """The address of a bus on NATS, below a subject of its own. A missing server is a failure."""
    place = urlsplit(NATS)
    try:
        socket.create_connection((place.hostname, place.port or 4222), timeout=5).close()
    except OSError as error:
        pytest.fail(
            f"These tests need NATS at {NATS} ({error}). Start it, or set HANDRAISE_TEST_NATS.", pytrace=False
        )
    return f"{NATS}/handraise-test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def empty_address(address: str) -> Iterator[str]:
    """Like `address`, but no test has used the database before."""
    if address.startswith("postgresql:"):
        with own_database(empty=True) as own:
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
def own_database(*, empty: bool = False) -> Iterator[str]:
    """The address of a new database that is dropped at the end; only one that is `empty` has yet to be migrated."""
    try:
        address = asyncio.run(create_database(like=None if empty else _template()))
    except (OSError, asyncpg.PostgresError) as error:
        pytest.fail(
            f"These tests need PostgreSQL at {POSTGRES} ({error}). Start it, or set HANDRAISE_TEST_POSTGRES.",
            pytrace=False,
        )
    try:
        yield address
    finally:
        asyncio.run(drop_database(address))


@cache
def _template() -> str:
    """A database to copy, which is several times quicker than making all tables again; it goes with this process."""
    address = asyncio.run(create_database())
    atexit.register(lambda: asyncio.run(drop_database(address)))
    asyncio.run(migrated(address))
    return address


async def migrated(address: str) -> int:
    """How many migrations were missing. No store is opened: what is wrong with that fails a test, not what it needs."""
    connection = await asyncpg.connect(address)
    try:
        return await migrate(connection)
    finally:
        await connection.close()
