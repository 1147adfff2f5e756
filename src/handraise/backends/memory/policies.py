"""The policies of workspaces in memory."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from handraise.backends.memory.clock import now_by
from handraise.backends.memory.standing_answers import MemoryStandingAnswers
from handraise.backends.memory.store import MemoryStore
from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion, Suspension
from handraise.model.questions import Draft, Question, Ref
from handraise.model.rulings import Ruling
from handraise.model.stops import Stop, stop_for
from handraise.model.workspace_events import policy_put, quotas_put, stop_begun, stop_ended, suspension_lifted
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.ports import Clock


class MemoryPolicies(MemoryStandingAnswers):
    """Policies in dictionaries. See `handraise.ports.Policies` for what each method promises."""

    def __init__(self, store: MemoryStore, clock: Clock | None = None) -> None:
        super().__init__(store, clock)
        self._versions: dict[str, list[PolicyVersion]] = {}
        self._suspensions: dict[tuple[str, str], Suspension] = {}
        self._stops: list[Stop] = []
        self._quotas: dict[str, WorkspaceQuotas] = {}
        store.decides = self._decides
        store.checked = self._suspend
        store.stop_for = self._stop_for
        store.erase_from_policies = self._erase_person
        store.quota_of = self._quota_of

    async def current(self, workspace: str) -> CurrentPolicy | None:
        """The latest version; see the port."""
        versions = self._versions.get(workspace)
        if not versions:
            return None
        suspended = tuple(each for each in self._suspensions.values() if each.workspace == workspace)
        return CurrentPolicy(version=versions[-1], suspensions=suspended)

    async def count_waiting_checks(self, workspace: str, rule: str, *, limit: int) -> int:
        """How many spot checks wait; see the port."""
        return min(limit, self._store.count_waiting_checks(workspace, rule))

    async def put(
        self, workspace: str, document: Json, *, by: str | None, expected: int
    ) -> PolicyVersion | None:
        """Store a version; see the port."""
        versions = self._versions.setdefault(workspace, [])
        if len(versions) != expected:
            return None
        new = PolicyVersion(
            workspace=workspace,
            version=expected + 1,
            document=json.loads(json.dumps(document)),  # nobody keeps a reference to what is stored
            by=by,
            at=now_by(self._clock),
        )
        self._store.note(workspace, policy_put(versions[-1].document if versions else None, new))
        versions.append(new)
        return new

    async def versions(self, workspace: str, *, before: int | None, limit: int) -> Sequence[PolicyVersion]:
        """Versions, the latest first; see the port."""
        found = reversed(self._versions.get(workspace, []))
        return [each for each in found if before is None or each.version < before][:limit]

    async def lift_suspension(self, workspace: str, rule: str, *, name: str, by: str | None) -> bool:
        """Let a rule allow questions again; see the port."""
        if self._suspensions.pop((workspace, rule), None) is None:
            return False
        self._store.note(workspace, suspension_lifted(name, rule, by=by))
        return True

    async def stop(
        self, workspace: str, *, agent: str | None = None, tool: str | None = None, why: str, by: str | None
    ) -> Stop:
        """Stop what is covered; see the port."""
        for each in await self.stops(workspace):
            if (each.agent, each.tool) == (agent, tool):
                return each
        new = Stop(
            workspace=workspace,
            id=uuid.uuid4().hex,
            agent=agent,
            tool=tool,
            why=why,
            at=now_by(self._clock),
            by=by,
        )
        self._stops.append(new)
        self._store.note(workspace, stop_begun(new))
        return new

    async def resume(self, workspace: str, stop_id: str, *, by: str | None) -> Stop | None:
        """End a stop; see the port."""
        for each in await self.stops(workspace):
            if each.id == stop_id:
                self._stops.remove(each)
                self._store.note(workspace, stop_ended(each, by=by))
                return each
        return None

    async def stops(self, workspace: str) -> Sequence[Stop]:
        """The stops, the oldest first; see the port."""
        return [each for each in self._stops if each.workspace == workspace]

    async def quotas(self, workspace: str) -> WorkspaceQuotas:
        """The quotas of a workspace; see the port."""
        return self._quotas.get(workspace, WorkspaceQuotas())

    async def put_quotas(
        self,
        workspace: str,
        quotas: WorkspaceQuotas,
        *,
        by: str | None = None,
        check: Callable[[WorkspaceQuotas], None] | None = None,
    ) -> None:
        """Replace the quotas of a workspace; see the port."""
        before = await self.quotas(workspace)
        if check is not None:
            check(before)
        if (change := quotas_put(before, quotas, by=by)) is not None:
            self._quotas[workspace] = quotas
            self._store.note(workspace, change)

    def _quota_of(self, draft: Draft, default: int | None) -> int | None:
        return self._quotas.get(draft.workspace, WorkspaceQuotas()).of(draft.asker, default)

    def _stop_for(self, question: Draft | Question) -> Stop | None:
        return stop_for(self._stops, question)

    def _erase_person(self, workspace: str, person: str) -> None:
        theirs = (workspace, person)
        self._stops = [
            replace(each, by="erased", why="erased") if (each.workspace, each.by) == theirs else each
            for each in self._stops
        ]
        self._versions[workspace] = [
            replace(each, by="erased") if (each.workspace, each.by) == theirs else each
            for each in self._versions.get(workspace, [])
        ]
        for place, each in self._suspensions.items():
            if (each.workspace, each.by) == theirs:
                self._suspensions[place] = replace(each, by="erased")

    def _decides(self, workspace: str, ruling: Ruling | None) -> bool:
        latest = len(self._versions.get(workspace, ()))
        if latest != (0 if ruling is None else ruling.version):
            return False
        ending = None if ruling is None else ruling.ending
        rule = None if ending is None else ending.rule
        return rule is None or (workspace, rule) not in self._suspensions

    def _suspend(self, ref: Ref, rule: str | None, by: str) -> None:
        if rule is not None:
            self._suspensions.setdefault(
                (ref.workspace, rule),
                Suspension(
                    workspace=ref.workspace, rule=rule, question_id=ref.id, by=by, at=now_by(self._clock)
                ),
            )
