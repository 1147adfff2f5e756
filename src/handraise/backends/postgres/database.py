"""Running statements: directly, or each in a transaction that is confined to its workspaces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from handraise.backends.postgres.connections import (
    DRIVER_ERRORS,
    LONG_WITHIN,
    WITHIN,
    Connection,
    is_lost,
    is_transient,
    is_undone,
    is_unsent,
    leaves_connection_good,
    transaction,
    unavailable,
)
from handraise.backends.postgres.pool import Pool
from handraise.backends.sql_files import Statement
from handraise.model.errors import StoreUnavailable
from handraise.ports import Clock, PoolStats
from handraise.ports.store import StatementSpan

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

_TRIES = 5

KEEPER_ROLE = "handraise_keeper"
"""The role that may erase and remove questions, which no server needs."""
_AT_LEAST = 5.0


class Run(Protocol):
    """Runs a statement in a transaction that has begun, and returns its rows."""

    async def __call__(self, statement: Statement, /, **values: Any) -> list[Any]:
        """Run a statement."""
        ...


@dataclass(frozen=True, slots=True)
class RowSecurity:
    """Row-level security around each transaction, which takes `role` if it is not None."""

    role: str | None

    @property
    def begin(self) -> str:
        """Begin a transaction that sees the rows of no workspace."""
        return "begin" if self.role is None else f"begin; set local role {self.role}"

    def begin_in(self, *workspaces: str) -> str:
        """Begin a transaction that sees the rows of these workspaces and of no others.

        This is the only SQL that Python formats: a parameter would cost an extra round trip, but text is sent
        together with `begin`. Hex needs no quoting. A LOCAL setting ends with the transaction, so it does not stay
        in a pooled session.
        """
        names = "".join(f"{workspace.encode().hex()}," for workspace in workspaces)
        return f"{self.begin}; set local handraise.workspaces = ',{names}.'"


class Database:
    """Runs statements over a connection pool, with a clock, and with row security if it is in force."""

    def __init__(
        self,
        pool: Pool,
        *,
        clock: Clock | None = None,
        row_security: RowSecurity | None = None,
        statement_span: StatementSpan | None = None,
    ) -> None:
        self._statement_span = statement_span
        self._pool = pool
        self._clock = clock
        self._row_security = row_security

    def pool_stats(self) -> PoolStats:
        """How busy the pool is now."""
        return self._pool.stats

    async def fetch(self, statement: Statement, /, **values: Any) -> list[Any]:
        """The rows of a statement that is not about a workspace."""
        return await self._run_all(None, [statement], values)

    async def fetch_in(self, workspace: str, /, *statements: Statement, **values: Any) -> list[Any]:
        """The rows of a statement about a workspace, or of the last one if one transaction runs several."""
        begin = self._begin_in(workspace) or ("begin" if len(statements) > 1 else None)
        return await self._run_all(begin, statements, values)

    async def fetch_batch(
        self, workspaces: Iterable[str], statement: Statement, /, **values: Any
    ) -> list[Any]:
        """The rows of a statement about several workspaces, in one transaction. Call it inside `run_batch`."""
        return await self._run_all(self._begin_in(*workspaces), [statement], values)

    async def work_in(
        self, workspaces: Iterable[str], work: Callable[[Run], Awaitable[Result]], *, first: str = ""
    ) -> Result:
        """The result of several statements about workspaces, in one transaction, which may be repeated.

        It begins with the statement `first`, which takes no round trip of its own.

        About several workspaces, call it inside `run_batch`.
        """
        begin = self._begin_in(*workspaces) or "begin"
        return await self._work(f"{begin}; {first}" if first else begin, work)

    async def work_as_keeper(self, workspace: str, work: Callable[[Run], Awaitable[Result]]) -> Result:
        """The same with the rights of `KEEPER_ROLE`, taken instead of the application's role."""
        return await self._work(self._begin_as_keeper(workspace), work)

    async def _work(self, begin: str | None, work: Callable[[Run], Awaitable[Result]]) -> Result:
        async def done(acquired: Connection, within: float) -> Result:
            async def run(statement: Statement, /, **values: Any) -> list[Any]:
                return await self._last_rows(acquired, [statement], self._with_now(values), within)

            return await work(run)

        return await self._run(begin or "begin", done)

    async def fetch_as_keeper(self, workspace: str, /, *statements: Statement, **values: Any) -> list[Any]:
        """The same for statements that only `KEEPER_ROLE` may run, taken instead of the application's role."""
        return await self._run_all(self._begin_as_keeper(workspace), statements, values)

    async def run_batch(
        self,
        items: Sequence[Item],
        workspace_of: Callable[[Item], str],
        call_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
    ) -> Sequence[Result]:
        """Call `call_batch`, which is one transaction, with all items; the results come in their order.

        With row security, if PostgreSQL undid the transaction, each workspace gets its own, so that what one of them cannot do
        is done for the others. If one fails, the others are finished, and then its error is raised for the whole call. An
        exception is what is repeated row by row, because a row was refused.
        """
        if not items:
            return []
        try:
            return await call_batch(items)
        except StoreUnavailable as error:
            if self._row_security is None or error.refused or not is_undone(error.__cause__):
                raise
            parts = places_by(workspace_of, items)
            if len(parts) == 1:
                raise
        return await call_parts(items, parts.values(), call_batch)

    def _begin_in(self, *workspaces: str, role: str | None = None) -> str | None:
        """Begin a transaction about these workspaces; None if it does not need one."""
        if self._row_security is None:
            return None
        security = self._row_security if role is None else RowSecurity(role)
        return security.begin_in(*sorted(set(workspaces)))

    def _begin_as_keeper(self, workspace: str) -> str | None:
        role = KEEPER_ROLE if self._row_security is not None and self._row_security.role else None
        return self._begin_in(workspace, role=role)

    def _with_now(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"now": self._clock.now() if self._clock else None, **values}

    async def _run_all(
        self, begin: str | None, statements: Sequence[Statement], values: dict[str, Any]
    ) -> list[Any]:
        values = self._with_now(values)
        return await self._run(
            begin,
            lambda acquired, within: self._last_rows(acquired, statements, values, within),
            may_take_long=any(each.may_take_long for each in statements),
            only_reads=not any(each.writes for each in statements),
        )

    async def _last_rows(
        self, acquired: Connection, statements: Sequence[Statement], values: dict[str, Any], within: float
    ) -> list[Any]:
        rows: list[Any] = []
        for statement in statements:
            arguments = [values[name] for name in statement.parameters]
            if self._statement_span is None:
                rows = await acquired.fetch(statement.numbered, *arguments, timeout=within)
                continue
            with self._statement_span(statement.name):
                rows = await acquired.fetch(statement.numbered, *arguments, timeout=within)
        return rows

    async def _run(
        self,
        begin: str | None,
        work: Callable[[Connection, float], Awaitable[Result]],
        *,
        may_take_long: bool = False,
        only_reads: bool = False,
    ) -> Result:
        """Do the work, and repeat it if PostgreSQL undid it in favour of another transaction, or if nothing was sent.

        What only reads is repeated also if the connection was cut meanwhile.
        """
        for tried in range(1, _TRIES + 1):
            try:
                began = time.monotonic()
                acquired, done_with = await self._pool.take(), self._pool.give_back
                within = max(WITHIN - (time.monotonic() - began), _AT_LEAST)
                if may_take_long:
                    within = LONG_WITHIN
                try:
                    if begin is None:
                        return await work(acquired, within)
                    begin_all = begin + self._pool.each_transaction
                    async with transaction(acquired, begin_all, within=within):
                        return await work(acquired, within)
                except BaseException as error:
                    if not leaves_connection_good(error):
                        done_with = self._pool.hang_up
                    raise
                finally:
                    done_with(acquired)
            except DRIVER_ERRORS as error:
                repeats = is_transient(error) or is_unsent(error) or (only_reads and is_lost(error))
                if tried == _TRIES or not repeats:
                    raise unavailable(error) from error
                await asyncio.sleep(0.01 * tried)
        raise AssertionError("unreachable")


def places_by(key: Callable[[Item], Key], items: Sequence[Item]) -> dict[Key, list[int]]:
    """The places of items that have the same key."""
    parts: dict[Key, list[int]] = {}
    for place, item in enumerate(items):
        parts.setdefault(key(item), []).append(place)
    return parts


async def call_parts(
    items: Sequence[Item],
    parts: Iterable[Sequence[int]],
    call_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
) -> Sequence[Result]:
    """Call `call_batch` for each part of the items, given by their places.

    If one fails, the others are finished, and then its error is raised for the whole call.
    """
    parts = list(parts)
    calls = [call_batch([items[place] for place in places]) for places in parts]
    results: dict[int, Result] = {}
    for places, done in zip(parts, await asyncio.gather(*calls, return_exceptions=True), strict=True):
        if isinstance(done, StoreUnavailable) and len(parts) > 1:
            raise StoreUnavailable(str(done)) from done  # not undone as a whole: others may be done
        if isinstance(done, BaseException):
            raise done
        results.update(zip(places, done, strict=True))
    return [results[place] for place in range(len(items))]
