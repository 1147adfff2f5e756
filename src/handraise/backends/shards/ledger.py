"""The audit trail over several shards: a workspace's chain is on the shard of its events, and moves with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from handraise.backends.shards.placement import ShardRouter
from handraise.model.json_values import Json
from handraise.model.seals import Hold, Removal, Rule, Seal
from handraise.ports import Head


class ShardedLedger:
    """The audit trail on several shards. See `handraise.ports.Ledger` for what each method promises."""

    def __init__(self, router: ShardRouter) -> None:
        self._router = router

    async def unsealed(self, *, limit: int) -> Sequence[str]:
        """See the port; of every shard that answers."""
        found = await self._router.call_each("unsealed", lambda ports: ports.ledger.unsealed(limit=limit))
        return [workspace for each in found for workspace in each]

    async def head(self, workspace: str) -> Head:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.ledger.head(workspace))

    async def has_signed(self, workspace: str, key_id: str) -> bool:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.ledger.has_signed(workspace, key_id))

    async def salts(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, bytes]:
        """See the port."""
        return await self._router.write(
            workspace, lambda ports: ports.ledger.salts(workspace, question_ids), is_noop=lambda _: True
        )

    async def asked(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, Json]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.ledger.asked(workspace, question_ids))

    async def removals(self, workspace: str, *, seal: int | None, limit: int) -> Sequence[Removal]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.ledger.removals(workspace, seal=seal, limit=limit)
        )

    async def append(self, seal: Seal, *, removals: Sequence[int]) -> bool:
        """See the port."""
        return await self._router.write(
            seal.workspace,
            lambda ports: ports.ledger.append(seal, removals=removals),
            is_noop=lambda appended: not appended,
        )

    async def seals(self, workspace: str, *, after: int, limit: int) -> Sequence[Seal]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.ledger.seals(workspace, after=after, limit=limit)
        )

    async def concerning(self, workspace: str, person: str) -> Sequence[str]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.ledger.concerning(workspace, person))

    async def erase(self, workspace: str, question_ids: Collection[str], *, by: str) -> Sequence[str]:
        """See the port. Not while the workspace moves."""
        return await self._router.write(
            workspace,
            lambda ports: ports.ledger.erase(workspace, question_ids, by=by),
            is_noop=lambda erased: not erased,
        )

    async def erase_person(self, workspace: str, person: str, *, by: str | None = None) -> None:
        """See the port. Not while the workspace moves."""
        await self._router.write(
            workspace,
            lambda ports: ports.ledger.erase_person(workspace, person, by=by),
            is_noop=lambda _: True,
        )

    async def scrub(self) -> bool:
        """See the port."""
        return all(await self._router.call_all(lambda ports: ports.ledger.scrub()))

    async def rules(self, workspace: str) -> Rule | None:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.ledger.rules(workspace))

    async def put_rule(self, workspace: str, rule: Rule | None, *, by: str | None = None) -> None:
        """See the port."""
        await self._router.write(
            workspace, lambda ports: ports.ledger.put_rule(workspace, rule, by=by), is_noop=lambda _: True
        )

    async def hold(self, hold: Hold) -> None:
        """See the port."""
        await self._router.write(
            hold.workspace, lambda ports: ports.ledger.hold(hold), is_noop=lambda _: True
        )

    async def lift(self, workspace: str, name: str, *, by: str | None = None) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.ledger.lift(workspace, name, by=by),
            is_noop=lambda lifted: not lifted,
        )

    async def holds(self, workspace: str) -> Sequence[Hold]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.ledger.holds(workspace))
