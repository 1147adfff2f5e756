"""A server on each store that a server is run on, its application, and clients that speak HTTP to it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise.desk_factory import open_backend
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.testing import ManualClock
from support.issuer import Issuer

ORIGIN = {"origin": "http://127.0.0.1:8765"}
"""What a browser says of a form on one of our own pages."""


def bearer(token: str) -> dict[str, str]:
    """The headers of whoever has this token."""
    return {"authorization": f"Bearer {token}"}


POSTGRES = pytest.param(
    "postgres",
    marks=pytest.mark.slow(
        "most rules of the server do not depend on the store; tests/contract has PostgreSQL in the gate, "
        "and so have the tests here that are marked with `on_every_store`"
    ),
)

on_every_store = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
"""For tests of what the store decides: who comes first, what is done once, what is heard. The gate has both too."""


@pytest.fixture(params=["sqlite", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of each store in turn; in the gate only SQLite, except where `on_every_store` says otherwise."""
    if request.param == "sqlite":
        file = tmp_path / "questions.db"
        shutil.copy(request.getfixturevalue("migrated_file"), file)
        return f"sqlite:///{file}"
    found: str = request.getfixturevalue("postgres")
    return found


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all tables and nothing in them. To copy it is several times quicker than to make them."""
    file = tmp_path_factory.mktemp("migrated") / "questions.db"

    async def migrate() -> None:
        async with open_backend(f"sqlite:///{file}"):
            pass

    asyncio.run(migrate())
    return file


@pytest.fixture
def settings() -> dict[str, Any]:
    """What a test sets otherwise; it replaces this by a parameter or a fixture of its own."""
    return {}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def ctx(store: str, settings: dict[str, Any], clock: ManualClock) -> AsyncIterator[ServerContext]:
    settings = {"check_recipients": False} | settings  # most tests name people whom nobody has added
    async with open_server(ServerSettings(url=store, **settings), clock=clock) as ctx:
        yield ctx


@pytest.fixture
def app(ctx: ServerContext) -> FastAPI:
    return create_app(ctx)


@pytest.fixture
def client_from(app: FastAPI, ctx: ServerContext) -> Callable[[str], httpx2.AsyncClient]:
    """Makes clients at any network address."""

    def make(host: str) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app=app, client=(host, 50_000), raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport, base_url=ctx.settings.base_url)

    return make


@pytest.fixture
async def client(client_from: Callable[[str], httpx2.AsyncClient]) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_from("192.0.2.1") as client:
        yield client


@pytest.fixture
def issuer(ctx: ServerContext) -> Issuer:
    return Issuer(ctx.directory)
