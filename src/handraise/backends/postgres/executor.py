"""Runs the statements of the shared ports in PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import asyncpg

from handraise.backends.postgres import database
from handraise.backends.sql.dialects import Dialect
from handraise.backends.sql.executor import Run
from handraise.backends.sql.parameters import AsJson, json_text
from handraise.backends.sql.rows import Row
from handraise.backends.sql_files import load_port_statements, parts_of
from handraise.model.errors import StoreUnavailable, UnsafeStore

T = TypeVar("T")

STATEMENTS = load_port_statements("handraise.backends.postgres", Dialect.POSTGRES)
PARTS = {name: tuple(parts_of(statement).values()) for name, statement in STATEMENTS.items()}
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
        values = {"workspace": workspace, **_adapted(values)}
        if not statements[0].as_keeper:
            return await self._database.fetch_in(workspace, *statements, **values)
        with _as_keeper():
            return await self._database.fetch_as_keeper(workspace, *statements, **values)

    async def transact(self, workspace: str, work: Callable[[Run], Awaitable[T]], /) -> T:
        """The result of several statements in one transaction; see the protocol."""
        return await self._database.work_in([workspace], _work_in(workspace, work))

    async def transact_as_keeper(self, workspace: str, work: Callable[[Run], Awaitable[T]], /) -> T:
        """The same as a member of the role that may do this; see the protocol."""
        with _as_keeper():
            return await self._database.work_as_keeper(workspace, _work_in(workspace, work))


def _work_in(workspace: str, work: Callable[[Run], Awaitable[T]]) -> Callable[[database.Run], Awaitable[T]]:
    """The same work, with statements by their names."""

    async def made(run: database.Run) -> T:
        async def in_transaction(name: str, /, **values: Any) -> Sequence[Row]:
            rows: Sequence[Row] = []
            for part in PARTS[name]:
                rows = await run(part, workspace=workspace, **_adapted(values))
            return rows

        return await work(in_transaction)

    return made


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


def _adapted(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json_text(value.value) if isinstance(value, AsJson) else value for name, value in values.items()
    }
