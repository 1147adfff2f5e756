"""Notifications to send, stored with the questions until they are sent. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from handraise.model.deliveries import Address, Delivery, Try
from handraise.model.events import EventKind
from handraise.model.json_values import Json
from handraise.model.questions import Ref
from handraise.model.routing import Recent


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """An event that nobody has been notified of yet, in the order of their numbers."""

    workspace: str
    number: int
    question_id: str
    kind: EventKind
    at: datetime
    now: datetime
    """When it was read, by the store's clock."""
    data: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedEntry:
    """What an entry comes to.

    `settled` says that the question has ended and its messages are stale, `nobody` that nobody can be notified of it.
    """

    entry: OutboxEntry
    deliveries: Sequence[Delivery] = ()
    settled: bool = False
    nobody: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTrouble:
    """The deliveries of a channel that failed, or that are tried again."""

    channel: str
    number: int
    """How many there are, or as many as were counted at most."""
    since: datetime
    """When the oldest of them was created."""
    problem: str | None
    """What went wrong when the oldest was last tried."""


PER_MESSAGE = 50
"""The most deliveries of a bundle in one message; the others are sent as another message."""

UNCLAIMED = timedelta(days=1)
"""If no process has had a delivery's channel for this long, any process takes it: it cannot be sent."""


class Outbox(Protocol):
    """Lines, addresses and deliveries of workspaces.

    In a workspace that has an address, every event that somebody may have to be told of (`asked`, `reminded`,
    `escalated`, a vote that opens another stage, and the five endings) leaves an entry in its own transaction; and so
    does the ending of a question that somebody was told of, or whose asker is called back. Any number of processes route
    entries to deliveries and try those. Every method is atomic; raises `StoreUnavailable` as a store does.

    A call that changes an address or the policy leaves exactly one event of the workspace in the audit trail,
    in the same transaction, with `by`: who did it. A call that changes nothing leaves none.
    """

    async def put_address(
        self,
        address: Address,
        *,
        by: str | None = None,
        check: Callable[[Address | None], None] | None = None,
    ) -> None:
        """Store an address; it replaces the recipient's address with the same channel and id.

        `check` is called with the address that is stored, or None, in the same transaction. If it raises, nothing changes.
        """
        ...

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
        """Delete an address; False if there is none. `check` is that of `put_address`."""
        ...

    async def addresses(self, workspace: str, recipients: Collection[str] | None = None) -> Sequence[Address]:
        """The addresses of these recipients, or of all, in the order of recipient, channel and id."""
        ...

    async def recipients_at(self, workspace: str, channel: str, address_id: str) -> Sequence[str]:
        """The recipients, in order, whose address has this id on that channel: who a channel's user is here."""
        ...

    async def routing(self, workspace: str) -> Json:
        """The workspace's routing policy as it was stored; None if there is none."""
        ...

    async def put_routing(
        self,
        workspace: str,
        policy: Json,
        *,
        by: str | None = None,
        check: Callable[[Json], None] | None = None,
    ) -> None:
        """Replace the workspace's routing policy.

        `check` is called with the current policy, or None, in the same transaction. If it raises, nothing
        changes.
        """
        ...

    async def workspaces_with_entries(self, *, limit: int) -> Sequence[str]:
        """Some of the workspaces that have entries."""
        ...

    async def entries(self, workspace: str, *, limit: int) -> Sequence[OutboxEntry]:
        """The oldest entries of a workspace. Taking a look changes nothing: others may see the same."""
        ...

    async def recent(self, workspace: str, *, since: datetime) -> Recent:
        """How many deliveries were made since then, by recipient and by asker."""
        ...

    async def route(self, workspace: str, routed: Sequence[RoutedEntry]) -> int:
        """Turn entries into deliveries, and give back how many entries that were.

        An entry is used up once: of any number who route it, one does. A delivery whose id is there already stays
        as it is. Where the question has ended, its deliveries become stale, as in `made_stale`. Where nobody can
        be told of it, and no delivery of it has arrived or can still, it is `unreached`, with one event.
        """
        ...

    async def workspaces_with_due(self, *, limit: int) -> Sequence[str]:
        """Some of the workspaces in which a delivery is due."""
        ...

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
        """Take due deliveries to try them. Each try is counted, and each is due again after the lease.

        Only those of these channels, or of channels that no process has. At most `free_slots` of a rate limit
        key are taken, or `per_key` if the key is not in it. Deliveries of a bundle that must be sent come
        together, up to `PER_MESSAGE`, and count once. Deliveries that another process is taking are skipped.
        """
        ...

    async def record(self, tries: Sequence[Try]) -> None:
        """Store the results of tries, as in `after_try`.

        Deliveries that somebody else has taken over stay as they are.

        A pending question becomes `unreached`, with one event, once none of its deliveries has arrived or
        still can, and stops being so once one has arrived.
        """
        ...

    async def mark_unreached(self, ref: Ref) -> bool:
        """Record that nobody can be notified of a pending question, with one event; False if that is not the case."""
        ...

    async def failed(self, workspace: str, *, limit: int) -> Sequence[Delivery]:
        """The deliveries that failed and are about a question that still waits, the newest first."""
        ...

    async def retrying(self, workspace: str, *, limit: int) -> Sequence[Delivery]:
        """The deliveries whose last try failed, that are tried again and are about a question that still waits.

        The oldest first. Whether one has arrived may be unknown.
        """
        ...

    async def failed_by_channel(self, workspace: str, *, limit: int) -> Sequence[ChannelTrouble]:
        """The deliveries of `failed`, counted by channel up to `limit` for each, in the order of the channels."""
        ...

    async def retrying_by_channel(self, workspace: str, *, limit: int) -> Sequence[ChannelTrouble]:
        """The deliveries of `retrying`, counted by channel up to `limit` for each, in the order of the channels."""
        ...

    async def retry(self, workspace: str, delivery_id: str, *, by: str | None = None) -> bool:
        """Try a delivery that failed once more, as in `tried_again`; False if it has not, or its question has ended.

        One conditional statement, so that of any number of callers one gets True. It leaves one event of the workspace.
        """
        ...

    async def deliveries(self, ref: Ref) -> Sequence[Delivery]:
        """The deliveries of a question, oldest first."""
        ...
