"""One shard of several: opened when it is first needed, and not asked for a while if it does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import NamedTuple, TypeVar

import asyncpg

from handraise.backends.postgres.backend import open_database
from handraise.backends.postgres.bus import PostgresBus
from handraise.backends.postgres.database import Database
from handraise.backends.postgres.store import PostgresStore
from handraise.backends.sql_files import load_statements
from handraise.model.errors import DeskClosed, StoreUnavailable, UnsafeStore
from handraise.ports import Clock, PoolStats
from handraise.ports.store import StatementSpan

STATEMENTS = load_statements("handraise.backends.shards", "placing.sql")

AWAY = "HR001"
"""The workspace lives on another shard."""
FENCED = "HR002"
"""The workspace is about to move; what was refused can be repeated in a moment, on this shard or the new one."""

T = TypeVar("T")

_LEFT_ALONE = 1.0
_PATIENCE = 5.0
_DEAD = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)


class Opened(NamedTuple):
    """The database of a shard, its questions and its hints; and the database without a check of where workspaces live."""

    database: Database
    unchecked: Database
    store: PostgresStore
    bus: PostgresBus


class Shard:
    """A database in which some workspaces live."""

    def __init__(
        self,
        number: int,
        address: str,
        *,
        clock: Clock | None,
        connections: int,
        confined: bool | None,
        statement_span: StatementSpan | None = None,
    ) -> None:
        self.number = number
        self.address = address
        self._clock = clock
        self._connections = connections
        self._confined = confined
        self._statement_span = statement_span
        self._opened: Opened | None = None
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._left_alone_until = 0.0
        self._closed = False

    async def call(self, work: Callable[[Opened], Awaitable[T]]) -> T:
        """The result of `work` on this shard.

        A shard that has just been found dead is not asked again for a second, so that no calls queue for it.
        """
        if time.monotonic() < self._left_alone_until:
            raise StoreUnavailable(f"Shard {self.number} did not answer a moment ago.")
        try:
            return await work(await self.opened())
        except StoreUnavailable as error:
            if isinstance(error.__cause__, _DEAD):
                self._left_alone_until = time.monotonic() + _LEFT_ALONE
            raise

    async def call_briefly(self, work: Callable[[Opened], Awaitable[T]]) -> T:
        """The same for calls to many shards at once: a call that also waits for other shards cannot wait long."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self.call(work)
        except TimeoutError as error:
            self._left_alone_until = time.monotonic() + _PATIENCE
            raise StoreUnavailable(f"Shard {self.number} does not answer.") from error

    @property
    def pool_stats(self) -> PoolStats:
        """How busy its pool is now; that of a shard that is not open has no connection."""
        if self._opened is None:
            return PoolStats(size=0, in_use=0, waiters=0)
        return self._opened.database.pool_stats()

    async def opened(self) -> Opened:
        """The shard, opened by the first caller that needs it."""
        if self._opened is None:
            async with self._opening:
                if self._closed:
                    raise DeskClosed
                if self._opened is None:
                    self._opened = await self._open()
        return self._opened

    async def close(self) -> None:
        """Close its connections."""
        async with self._opening:
            self._closed, self._opened = True, None
            await self._stack.aclose()

    async def _open(self) -> Opened:
        async with AsyncExitStack() as stack:
            database = await stack.enter_async_context(
                open_database(
                    self.address,
                    clock=self._clock,
                    connections=self._connections,
                    confined=self._confined,
                    statement_span=self._statement_span,
                )
            )
            rows = await database.fetch(STATEMENTS["who"])
            if [row["number"] for row in rows] != [self.number]:
                raise UnsafeStore(
                    f"The address of shard {self.number} leads to a database that is not it. "
                    "Run: handraise shards add, with the address that the shard has now."
                )
            if rows[0]["unfenced"]:
                raise UnsafeStore(
                    f"Shard {self.number} has tables without a fence. Run: handraise shards add, "
                    "with its address."
                )
            self._stack.push_async_exit(stack.pop_all().__aexit__)
        checked = database.as_shard()
        return Opened(
            checked, database, store=PostgresStore(checked), bus=PostgresBus(database, self.address)
        )


def refusal(error: BaseException) -> str | None:
    """Why a shard refused to write: `AWAY` or `FENCED`; None if the error is about something else."""
    state = getattr(error.__cause__, "sqlstate", None)
    return state if state in (AWAY, FENCED) else None
