"""Send notifications: takes due deliveries, hands them to channels, and stores the results.

At least once, always with the same id. A slow or dead receiver delays only messages with its rate limit key.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import operator
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

from handraise.desk.batcher import Batcher
from handraise.desk.delivery_planner import DeliveryPlanner
from handraise.desk.engine import Engine
from handraise.model.deliveries import CALLBACK, Address, Delivery, DeliveryStatus, Try
from handraise.model.errors import DeskClosed, StoreUnavailable
from handraise.model.events import Event, EventKind
from handraise.model.identities import Person
from handraise.model.json_values import Json
from handraise.model.people import ANYONE, GROUP, may_see
from handraise.model.questions import Question, Ref
from handraise.model.sharing_rules import with_taker_at
from handraise.model.thread_messages import ThreadMessage, messages_of
from handraise.ports import Directory
from handraise.ports.channel import CallbackSender, Channel, Message, Notice, NotSent
from handraise.ports.outbox import PER_MESSAGE, Outbox
from handraise.presentation.translation import DEFAULT_LOCALE, Locale, person_locale, set_locale

_log = logging.getLogger(__name__)

EndDelivery: TypeAlias = Callable[[Sequence[Question], Sequence[Try]], None]
DeliverySpan: TypeAlias = Callable[[Sequence[Delivery]], AbstractContextManager[EndDelivery]]
"""Is entered around each attempt; what it gives is called with the questions and the results. It must not raise."""

LinkTo = Callable[[Delivery], Awaitable[str]]
"""Returns the page where a delivery's recipient can answer; the same one every time."""

_BROUGHT = (EventKind.BROUGHT_IN, EventKind.HANDED_OVER)
MAX_PER_KEY = 8
"""How many messages of one rate limit key are in flight at most; one at a time if the last try failed."""
_ARRIVED = (DeliveryStatus.SENT, DeliveryStatus.UPDATED, DeliveryStatus.UNKNOWN)
_REPORTED = "reported"
"""In a receipt: the message has the report of what came of the answer."""
_IN_FLIGHT = 256
_OF_ONE_WORKSPACE = 64
_RECORDED_AT_ONCE = 64
_WITHIN = 30.0
_LEASE = timedelta(seconds=90)
_WORKSPACES = 1_000
_BETWEEN_LOOKS = 0.5
"""Hints that come sooner after one wait until then. To look after each hint costs the database more than the questions do."""
_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 3_600.0


@asynccontextmanager
async def run_dispatcher(
    engine: Engine,
    outbox: Outbox,
    directory: Directory,
    channels: Sequence[Channel],
    *,
    link_to: LinkTo,
    within: float = _WITHIN,
    tried: Callable[[Try], None] = lambda _: None,
    span: DeliverySpan | None = None,
    locale: Locale = DEFAULT_LOCALE,
) -> AsyncIterator[Dispatcher]:
    """Notify people through these channels inside this context.

    Any number of processes may do so. A message that takes longer than `within` seconds counts as not confirmed.
    `locale` is for people who chose none, and for shared chats.
    """
    dispatcher = Dispatcher(
        engine,
        outbox,
        directory,
        channels,
        link_to=link_to,
        within=within,
        tried=tried,
        span=span,
        locale=locale,
    )
    task = asyncio.create_task(dispatcher.run(), name="handraise dispatcher")
    engine.callback_senders = {each.name: each for each in channels if isinstance(each, CallbackSender)}
    try:
        yield dispatcher
    finally:
        engine.callback_senders = {}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await dispatcher.finish()


