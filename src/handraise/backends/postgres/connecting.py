"""Connections to PostgreSQL: one small pool, one connection by itself, and driver errors turned into ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias

import asyncpg

from handraise.model.errors import StoreUnavailable

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"

APPLICATION = "handraise"

SETTINGS = {
    "application_name": APPLICATION,
    # A batched statement's plan does not depend on its arrays, but PostgreSQL would plan it anew each time:
    # 0.4 to 0.7 ms, as much as doing it.
    "plan_cache_mode": "force_generic_plan",
    # What a statement costs is only known to be little here; where the planner thinks otherwise, it would compile it for
    # seconds.
    "jit": "off",
    # Every statement of ours walks an index, in its order, for a few rows. The planner thinks otherwise of tables that
    # are new and have no statistics yet, and of one large workspace among many small ones, and would read all of it.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

DRIVER_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What a call to the driver may raise; a timeout is an OSError."""

_TRANSIENT = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


async def open_pool(address: str, size: int) -> Pool:
    """A pool of up to `size` connections, opened one at a time as they are needed."""
    return await _open_pool(address, size, server_settings=SETTINGS)


async def open_pool_behind_pooler(address: str, size: int) -> Pool:
    """The same, where a pooler such as PgBouncer may give each transaction another session.

    What is prepared or set in a session is then not there the next time, and most settings are refused.
    """
    settings = {"application_name": APPLICATION}
    return await _open_pool(address, size, server_settings=settings, statement_cache_size=0)


@asynccontextmanager
async def alone(address: str, purpose: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection outside the pool, which stays the same session. Raises what the driver raises."""
    settings = {**SETTINGS, "application_name": f"{APPLICATION} {purpose}"}
    opened = await asyncpg.connect(address, server_settings=settings, command_timeout=15, timeout=15)
    try:
        yield opened
    finally:
        with suppress(*DRIVER_ERRORS):
            await opened.close(timeout=2)
        opened.terminate()


@asynccontextmanager
async def connection(pool: Pool) -> AsyncIterator[Connection]:
    """A connection of the pool; what the driver raises becomes `StoreUnavailable`."""
    with driver_errors_translated():
        async with pool.acquire(timeout=30) as acquired:
            yield acquired


@asynccontextmanager
async def transaction(acquired: Connection, begin: str) -> AsyncIterator[None]:
    """A transaction that starts with the statements in `begin`, all of them in one round trip."""
    try:
        await acquired.execute(begin)
        yield
    except BaseException:
        with suppress(*DRIVER_ERRORS):
            await acquired.execute("rollback")
        raise
    await acquired.execute("commit")


@contextmanager
def driver_errors_translated() -> Iterator[None]:
    """What the driver raises becomes `StoreUnavailable`, with the driver's error as its cause."""
    try:
        yield
    except DRIVER_ERRORS as error:
        said = str(error) or type(error).__name__
        if "unsupported startup parameter" in said:
            said += " (behind a pooler, HANDRAISE_LISTEN_URL must be PostgreSQL's own address)"
        raise StoreUnavailable(f"PostgreSQL cannot do this now: {said}") from error


def is_transient(error: BaseException | None) -> bool:
    """Whether PostgreSQL undid the statement for the sake of another one, so that it can be made again."""
    return isinstance(error, _TRANSIENT)


async def _open_pool(address: str, size: int, **options: Any) -> Pool:
    with driver_errors_translated():
        return await asyncpg.create_pool(
            address, min_size=0, max_size=size, command_timeout=60, reset=_leave_as_is, **options
        )


async def _leave_as_is(_: Any) -> None:
    """Nothing: no statement of ours leaves anything in a session, and asking costs a round trip."""
