"""The outbox in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from handraise.backends.memory.clock import now_by
from handraise.backends.memory.store import MemoryStore
from handraise.model.callbacks import Callback
from handraise.model.deliveries import (
    Address,
    Delivery,
    DeliveryStatus,
    Try,
    after_try,
    callback_delivery,
    made_stale,
    tried_again,
)
from handraise.model.events import Event, EventKind
from handraise.model.json_values import Json
from handraise.model.outcomes import Status
from handraise.model.questions import Question, Ref
from handraise.model.routing import Recent
from handraise.model.workspace_events import address_put, address_removed, delivery_retried, routing_put
from handraise.ports import Clock
from handraise.ports.outbox import PER_MESSAGE, UNCLAIMED, ChannelTrouble, OutboxEntry, RoutedEntry

_BROUGHT = (EventKind.BROUGHT_IN, EventKind.HANDED_OVER)
_TOLD = (
    EventKind.ASKED,
    EventKind.REMINDED,
    EventKind.ESCALATED,
    EventKind.NOTED,
    EventKind.REPLIED,
    EventKind.OPENED,
    *_BROUGHT,
)
_ENDINGS = frozenset(status.value for status in Status if status is not Status.PENDING)


class MemoryOutbox:
    """The outbox, lost when the process ends. See `handraise.ports.Outbox` for what each method promises."""

    def __init__(self, store: MemoryStore, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock
        self._addresses: dict[tuple[str, str, str, str], Address] = {}
        self._policies: dict[str, Json] = {}
        self._entries: dict[int, OutboxEntry] = {}
        self._numbers = 0
        self._deliveries: dict[Ref, Delivery] = {}
        self._askers: dict[Ref, str] = {}
        store.tell = self._add_entry
        store.removed = self._remove
        store.add_callback = self._add_callback

    async def put_address(
        self,
        address: Address,
        *,
        by: str | None = None,
        check: Callable[[Address | None], None] | None = None,
    ) -> None:
        """Store an address; see the port."""
        place = (address.workspace, address.recipient, address.channel, address.id)
        if check is not None:
            check(self._addresses.get(place))
        self._store.note(address.workspace, address_put(self._addresses.get(place), address, by=by))
        self._addresses[place] = address

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
        if check is not None:
            check(self._addresses.get((workspace, recipient, channel, address_id)))
        removed = self._addresses.pop((workspace, recipient, channel, address_id), None)
        self._store.note(workspace, address_removed(removed, by=by) if removed else None)
        return removed is not None

    async def addresses(self, workspace: str, recipients: Collection[str] | None = None) -> Sequence[Address]:
        """Addresses; see the port."""
        return [
            address
            for place, address in sorted(self._addresses.items())
            if place[0] == workspace and (recipients is None or place[1] in recipients)
        ]

    async def recipients_at(self, workspace: str, channel: str, address_id: str) -> Sequence[str]:
        """Whose address it is; see the port."""
        found = (workspace, channel, address_id)
        return sorted(who for place, who, where, each in self._addresses if (place, where, each) == found)

    async def routing(self, workspace: str) -> Json:
        """How the workspace reaches its people; see the port."""
        return self._policies.get(workspace)

    async def put_routing(
        self,
        workspace: str,
        policy: Json,
        *,
        by: str | None = None,
        check: Callable[[Json], None] | None = None,
    ) -> None:
        """Replace it; see the port."""
        if check is not None:
            check(self._policies.get(workspace))
        self._store.note(workspace, routing_put(self._policies.get(workspace), policy, by=by))
        self._policies[workspace] = policy

    async def workspaces_with_entries(self, *, limit: int) -> Sequence[str]:
        """The workspaces that have entries; see the port."""
        return sorted({entry.workspace for entry in self._entries.values()})[:limit]

    async def entries(self, workspace: str, *, limit: int) -> Sequence[OutboxEntry]:
        """The oldest entries; see the port."""
        found = [entry for entry in self._entries.values() if entry.workspace == workspace][:limit]
        return [replace(entry, now=self._now()) for entry in found]

    async def recent(self, workspace: str, *, since: datetime) -> Recent:
        """How many deliveries there were; see the port."""
        recent = Recent.nothing()
        for ref, each in self._deliveries.items():
            counts = each.bundle is None and not each.is_callback
            if each.workspace == workspace and each.created_at >= since and counts:
                recent.note(each.recipient, self._askers[ref])
        return recent

    async def route(self, workspace: str, routed: Sequence[RoutedEntry]) -> int:
        """Turn entries into deliveries; see the port."""
        number = sum(self._route(workspace, each) for each in routed)
        for each in routed:
            if each.nobody:
                await self.mark_unreached(Ref(workspace, each.entry.question_id))
        return number

    async def workspaces_with_due(self, *, limit: int) -> Sequence[str]:
        """The workspaces in which something is due; see the port."""
        return sorted({each.workspace for each in self._deliveries.values() if self._is_due(each)})[:limit]

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
        due = sorted(
            (
                each
                for each in self._deliveries.values()
                if each.workspace == workspace
                and self._is_due(each)
                and (each.channel in channels or each.created_at <= self._now() - UNCLAIMED)
            ),
            key=lambda each: (each.due_at, each.id),
        )
        messages: dict[str, str] = {}
        used: Counter[str] = Counter()
        for each in due:
            message = _message_of(each)
            free = free_slots.get(each.rate_limit_key, per_key)
            if message not in messages and used[each.rate_limit_key] < free and len(messages) < limit:
                messages[message] = each.rate_limit_key
                used[each.rate_limit_key] += 1
        together: Counter[str] = Counter()
        taken = []
        for each in sorted(due, key=lambda each: each.id):
            message = _message_of(each)
            together[message] += 1
            if message in messages and together[message] <= PER_MESSAGE:
                taken.append(each)
        until = self._now() + lease
        return [
            self._keep(replace(each, due_at=until, tries=each.tries + 1, turn=each.turn + 1))
            for each in taken
        ]

    async def record(self, tries: Sequence[Try]) -> None:
        """Store the results of attempts; see the port."""
        for tried in tries:
            delivery = self._deliveries.get(Ref(tried.delivery.workspace, tried.delivery.id))
            if delivery is None:
                continue
            self._keep(after_try(delivery, tried, self._now()))
            if tried.status is DeliveryStatus.SENT:
                self._store.mark_reached(delivery.question)
            elif tried.status in (DeliveryStatus.FAILED, DeliveryStatus.UNKNOWN):
                await self.mark_unreached(delivery.question)

    async def mark_unreached(self, ref: Ref) -> bool:
        """Nobody can be told of it; see the port."""
        if any(each.may_have_arrived for each in await self.deliveries(ref)):
            return False
        return self._store.mark_unreached(ref)

    async def failed(self, workspace: str, *, limit: int) -> Sequence[Delivery]:
        """What failed; see the port."""
        return self._failed(workspace)[::-1][:limit]

    async def retrying(self, workspace: str, *, limit: int) -> Sequence[Delivery]:
        """What is tried again; see the port."""
        return self._retrying(workspace)[:limit]

    async def failed_by_channel(self, workspace: str, *, limit: int) -> Sequence[ChannelTrouble]:
        """How much failed, by channel; see the port."""
        return _by_channel(self._failed(workspace), limit)

    async def retrying_by_channel(self, workspace: str, *, limit: int) -> Sequence[ChannelTrouble]:
        """How much is tried again, by channel; see the port."""
        return _by_channel(self._retrying(workspace), limit)

    async def retry(self, workspace: str, delivery_id: str, *, by: str | None = None) -> bool:
        """Try again what failed; see the port."""
        delivery = self._deliveries.get(Ref(workspace, delivery_id))
        if delivery is None or not self._may_retry(delivery):
            return False
        self._keep(tried_again(delivery, self._now()))
        self._store.note(workspace, delivery_retried(delivery, by=by))
        return True

    def _failed(self, workspace: str) -> list[Delivery]:
        return self._oldest_first(workspace, self._may_retry)

    def _retrying(self, workspace: str) -> list[Delivery]:
        return self._oldest_first(workspace, lambda each: each.is_retried and self._is_pending(each))

    def _oldest_first(self, workspace: str, counts: Callable[[Delivery], bool]) -> list[Delivery]:
        found = [each for each in self._deliveries.values() if each.workspace == workspace and counts(each)]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    def _may_retry(self, delivery: Delivery) -> bool:
        failed = delivery.status is DeliveryStatus.FAILED and not delivery.stale
        return failed and self._is_pending(delivery)

    def _is_pending(self, delivery: Delivery) -> bool:
        question = self._store.peek(delivery.question)
        return question is not None and question.status is Status.PENDING

    async def deliveries(self, ref: Ref) -> Sequence[Delivery]:
        """A question's deliveries; see the port."""
        found = [each for each in self._deliveries.values() if each.question == ref]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    def _add_entry(self, event: Event) -> None:
        data = event.data if isinstance(event.data, dict) else {}
        asks = event.kind in _TOLD or (event.kind is EventKind.VOTED and "to" in data)
        if not asks and event.kind.value not in _ENDINGS and event.kind is not EventKind.REPORTED:
            return
        ref = Ref(event.workspace, event.question_id)
        told = not asks and any(each.question == ref for each in self._deliveries.values())
        if told or any(place[0] == event.workspace for place in self._addresses):
            self._numbers += 1
            self._entries[self._numbers] = OutboxEntry(
                workspace=event.workspace,
                number=self._numbers,
                question_id=event.question_id,
                kind=event.kind,
                at=event.at,
                now=event.at,
                data=_kept_of(event, data),
            )

    def _route(self, workspace: str, routed: RoutedEntry) -> int:
        entry = self._entries.get(routed.entry.number)
        if entry is None or entry.workspace != workspace:
            return 0
        del self._entries[entry.number]
        ref = Ref(workspace, entry.question_id)
        if routed.settled:
            for each in [each for each in self._deliveries.values() if each.question == ref]:
                self._keep(made_stale(each, self._now()))
        question = self._store.peek(ref)
        if question is not None and question.status is Status.PENDING:
            for each in routed.deliveries:
                if Ref(workspace, each.id) not in self._deliveries:
                    self._keep(replace(each, created_at=self._now()))
                    self._askers[Ref(workspace, each.id)] = question.asker
        return 1

    def _add_callback(self, question: Question, callback: Callback) -> None:
        """Store where the asker of a new question is called back."""
        delivery = self._keep(callback_delivery(question, callback))
        self._askers[Ref(delivery.workspace, delivery.id)] = question.asker

    def _remove(self, ref: Ref) -> None:
        """Remove the deliveries of a question that has been removed."""
        for place in [place for place, each in self._deliveries.items() if each.question == ref]:
            del self._deliveries[place], self._askers[place]

    def erase_entries(self, refs: Collection[Ref]) -> None:
        """Erase the entries of questions, for the ledger."""
        gone = [
            number for number, each in self._entries.items() if Ref(each.workspace, each.question_id) in refs
        ]
        for number in gone:
            del self._entries[number]

    def erase_person(self, workspace: str, person: str) -> None:
        """Erase the addresses of a person and the attempts to reach them, for the ledger."""
        for address in [each for each in self._addresses if each[:2] == (workspace, person)]:
            del self._addresses[address]
        told = [
            place
            for place, each in self._deliveries.items()
            if each.workspace == workspace and each.recipient == person and not each.is_callback
        ]
        for place in told:
            del self._deliveries[place], self._askers[place]

    def _keep(self, delivery: Delivery) -> Delivery:
        self._deliveries[Ref(delivery.workspace, delivery.id)] = delivery
        return delivery

    def _is_due(self, delivery: Delivery) -> bool:
        return delivery.due_at is not None and delivery.due_at <= self._now()

    def _now(self) -> datetime:
        return now_by(self._clock)


def _by_channel(deliveries: Sequence[Delivery], limit: int) -> Sequence[ChannelTrouble]:
    """How many deliveries there are of each channel, at most `limit`. They come the oldest first."""
    numbers = Counter(each.channel for each in deliveries)
    oldest = {each.channel: each for each in reversed(deliveries)}
    return [
        ChannelTrouble(
            channel=channel,
            number=min(number, limit),
            since=oldest[channel].created_at,
            problem=oldest[channel].problem,
        )
        for channel, number in sorted(numbers.items())
    ]


def _kept_of(event: Event, data: dict[str, Json]) -> Json:
    """What an entry says besides the kind of its event: who is asked now, or who wrote the note."""
    if event.kind is EventKind.NOTED:
        return {"by": event.by}
    if event.kind in _BROUGHT:
        return {"to": data["to"], "by": event.by}
    return {"to": data["to"]} if "to" in data else None


def _message_of(delivery: Delivery) -> str:
    """The id of a delivery's message; deliveries that are sent together have the same one."""
    return (delivery.is_to_be_sent and delivery.bundle) or delivery.id
