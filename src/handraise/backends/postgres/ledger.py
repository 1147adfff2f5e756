"""The audit trail in PostgreSQL: only functions of the schema write seals and removals."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from handraise.backends.sql.feed_places import read_place
from handraise.backends.sql.ledger import SqlLedger
from handraise.backends.sql.parameters import seal_values
from handraise.model.seals import Seal


class PostgresLedger(SqlLedger):
    """The audit trail in PostgreSQL. See `handraise.ports.Ledger` for what each method promises."""

    async def append(self, seal: Seal, *, removals: Sequence[int]) -> bool:
        """Add a seal; see the port."""
        last = read_place(seal.cursor)
        place = {
            "last_transaction": str(last.transaction),
            "last_number": last.number,
            "removals": list(removals),
        }
        (row,) = await self._executor.fetch(seal.workspace, "append", **seal_values(seal), **place)
        return bool(row["appended"])

    async def erase(self, workspace: str, question_ids: Collection[str], *, by: str) -> Sequence[str]:
        """Erase questions; see the port."""
        (row,) = await self._executor.fetch(workspace, "erase", ids=sorted(question_ids), actor=by)
        return sorted(row["ids"])

    async def scrub(self) -> bool:
        """Only PostgreSQL's own vacuum overwrites what was deleted; see the port."""
        return False
