"""Connections to PostgreSQL: one small pool, one separate connection, and driver errors turned into ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from handraise.backends.postgres.pool import Pool
from handraise.model.errors import StoreUnavailable

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

APPLICATION = "handraise"

SETTINGS = {
    "application_name": APPLICATION,
    # A batched statement's plan does not depend on its arrays, but PostgreSQL would plan it again each time:
    # 0.4 to 0.7 ms, as much as running it.
    "plan_cache_mode": "force_generic_plan",
    # Every statement here is cheap. If the planner thinks otherwise, it would spend seconds compiling it.
    "jit": "off",
    # Every statement of ours reads a few rows of an index, in its order. The planner would choose otherwise, and read
    # all rows, for new tables without statistics and for one large workspace among many small ones.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

MAX_CACHEABLE_SIZE = 0
"""No limit: the driver would not keep a statement of more than 15 KB, and PostgreSQL would plan it each time: 10 ms."""

_NOT_ABOUT_A_ROW = ("HR", "53", "57", "25006")
"""A rule of ours, too few resources, an operator who intervenes, a server that only reads."""

DRIVER_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What a call to the driver may raise; a timeout is an OSError."""

_PRIMARY = SessionAttribute.read_write
"""A standby accepts no answers and shows records late. During a fail-over, an address may lead to a standby for a
while. Such a connection is closed at once. If an address has several hosts, the next one is tried."""

WITHIN = 15.0
"""How many seconds to wait for a statement, including the wait for a connection, before the connection counts as lost.
It is longer than `_ABANDONED`: a statement that waits for the locks of an abandoned transaction still gets them."""

LONG_WITHIN = 60.0
"""The same for a statement that may take long."""

_ALONE_WITHIN = 15.0

_ABANDONED = "10s"
"""How long a transaction may wait for its next statement. A process that was stopped or cut off in the middle of one
keeps rows locked. Other answers to the same questions would wait for it, and the server may notice only after hours."""

_REFUSED = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)
_LOST = (
    ConnectionError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)
_TRANSIENT = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    # The migration of a later release added a column: what was prepared on this connection is prepared anew.
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)


_TAKEN = frozenset(
    {
        "questions_pkey",
        "questions_by_shared_key",
        "questions_by_replaced",
        "events_by_key",
        "inbox_by_topic",
    }
)
"""The indexes in which another transaction may take the place of a new question meanwhile: when repeated, it is found."""


def open_pool(address: str, size: int) -> Pool:
    """A pool of up to `size` connections, opened one at a time as they are needed."""
    settings = {**SETTINGS, "idle_in_transaction_session_timeout": _ABANDONED}
    return _open_pool(address, size, server_settings=settings)


def open_pool_behind_pooler(address: str, size: int) -> Pool:
    """The same, for a pooler such as PgBouncer that may give each transaction another session.

    Prepared statements and settings of a session are then missing the next time, and most settings are refused.
    """
    settings = {"application_name": APPLICATION}
    pool = _open_pool(address, size, server_settings=settings, statement_cache_size=0)
    pool.each_transaction = f"; set local idle_in_transaction_session_timeout = '{_ABANDONED}'"
    return pool


@asynccontextmanager
async def alone(address: str, purpose: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection outside the pool, which stays the same session. Raises what the driver raises."""
    settings = {**SETTINGS, "application_name": f"{APPLICATION} {purpose}"}
    opened = await asyncpg.connect(
        address,
        server_settings=settings,
        command_timeout=_ALONE_WITHIN,
        timeout=15,
        target_session_attrs=_PRIMARY,
    )
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
        acquired = await pool.take()
        try:
            yield acquired
        except BaseException as error:
            (pool.give_back if leaves_connection_good(error) else pool.hang_up)(acquired)
            raise
        pool.give_back(acquired)


@asynccontextmanager
async def transaction(
    acquired: Connection, begin: str, *, within: float = LONG_WITHIN
) -> AsyncIterator[None]:
    """A transaction that starts with the statements in `begin`, in one round trip.

    If PostgreSQL refuses a statement, the transaction is rolled back. Any other error leaves the connection in the
    middle of something: another request on it would wait just as long again, so the caller must close the connection.
    """
    try:
        await acquired.execute(begin, timeout=within)
        yield
        await acquired.execute("commit", timeout=within)
    except asyncpg.PostgresError:
        with suppress(*DRIVER_ERRORS):
            await acquired.execute("rollback", timeout=within)
        raise


@contextmanager
def driver_errors_translated() -> Iterator[None]:
    """What the driver raises becomes `StoreUnavailable`, with the driver's error as its cause."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise unavailable(error) from error


def unavailable(error: Exception) -> StoreUnavailable:
    """Our error for one of the driver's."""
    said = str(error) or type(error).__name__
    if "unsupported startup parameter" in said:
        said += " (behind a pooler, HANDRAISE_LISTEN_URL must be PostgreSQL's own address)"
    elif isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        said = (
            "the address leads to a standby, which takes no answers and shows late what is recorded; use the address of its "
            "primary, or name all hosts in it"
        )
    elif is_lost(error):
        said = "the connection was cut, and it is not known whether this took effect; do it again"
    elif is_unsent(error):
        said = "the connection was cut before this was sent; do it again"
    ours = StoreUnavailable(f"PostgreSQL cannot do this now: {said}")
    ours.refused = isinstance(error, _REFUSED)
    return ours


def leaves_connection_good(error: BaseException) -> bool:
    """Whether others may use the connection on which this was raised.

    They may if PostgreSQL itself has refused something, but not because it accepts no writes: a primary that has become
    a standby, or was fenced off, would refuse the next ones too.
    """
    return isinstance(error, asyncpg.PostgresError) and not isinstance(
        error, asyncpg.ReadOnlySQLTransactionError
    )


def is_unsent(error: BaseException) -> bool:
    """Whether the driver knew that the connection was gone before it sent anything, so that it can be repeated."""
    return isinstance(error, (asyncpg.InternalClientError, asyncpg.InterfaceError)) and (
        "cannot switch to state" in str(error) or "connection is closed" in str(error)
    )


def is_transient(error: Exception) -> bool:
    """Whether PostgreSQL undid the statement in favour of another one or of a migration, so that it can be repeated."""
    if isinstance(error, asyncpg.UniqueViolationError):
        return error.constraint_name in _TAKEN
    return isinstance(error, _TRANSIENT)


def is_undone(error: BaseException | None) -> bool:
    """Whether PostgreSQL itself refused to do something, so that nothing of it took effect.

    False if the server cannot do anything at the moment: more transactions would not help it.
    """
    return (
        isinstance(error, asyncpg.PostgresError)
        and not is_lost(error)
        and not (error.sqlstate or "").startswith(_NOT_ABOUT_A_ROW)
    )


def is_lost(error: BaseException | None) -> bool:
    """Whether the connection was cut during a statement, so that nobody knows whether it took effect."""
    return isinstance(error, _LOST)


def _open_pool(address: str, size: int, **options: Any) -> Pool:
    options |= {
        "command_timeout": LONG_WITHIN,
        "target_session_attrs": _PRIMARY,
        "max_cacheable_statement_size": MAX_CACHEABLE_SIZE,
    }
    return Pool(lambda: asyncpg.connect(address, **options), size)
