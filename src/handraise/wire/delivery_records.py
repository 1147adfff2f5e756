"""Addresses, routing and deliveries as they cross the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pydantic

from handraise.model.deliveries import Address, Delivery, DeliveryReason, DeliveryStatus
from handraise.wire.records import Record
from handraise.wire.requests import Request


class PutAddress(Request):
    """Where a recipient can be reached. Each channel defines what `to` holds."""

    to: Any


class AddressRecord(Record):
    """An address by its names. Its `to` is never returned, because it may hold a secret."""

    recipient: str
    channel: str
    id: str

    @classmethod
    def of(cls, address: Address) -> AddressRecord:
        """The record of an address."""
        return cls.model_validate(address, from_attributes=True)


class AddressList(Record):
    """Addresses of a workspace."""

    addresses: tuple[AddressRecord, ...]


class DeliveryRecord(Record):
    """One attempt to reach one recipient through one channel."""

    id: str
    recipient: str
    channel: str
    reason: DeliveryReason
    status: DeliveryStatus
    created_at: datetime
    sent_at: datetime | None = None
    due_at: datetime | None = pydantic.Field(default=None, description="when it will be tried next")
    tries: int
    problem: str | None = None

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryRecord:
        """The record of a delivery."""
        return cls.model_validate(delivery, from_attributes=True)


class DeliveryList(Record):
    """The deliveries of a question, oldest first; `unreached` says that nobody could be notified of it."""

    unreached: bool
    deliveries: tuple[DeliveryRecord, ...]


class SubscriptionKeys(Request):
    """The keys that encrypt a message for a browser."""

    p256dh: Annotated[str, pydantic.Field(max_length=200)]
    auth: Annotated[str, pydantic.Field(max_length=100)]


class Subscription(Request):
    """A browser's push subscription, as the browser returns it."""

    endpoint: Annotated[str, pydantic.Field(max_length=2_000)]
    keys: SubscriptionKeys


class PushKey(Record):
    """The server's public key for the push services, in base64url."""

    key: str
