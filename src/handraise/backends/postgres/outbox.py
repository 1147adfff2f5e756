"""The PostgreSQL outbox: every decision is one conditional statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from handraise.backends.delivery_rows import (
    delivery_values,
    stored_address,
    stored_delivery,
    stored_line,
    stored_recent,
)
from handraise.backends.postgres.database import Database, Run, instant
from handraise.backends.postgres.event_writer import note
from handraise.backends.row_mapping import to_json
from handraise.backends.sql_files import load_statements
from handraise.model.deliveries import Address, Delivery, DeliveryStatus, Try
from handraise.model.json_values import Json
from handraise.model.questions import Ref
from handraise.model.routing import Recent
from handraise.model.workspace_events import address_put, address_removed, routing_put
from handraise.ports.outbox import PER_MESSAGE, UNCLAIMED, OutboxEntry, Routed

STATEMENTS = load_statements("handraise.backends.postgres", "outbox.sql")

_COLUMNS = ("line", "id", "recipient", "channel", "reason", "lane", "bundle", "destination", "due_at")
_LOST = (DeliveryStatus.FAILED, DeliveryStatus.UNKNOWN)


class PostgresOutbox:
    """What must be told, in PostgreSQL. See `handraise.ports.Outbox` for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put_address(self, address: Address, *, by: str | None = None) -> None:
        """Keep an address; see the port."""
        where = {"recipient": address.recipient, "channel": address.channel, "id": address.id}

        async def work(run: Run) -> None:
            place = {"workspace": address.workspace, **where}
            found = await run(STATEMENTS["find_address"], **place)
            await run(STATEMENTS["put_address"], **place, destination=json.dumps(address.to))
            before = stored_address(found[0]) if found else None
            await note(run, address.workspace, address_put(before, address, by=by))

        await self._database.work_in(address.workspace, work)

    async def remove_address(
        self, workspace: str, recipient: str, channel: str, address_id: str, *, by: str | None = None
    ) -> bool:
        """Forget an address; see the port."""
        where = {"workspace": workspace, "recipient": recipient, "channel": channel, "id": address_id}

        async def work(run: Run) -> bool:
            rows = await run(STATEMENTS["remove_address"], **where)
            if rows:
                await note(run, workspace, address_removed(stored_address(rows[0]), by=by))
            return bool(rows)

        return await self._database.work_in(workspace, work)

    async def addresses(self, workspace: str, recipients: Collection[str] | None = None) -> Sequence[Address]:
        """Addresses; see the port."""
        wanted = None if recipients is None else list(recipients)
        return [stored_address(row) for row in await self._fetch(workspace, "addresses", recipients=wanted)]

    async def recipients_at(self, workspace: str, channel: str, address_id: str) -> Sequence[str]:
        """Whose address it is; see the port."""
        rows = await self._fetch(workspace, "recipients_at", channel=channel, id=address_id)
        return [row["recipient"] for row in rows]

    async def policy(self, workspace: str) -> Json:
        """How the workspace reaches its people; see the port."""
        rows = await self._fetch(workspace, "policy")
        return json.loads(rows[0]["policy"]) if rows else None

    async def put_policy(
        self,
        workspace: str,
        policy: Json,
        *,
        by: str | None = None,
        check: Callable[[Json], None] | None = None,
    ) -> None:
        """Replace it; see the port."""

        async def work(run: Run) -> None:
            await run(STATEMENTS["lock_policy"], workspace=workspace)
            rows = await run(STATEMENTS["policy"], workspace=workspace)
            before = json.loads(rows[0]["policy"]) if rows else None
            if check is not None:
                check(before)
            await run(STATEMENTS["put_policy"], workspace=workspace, policy=json.dumps(policy))
            await note(run, workspace, routing_put(before, policy, by=by))

        await self._database.work_in(workspace, work)

    async def workspaces_with_lines(self, *, limit: int) -> Sequence[str]:
        """Where lines are; see the port."""
        rows = await self._database.fetch(STATEMENTS["workspaces_with_lines"], at_most=limit)
        return [row["workspace"] for row in rows]

    async def lines(self, workspace: str, *, limit: int) -> Sequence[OutboxEntry]:
        """The oldest lines; see the port."""
        return [stored_line(row, instant) for row in await self._fetch(workspace, "lines", limit=limit)]

    async def recent(self, workspace: str, *, since: datetime) -> Recent:
        """How many deliveries there were; see the port."""
        return stored_recent(await self._fetch(workspace, "recent", since=since))

    async def route(self, workspace: str, routed: Sequence[Routed]) -> int:
        """Turn lines into deliveries; see the port."""
        planned = [delivery_values(each.line, one) for each in routed for one in each.deliveries]
        lost = [each.line.question_id for each in routed if each.nobody]
        rows = await self._fetch(
            workspace,
            *(("lock_questions", "unreached", "route") if lost else ("route",)),
            lost=lost,
            numbers=[each.line.number for each in routed],
            ends=[each.line.number for each in routed if each.settled],
            **{name: [each[name] for each in planned] for name in _COLUMNS},
        )
        return len(rows)

    async def workspaces_with_due(self, *, limit: int) -> Sequence[str]:
        """Where something is due; see the port."""
        rows = await self._database.fetch(STATEMENTS["workspaces_with_due"], at_most=limit)
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
        rows = await self._fetch(
            workspace,
            "take",
            channels=list(channels),
            full=[key for key, free in free_slots.items() if free <= 0],
            lanes=list(free_slots),
            rooms=list(free_slots.values()),
            unclaimed=UNCLAIMED,
            per_message=PER_MESSAGE,
            per_lane=per_key,
            limit=limit,
            lease=lease,
        )
        return [stored_delivery(row, instant) for row in rows]

    async def record(self, tries: Sequence[Try]) -> None:
        """Keep what came of tries; see the port."""
        for workspace in dict.fromkeys(each.delivery.workspace for each in tries):
            own = [each for each in tries if each.delivery.workspace == workspace]
            sent = [each.delivery.question_id for each in own if each.status is DeliveryStatus.SENT]
            lost = [each.delivery.question_id for each in own if each.status in _LOST]
            steps = ("lock_questions", "record", "reached", "unreached") if lost else ("record", "reached")
            await self._fetch(
                workspace,
                *(steps if sent or lost else ("record",)),
                ids=[each.delivery.id for each in own],
                turns=[each.delivery.turn for each in own],
                statuses=[each.status.value for each in own],
                receipts=[to_json(each.receipt) for each in own],
                problems=[each.problem for each in own],
                again_after=[each.again_after for each in own],
                sent=sent,
                lost=lost,
            )

    async def mark_unreached(self, ref: Ref) -> bool:
        """Nobody can be told of it; see the port."""
        return bool(await self._fetch(ref.workspace, "unreached", lost=[ref.id]))

    async def deliveries(self, ref: Ref) -> Sequence[Delivery]:
        """A question's deliveries; see the port."""
        rows = await self._fetch(ref.workspace, "deliveries", question_id=ref.id)
        return [stored_delivery(row, instant) for row in rows]

    async def _fetch(self, workspace: str, /, *names: str, **values: Any) -> list[Any]:
        statements = [STATEMENTS[name] for name in names]
        return await self._database.fetch_in(workspace, *statements, workspace=workspace, **values)
