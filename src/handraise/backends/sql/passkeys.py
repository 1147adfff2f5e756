"""The passkeys of people in SQL: every decision is one conditional statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from handraise.backends.sql.executor import Run, SqlExecutor, note
from handraise.backends.sql.rows import stored_passkey
from handraise.model.passkey_signatures import Passkey
from handraise.model.workspace_events import passkey_added, passkey_removed


class SqlPasskeys:
    """The part of the directory for passkeys. See `handraise.ports.passkeys` for what each method promises."""

    def __init__(self, executor: SqlExecutor) -> None:
        self._executor = executor

    async def add_passkey(
        self,
        workspace: str,
        passkey_id: str,
        *,
        person: str,
        name: str,
        domain: str,
        public_key: str,
        sign_count: int,
        vouched_by: str | None = None,
    ) -> Passkey | None:
        """Store a passkey; see the port."""
        values = {
            "id": passkey_id,
            "person": person,
            "name": name,
            "domain": domain,
            "public_key": public_key,
        }

        async def work(run: Run) -> Passkey | None:
            rows = await run("add_passkey", sign_count=sign_count, vouched_by=vouched_by, **values)
            passkey = stored_passkey(rows[0]) if rows else None
            await note(run, passkey_added(passkey) if passkey else None)
            return passkey

        return await self._executor.transact(workspace, work)

    async def passkeys(self, workspace: str, person: str) -> Sequence[Passkey]:
        """The passkeys of a person; see the port."""
        rows = await self._executor.fetch(workspace, "passkeys", person=person)
        return [stored_passkey(row) for row in rows]

    async def use_passkey(self, workspace: str, passkey_id: str, *, person: str, sign_count: int) -> bool:
        """Record a use; see the port."""
        values = {"id": passkey_id, "person": person, "sign_count": sign_count}
        return bool(await self._executor.fetch(workspace, "use_passkey", **values))

    async def remove_passkey(
        self, workspace: str, passkey_id: str, *, person: str, by: str | None = None
    ) -> bool:
        """Remove a passkey; see the port."""

        async def work(run: Run) -> bool:
            rows = await run("remove_passkey", id=passkey_id, person=person)
            if rows:
                await note(run, passkey_removed(stored_passkey(rows[0]), by=by))
            return bool(rows)

        return await self._executor.transact(workspace, work)

    async def add_nonce(self, workspace: str, nonce: str, *, person: str, lasts: timedelta) -> bool:
        """Store a nonce; see the port."""
        values = {"id": nonce, "person": person, "lasts": lasts}
        return bool(await self._executor.fetch(workspace, "add_nonce", **values))

    async def use_nonce(self, workspace: str, nonce: str, *, person: str) -> bool:
        """Use a nonce; see the port."""
        return bool(await self._executor.fetch(workspace, "use_nonce", id=nonce, person=person))
