"""The part of the audit trail that is the same in all SQL engines.

Engines differ in how they add a seal and how they erase questions. PostgreSQL does both in functions of its schema, and
only these functions may write these tables. SQLite does both in a transaction of several statements.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from handraise.backends.sql.executor import Run, SqlExecutor, note
from handraise.backends.sql.parameters import change_values
from handraise.backends.sql.rows import (
    Row,
    asked_of,
    instant,
    span,
    stored_hold,
    stored_inbox_row,
    stored_removal,
    stored_seal,
)
from handraise.model.json_values import Json
from handraise.model.seals import SALT, Hold, Removal, Rule, Seal, rule_change
from handraise.model.store_invariants import InboxRow
from handraise.model.workspace_events import Change, hold_lifted, hold_placed, person_erased
from handraise.ports import Head


class SqlLedger:
    """The audit trail in an SQL database. See `handraise.ports.Ledger` for what each method promises."""

    def __init__(self, executor: SqlExecutor) -> None:
        self._executor = executor

    async def unsealed(self, *, limit: int) -> Sequence[str]:
        """Workspaces with something to seal; see the port."""
        return [row["workspace"] for row in await self._executor.fetch(None, "unsealed", limit=limit)]

    async def head(self, workspace: str) -> Head:
        """The last seal; see the port."""
        return head_of(await self._executor.fetch(workspace, "head"))

    async def has_signed(self, workspace: str, key_id: str) -> bool:
        """Whether a key has signed; see the port."""
        return bool(await self._executor.fetch(workspace, "has_signed", key_id=key_id))

    async def salts(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, bytes]:
        """The salts of questions; see the port."""
        ids = sorted(question_ids)
        found = await self._executor.fetch(workspace, "salts", ids=ids)
        if len(found) < len(ids):
            new = {"salts": os.urandom(SALT * len(ids)), "length": SALT}
            await self._executor.fetch(workspace, "add_salts", ids=ids, **new)
            found = await self._executor.fetch(workspace, "salts", ids=ids)
        return {row["question_id"]: row["salt"] for row in found}

    async def asked(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, Json]:
        """What was asked; see the port."""
        rows = await self._executor.fetch(workspace, "asked", ids=sorted(question_ids))
        return {row["id"]: asked_of(row) for row in rows}

    async def removals(self, workspace: str, *, seal: int | None, limit: int) -> Sequence[Removal]:
        """Removals of a seal, or of none; see the port."""
        name = "removals_unsealed" if seal is None else "removals_of_seal"
        rows = await self._executor.fetch(workspace, name, seal=seal, limit=limit)
        return [stored_removal(row) for row in rows]

    async def seals(self, workspace: str, *, after: int, limit: int) -> Sequence[Seal]:
        """Seals in their order; see the port."""
        rows = await self._executor.fetch(workspace, "seals", after=after, limit=limit)
        return [stored_seal(row) for row in rows]

    async def concerning(self, workspace: str, person: str) -> Sequence[str]:
        """The questions of a person; see the port."""
        rows = await self._executor.fetch(workspace, "concerning", person=person)
        return sorted(row["id"] for row in rows)

    async def erase_person(self, workspace: str, person: str, *, by: str | None = None) -> None:
        """Erase what else is kept about a person; see the port."""
        if by is None:
            await self._executor.fetch(workspace, "erase_person", person=person)
        else:
            change = change_values(person_erased(by=by))
            await self._executor.fetch(workspace, "erase_person", "note_as_keeper", person=person, **change)

    async def rules(self, workspace: str) -> Rule | None:
        """A workspace's rule; see the port."""
        rows = await self._executor.fetch(workspace, "rule")
        if not rows:
            return None
        keep = rows[0]["keep"]
        return Rule(None if keep is None else span(keep))

    async def put_rule(self, workspace: str, rule: Rule | None, *, by: str | None = None) -> None:
        """Give a workspace a rule; see the port."""
        change = rule_change(rule, by=by)
        if rule is None:
            await self._change_as_keeper(workspace, "remove_rule", change)
        else:
            await self._change_as_keeper(workspace, "put_rule", change, keep=rule.keep)

    async def hold(self, hold: Hold) -> None:
        """Hold something; see the port."""
        what = {"name": hold.name, "question_id": hold.question_id, "reason": hold.reason, "actor": hold.by}

        async def work(run: Run) -> None:
            if await run("hold", **what):
                await note(run, hold_placed(hold.name, hold.question_id, hold.reason, by=hold.by))

        await self._executor.transact(hold.workspace, work)

    async def lift(self, workspace: str, name: str, *, by: str | None = None) -> bool:
        """Lift a hold; see the port."""
        return await self._change_as_keeper(workspace, "lift", hold_lifted(name, by=by), name=name)

    async def _change_as_keeper(self, workspace: str, name: str, change: Change, /, **values: Any) -> bool:
        """Run a statement and store its event, if it changes something; say whether it did."""

        async def work(run: Run) -> bool:
            changed = bool(await run(name, **values))
            if changed:
                await run("note_as_keeper", **change_values(change))
            return changed

        return await self._executor.transact_as_keeper(workspace, work)

    async def holds(self, workspace: str) -> Sequence[Hold]:
        """What is held; see the port."""
        return [stored_hold(row) for row in await self._executor.fetch(workspace, "holds")]

    async def newest_questions(self, workspace: str, *, before: str | None, limit: int) -> Sequence[str]:
        """The newest questions; see the port."""
        rows = await self._executor.fetch(workspace, "newest_questions", before=before, limit=limit)
        return [row["id"] for row in rows]

    async def inbox_rows(self, workspace: str, question_ids: Collection[str]) -> Sequence[InboxRow]:
        """Places in the inboxes; see the port."""
        rows = await self._executor.fetch(workspace, "inbox_rows", ids=sorted(question_ids))
        return [stored_inbox_row(row) for row in rows]


def head_of(rows: Sequence[Row]) -> Head:
    """The head, from the only row that its statement returns."""
    (row,) = rows
    last = None if row["number"] is None else stored_seal(row)
    return Head(last, instant(row["now"]), row["needed"])
