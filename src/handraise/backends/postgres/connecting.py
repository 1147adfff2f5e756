"""Connections to PostgreSQL: one small pool, and driver errors turned into ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

from handraise.model.errors import StoreUnavailable

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"

APPLICATION = "handraise"

SETTINGS = {
    "application_name": APPLICATION,
    # A batched statement's plan does not depend on its arrays, but PostgreSQL would plan it anew each time:
    # 0.4 to 0.7 ms, as much as doing it.
    "plan_cache_mode": "force_generic_plan",
}

_TRANSIENT = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


async def open_pool(address: str, size: int) -> Pool:
    """A pool of up to `size` connections, opened one at a time as they are needed."""
    try:
        return await asyncpg.create_pool(
            address,
            min_size=0,
            max_size=size,
            command_timeout=60,
            reset=_leave_as_is,
            server_settings=SETTINGS,
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _unavailable(error) from error


async def open_listener(address: str) -> asyncpg.Connection[asyncpg.Record]:
    """The one connection that LISTENs."""
    settings = {**SETTINGS, "application_name": f"{APPLICATION} listener"}
    return await asyncpg.connect(address, server_settings=settings, command_timeout=15, timeout=15)


@asynccontextmanager
async def connection(pool: Pool) -> AsyncIterator[Connection]:
    """A connection of the pool; what the driver raises becomes `StoreUnavailable`."""
    try:
        async with pool.acquire(timeout=30) as acquired:
            yield acquired
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _unavailable(error) from error


def is_transient(error: BaseException | None) -> bool:
    """Whether PostgreSQL undid the statement for the sake of another one, so that it can be made again."""
    return isinstance(error, _TRANSIENT)


async def _leave_as_is(_: Any) -> None:
    """Nothing: no statement of ours leaves anything in a session, and asking costs a round trip."""


def _unavailable(error: Exception) -> StoreUnavailable:
    said = str(error) or type(error).__name__
    return StoreUnavailable(f"PostgreSQL cannot do this now: {said}")
