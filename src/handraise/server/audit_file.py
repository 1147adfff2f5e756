"""The small SQLite file next to the audit key: what was signed last, and what each witness has been sent."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from handraise.model.errors import UnsafeStore

T = TypeVar("T")

_PATIENCE = 30.0


class AuditFile:
    """A file that any number of servers on one machine may share. Each call opens it anew, in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self, *tables: str) -> None:
        """Create the file and these tables if they are missing. Raises `UnsafeStore` if it cannot be written."""
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self._path, timeout=_PATIENCE)) as connection, connection:
                for table in tables:
                    connection.execute(table)
                connection.execute("pragma user_version = 1")  # a read-only file system says so here
        except (OSError, sqlite3.Error) as error:
            raise UnsafeStore(
                f"What the audit key signs, and what witnesses were sent, cannot be kept in {self._path}: {error}. Without it, "
                "somebody could rewrite the store and have it signed again. Set HANDRAISE_AUDIT_HEADS to a file on a "
                "persistent disk that servers may write and the operators of the database may not."
            ) from error

    async def read(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; none if there is no file yet, or no such table."""

        def work() -> list[tuple[Any, ...]]:
            if not self._path.exists():
                return []
            address = f"file:{quote(str(self._path.resolve()))}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as connection:
                try:
                    return connection.execute(sql, values).fetchall()
                except sqlite3.OperationalError as error:
                    if "no such table" in str(error):
                        return []
                    raise

        return await asyncio.to_thread(self._translate_errors, work)

    async def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Make a change in one transaction, which nobody else can write in between."""

        def work() -> T:
            with closing(sqlite3.connect(self._path, timeout=_PATIENCE)) as connection, connection:
                connection.execute("begin immediate")
                return change(connection)

        return await asyncio.to_thread(self._translate_errors, work)

    def _translate_errors(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            raise UnsafeStore(
                f"What the audit key signed, and what witnesses were sent, cannot be read or kept in {self._path}: {error}."
            ) from error
