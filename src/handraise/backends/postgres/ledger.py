"""The audit trail in PostgreSQL: seals and removals are written by functions of the schema alone."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import asyncpg

from handraise.backends.ledger_rows import asked_of, seal_values, stored_hold, stored_removal, stored_seal
from handraise.backends.postgres.database import KEEPER_ROLE, Database, instant
from handraise.backends.sql_files import load_statements
from handraise.model.errors import StoreUnavailable, UnsafeStore
from handraise.model.json_values import Json
from handraise.model.seals import SALT, Hold, Removal, Rule, Seal
from handraise.ports import Head

_NOT_A_KEEPER = (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError)

STATEMENTS = load_statements("handraise.backends.postgres", "ledger.sql")


class PostgresLedger:
    """The audit trail in PostgreSQL. See `handraise.ports.Ledger` for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def unsealed(self, *, limit: int) -> Sequence[str]:
        """Workspaces with something to seal; see the port."""
        rows = await self._database.fetch(STATEMENTS["unsealed"], limit=limit)
        return [row["workspace"] for row in rows]

    async def head(self, workspace: str) -> Head:
        """The last seal; see the port."""
        (row,) = await self._fetch(workspace, "head")
        last = None if row["number"] is None else _seal(row)
        return Head(last, row["now"], row["needed"])

    async def has_signed(self, workspace: str, key_id: str) -> bool:
        """Whether a key has signed; see the port."""
        return bool(await self._fetch(workspace, "has_signed", key_id=key_id))

    async def salts(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, bytes]:
        """The salts of questions; see the port."""
        ids = sorted(question_ids)
        found = await self._fetch(workspace, "salts", ids=ids)
        if len(found) < len(ids):
            new = [os.urandom(SALT) for _ in ids]
            await self._fetch(workspace, "add_salts", ids=ids, salts=new)
            found = await self._fetch(workspace, "salts", ids=ids)
        return {row["question_id"]: row["salt"] for row in found}

    async def asked(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, Json]:
        """What was asked; see the port."""
        rows = await self._fetch(workspace, "asked", ids=sorted(question_ids))
        return {row["id"]: asked_of(row) for row in rows}

    async def removals(self, workspace: str, *, seal: int | None, limit: int) -> Sequence[Removal]:
        """Removals of a seal, or of none; see the port."""
        if seal is None:
            rows = await self._fetch(workspace, "removals_unsealed", limit=limit)
        else:
            rows = await self._fetch(workspace, "removals_of_seal", seal=seal, limit=limit)
        return [stored_removal(row, instant) for row in rows]

    async def append(self, seal: Seal, *, removals: Sequence[int]) -> bool:
        """Add a seal; see the port."""
        transaction, _, number = seal.cursor.partition(".")
        rows = await self._fetch(
            seal.workspace,
            "append",
            **seal_values(seal),
            sealed_at=seal.sealed_at,
            last_transaction=transaction,
            last_number=int(number),
            removals=list(removals),
        )
        appended: bool = rows[0]["appended"]
        return appended

    async def seals(self, workspace: str, *, after: int, limit: int) -> Sequence[Seal]:
        """Seals in their order; see the port."""
        return [_seal(row) for row in await self._fetch(workspace, "seals", after=after, limit=limit)]

    async def concerning(self, workspace: str, person: str) -> Sequence[str]:
        """The questions of a person; see the port."""
        rows = await self._fetch(workspace, "concerning", person=person)
        return sorted(row["id"] for row in rows)

    async def erase(self, workspace: str, question_ids: Collection[str], *, by: str) -> Sequence[str]:
        """Erase questions; see the port."""
        (row,) = await self._fetch_as_keeper(workspace, "erase", ids=sorted(question_ids), actor=by)
        return sorted(row["ids"])

    async def erase_person(self, workspace: str, person: str) -> None:
        """Erase what is kept of a person besides; see the port."""
        await self._fetch_as_keeper(workspace, "erase_person", person=person)

    async def scrub(self) -> bool:
        """Only PostgreSQL's own vacuum overwrites what was deleted; see the port."""
        return False

    async def rules(self, workspace: str) -> Rule | None:
        """A workspace's rule; see the port."""
        rows = await self._fetch(workspace, "rule")
        return Rule(rows[0]["keep"]) if rows else None

    async def put_rule(self, workspace: str, rule: Rule | None) -> None:
        """Give a workspace a rule; see the port."""
        if rule is None:
            await self._fetch_as_keeper(workspace, "remove_rule")
        else:
            await self._fetch_as_keeper(workspace, "put_rule", keep=rule.keep)

    async def hold(self, hold: Hold) -> None:
        """Hold something; see the port."""
        what = {"name": hold.name, "question_id": hold.question_id, "reason": hold.reason, "actor": hold.by}
        await self._fetch(hold.workspace, "hold", **what)

    async def lift(self, workspace: str, name: str) -> bool:
        """Lift a hold; see the port."""
        return bool(await self._fetch_as_keeper(workspace, "lift", name=name))

    async def holds(self, workspace: str) -> Sequence[Hold]:
        """What is held; see the port."""
        return [stored_hold(row, instant) for row in await self._fetch(workspace, "holds")]

    async def _fetch(self, workspace: str, name: str, /, **values: Any) -> list[Any]:
        return await self._database.fetch_in(
            workspace, STATEMENTS[name], **{"workspace": workspace, **values}
        )

    async def _fetch_as_keeper(self, workspace: str, name: str, /, **values: Any) -> list[Any]:
        try:
            return await self._database.fetch_as_keeper(
                workspace, STATEMENTS[name], **{"workspace": workspace, **values}
            )
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, _NOT_A_KEEPER):
                raise
            raise UnsafeStore(
                f"PostgreSQL lets only members of {KEEPER_ROLE} do this: {error.__cause__}. Log in as one, or run as an "
                f"administrator: create role {KEEPER_ROLE} nologin (unless it is there); grant {KEEPER_ROLE} to the login; "
                "select handraise.allow_app();"
            ) from error


def _seal(row: Any) -> Seal:
    return stored_seal(row, f"{row['last_transaction']}.{row['last_number']}", instant)
