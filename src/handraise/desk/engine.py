"""What all desks on one store share: calls made together, and waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

from handraise.desk.coalescing import Coalesced
from handraise.desk.following import Feeds
from handraise.desk.hearing import Hearing
from handraise.model.composing import Span, seconds_of
from handraise.model.errors import DeskClosed, KeyConflict
from handraise.model.lifecycle import Move
from handraise.model.questions import Draft, Question, Ref
from handraise.ports import Bus, Heard, Store, feed_of
from handraise.waiting import WaitingRoom

_AT_HAND = 2_000
_SWEPT_AT_ONCE = 500

BATCH = 64
"""How many calls go out together at most: few enough that this process works on the last batch while the store
commits the next. With 256 callers, batches of 256 are a third slower."""


class Engine:
    """The coalesced calls and the waits of every desk on one store."""

    def __init__(self, store: Store, bus: Bus, *, poll_interval: Span = 1.0) -> None:
        self._store = store
        self._closed = False
        self.bus = bus
        self.insert: Coalesced[Draft, Question | KeyConflict] = Coalesced(store.insert, BATCH)
        self.settle: Coalesced[Move, Question | None] = Coalesced(store.settle, BATCH)
        self.read: Coalesced[Ref, Question | None] = Coalesced(store.read, BATCH)
        self.wake: Coalesced[Ref, None] = Coalesced(self._wake, BATCH)
        self._hearing, self.poll_interval = Hearing(bus), seconds_of(poll_interval)
        interval = self.poll_interval
        self.room = WaitingRoom(store.outcomes, self._hearing.listen, poll_interval=interval, tend=self.sweep)
        self.feeds = Feeds(store, partial(self._hearing.listen, feeds=True), poll_interval=interval)
        self._watchers: list[Heard] = []
        self._remembered: dict[Ref, Question] = {}

    @property
    def store(self) -> Store:
        """The store, while the desk is open."""
        if self._closed:
            raise DeskClosed
        return self._store

    def remember(self, question: Question) -> None:
        """Keep a question at hand while it is pending, as far as is known here."""
        if question.outcome is not None:
            self._remembered.pop(question.ref, None)
            return
        self._remembered[question.ref] = question
        if len(self._remembered) > _AT_HAND:
            del self._remembered[next(iter(self._remembered))]

    def recall(self, ref: Ref) -> Question | None:
        """A question that was pending when it was last seen here.

        What was asked never changes, so an answer can be checked against it without reading. How it stands
        may be out of date: that is for the store to decide, in the statement that settles it.
        """
        return self._remembered.get(ref)

    async def close(self) -> None:
        """Send waits and followers away and finish what is under way."""
        self._closed = True
        await self.room.close()
        await self.feeds.close()
        for calls in (self.insert, self.settle, self.read, self.wake):
            await calls.close()

    async def sweep(self, workspace: str | None = None) -> int:
        """Do what is due, everywhere or in one workspace; give back how many questions that settled.

        Safe in any number of processes at once.
        """
        settled = await self.store.sweep(limit=_SWEPT_AT_ONCE, workspace=workspace)
        await self.tell_settled(settled)
        return len(settled)

    async def tell_settled(self, refs: Collection[Ref]) -> None:
        """Tell whoever waits, here and elsewhere, that the clock settled these."""
        if refs:
            self.room.stir(refs)
            self._stir(refs)
            await self._wake([*refs, *{feed_of(ref.workspace) for ref in refs}])

    def stir_feed(self, workspace: str) -> None:
        """Tell whoever follows a workspace, here and elsewhere, that something happened in it."""
        topic = feed_of(workspace)
        self._stir((topic,))
        self.wake.soon(topic)

    @asynccontextmanager
    async def watch(self, heard: Heard) -> AsyncIterator[None]:
        """Hear of everything that happens, here and elsewhere, while inside."""
        self._watchers.append(heard)
        try:
            async with self._hearing.listen(heard, feeds=True):
                yield
        finally:
            self._watchers.remove(heard)

    def _stir(self, topics: Collection[Ref]) -> None:
        self.feeds.stir(topics)
        for heard in self._watchers:
            heard(topics)

    async def _wake(self, refs: Sequence[Ref]) -> Sequence[None]:
        await self.bus.wake(list(dict.fromkeys(refs)))
        return [None] * len(refs)
