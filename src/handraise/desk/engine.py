"""What all desks on one store share: batched calls, waits and feeds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TypeAlias, TypeVar

from handraise.desk.attachment_store import AttachmentStore
from handraise.desk.batcher import BackgroundBatcher, Batcher, KeyedBatcher
from handraise.desk.bus_listener import BusListener
from handraise.desk.feed_reader import FeedReader
from handraise.desk.policy_cache import PolicyCache
from handraise.desk.recipient_check import Recipients
from handraise.heartbeats import Heartbeats
from handraise.model.durations import Span, seconds_of
from handraise.model.errors import DeskClosed
from handraise.model.lifecycle import Move
from handraise.model.move_decisions import Refused
from handraise.model.problems import HandraiseError
from handraise.model.questions import Draft, Question, Ref
from handraise.model.receipts import ReceiptSigner
from handraise.ports import Bus, Directory, HintHandler, Inserted, Store, feed_of
from handraise.ports.channel import CallbackSender
from handraise.ports.desk import OpenedIn
from handraise.ports.store import BatchKey
from handraise.waiters import Waiters

_log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
_Batcher: TypeAlias = Batcher[Item, Result] | KeyedBatcher[Item, Result]

_CACHE_SIZE = 2_000
_SWEPT_AT_ONCE = 500
_TIDIED_AT_ONCE = 10_000
_TIDY_EVERY = 600.0
"""Not more often: how long questions are kept is counted in days, and each time this looks at all that is kept longer."""

BATCH = 64
"""The size of a batch: small enough that this process works on the last batch while the store commits the next. With 256 callers, batches of 256 are a third slower."""
LARGE = 500
"""The size of a batch if the store is slow: then only the number of commits counts."""


class Engine:
    """The batched calls and the waits of every desk on one store."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        *,
        poll_interval: Span = 1.0,
        public_url: str | None = None,
        keep: timedelta | None = None,
        quota: int | None = None,
        directory: Directory | None = None,
        recipients: Recipients | None = None,
        policies: PolicyCache | None = None,
        receipt_signer: ReceiptSigner | None = None,
        attachments: AttachmentStore | None = None,
    ) -> None:
        """`keep` is that of `Store.tidy`, `quota` is that of `Store.insert`.

        `directory` gives the groups of people who are named by a text; `recipients` checks who can be asked;
        `policies` are applied to what is posted; `receipt_signer` signs receipts of approvals; `attachments` keeps files.
        """
        self.attachments = attachments or AttachmentStore(None, None)
        self.receipt_signer = receipt_signer
        self.directory = directory
        self.recipients = recipients
        self.policies = policies or PolicyCache(None)
        self.callback_senders: Mapping[
            str, CallbackSender
        ] = {}  # by channel, while a dispatcher runs with them
        self.opened_in = OpenedIn()
        self.public_url = public_url.rstrip("/") if public_url else None
        self._store = store
        self._keep = keep
        self._tidying: asyncio.Task[None] | None = None
        self._tidy_at = 0.0
        self._closed = False
        self.bus = bus
        insert = partial(store.insert, quota=quota)
        self.insert: _Batcher[Draft, Inserted] = Batcher(insert, BATCH, when_slow=LARGE)
        self.settle: _Batcher[Move, Question | Refused] = Batcher(store.settle, BATCH, when_slow=LARGE)
        self.read: _Batcher[Ref, Question | None] = Batcher(store.read, BATCH)
        self.hints: BackgroundBatcher[Ref] = BackgroundBatcher(bus.wake)
        batch_key: BatchKey | None = getattr(store, "batch_key", None)
        if batch_key is not None:
            self.insert = KeyedBatcher(
                insert, BATCH, lambda draft: batch_key(draft.workspace), when_slow=LARGE
            )
            self.settle = KeyedBatcher(
                store.settle, BATCH, lambda move: batch_key(move.question.workspace), when_slow=LARGE
            )
            self.read = KeyedBatcher(store.read, BATCH, lambda ref: batch_key(ref.workspace))
            self.hints = BackgroundBatcher(bus.wake, lambda ref: batch_key(ref.workspace))
        self._listener, self.poll_interval = BusListener(bus), seconds_of(poll_interval)
        interval, self.interest = self.poll_interval, self._listener.interest
        self.waiters = Waiters(
            store.outcomes,
            self._listener.listen,
            poll_interval=interval,
            on_poll=self.run_maintenance,
            settled_since=store.settled_since,
            interest=self.interest,
        )
        self.heartbeats = Heartbeats(self._beat, first=interval)
        self.feeds = FeedReader(
            store,
            partial(self._listener.listen, feeds=True),
            poll_interval=interval,
            interest=self.interest,
        )
        self._watchers: list[HintHandler] = []
        self._cached: dict[Ref, Question] = {}

    @property
    def store(self) -> Store:
        """The store, while the desk is open."""
        if self._closed:
            raise DeskClosed
        return self._store

    def remember(self, question: Question) -> None:
        """Cache a question while it is pending, as far as this process knows."""
        ref = question.ref
        if question.outcome is not None:
            self._cached.pop(ref, None)
            return
        self._cached[ref] = question
        if len(self._cached) > _CACHE_SIZE:
            del self._cached[next(iter(self._cached))]

    def remember_page(self, page: Sequence[Question]) -> None:
        """Cache the questions of a page: one of them may be answered next."""
        for question in page:
            self.remember(question)

    def recall(self, ref: Ref) -> Question | None:
        """Return a cached question that was pending when this process last saw it.

        What was asked never changes, so an answer can be checked against it without reading. Its status may be out of
        date: the store decides, while the question is locked.
        """
        return self._cached.get(ref)

    async def close(self) -> None:
        """End all waits and follows with `DeskClosed`, and finish the calls in progress."""
        self._closed = True
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
        await self.heartbeats.close()
        await self.waiters.close()
        await self.feeds.close()
        for calls in (self.recipients, self.insert, self.settle, self.read, self.hints):
            if calls is not None:
                await calls.close()

    async def run_maintenance(self) -> int:
        """Do what is due in every workspace, and now and then start `tidy` in the background."""
        settled = await self.run_due()
        if time.monotonic() >= self._tidy_at and (self._tidying is None or self._tidying.done()):
            self._tidying = asyncio.create_task(self._tidy(), name="handraise tidies")
        return settled

    async def tidy(self) -> int:
        """Remove settled questions that are kept no longer, up to a limit; return how many."""
        return await self.store.tidy(keep=self._keep, limit=_TIDIED_AT_ONCE)

    async def _tidy(self) -> None:
        try:
            while await self.tidy() >= _TIDIED_AT_ONCE:
                pass
            await self.attachments.remove_unused()
        except DeskClosed:
            pass
        except HandraiseError as error:
            _log.warning(
                "old questions and unused files cannot be removed now; trying again later: %s",
                error,
                extra={"event": "removal_delayed"},
            )
        except Exception as error:  # noqa: BLE001 -- nobody waits for it, and it is done again
            _log.error(
                "old questions and unused files could not be removed; trying again later",
                exc_info=error,
                extra={"event": "removal_failed"},
            )
        self._tidy_at = time.monotonic() + _TIDY_EVERY

    async def run_due(self, workspace: str | None = None) -> int:
        """Do what is due, in every workspace or in one; return how many questions that settled.

        Safe in any number of processes at once.
        """
        settled = await self.store.run_due(limit=_SWEPT_AT_ONCE, workspace=workspace)
        await self.notify_settled(settled)
        return len(settled)

    async def _beat(self, refs: Sequence[Ref], asker: str) -> Mapping[Ref, float]:
        return await self.store.beat(refs, by=asker)

    async def notify_settled(self, refs: Collection[Ref]) -> None:
        """Notify waits in this process and others that these were settled."""
        if refs:
            self.waiters.mark_dirty(refs)
            self._notify_local(refs)
            await self.bus.wake([*refs, *{feed_of(ref.workspace) for ref in refs}])

    def notify_feed(self, workspace: str) -> None:
        """Notify followers of a workspace, in this process and others, of something new."""
        self.announce(feed_of(workspace))

    def announce(self, topic: Ref) -> None:
        """Tell everybody who watches, in this process and others, about a topic."""
        self._notify_local((topic,))
        self.hints.add(topic)

    @asynccontextmanager
    async def watch(self, on_hint: HintHandler, *, shared_feeds: bool = False) -> AsyncIterator[None]:
        """Call `on_hint` for everything that happens inside this context.

        In this process, and in others if the workspace is in `interest`. With `shared_feeds`, also for all feeds, as
        `Bus.listen` says.
        """
        self._watchers.append(on_hint)
        try:
            async with self._listener.listen(on_hint, shared_feeds=shared_feeds):
                yield
        finally:
            self._watchers.remove(on_hint)

    def _notify_local(self, topics: Collection[Ref]) -> None:
        self.feeds.mark_dirty(topics)
        for on_hint in self._watchers:
            on_hint(topics)
