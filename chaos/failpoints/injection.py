"""Named failpoints at every statement that a transaction of the product makes, in processes of the harness only.

The product knows nothing of them and pays nothing for them: `installed` puts a connection class of ours into the two
drivers, which sees every statement on its way and knows it by the name that it has in its `.sql` file. A failpoint is a
verb and a step. A step is named after all statements that its transaction has made by then, such as
`consume.lock_settled/use_facts/endings_of`. Four things can happen at it:

kill        the process dies before the statement is sent
kill_after  it dies after the statement was done
raise       the statement is not made, and the connection is lost
ambiguous   the statement is made, and the connection is lost before its answer comes
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias
from unittest.mock import patch

import asyncpg

from handraise.backends.postgres import transaction
from handraise.backends.sql_files import Statement, joined, parts_of
from handraise.backends.sqlite import statements

Action: TypeAlias = Literal["kill", "kill_after", "raise", "ambiguous"]
ACTIONS: tuple[Action, ...] = ("kill", "kill_after", "raise", "ambiguous")

POSTGRES_PARTS = {
    name: part for statement in transaction.STATEMENTS.values() for name, part in parts_of(statement).items()
}
SQLITE_PARTS = {
    name: part for statement in statements.STATEMENTS.values() for name, part in parts_of(statement).items()
}
_POSTGRES_NAMES = {part.numbered: name for name, part in POSTGRES_PARTS.items()}
_SQLITE_NAMES = {part.named: name for name, part in SQLITE_PARTS.items()}
_SHORT = 60
_NO_STEP = "discard plans"  # it comes at any time, and changes nothing


@dataclass(slots=True)
class Failpoint:
    """One thing that happens once in this process, at one step of one verb."""

    point: str
    action: Action
    occurrence: int = 1


@dataclass(slots=True)
class Recorder:
    """What this process does, step by step, and what is to happen to it.

    While `verb` is empty, steps are neither kept nor stopped: what prepares a run is not part of it.
    """

    failpoints: Sequence[Failpoint] = ()
    verb: str = ""
    steps: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    _met: Counter[str] = field(default_factory=Counter)

    def at(self, step: str) -> Action | None:
        """Note a step that is about to be made, and say what is to happen to it."""
        if not self.verb:
            return None
        point = f"{self.verb}.{step}"
        self.steps.append(point)
        self._met[point] += 1
        for failpoint in self.failpoints:
            if failpoint.point == point and failpoint.occurrence == self._met[point]:
                self.struck.append(point)
                return failpoint.action
        return None


_RECORDER = Recorder()


@contextmanager
def installed(recorder: Recorder) -> Iterator[Recorder]:
    """Every connection that is opened inside is watched, and the recorder decides what happens to it."""
    global _RECORDER  # noqa: PLW0603 -- connections are made by the drivers, which pass nothing along
    before, _RECORDER = _RECORDER, recorder
    connect, open_file = asyncpg.connect, sqlite3.connect

    def to_postgres(*args: Any, **options: Any) -> Any:
        return connect(*args, **{"connection_class": _PostgresConnection, **options})

    def to_sqlite(*args: Any, **options: Any) -> Any:
        return open_file(*args, **{"factory": _SqliteConnection, **options})

    try:
        with (
            patch.object(asyncpg, "connect", to_postgres),
            patch.object(sqlite3, "connect", to_sqlite),
            patch.object(transaction, "joined", _named),
        ):
            yield recorder
    finally:
        _RECORDER = before


def _named(*parts: Statement) -> Statement:
    """Several statements as one, whose text is known from then on."""
    together = joined(*parts)
    _POSTGRES_NAMES[together.numbered] = together.name
    return together


def die() -> NoReturn:
    """End as by SIGKILL from outside: nothing is closed, flushed or printed."""
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    while True:
        signal.pause()


class _PostgresConnection(asyncpg.Connection):
    """A connection whose statements can fail on purpose."""

    _path: list[str] | None = None
    """The statements of the transaction, while there is one."""

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        """Make a statement that gives rows back."""
        name = _POSTGRES_NAMES.get(query)
        if name is None:  # LISTEN, and what opens a store
            return await super().fetch(query, *args, **options)
        return await self._met(name, lambda: super(_PostgresConnection, self).fetch(query, *args, **options))

    async def execute(self, query: str, *args: Any, **options: Any) -> Any:
        """Make one that gives none."""
        if query == _NO_STEP:
            return await super().execute(query, *args, **options)
        name = _POSTGRES_NAMES.get(query) or _plain(query)
        return await self._met(
            name, lambda: super(_PostgresConnection, self).execute(query, *args, **options)
        )

    async def _met(self, step: str, make: Callable[[], Any]) -> Any:
        self._path, point = _along(self._path, step)
        match _RECORDER.at(point):
            case None:
                return await make()
            case "kill":
                die()
            case "raise":
                self.terminate()
                raise ConnectionResetError("the failpoint cut the connection before the statement")
            case "kill_after":
                await make()
                die()
            case "ambiguous":
                await make()
                self.terminate()
                raise ConnectionResetError("the failpoint cut the connection after the statement")
        raise AssertionError("unreachable")


class _SqliteConnection(sqlite3.Connection):
    """The same for SQLite. Instead of a lost connection there is a disk error."""

    _path: list[str] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Make a statement."""
        return self._met(sql, lambda: super(_SqliteConnection, self).execute(sql, parameters))

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Make a statement for each of several rows: one step."""
        return self._met(sql, lambda: super(_SqliteConnection, self).executemany(sql, parameters))

    def _met(self, sql: str, make: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        name = _SQLITE_NAMES.get(sql) or _plain(sql)
        if name.startswith("pragma"):
            return make()
        self._path, point = _along(self._path, name)
        match _RECORDER.at(point):
            case None:
                return make()
            case "kill":
                die()
            case "raise":
                raise sqlite3.OperationalError("disk I/O error, before the statement")
            case action:
                make().fetchall()
                if action == "kill_after":
                    die()
                raise sqlite3.OperationalError("disk I/O error, after the statement")

    def rollback(self) -> None:
        """Undo it."""
        self._path = None
        super().rollback()

    def commit(self) -> None:
        """Commit, or not."""
        self._path, point = _along(self._path, "commit")
        match _RECORDER.at(point):
            case None:
                super().commit()
            case "kill":
                die()
            case "raise":
                raise sqlite3.OperationalError("disk I/O error, before the commit")
            case action:
                super().commit()
                if action == "kill_after":
                    die()
                raise sqlite3.OperationalError("disk I/O error, after the commit")


def _along(path: list[str] | None, step: str) -> tuple[list[str] | None, str]:
    """The state of a connection after a step, and the name of the step."""
    if step in {"begin", "rollback"}:
        return ([] if step == "begin" else None), step
    so_far = list(dict.fromkeys((*(path or ()), step)))
    if path is None or step == "commit":
        return None, "/".join(so_far)
    return so_far, "/".join(so_far)


def _plain(sql: str) -> str:
    """The name of a statement that is in no file."""
    first = sql.split(";", maxsplit=1)[0].strip().lower()
    if first in {"begin", "begin immediate"}:
        return "begin"
    return first[:_SHORT]
