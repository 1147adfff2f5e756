"""Heads that witnesses have yet to see, and how each witness is doing, in the file next to the audit key."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from handraise.model.errors import UnsafeStore
from handraise.model.seals import Seal, instant_text
from handraise.model.witnesses import ChainHead
from handraise.server.audit_file import AuditFile

_log = logging.getLogger(__name__)

_TABLES = (
    """
    create table if not exists witness_heads (
        workspace text primary key, sealed_at text not null, number integer not null, digest blob not null,
        record text not null)
    """,
    """
    create table if not exists witness_sent (
        witness text not null, workspace text not null, digest blob not null, primary key (witness, workspace))
    """,
    """
    create table if not exists witnesses (
        witness text primary key, next_at real not null, sent_at real, failures integer not null,
        failing_since real, problem text)
    """,
)
# After a restored backup, numbers begin again below: the later seal is the one that was made later.
_PUT = """
insert into witness_heads (workspace, sealed_at, number, digest, record) values (?, ?, ?, ?, ?)
on conflict (workspace) do update set sealed_at = excluded.sealed_at, number = excluded.number,
    digest = excluded.digest, record = excluded.record
where (excluded.sealed_at, excluded.number) > (witness_heads.sealed_at, witness_heads.number)
"""
_DUE = """
select h.record from witness_heads h left join witness_sent s on s.witness = ? and s.workspace = h.workspace
where h.workspace > ? and (s.digest is null or s.digest <> h.digest) order by h.workspace limit ?
"""
_MISSING = """
select workspace from heads where not exists (select 1 from witness_heads h where h.workspace = heads.workspace) limit ?
"""
_SENT = """
insert into witness_sent (witness, workspace, digest) values (?, ?, ?)
on conflict (witness, workspace) do update set digest = excluded.digest
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessState:
    """How a witness is doing. `failures` counts the failed rounds since the last one that succeeded."""

    sent_at: datetime | None
    failures: int
    failing_since: datetime | None
    problem: str | None


class WitnessQueue:
    """The newest head of each workspace that a process on this machine sealed, until every witness has it.

    Processes share the file, and one of them at a time sends to a witness.
    """

    def __init__(self, path: Path) -> None:
        self._file = AuditFile(path)

    @classmethod
    def prepare(cls, path: Path) -> WitnessQueue:
        """Open the file, or create it. Raises `UnsafeStore` if it cannot be written."""
        AuditFile(path).prepare(*_TABLES)
        return cls(path)

    async def take(self, seal: Seal) -> None:
        """Store the head that a seal makes. If that fails, sealing goes on, and the next seal is stored instead."""
        try:
            await self.put(ChainHead.from_seal(seal))
        except UnsafeStore as error:
            _log.error(
                "a head of the audit trail cannot be sent to witnesses: %s",
                error,
                extra={"event": "head_not_queued"},
            )

    async def put(self, head: ChainHead) -> None:
        """Store a later head of a workspace; an earlier one than the stored one changes nothing."""
        values = (
            head.workspace,
            instant_text(head.sealed_at),
            head.number,
            head.digest,
            json.dumps(head.record),
        )
        await self._file.write(lambda connection: connection.execute(_PUT, values))

    async def list_missing(self, *, limit: int) -> Sequence[str]:
        """Workspaces whose seals were signed, but of which no head was ever stored here: they had no witness then."""
        return [workspace for (workspace,) in await self._file.read(_MISSING, limit)]

    async def claim(self, witness: str, *, now: float, lease: float, longest: float) -> bool:
        """Whether this process sends to a witness now: heads are due, and it is time. The claim ends by itself.

        A next time that is more than `longest` ahead is of a clock that was wrong.
        """

        def work(connection: sqlite3.Connection) -> bool:
            if not connection.execute(_DUE, (witness, "", 1)).fetchall():
                return False
            connection.execute(
                "insert or ignore into witnesses (witness, next_at, failures) values (?, 0, 0)", (witness,)
            )
            claimed = connection.execute(
                "update witnesses set next_at = ? where witness = ? and not next_at between ? and ?",
                (now + lease, witness, now, now + longest),
            )
            return claimed.rowcount == 1

        # Most looks find nothing to do, and should not wait for a writer.
        return bool(await self.due(witness, after="", limit=1)) and await self._file.write(work)

    async def due(self, witness: str, *, after: str, limit: int) -> Sequence[ChainHead]:
        """Heads that a witness has yet to see, by workspace."""
        rows = await self._file.read(_DUE, witness, after, limit)
        return [ChainHead.from_record(json.loads(text)) for (text,) in rows]

    async def mark_sent(self, witness: str, heads: Sequence[ChainHead], *, now: float, lease: float) -> None:
        """Record that a witness has these heads, and extend the claim."""

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(_SENT, [(witness, head.workspace, head.digest) for head in heads])
            connection.execute(
                "update witnesses set next_at = max(next_at, ?) where witness = ?", (now + lease, witness)
            )

        await self._file.write(work)

    async def release(self, witness: str, *, next_at: float) -> None:
        """End a claim that came to nothing, such as when the process stops."""
        await self._file.write(
            lambda connection: connection.execute(
                "update witnesses set next_at = ? where witness = ?", (next_at, witness)
            )
        )

    async def succeeded(self, witness: str, *, now: float, next_at: float) -> None:
        """Record that a witness has everything, and when to look again."""
        await self._file.write(
            lambda connection: connection.execute(
                "insert into witnesses (witness, next_at, sent_at, failures) values (?1, ?2, ?3, 0) on conflict (witness) "
                "do update set next_at = ?2, sent_at = ?3, failures = 0, failing_since = null, problem = null",
                (witness, next_at, now),
            )
        )

    async def failed(self, witness: str, problem: str, *, now: float, next_at: float) -> None:
        """Record that a witness could not be sent something, and when to try again."""
        await self._file.write(
            lambda connection: connection.execute(
                "insert into witnesses (witness, next_at, failures, failing_since, problem) values (?1, ?2, 1, ?3, ?4) "
                "on conflict (witness) do update set next_at = ?2, failures = failures + 1, "
                "failing_since = coalesce(failing_since, ?3), problem = ?4",
                (witness, next_at, now, problem),
            )
        )

    async def state(self, witness: str) -> WitnessState:
        """How a witness is doing."""
        rows = await self._file.read(
            "select sent_at, failures, failing_since, problem from witnesses where witness = ?", witness
        )
        sent_at, failures, failing_since, problem = rows[0] if rows else (None, 0, None, None)
        return WitnessState(
            sent_at=_instant(sent_at),
            failures=failures,
            failing_since=_instant(failing_since),
            problem=problem,
        )


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
