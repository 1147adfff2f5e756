"""What a provider wrote over SCIM, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.backends.sql.executor import Run, SqlExecutor
from handraise.backends.sql.parameters import json_text
from handraise.backends.sql.rows import stored_provisioned
from handraise.model.identities import fold_email
from handraise.model.json_values import Json
from handraise.model.provisioned import Provisioned, ProvisionedKind


class SqlProvisioned:
    """The part of the directory for SCIM. See `handraise.ports.provisioned` for what each method promises."""

    _executor: SqlExecutor

    async def put_provisioned(
        self, workspace: str, kind: ProvisionedKind, resource_id: str, *, name: str, document: dict[str, Json]
    ) -> Provisioned | None:
        """Store a document; see the port."""
        folded = fold_email(name)

        async def work(run: Run) -> Provisioned | None:
            # The lock is a separate statement: what a statement sees is fixed before it waits for a lock.
            await run("lock_person", id=f"{kind} {folded}", email_folded=None)
            rows = await run(
                "put_provisioned", kind=kind, id=resource_id, name_folded=folded, document=json_text(document)
            )
            return stored_provisioned(rows[0]) if rows else None

        return await self._executor.transact(workspace, work)

    async def find_provisioned(
        self, workspace: str, kind: ProvisionedKind, resource_id: str
    ) -> Provisioned | None:
        """The document with an id; see the port."""
        rows = await self._executor.fetch(workspace, "find_provisioned", kind=kind, id=resource_id)
        return stored_provisioned(rows[0]) if rows else None

    async def find_provisioned_by_name(
        self, workspace: str, kind: ProvisionedKind, name: str
    ) -> Provisioned | None:
        """The document with a name; see the port."""
        rows = await self._executor.fetch(
            workspace, "find_provisioned_by_name", kind=kind, name_folded=fold_email(name)
        )
        return stored_provisioned(rows[0]) if rows else None

    async def provisioned(self, workspace: str, kind: ProvisionedKind) -> Sequence[Provisioned]:
        """All documents of a kind; see the port."""
        rows = await self._executor.fetch(workspace, "provisioned", kind=kind)
        return [stored_provisioned(row) for row in rows]

    async def remove_provisioned(self, workspace: str, kind: ProvisionedKind, resource_id: str) -> bool:
        """Remove a document; see the port."""
        return bool(await self._executor.fetch(workspace, "remove_provisioned", kind=kind, id=resource_id))
