"""Running statements: plainly, or each in a transaction that is confined to one workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from handraise.backends.postgres.connecting import (
    DRIVER_ERRORS,
    Connection,
    is_transient,
    leaves_connection_good,
    transaction,
    unavailable,
)
from handraise.backends.postgres.pooling import Pool
from handraise.backends.statements import Statement
from handraise.model.errors import StoreUnavailable
from handraise.ports import Clock

Item = TypeVar("Item")
Result = TypeVar("Result")

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Walls:
    """Row-level security around each transaction, in which `role` is taken where that is not None."""

    role: str | None

    @property
    def begin(self) -> str:
        """Begin a transaction in which no workspace's rows are there."""
        return "begin" if self.role is None else f"begin; set local role {self.role}"

    def begin_in(self, workspace: str) -> str:
        """Begin a transaction in which one workspace's rows are there.

        The only SQL that Python formats: a parameter would cost a round trip of its own, and as text it
        goes out together with `begin`. Hex has nothing to quote. What is set LOCAL ends with the
        transaction, so a pooled session takes it nowhere.
        """
        return f"{self.begin}; set local handraise.workspace = '{workspace.encode().hex()}'"


class Database:
    """A pool, a clock, and walls between workspaces where there are any."""

    def __init__(self, pool: Pool, *, clock: Clock | None = None, walls: Walls | None = None) -> None:
        self._pool = pool
        self._clock = clock
        self._walls = walls

    @property
    def is_walled(self) -> bool:
        """Whether each workspace has its own transactions."""
        return self._walls is not None

    async def fetch(self, statement: Statement, /, **values: Any) -> list[Any]:
        """The rows of a statement that is about no workspace."""
        return await self._run(None, [statement], values)

    async def fetch_in(self, workspace: str, /, *statements: Statement, **values: Any) -> list[Any]:
        """The rows of a statement about a workspace, or of the last where one transaction makes several.

        Without walls it may be about several workspaces, whichever is named.
        """
        begin = "begin" if len(statements) > 1 else None
        return await self._run(self._walls.begin_in(workspace) if self._walls else begin, statements, values)

    async def by_workspace(
        self,
        items: Sequence[Item],
        workspace_of: Callable[[Item], str],
        many: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
    ) -> Sequence[Result]:
        """Call `many` with the items of each workspace by themselves, or with all where there are no walls.

        The results come in the order of the items. Where one workspace's part fails, the others' are seen
        through before its error is raised.
        """
        if not items:
            return []
        if self._walls is None:
            return await many(items)
        parts: dict[str, list[int]] = {}
        for place, item in enumerate(items):
            parts.setdefault(workspace_of(item), []).append(place)
        if len(parts) == 1:
            return await many(items)
        calls = [many([items[place] for place in places]) for places in parts.values()]
        results: dict[int, Result] = {}
        for places, done in zip(
            parts.values(), await asyncio.gather(*calls, return_exceptions=True), strict=True
        ):
            if isinstance(done, StoreUnavailable):
                done.refused = False  # not all of it: the others' parts are done
            if isinstance(done, BaseException):
                raise done
            results.update(zip(places, done, strict=True))
        return [results[place] for place in range(len(items))]

    async def _run(
        self, begin: str | None, statements: Sequence[Statement], values: dict[str, Any]
    ) -> list[Any]:
        """Make the statements, and again where PostgreSQL undid them for the sake of somebody else's."""
        values = {"now": self._clock.now() if self._clock else None, **values}
        for tried in range(1, _TRIES + 1):
            try:
                acquired, done_with = await self._pool.take(), self._pool.give_back
                try:
                    if begin is None:
                        return await _last_rows(acquired, statements, values)
                    async with transaction(acquired, begin + self._pool.each_transaction):
                        return await _last_rows(acquired, statements, values)
                except BaseException as error:
                    if not leaves_connection_good(error):
                        done_with = self._pool.hang_up
                    raise
                finally:
                    done_with(acquired)
            except DRIVER_ERRORS as error:
                if tried == _TRIES or not is_transient(error):
                    raise unavailable(error) from error
                await asyncio.sleep(0.01 * tried)
        raise AssertionError("unreachable")


def instant(stored: datetime) -> datetime:
    """The instant behind what is stored, which the driver gives as it is."""
    return stored


async def _last_rows(
    acquired: Connection, statements: Sequence[Statement], values: dict[str, Any]
) -> list[Any]:
    rows: list[Any] = []
    for statement in statements:
        arguments = [values[name] for name in statement.parameters]
        rows = await acquired.fetch(statement.numbered, *arguments)
    return rows
