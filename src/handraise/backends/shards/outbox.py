"""The outbox over several shards: entries and deliveries are on the shard of their question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

from handraise.backends.shards.placement import ShardRouter
from handraise.model.deliveries import Address, Delivery, Try
from handraise.model.json_values import Json
from handraise.model.questions import Ref
from handraise.model.routing import Recent
from handraise.ports.outbox import OutboxEntry, RoutedEntry


class ShardedOutbox:
    """The outbox on several shards. See `handraise.ports.Outbox` for what each method promises.

    With `only`, it looks for the work of one shard only. A call that is `is_noop` wrote nothing, or changes nothing
    when it is repeated.
    """

    def __init__(self, router: ShardRouter, *, only: int | None = None) -> None:
        self._router = router
        self._only = only

    @property
    def by_shard(self) -> Sequence[ShardedOutbox]:
        """One outbox for each shard, so that work on one shard is not delayed by another."""
        return [ShardedOutbox(self._router, only=number) for number in self._router.shards]

    async def put_address(self, address: Address, *, by: str | None = None) -> None:
        """See the port."""
        await self._router.write(address.workspace, lambda ports: ports.outbox.put_address(address, by=by))

    async def remove_address(
        self, workspace: str, recipient: str, channel: str, address_id: str, *, by: str | None = None
    ) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.outbox.remove_address(workspace, recipient, channel, address_id, by=by),
            is_noop=lambda done: not done,
        )

    async def addresses(self, workspace: str, recipients: Collection[str] | None = None) -> Sequence[Address]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.outbox.addresses(workspace, recipients))

    async def recipients_at(self, workspace: str, channel: str, address_id: str) -> Sequence[str]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.outbox.recipients_at(workspace, channel, address_id)
        )

    async def routing(self, workspace: str) -> Json:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.outbox.routing(workspace))

    async def put_routing(
        self,
        workspace: str,
        policy: Json,
        *,
        by: str | None = None,
        check: Callable[[Json], None] | None = None,
    ) -> None:
        """See the port."""
        await self._router.write(
            workspace, lambda ports: ports.outbox.put_routing(workspace, policy, by=by, check=check)
        )

    async def workspaces_with_entries(self, *, limit: int) -> Sequence[str]:
        """See the port; of every shard that answers."""
        found = await self._router.call_each(
            f"workspaces_with_entries {self._only}",
            lambda ports: ports.outbox.workspaces_with_entries(limit=limit),
            only=self._only,
        )
        return [workspace for each in found for workspace in each]

    async def entries(self, workspace: str, *, limit: int) -> Sequence[OutboxEntry]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.outbox.entries(workspace, limit=limit))

    async def recent(self, workspace: str, *, since: datetime) -> Recent:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.outbox.recent(workspace, since=since))

    async def route(self, workspace: str, routed: Sequence[RoutedEntry]) -> int:
        """See the port."""
        return await self._router.write(
            workspace, lambda ports: ports.outbox.route(workspace, routed), is_noop=lambda done: not done
        )

    async def workspaces_with_due(self, *, limit: int) -> Sequence[str]:
        """See the port; of every shard that answers."""
        found = await self._router.call_each(
            f"workspaces_with_due {self._only}",
            lambda ports: ports.outbox.workspaces_with_due(limit=limit),
            only=self._only,
        )
        return [workspace for each in found for workspace in each]

    async def take(
        self,
        workspace: str,
        *,
        channels: Collection[str],
        free_slots: Mapping[str, int],
        per_key: int,
        limit: int,
        lease: timedelta,
    ) -> Sequence[Delivery]:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.outbox.take(
                workspace, channels=channels, free_slots=free_slots, per_key=per_key, limit=limit, lease=lease
            ),
            is_noop=lambda done: not done,
        )

    async def record(self, tries: Sequence[Try]) -> None:
        """See the port."""
        for workspace in dict.fromkeys(each.delivery.workspace for each in tries):
            own = [each for each in tries if each.delivery.workspace == workspace]
            await self._record(workspace, own)

    async def _record(self, workspace: str, tries: Sequence[Try]) -> None:
        await self._router.write(workspace, lambda ports: ports.outbox.record(tries), is_noop=lambda _: True)

    async def mark_unreached(self, ref: Ref) -> bool:
        """See the port."""
        return await self._router.write(
            ref.workspace, lambda ports: ports.outbox.mark_unreached(ref), is_noop=lambda done: not done
        )

    async def failed(self, workspace: str, *, limit: int) -> Sequence[Delivery]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.outbox.failed(workspace, limit=limit))

    async def retry(self, workspace: str, delivery_id: str, *, by: str | None = None) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.outbox.retry(workspace, delivery_id, by=by),
            is_noop=lambda done: not done,
        )

    async def deliveries(self, ref: Ref) -> Sequence[Delivery]:
        """See the port."""
        return await self._router.read(ref.workspace, lambda ports: ports.outbox.deliveries(ref))
