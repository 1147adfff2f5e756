"""The policies of workspaces, in all SQL engines."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.backends.sql.executor import Run, SqlExecutor, note
from handraise.backends.sql.parameters import AsJson
from handraise.backends.sql.rows import from_json, stored_policy_version, stored_suspension
from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion
from handraise.model.workspace_events import policy_put, suspension_lifted


class SqlPolicies:
    """Policies in an SQL database. See `handraise.ports.Policies` for what each method promises."""

    def __init__(self, executor: SqlExecutor) -> None:
        self._executor = executor

    async def current(self, workspace: str) -> CurrentPolicy | None:
        """The latest version; see the port."""
        rows = await self._executor.fetch(workspace, "policy_versions", before=None, limit=1)
        if not rows:
            return None
        suspended = await self._executor.fetch(workspace, "rule_suspensions")
        return CurrentPolicy(
            version=stored_policy_version(rows[0]), suspensions=tuple(map(stored_suspension, suspended))
        )

    async def put(
        self, workspace: str, document: Json, *, by: str | None, expected: int
    ) -> PolicyVersion | None:
        """Store a version; see the port."""

        async def work(run: Run) -> PolicyVersion | None:
            before = await run("policy_versions", before=None, limit=1)
            rows = await run("put_policy", document=AsJson(document), actor=by, expected=expected)
            if not rows:
                return None
            stored = stored_policy_version(rows[0])
            await note(
                run,
                policy_put(from_json(before[0]["document"]) if before else None, stored),
            )
            return stored

        return await self._executor.transact(workspace, work)

    async def versions(self, workspace: str, *, before: int | None, limit: int) -> Sequence[PolicyVersion]:
        """Versions, the latest first; see the port."""
        rows = await self._executor.fetch(workspace, "policy_versions", before=before, limit=limit)
        return [stored_policy_version(row) for row in rows]

    async def lift_suspension(self, workspace: str, rule: str, *, name: str, by: str | None) -> bool:
        """Let a rule allow questions again; see the port."""

        async def work(run: Run) -> bool:
            if not await run("lift_suspension", rule=rule):
                return False
            await note(run, suspension_lifted(name, rule, by=by))
            return True

        return await self._executor.transact(workspace, work)
