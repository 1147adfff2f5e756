"""The audit trail in SQLite. What is erased is overwritten: in the file, and in what it writes ahead."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from handraise.backends.ledger_rows import (
    asked_of,
    continues,
    seal_values,
    stored_hold,
    stored_removal,
    stored_seal,
)
from handraise.backends.sqlite.connections import SqliteConnections
from handraise.backends.sqlite.statements import run
from handraise.backends.sqlite.timestamps import instant, length, micros, now_by
from handraise.model.json_values import Json
from handraise.model.questions import Ref
from handraise.model.seals import SALT, Hold, Removal, Rule, Seal
from handraise.ports import Clock, Head

_OF_QUESTION = (
    "close",
    "remove_events",
    "remove_deliveries",
    "erase_lines",
    "erase_links",
    "erase_grants",
    "erase_salt",
    "erase_requests",
)
_OF_PERSON = (
    "note_removal_of_changes",
    "erase_changes",
    "leave_groups",
    "end_sessions",
    "drop_links",
    "drop_question_links",
    "remove_person",
    "erase_addresses",
    "erase_deliveries",
    "erase_requests_of_person",
    "erase_name_at_keys",
    "erase_name_at_grants",
    "erase_name_at_links",
    "erase_name_at_sign_in_links",
    "erase_name_at_sessions",
)


class SqliteLedger:
    """The audit trail in SQLite. See `handraise.ports.Ledger` for what each method promises."""

    def __init__(self, connections: SqliteConnections, clock: Clock | None = None) -> None:
        self._connections = connections
        self._clock = clock

    async def unsealed(self, *, limit: int) -> Sequence[str]:
        """Workspaces with something to seal; see the port."""
        return [row["workspace"] for row in await self._read("unsealed", limit=limit)]

    async def head(self, workspace: str) -> Head:
        """The last seal; see the port."""
        return await self._connections.read(lambda connection: self._head(connection, workspace))

    def _head(self, connection: sqlite3.Connection, workspace: str) -> Head:
        last = run(connection, "last_seal", workspace=workspace)
        needed = run(connection, "needed_seal", workspace=workspace)
        seal = _seal(last[0]) if last else None
        return Head(seal, instant(now_by(self._clock)), needed[0]["number"] if needed else None)

    async def has_signed(self, workspace: str, key_id: str) -> bool:
        """Whether a key has signed; see the port."""
        return bool(await self._read("has_signed", workspace=workspace, key_id=key_id))

    async def salts(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, bytes]:
        """The salts of questions; see the port."""
        wanted = {"workspace": workspace, "ids": json.dumps(sorted(question_ids))}
        found = {row["question_id"]: row["salt"] for row in await self._read("salts", **wanted)}
        if missing := [each for each in question_ids if each not in found]:

            def work(connection: sqlite3.Connection) -> None:
                for each in missing:
                    run(connection, "add_salt", workspace=workspace, id=each, salt=os.urandom(SALT))

            await self._connections.write(work)
            found = {row["question_id"]: row["salt"] for row in await self._read("salts", **wanted)}
        return found

    async def asked(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, Json]:
        """What was asked; see the port."""
        rows = await self._read("asked", workspace=workspace, ids=json.dumps(sorted(question_ids)))
        return {row["id"]: asked_of(row) for row in rows}

    async def removals(self, workspace: str, *, seal: int | None, limit: int) -> Sequence[Removal]:
        """Removals of a seal, or of none; see the port."""
        name = "removals_unsealed" if seal is None else "removals_of_seal"
        rows = await self._read(name, workspace=workspace, seal=seal, limit=limit)
        return [stored_removal(row, instant) for row in rows]

    async def append(self, seal: Seal, *, removals: Sequence[int]) -> bool:
        """Add a seal; see the port."""

        def work(connection: sqlite3.Connection) -> bool:
            place = {"workspace": seal.workspace}
            head, upto = self._head(connection, seal.workspace), int(seal.cursor)
            after = int(head.seal.cursor) if head.seal else 0
            behind = run(connection, "events_behind", after=after, last=upto, **place)
            if not continues(seal, head, [str(row["number"]) for row in behind]):
                return False
            values = seal_values(seal)
            values |= {"last_number": upto, "sealed_at": micros(seal.sealed_at)}
            run(connection, "append", **place, **values)
            run(connection, "cover_removals", seal=seal.number, numbers=json.dumps(list(removals)), **place)
            run(connection, "let_go_of_removals", oldest=seal.oldest, **place)
            run(connection, "let_go_of_seals", oldest=seal.oldest, **place)
            return True

        return await self._connections.write(work)

    async def seals(self, workspace: str, *, after: int, limit: int) -> Sequence[Seal]:
        """Seals in their order; see the port."""
        rows = await self._read("seals", workspace=workspace, after=after, limit=limit)
        return [_seal(row) for row in rows]

    async def concerning(self, workspace: str, person: str) -> Sequence[str]:
        """The questions of a person; see the port."""
        rows = await self._read("concerning", workspace=workspace, person=person)
        return sorted(row["id"] for row in rows)

    async def erase(self, workspace: str, question_ids: Collection[str], *, by: str) -> Sequence[str]:
        """Erase questions; see the port."""

        def work(connection: sqlite3.Connection) -> list[str]:
            now = now_by(self._clock)
            return [
                each for each in sorted(question_ids) if _erase(connection, Ref(workspace, each), by, now)
            ]

        return await self._connections.write(work)

    async def erase_person(self, workspace: str, person: str) -> None:
        """Erase what is kept of a person besides; see the port."""

        def work(connection: sqlite3.Connection) -> None:
            for name in _OF_PERSON:
                run(connection, name, workspace=workspace, person=person, now=now_by(self._clock))

        await self._connections.write(work)

    async def scrub(self) -> bool:
        """Write the file anew without what was deleted; see the port."""
        return await self._connections.scrub()

    async def rules(self, workspace: str) -> Rule | None:
        """A workspace's rule; see the port."""
        rows = await self._read("rule", workspace=workspace)
        return Rule(_span(rows[0]["keep"])) if rows else None

    async def put_rule(self, workspace: str, rule: Rule | None) -> None:
        """Give a workspace a rule; see the port."""
        if rule is None:
            await self._write("remove_rule", workspace=workspace)
        else:
            keep = None if rule.keep is None else length(rule.keep)
            await self._write("put_rule", workspace=workspace, keep=keep)

    async def hold(self, hold: Hold) -> None:
        """Hold something; see the port."""
        await self._write(
            "hold",
            workspace=hold.workspace,
            name=hold.name,
            question_id=hold.question_id,
            reason=hold.reason,
            actor=hold.by,
            now=now_by(self._clock),
        )

    async def lift(self, workspace: str, name: str) -> bool:
        """Lift a hold; see the port."""
        return bool(await self._write("lift", workspace=workspace, name=name))

    async def holds(self, workspace: str) -> Sequence[Hold]:
        """What is held; see the port."""
        return [stored_hold(row, instant) for row in await self._read("holds", workspace=workspace)]

    async def _read(self, name: str, /, **values: Any) -> list[sqlite3.Row]:
        return await self._connections.read(lambda connection: run(connection, name, **values))

    async def _write(self, name: str, /, **values: Any) -> list[sqlite3.Row]:
        return await self._connections.write(lambda connection: run(connection, name, **values))


def _erase(connection: sqlite3.Connection, ref: Ref, by: str, now: int) -> bool:
    place = {"workspace": ref.workspace, "id": ref.id}
    if run(connection, "is_held", **place) or not run(connection, "erase_question", **place):
        return False
    run(connection, "note_removal", what="erased", actor=by, now=now, **place)
    for name in _OF_QUESTION:
        run(connection, name, **place)
    return True


def _seal(row: sqlite3.Row) -> Seal:
    return stored_seal(row, str(row["last_number"]), instant)


def _span(stored: int | None) -> timedelta | None:
    return None if stored is None else timedelta(microseconds=stored)
