"""The last signatures of the audit key, in a small file next to the key, out of reach of the store's operators."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from handraise.model.errors import UnsafeStore
from handraise.model.seals import HeadMark

T = TypeVar("T")

_FILE_NAME = "audit.heads"
_PATIENCE = 30.0
_SCHEMA = "create table if not exists heads (workspace text primary key, number integer not null, digest blob not null)"
_PUT = """
insert into heads (workspace, number, digest) values (?, ?, ?)
on conflict (workspace) do update set number = excluded.number, digest = excluded.digest
where excluded.number > heads.number
"""


class HeadsFile:
    """The last seals that were signed. Any number of servers on one machine may share the file. See `SignedHeads`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def prepare(cls, path: Path) -> HeadsFile:
        """Open the file, or create it. Raises `UnsafeStore` if it cannot be written."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection, connection:
                connection.execute(_SCHEMA)
                connection.execute("delete from heads where 0")  # a read-only file system says so here
        except (OSError, sqlite3.Error) as error:
            raise UnsafeStore(
                f"What the audit key signs cannot be kept in {path}: {error}. Without it, somebody could rewrite the store "
                "and have it signed again. Set HANDRAISE_AUDIT_HEADS to a file on a persistent disk that servers may "
                "write and the operators of the database may not."
            ) from error
        return cls(path)

    async def find(self, workspace: str) -> HeadMark | None:
        """The last seal of a workspace; see the port."""
        rows = await self._read("select number, digest from heads where workspace = ?", workspace)
        return HeadMark(rows[0][0], rows[0][1]) if rows else None

    async def put(self, workspace: str, head: HeadMark) -> None:
        """Store a later seal; see the port."""
        if await self.find(workspace) != head:
            await self._write(lambda connection: connection.execute(_PUT, (workspace, *head)))

    async def reset(self, workspace: str, head: HeadMark | None) -> None:
        """Store this one; see the port."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("delete from heads where workspace = ?", (workspace,))
            if head is not None:
                connection.execute(_PUT, (workspace, *head))

        await self._write(work)

    async def list_workspaces(self, *, after: str, limit: int) -> Sequence[str]:
        """Workspaces by name; see the port."""
        sql = "select workspace from heads where workspace > ? order by workspace limit ?"
        return [row[0] for row in await self._read(sql, after, limit)]

    async def _read(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        def work() -> list[tuple[Any, ...]]:
            if not self._path.exists():
                return []
            address = f"file:{quote(str(self._path.resolve()))}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as connection:
                return connection.execute(sql, values).fetchall()

        return await asyncio.to_thread(_translate_errors, self._path, work)

    async def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        def work() -> None:
            with closing(sqlite3.connect(self._path, timeout=_PATIENCE)) as connection, connection:
                change(connection)

        await asyncio.to_thread(_translate_errors, self._path, work)


def heads_path(key: Path, chosen: Path | None) -> Path:
    """The chosen path, or one next to the key, so that the next key in that folder continues it."""
    return key.with_name(_FILE_NAME) if chosen is None else chosen


def _translate_errors(path: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.Error as error:
        raise UnsafeStore(f"What the audit key signed cannot be read or kept in {path}: {error}.") from error