class Dispatcher:
    """Plans deliveries and tries them, whenever something happens and at every poll."""

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        directory: Directory,
        channels: Sequence[Channel],
        *,
        link_to: LinkTo,
        within: float = _WITHIN,
        tried: Callable[[Try], None] = lambda _: None,
        span: DeliverySpan | None = None,
        locale: Locale = DEFAULT_LOCALE,
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._directory = directory
        self._channels = {channel.name: channel for channel in channels}
        self._planner = DeliveryPlanner(engine, outbox, directory, self._rate_limit_key_of)
        self._link_to = link_to
        self._within = within
        self._tried = tried
        self._span: DeliverySpan = span or (lambda _: nullcontext(_note_nothing))
        self._locale = locale
        self._wakeup = asyncio.Event()
        self._next_look = 0.0
        self._looks_soon = False
        self._in_flight: Counter[str] = Counter()
        self._failing_keys: set[str] = set()
        self._record: Batcher[Try, None] = Batcher(self._record_all, _RECORDED_AT_ONCE)
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until cancelled. `finish` waits for messages that are being sent then."""
        async with self._engine.watch(self._on_hint, shared_feeds=True):
            while True:
                began = time.monotonic()
                self._wakeup.clear()
                try:
                    await self.work()
                except DeskClosed:
                    return
                except StoreUnavailable as error:
                    _log.warning(
                        "the store cannot be reached (%s); messages wait for it",
                        error,
                        extra={"event": "store_unreachable"},
                    )
                    await asyncio.sleep(self._engine.poll_interval)
                except Exception as error:  # noqa: BLE001 -- everybody's messages depend on this task
                    _log.error(
                        "dispatching failed; trying again", exc_info=error, extra={"event": "dispatch_failed"}
                    )
                    await asyncio.sleep(self._engine.poll_interval)
                left = self._engine.poll_interval - (time.monotonic() - began)
                try:
                    async with asyncio.timeout(max(left, 0)):
                        await self._wakeup.wait()
                except TimeoutError:
                    pass

    async def work(self) -> None:
        """Plan new deliveries, and start those that are due and within the limits."""
        if await self._planner.route_some():
            self._wakeup.set()
        workspaces = list(await self._outbox.workspaces_with_due(limit=_WORKSPACES))
        # In another order each time, and some of each: no workspace takes all slots.
        random.shuffle(workspaces)
        for workspace in workspaces:
            free = _IN_FLIGHT - len(self._under_way)
            if free <= 0:
                return
            at_most = min(free, _OF_ONE_WORKSPACE)
            taken = await self._outbox.take(
                workspace,
                channels=list(self._channels),
                free_slots={key: self._free_slots(key) for key in (*self._in_flight, *self._failing_keys)},
                per_key=MAX_PER_KEY,
                limit=at_most,
                lease=max(_LEASE, timedelta(seconds=3 * self._within)),
            )
            for message in _messages(taken):
                self._begin(message)
            if len(taken) >= min(at_most, PER_MESSAGE):
                self._wakeup.set()  # there may be more

    async def finish(self) -> None:
        """Wait for messages that are being sent."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _free_slots(self, key: str) -> int:
        """Return how many more messages of a rate limit key may be in flight."""
        return max(0, (1 if key in self._failing_keys else MAX_PER_KEY) - self._in_flight[key])

    def _on_hint(self, topics: Collection[Ref] | None) -> None:
        del topics
        if not self._looks_soon:
            self._looks_soon = True
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._next_look), self._look)

    def _look(self) -> None:
        self._looks_soon = False
        self._next_look = asyncio.get_running_loop().time() + _BETWEEN_LOOKS
        self._wakeup.set()

    def _rate_limit_key_of(self, address: Address) -> str | None:
        channel = self._channels.get(address.channel)
        # Another process may have the channel; if nobody has it for a day, the delivery has failed.
        return address.channel if channel is None else channel.rate_limit_key(address.to)

    def _begin(self, deliveries: Sequence[Delivery]) -> None:
        key = deliveries[0].rate_limit_key
        self._in_flight[key] += 1
        takes_last_slot = not self._free_slots(key)
        task = asyncio.create_task(self._try(deliveries), name="handraise delivery")
        self._under_way.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            if takes_last_slot or not self._free_slots(key) or len(self._under_way) == _IN_FLIGHT - 1:
                self._wakeup.set()  # others may have waited for this slot
            self._in_flight[key] -= 1
            if not self._in_flight[key]:
                del self._in_flight[key]
            if not task.cancelled() and (error := task.exception()):
                _log.warning(
                    "a delivery is tried again after its lease: %s",
                    error,
                    extra={"event": "delivery_delayed"},
                )

        task.add_done_callback(done)

    async def _try(self, deliveries: Sequence[Delivery]) -> None:
        with self._span(deliveries) as end:
            found = await self._engine.store.read([each.question for each in deliveries])
            questions = [question for question in found if question is not None]
            if len(questions) < len(deliveries):
                raise LookupError("a delivery is about a question that does not exist")
            tries = await self._results(deliveries, questions)
            end(questions, tries)
            await self._record_tries(tries)

    async def _results(self, deliveries: Sequence[Delivery], questions: Sequence[Question]) -> list[Try]:
        """Try one message, and return what came of each of its deliveries."""
        if deliveries[0].is_callback:  # never in a bundle
            called = [await self._call_back(deliveries[0], questions[0])]
            self._mark_failing(called)
            return called
        address = await self._address_now(deliveries[0])
        if address is None:
            return [_given_up(each) for each in deliveries]
        deliveries = [replace(each, to=address.to) for each in deliveries]
        pairs = list(zip(deliveries, questions, strict=True))
        first = deliveries[0]
        person = await self._find_person(first)
        # This task does nothing but this delivery.
        set_locale(self._locale if person is None else person_locale(person, self._locale))
        entitled = pairs if person is None else [each for each in pairs if _may_be_told(person, each[1])]
        live = [pair for pair in entitled if pair[0].is_to_be_sent and pair[1].outcome is None]
        tries = [_given_up(pair[0]) for pair in pairs if pair not in entitled]
        tries += [await self._without_sending(*pair) for pair in entitled if pair not in live]
        if live:
            tries += await self._send(live)
        self._mark_failing(tries)
        return tries

    async def _call_back(self, delivery: Delivery, question: Question) -> Try:
        """Tell the asker that its question has ended, once; it knows what it reported later."""
        if delivery.status is not DeliveryStatus.WAITING:
            return Try(delivery=delivery, status=delivery.status, problem=delivery.problem)
        try:
            async with asyncio.timeout(self._within):
                await self._callback_sender(delivery).call_back(delivery.to, question, id=delivery.id)
        except Exception as error:  # noqa: BLE001 -- whatever a channel does, the delivery is accounted for
            failed = self._not_sent(delivery, error)
            return replace(failed, status=DeliveryStatus.WAITING) if failed.again_after else failed
        return Try(delivery=delivery, status=DeliveryStatus.UPDATED)

    def _mark_failing(self, tries: Sequence[Try]) -> None:
        (self._failing_keys.add if any(each.again_after for each in tries) else self._failing_keys.discard)(
            tries[0].delivery.rate_limit_key
        )

    async def _record_tries(self, tries: Sequence[Try]) -> None:
        await asyncio.gather(*map(self._record, tries))
        for each in tries:
            self._tried(each)
        if any(each.status in (DeliveryStatus.FAILED, DeliveryStatus.UNKNOWN) for each in tries):
            self._engine.notify_feed(tries[0].delivery.workspace)

    async def _address_now(self, delivery: Delivery) -> Address | None:
        """The current address: it may have been removed since, or have a new secret."""
        known = await self._outbox.addresses(delivery.workspace, [delivery.recipient])
        there = [each for each in known if each.channel == delivery.channel]
        is_same = getattr(self._channels.get(delivery.channel), "same_place", operator.eq)
        for found in (operator.eq, is_same):
            for each in there:
                if found(each.to, delivery.to):
                    return each
        return None

    async def _find_person(self, delivery: Delivery) -> Person | None:
        """Return the person who is told, or None: a shared chat or a system is not a person."""
        if delivery.recipient.startswith((GROUP, ANYONE)):
            return None
        return await self._directory.find_person(delivery.workspace, delivery.recipient)

    async def _record_all(self, tries: Sequence[Try]) -> Sequence[None]:
        await self._outbox.record(tries)
        return [None] * len(tries)

    async def _send(self, pairs: Sequence[tuple[Delivery, Question]]) -> list[Try]:
        first = pairs[0][0]
        try:
            async with asyncio.timeout(self._within):
                receipt = await self._channel(first).send(await self._message(pairs))
        except Exception as error:  # noqa: BLE001 -- whatever a channel does, the delivery is accounted for
            # All deliveries of a bundle wait equally long, so that the bundle stays the same.
            failed = self._not_sent(first, error)
            return [replace(failed, delivery=each) for each, _ in pairs]
        return [Try(delivery=each, status=DeliveryStatus.SENT, receipt=receipt) for each, _ in pairs]

    async def _without_sending(self, delivery: Delivery, question: Question) -> Try:
        """The question has ended: say so wherever somebody may have been notified of it."""
        if delivery.status is DeliveryStatus.QUEUED and delivery.turn == 1:
            return Try(delivery=delivery, status=DeliveryStatus.UNSENT)
        if await self._is_told_by_another(delivery, question):
            return Try(delivery=delivery, status=DeliveryStatus.UPDATED)
        if delivery.status is DeliveryStatus.UPDATED and (question.report is None or _has_report(delivery)):
            return Try(delivery=delivery, status=DeliveryStatus.UPDATED)
        try:
            async with asyncio.timeout(self._within):
                message = await self._message([(delivery, question)])
                await self._channel(delivery).update(message, delivery.receipt)
        except Exception as error:  # noqa: BLE001 -- whatever a channel does, the delivery is accounted for
            failed = self._not_sent(delivery, error)
            if delivery.status in (DeliveryStatus.SENT, DeliveryStatus.UPDATED):
                return replace(failed, status=delivery.status)
            if _was_never_handed_over(delivery, failed):
                return Try(delivery=delivery, status=DeliveryStatus.UNSENT, problem=failed.problem)
            return replace(failed, status=DeliveryStatus.UNKNOWN)
        receipt = None if question.report is None else _with_report(delivery.receipt)
        return Try(delivery=delivery, status=DeliveryStatus.UPDATED, receipt=receipt)

    async def _is_told_by_another(self, delivery: Delivery, question: Question) -> bool:
        """Whether an earlier message to the same chat is followed up, on a channel where one notice is enough."""
        channel = self._channels.get(delivery.channel)
        if not getattr(channel, "ends_once", False):
            return False
        same = getattr(channel, "same_place", operator.eq)
        for each in await self._outbox.deliveries(question.ref):
            if each.id == delivery.id:
                break
            if (
                (each.channel, each.recipient) == (delivery.channel, delivery.recipient)
                and each.status in _ARRIVED
                and same(each.to, delivery.to)
            ):
                return True
        return False

    def _channel(self, delivery: Delivery) -> Channel:
        try:
            return self._channels[delivery.channel]
        except KeyError:
            raise NotSent("no server has this channel", again=False) from None

    def _callback_sender(self, delivery: Delivery) -> CallbackSender:
        channel = self._channel(delivery)
        if not isinstance(channel, CallbackSender):
            raise NotSent("this channel makes no callbacks", again=False)
        return channel

    async def _thread_of(self, question: Question) -> Sequence[ThreadMessage]:
        """The conversation about a question. The message is about as much of it as the question that it shows."""
        if not question.thread:
            return ()
        return messages_of(await self._engine.store.history(question.ref))[: question.thread]

    async def _brought(self, delivery: Delivery, question: Question) -> Event | None:
        """Who brought somebody in: the last event that this delivery can be about, so that it is always the same."""
        if delivery.reason != "brought_in":
            return None
        events = await self._engine.store.history(question.ref)
        found = [each for each in events if each.kind in _BROUGHT and each.at <= delivery.created_at]
        return found[-1] if found else None

    async def _message(self, pairs: Sequence[tuple[Delivery, Question]]) -> Message:
        first = pairs[0][0]
        notices = [
            Notice(
                delivery_id=each.id,
                question=with_taker_at(question, each.created_at),
                reason=each.reason,
                link=await self._link_to(each),
                thread=await self._thread_of(question),
                brought=await self._brought(each, question),
            )
            for each, question in pairs
            if each.reason != CALLBACK  # a callback is no message to people
        ]
        return Message(
            id=first.id if first.bundle is None or not first.is_to_be_sent else _bundle_id(first),
            workspace=first.workspace,
            channel=first.channel,
            recipient=first.recipient,
            to=first.to,
            at=first.created_at,
            notices=notices,
        )

    def _not_sent(self, delivery: Delivery, error: Exception) -> Try:
        match error:
            case NotSent():
                not_sent = error
            case TimeoutError():
                not_sent = NotSent(f"no answer within {self._within:g} seconds", arrived_perhaps=True)
            case _:
                _log.error("a channel failed", exc_info=error, extra={"event": "channel_failed"})
                not_sent = NotSent(f"the channel failed: {type(error).__name__}", arrived_perhaps=True)
        pause = pause_after(delivery.tries, not_sent.after)
        channel = self._channels.get(delivery.channel)
        patience = timedelta() if channel is None else channel.patience
        if not_sent.within is not None:
            patience = min(patience, not_sent.within)
        spent = timedelta(seconds=sum(pause_before(n) for n in range(1, delivery.tries + 1)))
        # If an earlier try may have arrived, that stays true.
        perhaps = not_sent.arrived_perhaps or delivery.status is DeliveryStatus.UNKNOWN
        if not_sent.again and spent < patience:
            status = DeliveryStatus.UNKNOWN if perhaps else DeliveryStatus.QUEUED
            return Try(delivery=delivery, status=status, problem=str(not_sent), again_after=pause)
        status = DeliveryStatus.UNKNOWN if perhaps else DeliveryStatus.FAILED
        return Try(delivery=delivery, status=status, problem=str(not_sent))


