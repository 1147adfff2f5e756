"""The outbox in SQL: every decision is one conditional statement, or several in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

from handraise.backends.sql.executor import Run, SqlExecutor, note
from handraise.backends.sql.parameters import AsJson, delivery_values, json_text, try_values
from handraise.backends.sql.rows import (
    Row,
    stored_address,
    stored_delivery,
    stored_entry,
    stored_recent,
    stored_trouble,
)
from handraise.model.deliveries import Address, Delivery, DeliveryStatus, Try
from handraise.model.json_values import Json
from handraise.model.questions import Ref
from handraise.model.routing import Recent
from handraise.model.workspace_events import address_put, address_removed, delivery_retried, routing_put
from handraise.ports.outbox import PER_MESSAGE, UNCLAIMED, ChannelTrouble, OutboxEntry, RoutedEntry

_LOST = (DeliveryStatus.FAILED, DeliveryStatus.UNKNOWN)


class SqlOutbox:
    """The outbox in an SQL database. See `handraise.ports.Outbox` for what each method promises."""

    def __init__(self, executor: SqlExecutor) -> None:
        self._executor = executor

    async def put_address(
        self,
        address: Address,
        *,
        by: str | None = None,
        check: Callable[[Address | None], None] | None = None,
    ) -> None:
        """Store an address; see the port."""
        place = {"recipient": address.recipient, "channel": address.channel, "id": address.id}

        async def work(run: Run) -> None:
            before = await _checked_address(run, place, check)
            await run("put_address", destination=json_text(address.to), **place)
            await note(run, address_put(before, address, by=by))

        await self._executor.transact(address.workspace, work)

    async def remove_address(
        self,
        workspace: str,
        recipient: str,
        channel: str,
        address_id: str,
        *,
        by: str | None = None,
        check: Callable[[Address | None], None] | None = None,
    ) -> bool:
        """Forget an address; see the port."""
        place = {"recipient": recipient, "channel": channel, "id": address_id}

        async def work(run: Run) -> bool:
            await _checked_address(run, place, check)
            rows = await run("remove_address", **place)
            if rows:
                await note(run, address_removed(stored_address(rows[0]), by=by))
            return bool(rows)

        return await self._executor.transact(workspace, work)

    async def addresses(self, workspace: str, recipients: Collection[str] | None = None) -> Sequence[Address]:
        """Addresses; see the port."""
        wanted = None if recipients is None else list(recipients)
        rows = await self._executor.fetch(workspace, "addresses", recipients=wanted)
        return [stored_address(row) for row in rows]

    async def recipients_at(self, workspace: str, channel: str, address_id: str) -> Sequence[str]:
        """Whose address it is; see the port."""
        rows = await self._executor.fetch(workspace, "recipients_at", channel=channel, id=address_id)
        return [row["recipient"] for row in rows]

    async def routing(self, workspace: str) -> Json:
        """How the workspace reaches its people; see the port."""
        return _policy(await self._executor.fetch(workspace, "routing"))

    async def put_routing(
        self,
        workspace: str,
        policy: Json,
        *,
        by: str | None = None,
        check: Callable[[Json], None] | None = None,
    ) -> None:
        """Replace it; see the port."""

        async def work(run: Run) -> None:
            await run("lock_routing")
            before = _policy(await run("routing"))
            if check is not None:
                check(before)
            await run("put_routing", policy=json_text(policy))
            await note(run, routing_put(before, policy, by=by))

        await self._executor.transact(workspace, work)

    async def workspaces_with_entries(self, *, limit: int) -> Sequence[str]:
        """The workspaces that have entries; see the port."""
        rows = await self._executor.fetch(None, "workspaces_with_entries", at_most=limit)
        return [row["workspace"] for row in rows]

    async def entries(self, workspace: str, *, limit: int) -> Sequence[OutboxEntry]:
        """The oldest entries; see the port."""
        rows = await self._executor.fetch(workspace, "entries", limit=limit)
        return [stored_entry(row) for row in rows]

    async def recent(self, workspace: str, *, since: datetime) -> Recent:
        """How many deliveries there were; see the port."""
        return stored_recent(await self._executor.fetch(workspace, "recent", since=since))

    async def route(self, workspace: str, routed: Sequence[RoutedEntry]) -> int:
        """Turn entries into deliveries; see the port."""

        async def work(run: Run) -> int:
            rows = await run("use_entries", numbers=[each.entry.number for each in routed])
            used = {row["number"] for row in rows}
            own = [each for each in routed if each.entry.number in used]
            lost = [each.entry.question_id for each in own if each.nobody]
            ended = [each.entry.question_id for each in own if each.settled]
            planned = [delivery for each in own if not each.settled for delivery in each.deliveries]
            if lost:
                await run("lock_questions", lost=lost)
                await run("unreached", lost=lost)
            if planned:
                rows = await run("lock_pending", ids=[each.question_id for each in planned])
                askers = {row["id"]: row["asker"] for row in rows}
                made = [each for each in planned if each.question_id in askers]
                values = [delivery_values(each, askers[each.question_id]) for each in made]
                await run("route", deliveries=AsJson(values))
            if ended:
                await run("end_deliveries", ended=ended)
            return len(used)

        return await self._executor.transact(workspace, work)

    async def workspaces_with_due(self, *, limit: int) -> Sequence[str]:
        """The workspaces in which something is due; see the port."""
        rows = await self._executor.fetch(None, "workspaces_with_due", at_most=limit)
        return [row["workspace"] for row in rows]

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
        """Take due deliveries; see the port."""
        rows = await self._executor.fetch(
            workspace,
            "take",
            channels=list(channels),
            full=[key for key, free in free_slots.items() if free <= 0],
            free_slots=AsJson(dict(free_slots)),
            per_key=per_key,
            per_message=PER_MESSAGE,
            unclaimed=UNCLAIMED,
            limit=limit,
            lease=lease,
        )
        return [stored_delivery(row) for row in rows]

    async def record(self, tries: Sequence[Try]) -> None:
        """Store the results of attempts; see the port."""
        for workspace in dict.fromkeys(each.delivery.workspace for each in tries):
            own = [each for each in tries if each.delivery.workspace == workspace]
            sent = [each.delivery.question_id for each in own if each.status is DeliveryStatus.SENT]
            lost = [each.delivery.question_id for each in own if each.status in _LOST]
            needed = {"lock_questions": lost, "record": own, "reached": sent, "unreached": lost}
            await self._executor.fetch(
                workspace,
                *(name for name, about in needed.items() if about),
                tries=AsJson([try_values(each) for each in own]),
                ids=[each.delivery.id for each in own],
                sent=sent,
                lost=lost,
            )

    async def mark_unreached(self, ref: Ref) -> bool:
        """Nobody can be told of it; see the port."""
        return bool(await self._executor.fetch(ref.workspace, "lock_questions", "unreached", lost=[ref.id]))

    async def failed(self, workspace: str, *, limit: int) -> Sequence[Delivery]:
        """What failed; see the port."""
        rows = await self._executor.fetch(workspace, "failed_deliveries", limit=limit)
        return [stored_delivery(row) for row in rows]

    async def retrying(self, workspace: str, *, limit: int) -> Sequence[Delivery]:
        """What is tried again; see the port."""
        rows = await self._executor.fetch(workspace, "retried_deliveries", limit=limit)
        return [stored_delivery(row) for row in rows]

    async def failed_by_channel(self, workspace: str, *, limit: int) -> Sequence[ChannelTrouble]:
        """How much failed, by channel; see the port."""
        rows = await self._executor.fetch(workspace, "failed_by_channel", limit=limit)
        return [stored_trouble(row) for row in rows]

    async def retrying_by_channel(self, workspace: str, *, limit: int) -> Sequence[ChannelTrouble]:
        """How much is tried again, by channel; see the port."""
        rows = await self._executor.fetch(workspace, "retried_by_channel", limit=limit)
        return [stored_trouble(row) for row in rows]

    async def retry(self, workspace: str, delivery_id: str, *, by: str | None = None) -> bool:
        """Try again what failed; see the port."""

        async def work(run: Run) -> bool:
            rows = await run("retry_delivery", id=delivery_id)
            if rows:
                await note(run, delivery_retried(stored_delivery(rows[0]), by=by))
            return bool(rows)

        return await self._executor.transact(workspace, work)

    async def deliveries(self, ref: Ref) -> Sequence[Delivery]:
        """A question's deliveries; see the port."""
        rows = await self._executor.fetch(ref.workspace, "deliveries", question_id=ref.id)
        return [stored_delivery(row) for row in rows]


async def _checked_address(
    run: Run, place: Mapping[str, str], check: Callable[[Address | None], None] | None
) -> Address | None:
    """The address at a place, which nobody else changes until the end of the transaction if it is checked."""
    if check is not None:
        await run("lock_routing")  # an address that is not there yet cannot be locked itself
    found = await run("find_address", **place)
    address = stored_address(found[0]) if found else None
    if check is not None:
        check(address)
    return address


def _policy(rows: Sequence[Row]) -> Json:
    return json.loads(rows[0]["policy"]) if rows else None
