"""The SQLite outbox: each call one transaction, each decision one conditional statement in it."""

from __future__ import annotations

import json
import sqlite3
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
from handraise.backends.row_mapping import to_json
from handraise.backends.sqlite.connections import SqliteConnections
from handraise.backends.sqlite.event_writer import note
from handraise.backends.sqlite.statements import run
from handraise.backends.sqlite.timestamps import instant, length, micros, now_by
from handraise.model.deliveries import Address, Delivery, DeliveryStatus, Try
from handraise.model.json_values import Json
from handraise.model.questions import Ref
from handraise.model.routing import Recent
from handraise.model.workspace_events import address_put, address_removed, routing_put
from handraise.ports import Clock
from handraise.ports.outbox import PER_MESSAGE, UNCLAIMED, OutboxEntry, Routed


class SqliteOutbox:
    """What must be told, in a SQLite file. See `handraise.ports.Outbox` for what each method promises."""

    def __init__(self, connections: SqliteConnections, clock: Clock | None = None) -> None:
        self._connections = connections
        self._clock = clock

    async def put_address(self, address: Address, *, by: str | None = None) -> None:
        """Keep an address; see the port."""
        where = {"recipient": address.recipient, "channel": address.channel, "id": address.id}

        def work(connection: sqlite3.Connection) -> None:
            place = {"workspace": address.workspace, **where}
            found = run(connection, "find_address", **place)
            run(connection, "put_address", destination=json.dumps(address.to), **place)
            change = address_put(stored_address(found[0]) if found else None, address, by=by)
            note(connection, address.workspace, change, now_by(self._clock))

        await self._connections.write(work)

    async def remove_address(
        self, workspace: str, recipient: str, channel: str, address_id: str, *, by: str | None = None
    ) -> bool:
        """Forget an address; see the port."""
        where = {"workspace": workspace, "recipient": recipient, "channel": channel, "id": address_id}

        def work(connection: sqlite3.Connection) -> bool:
            found = run(connection, "find_address", **where)
            run(connection, "remove_address", **where)
            if found:
                change = address_removed(stored_address(found[0]), by=by)
                note(connection, workspace, change, now_by(self._clock))
            return bool(found)

        return await self._connections.write(work)

    async def addresses(self, workspace: str, recipients: Collection[str] | None = None) -> Sequence[Address]:
        """Addresses; see the port."""
        wanted = None if recipients is None else json.dumps(list(recipients))
        rows = await self._read("addresses", workspace=workspace, recipients=wanted)
        return [stored_address(row) for row in rows]

    async def recipients_at(self, workspace: str, channel: str, address_id: str) -> Sequence[str]:
        """Whose address it is; see the port."""
        rows = await self._read("recipients_at", workspace=workspace, channel=channel, id=address_id)
        return [row["recipient"] for row in rows]

    async def policy(self, workspace: str) -> Json:
        """How the workspace reaches its people; see the port."""
        rows = await self._read("policy", workspace=workspace)
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

        def work(connection: sqlite3.Connection) -> None:
            rows = run(connection, "policy", workspace=workspace)
            before = json.loads(rows[0]["policy"]) if rows else None
            if check is not None:
                check(before)
            run(connection, "put_policy", workspace=workspace, policy=json.dumps(policy))
            note(connection, workspace, routing_put(before, policy, by=by), now_by(self._clock))

        await self._connections.write(work)

    async def workspaces_with_lines(self, *, limit: int) -> Sequence[str]:
        """Where lines are; see the port."""
        return [row["workspace"] for row in await self._read("workspaces_with_lines", at_most=limit)]

    async def lines(self, workspace: str, *, limit: int) -> Sequence[OutboxEntry]:
        """The oldest lines; see the port."""
        rows = await self._read("lines", workspace=workspace, limit=limit)
        return [stored_line(row, instant) for row in rows]

    async def recent(self, workspace: str, *, since: datetime) -> Recent:
        """How many deliveries there were; see the port."""
        return stored_recent(await self._read("recent", workspace=workspace, since=micros(since)))

    async def route(self, workspace: str, routed: Sequence[Routed]) -> int:
        """Turn lines into deliveries; see the port."""

        def work(connection: sqlite3.Connection) -> int:
            return sum(self._route(connection, workspace, each) for each in routed)

        return await self._connections.write(work)

    async def workspaces_with_due(self, *, limit: int) -> Sequence[str]:
        """Where something is due; see the port."""
        return [row["workspace"] for row in await self._read("workspaces_with_due", at_most=limit)]

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
        rows = await self._write(
            "take",
            workspace=workspace,
            channels=json.dumps(list(channels)),
            rooms=json.dumps(dict(free_slots)),
            unclaimed=length(UNCLAIMED),
            per_message=PER_MESSAGE,
            per_lane=per_key,
            limit=limit,
            lease=length(lease),
        )
        return [stored_delivery(row, instant) for row in rows]

    async def record(self, tries: Sequence[Try]) -> None:
        """Keep what came of tries; see the port."""

        def work(connection: sqlite3.Connection) -> None:
            for each in tries:
                self._record(connection, each)

        await self._connections.write(work)

    async def mark_unreached(self, ref: Ref) -> bool:
        """Nobody can be told of it; see the port."""
        return await self._connections.write(lambda connection: self._unreached(connection, ref))

    async def deliveries(self, ref: Ref) -> Sequence[Delivery]:
        """A question's deliveries; see the port."""
        rows = await self._read("deliveries", workspace=ref.workspace, question_id=ref.id)
        return [stored_delivery(row, instant) for row in rows]

    def _route(self, connection: sqlite3.Connection, workspace: str, routed: Routed) -> int:
        used = run(connection, "use_line", workspace=workspace, number=routed.line.number)
        now = now_by(self._clock)
        for row in used:
            place = {"workspace": workspace, "question_id": row["question_id"], "now": now}
            if routed.settled:
                run(connection, "make_stale", **place)
            for delivery in routed.deliveries:
                values = delivery_values(routed.line, delivery)
                values["due_at"] = None if delivery.due_at is None else micros(delivery.due_at)
                run(connection, "add_delivery", **place, **values)
        if routed.nobody:
            self._unreached(connection, Ref(workspace, routed.line.question_id))
        return len(used)

    def _record(self, connection: sqlite3.Connection, tried: Try) -> None:
        delivery = tried.delivery
        run(
            connection,
            "record",
            workspace=delivery.workspace,
            id=delivery.id,
            turn=delivery.turn,
            status=tried.status.value,
            receipt=to_json(tried.receipt),
            problem=tried.problem,
            again_after=None if tried.again_after is None else length(tried.again_after),
            now=now_by(self._clock),
        )
        if tried.status is DeliveryStatus.SENT:
            run(connection, "reached", workspace=delivery.workspace, id=delivery.question_id)
        elif tried.status in (DeliveryStatus.FAILED, DeliveryStatus.UNKNOWN):
            self._unreached(connection, delivery.question)

    def _unreached(self, connection: sqlite3.Connection, ref: Ref) -> bool:
        place = {"workspace": ref.workspace, "id": ref.id, "now": now_by(self._clock)}
        lost = run(connection, "unreached", **place)
        if lost:
            run(connection, "log_unreached", **place)
        return bool(lost)

    async def _read(self, name: str, **values: Any) -> list[sqlite3.Row]:
        return await self._connections.read(
            lambda connection: run(connection, name, now=now_by(self._clock), **values)
        )

    async def _write(self, name: str, **values: Any) -> list[sqlite3.Row]:
        return await self._connections.write(
            lambda connection: run(connection, name, now=now_by(self._clock), **values)
        )
