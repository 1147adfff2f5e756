"""Runs the statements of the shared ports in PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import asyncpg

from handraise.backends.postgres import database
from handraise.backends.postgres.transaction import PARTS, PostgresTransaction, adapted
from handraise.backends.sql.rows import Row
from handraise.model.errors import StoreUnavailable, UnsafeStore

T = TypeVar("T")

_NOT_A_KEEPER = (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError)


class PostgresExecutor:
    """Runs statements; with row security, each about a workspace runs in a transaction that is confined to it."""

    def __init__(self, connected: database.Database) -> None:
        self._database = connected

    async def fetch(self, workspace: str | None, /, *names: str, **values: Any) -> Sequence[Row]:
        """The rows of the last of these statements; see the protocol."""
        statements = [part for name in names for part in PARTS[name]]
        if workspace is None:
            return await self._database.fetch(*statements, **values)
        values = {"workspace": workspace, **adapted(values)}
        if not statements[0].as_keeper:
            return await self._database.fetch_in(workspace, *statements, **values)
        with _as_keeper():
            return await self._database.fetch_as_keeper(workspace, *statements, **values)

    async def transact(self, workspace: str, work: Callable[[PostgresTransaction], Awaitable[T]], /) -> T:
        """The result of several statements in one transaction; see the protocol."""
        return await self._database.work_in(
            [workspace], lambda run: work(PostgresTransaction(run, workspace))
        )

    async def transact_as_keeper(
        self, workspace: str, work: Callable[[PostgresTransaction], Awaitable[T]], /
    ) -> T:
        """The same as a member of the role that may do this; see the protocol."""
        with _as_keeper():
            return await self._database.work_as_keeper(
                workspace, lambda run: work(PostgresTransaction(run, workspace))
            )


@contextmanager
def _as_keeper() -> Iterator[None]:
    """Raise UnsafeStore if PostgreSQL refuses something because this login is no keeper."""
    try:
        yield
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, _NOT_A_KEEPER):
            raise
        role = database.KEEPER_ROLE
        raise UnsafeStore(
            f"PostgreSQL lets only members of {role} do this: {error.__cause__}. Log in as one, or run as an "
            f"administrator: create role {role} nologin (unless it is there); grant {role} to the login; "
            "select handraise.allow_app();"
        ) from error