def pause_before(tries: int) -> float:
    """The pause in seconds after this many tries, without the random part."""
    return min(_FIRST_PAUSE * 2.0 ** min(tries - 1, 20), _LONGEST_PAUSE)


def pause_after(tries: int, at_least: timedelta | None) -> timedelta:
    """How long to wait after this many tries: longer each time, with a random part to spread the load."""
    pause = timedelta(seconds=pause_before(tries) * random.uniform(0.8, 1.2))  # noqa: S311 -- only to spread them
    return max(pause, at_least or timedelta())


def _note_nothing(questions: Sequence[Question], tries: Sequence[Try]) -> None:
    """End an attempt that is not traced."""


def _may_be_told(person: Person, question: Question) -> bool:
    return person.disabled_at is None and may_see(question, person.responder)


def _was_never_handed_over(delivery: Delivery, failed: Try) -> bool:
    """Whether no try is known that may have reached somebody. Without a problem, a process ended during a try."""
    known = delivery.status is DeliveryStatus.QUEUED and delivery.problem is not None
    return known and failed.status is not DeliveryStatus.UNKNOWN


def _given_up(delivery: Delivery) -> Try:
    """The result for an address that is gone: a message that was sent stays as it is."""
    sent = delivery.status is DeliveryStatus.SENT
    status = DeliveryStatus.SENT if sent else DeliveryStatus.FAILED
    return Try(delivery=delivery, status=status, problem="the recipient no longer has this address")


def _has_report(delivery: Delivery) -> bool:
    """Whether the message was updated with the report, which may have come together with the end."""
    return isinstance(delivery.receipt, dict) and delivery.receipt.get(_REPORTED) is True


def _with_report(receipt: Json) -> Json:
    """The same receipt with a note that the message has the report; None if there is no room for a note."""
    return {**(receipt or {}), _REPORTED: True} if isinstance(receipt, dict | None) else None


def _messages(taken: Sequence[Delivery]) -> list[list[Delivery]]:
    """Group deliveries that are sent together: those of a bundle; all others alone."""
    messages: dict[str, list[Delivery]] = {}
    for each in sorted(taken, key=lambda each: each.id):
        waits = each.bundle is not None and each.is_to_be_sent
        messages.setdefault(f"bundle {each.bundle}" if waits else each.id, []).append(each)
    return list(messages.values())


def _bundle_id(delivery: Delivery) -> str:
    """The id of a bundle's message, made from its first delivery, so it is the same on every try."""
    return hashlib.sha256(f"{delivery.workspace} {delivery.bundle} {delivery.id}".encode()).hexdigest()[:32]
