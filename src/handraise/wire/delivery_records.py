"""Addresses, routing and deliveries as they cross the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pydantic

from handraise.model.deliveries import Address, Delivery, DeliveryStatus, Reason
from handraise.wire.records import Record
from handraise.wire.requests import Request


class PutAddress(Request):
    """Where a recipient can be reached. What `to` holds is the channel's own affair."""

    to: Any


class AddressRecord(Record):
    """An address by its names. Where it leads is not given out: there may be a secret in it."""

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
    reason: Reason
    status: DeliveryStatus
    created_at: datetime
    sent_at: datetime | None = None
    due_at: datetime | None = pydantic.Field(default=None, description="when it is tried next")
    tries: int
    problem: str | None = None

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryRecord:
        """The record of a delivery."""
        return cls.model_validate(delivery, from_attributes=True)


class DeliveryList(Record):
    """The deliveries of a question, oldest first; `unreached` says that nobody could be told of it."""

    unreached: bool
    deliveries: tuple[DeliveryRecord, ...]


class SubscriptionKeys(Request):
    """With what a message is encrypted for a browser."""

    p256dh: Annotated[str, pydantic.Field(max_length=200)]
    auth: Annotated[str, pydantic.Field(max_length=100)]


class Subscription(Request):
    """Where a browser can be told, as it gives it out itself."""

    endpoint: Annotated[str, pydantic.Field(max_length=2_000)]
    keys: SubscriptionKeys


class PushKey(Record):
    """Our key at the push services, in base64url."""

    key: str
