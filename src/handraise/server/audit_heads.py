"""The last signatures of the audit key, in a small file next to the key, out of reach of the store's operators."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from handraise.model.seals import HeadMark
from handraise.server.audit_file import AuditFile

_SCHEMA = "create table if not exists heads (workspace text primary key, number integer not null, digest blob not null)"
_PUT = """
insert into heads (workspace, number, digest) values (?, ?, ?)
on conflict (workspace) do update set number = excluded.number, digest = excluded.digest
where excluded.number > heads.number
"""


class HeadsFile:
    """The last seals that were signed. Any number of servers on one machine may share the file. See `SignedHeads`."""

    def __init__(self, path: Path) -> None:
        self._file = AuditFile(path)

    @classmethod
    def prepare(cls, path: Path) -> HeadsFile:
        """Open the file, or create it. Raises `UnsafeStore` if it cannot be written."""
        AuditFile(path).prepare(_SCHEMA)
        return cls(path)

    async def find(self, workspace: str) -> HeadMark | None:
        """The last seal of a workspace; see the port."""
        rows = await self._file.read("select number, digest from heads where workspace = ?", workspace)
        return HeadMark(rows[0][0], rows[0][1]) if rows else None

    async def put(self, workspace: str, head: HeadMark) -> None:
        """Store a later seal; see the port."""
        if await self.find(workspace) != head:
            await self._file.write(lambda connection: connection.execute(_PUT, (workspace, *head)))

    async def reset(self, workspace: str, head: HeadMark | None) -> None:
        """Store this one; see the port."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("delete from heads where workspace = ?", (workspace,))
            if head is not None:
                connection.execute(_PUT, (workspace, *head))

        await self._file.write(work)

    async def list_workspaces(self, *, after: str, limit: int) -> Sequence[str]:
        """Workspaces by name; see the port."""
        sql = "select workspace from heads where workspace > ? order by workspace limit ?"
        return [row[0] for row in await self._file.read(sql, after, limit)]
