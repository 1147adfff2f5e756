"""The last signatures of the audit key, in a small file next to the key, out of reach of the store's operators."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from handraise.model.seals import LOST_HEAD, HeadMark
from handraise.server.audit_file import AuditFile

_SCHEMA = "create table if not exists heads (workspace text primary key, number integer not null, digest blob not null)"
_PUT = """
insert into heads (workspace, number, digest) values (?, ?, ?)
on conflict (workspace) do update set number = excluded.number, digest = excluded.digest
where excluded.number > heads.number
"""
_EVERYWHERE = ""
"""The row of the file for workspaces that have none, if what was signed before is lost. No workspace has this name."""
_ACCEPTED_EMPTY = -1
"""The number in the row of a workspace without seals that an operator has accepted."""


class HeadsFile:
    """The last seals that were signed. Any number of servers on one machine may share the file. See `SignedHeads`."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self._file = AuditFile(path)
        self.is_new = is_new
        """Whether there was no such file before."""

    @classmethod
    def prepare(cls, path: Path) -> HeadsFile:
        """Open the file, or create it. Raises `UnsafeStore` if it cannot be written."""
        is_new = not path.exists()
        AuditFile(path).prepare(_SCHEMA)
        return cls(path, is_new=is_new)

    async def find(self, workspace: str) -> HeadMark | None:
        """The last seal of a workspace; see the port."""
        rows = await self._file.read(
            "select number, digest from heads where workspace in (?, ?) order by workspace desc limit 1",
            workspace,
            _EVERYWHERE,
        )
        return HeadMark(rows[0][0], rows[0][1]) if rows and rows[0][0] != _ACCEPTED_EMPTY else None

    async def mark_lost(self) -> None:
        """Record that something may have been signed before: nothing is until an operator accepts a workspace as it is."""
        await self._file.write(lambda connection: connection.execute(_PUT, (_EVERYWHERE, *LOST_HEAD)))

    async def put(self, workspace: str, head: HeadMark) -> None:
        """Store a later seal; see the port."""
        if await self.find(workspace) != head:
            await self._file.write(lambda connection: connection.execute(_PUT, (workspace, *head)))

    async def reset(self, workspace: str, head: HeadMark | None) -> None:
        """Store this one; see the port."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("delete from heads where workspace = ?", (workspace,))
            connection.execute(_PUT, (workspace, *(head or (_ACCEPTED_EMPTY, b""))))

        await self._file.write(work)

    async def list_workspaces(self, *, after: str, limit: int) -> Sequence[str]:
        """Workspaces by name; see the port."""
        sql = "select workspace from heads where workspace > ? and number > 0 order by workspace limit ?"
        return [row[0] for row in await self._file.read(sql, after, limit)]
