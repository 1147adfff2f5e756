"""A PostgreSQL database of a benchmark's own, dropped at the end."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg

POSTGRES = os.environ.get("HANDRAISE_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")


@asynccontextmanager
async def own_database() -> AsyncIterator[str]:
    """The address of a new, empty database."""
    name = f"handraise_bench_{uuid.uuid4().hex[:12]}"
    await _execute(f'create database "{name}"')
    try:
        yield urlunsplit(urlsplit(POSTGRES)._replace(path=f"/{name}"))
    finally:
        await _execute(f'drop database "{name}" with (force)')


async def _execute(sql: str) -> None:
    connection = await asyncpg.connect(POSTGRES)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
