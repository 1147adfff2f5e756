"""A store for one run, removed at the end."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from handraise.desk_factory import open_backend

POSTGRES = os.environ.get("HANDRAISE_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")


@asynccontextmanager
async def own_store(backend: str, folder: Path) -> AsyncIterator[str]:
    """The address of a new, empty store: a file, or a database on the server that is there."""
    if backend == "sqlite":
        yield f"sqlite:///{folder / f'{uuid.uuid4().hex}.db'}"
        return
    async with own_database() as address:
        async with open_backend(address):
            pass  # the tables exist before anybody needs them quickly
        yield address


@asynccontextmanager
async def own_database(server: str = POSTGRES) -> AsyncIterator[str]:
    """The address of a new database without tables, dropped at the end."""
    address = await create_database(server)
    try:
        yield address
    finally:
        await drop_database(address, server)


async def create_database(server: str = POSTGRES, like: str | None = None) -> str:
    """The address of a new database: without tables, or a copy of this one, which nobody uses."""
    name = f"handraise_test_{uuid.uuid4().hex[:12]}"
    template = "" if like is None else f' template "{urlsplit(like).path[1:]}"'
    await fetch_value(server, f'create database "{name}"{template}')
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


async def drop_database(address: str, server: str = POSTGRES) -> None:
    """Drop a database, and end every connection to it."""
    await fetch_value(server, f'drop database "{urlsplit(address).path[1:]}" with (force)')


async def fetch_value(address: str, sql: str, *arguments: Any) -> Any:
    """Execute a statement over its own connection; return its first value."""
    connection = await asyncpg.connect(address)
    try:
        return await connection.fetchval(sql, *arguments)
    finally:
        await connection.close()
