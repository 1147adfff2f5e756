"""The policies of workspaces, in all SQL engines."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from handraise.backends.sql.executor import Run, SqlExecutor, note
from handraise.backends.sql.parameters import AsJson
from handraise.backends.sql.rows import Row, from_json, stored_policy_version, stored_stop, stored_suspension
from handraise.backends.sql.standing_answers import SqlStandingAnswers
from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion
from handraise.model.stops import Stop
from handraise.model.workspace_events import (
    policy_put,
    quotas_put,
    stop_begun,
    stop_ended,
    suspension_lifted,
)
from handraise.model.workspace_quotas import WorkspaceQuotas, rows_of, stored_quotas


class SqlPolicies(SqlStandingAnswers):
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

    async def count_waiting_checks(self, workspace: str, rule: str, *, limit: int) -> int:
        """How many spot checks wait; see the port."""
        (row,) = await self._executor.fetch(workspace, "count_waiting_checks", rule=rule, limit=limit)
        waiting: int = row["waiting"]
        return waiting

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

    async def stop(
        self, workspace: str, *, agent: str | None = None, tool: str | None = None, why: str, by: str | None
    ) -> Stop:
        """Stop what is covered; see the port."""
        new = {"id": uuid.uuid4().hex, "agent": agent, "tool": tool, "why": why, "actor": by}

        async def work(run: Run) -> Stop:
            while not (rows := await run("stop", **new)):
                for row in await run("stops"):
                    if (row["agent"], row["tool"]) == (agent, tool):
                        return stored_stop(row)
            stored = stored_stop(rows[0])
            await note(run, stop_begun(stored))
            return stored

        return await self._executor.transact(workspace, work)

    async def resume(self, workspace: str, stop_id: str, *, by: str | None) -> Stop | None:
        """End a stop; see the port."""

        async def work(run: Run) -> Stop | None:
            rows = await run("resume", id=stop_id)
            if not rows:
                return None
            ended = stored_stop(rows[0])
            await note(run, stop_ended(ended, by=by))
            return ended

        return await self._executor.transact(workspace, work)

    async def stops(self, workspace: str) -> Sequence[Stop]:
        """The stops, the oldest first; see the port."""
        return [stored_stop(row) for row in await self._executor.fetch(workspace, "stops")]

    async def quotas(self, workspace: str) -> WorkspaceQuotas:
        """The quotas of a workspace; see the port."""
        return _quotas(await self._executor.fetch(workspace, "quotas"))

    async def put_quotas(
        self,
        workspace: str,
        quotas: WorkspaceQuotas,
        *,
        by: str | None = None,
        check: Callable[[WorkspaceQuotas], None] | None = None,
    ) -> None:
        """Replace the quotas of a workspace; see the port."""

        async def work(run: Run) -> None:
            # The lock is a separate statement: what a statement sees is fixed before it waits for a lock.
            await run("lock_quotas")
            before = _quotas(await run("quotas"))
            if check is not None:
                check(before)
            if (change := quotas_put(before, quotas, by=by)) is None:
                return
            await run("drop_quotas")
            for agent, pending in rows_of(quotas).items():
                await run("put_quota", agent=agent, pending=pending)
            await note(run, change)

        await self._executor.transact(workspace, work)


def _quotas(rows: Sequence[Row]) -> WorkspaceQuotas:
    return stored_quotas({row["agent"]: row["pending"] for row in rows})
