"""The policies of workspaces over several shards: a workspace's policy is on the shard of its questions."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.backends.shards.placement import ShardRouter
from handraise.backends.shards.standing_answers import ShardedStandingAnswers
from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion
from handraise.model.stops import Stop


class ShardedPolicies(ShardedStandingAnswers):
    """Policies on several shards. See `handraise.ports.Policies` for what each method promises."""

    def __init__(self, router: ShardRouter) -> None:
        self._router = router

    async def current(self, workspace: str) -> CurrentPolicy | None:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.policies.current(workspace))

    async def put(
        self, workspace: str, document: Json, *, by: str | None, expected: int
    ) -> PolicyVersion | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.policies.put(workspace, document, by=by, expected=expected),
            is_noop=lambda stored: stored is None,
        )

    async def versions(self, workspace: str, *, before: int | None, limit: int) -> Sequence[PolicyVersion]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.policies.versions(workspace, before=before, limit=limit)
        )

    async def lift_suspension(self, workspace: str, rule: str, *, name: str, by: str | None) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.policies.lift_suspension(workspace, rule, name=name, by=by),
            is_noop=lambda lifted: not lifted,
        )

    async def stop(
        self, workspace: str, *, agent: str | None = None, tool: str | None = None, why: str, by: str | None
    ) -> Stop:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.policies.stop(workspace, agent=agent, tool=tool, why=why, by=by),
            is_noop=lambda _: True,  # it wrote nothing if the same is stopped already
        )

    async def resume(self, workspace: str, stop_id: str, *, by: str | None) -> Stop | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.policies.resume(workspace, stop_id, by=by),
            is_noop=lambda ended: ended is None,
        )

    async def stops(self, workspace: str) -> Sequence[Stop]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.policies.stops(workspace))
