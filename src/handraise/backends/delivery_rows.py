"""Between rows and deliveries, for the backends that speak SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from handraise.backends.row_mapping import Instant, Row, to_json
from handraise.model.deliveries import Address, Delivery, DeliveryStatus
from handraise.model.events import EventKind
from handraise.model.routing import Recent
from handraise.ports.outbox import OutboxEntry


def stored_address(row: Row) -> Address:
    """The address in a row."""
    return Address(
        workspace=row["workspace"],
        recipient=row["recipient"],
        channel=row["channel"],
        id=row["id"],
        to=json.loads(row["destination"]),
    )


def stored_line(row: Row, instant: Instant) -> OutboxEntry:
    """The line in a row."""
    return OutboxEntry(
        workspace=row["workspace"],
        number=row["number"],
        question_id=row["question_id"],
        kind=EventKind(row["kind"]),
        at=instant(row["at"]),
        now=instant(row["now"]),
        data=None if row["data"] is None else json.loads(row["data"]),
    )


def stored_delivery(row: Row, instant: Instant) -> Delivery:
    """The delivery in a row."""
    return Delivery(
        workspace=row["workspace"],
        id=row["id"],
        question_id=row["question_id"],
        recipient=row["recipient"],
        channel=row["channel"],
        to=json.loads(row["destination"]),
        reason=row["reason"],
        rate_limit_key=row["lane"],
        created_at=instant(row["created_at"]),
        due_at=None if row["due_at"] is None else instant(row["due_at"]),
        bundle=row["bundle"],
        status=DeliveryStatus(row["status"]),
        tries=row["tries"],
        turn=row["turn"],
        stale=bool(row["stale"]),
        sent_at=None if row["sent_at"] is None else instant(row["sent_at"]),
        receipt=None if row["receipt"] is None else json.loads(row["receipt"]),
        problem=row["problem"],
    )


def stored_recent(rows: Iterable[Row]) -> Recent:
    """The counts in rows of recipient, asker and number."""
    recent = Recent.nothing()
    for row in rows:
        recent.note(row["recipient"], row["asker"], row["number"])
    return recent


def delivery_values(line: OutboxEntry, delivery: Delivery) -> dict[str, Any]:
    """A planned delivery as the columns of its row, with the line that it comes from."""
    return {
        "line": line.number,
        "id": delivery.id,
        "recipient": delivery.recipient,
        "channel": delivery.channel,
        "reason": delivery.reason,
        "lane": delivery.rate_limit_key,
        "bundle": delivery.bundle,
        "destination": to_json(delivery.to) or "null",
        "due_at": delivery.due_at,
    }
