"""What all desks on one store share: calls made together, and waits."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.desk.coalescing import Coalesced
from handraise.desk.sweeping import sweep
from handraise.desk.waiting import WaitingRoom
from handraise.model.composing import Span, seconds_of
from handraise.model.errors import DeskClosed, KeyConflict
from handraise.model.lifecycle import Move
from handraise.model.questions import Draft, Question, Ref
from handraise.ports import Bus, Store

_AT_HAND = 2_000

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
        self.room = WaitingRoom(store, bus, poll_interval=seconds_of(poll_interval))
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
        """Send waits away and finish what is under way."""
        self._closed = True
        await self.room.close()
        for calls in (self.insert, self.settle, self.read, self.wake):
            await calls.close()

    async def sweep(self) -> int:
        """Do what is due and tell whoever waits; give back how many questions that settled."""
        settled = await sweep(self.store, self.bus)
        self.room.stir(settled)
        return len(settled)

    async def _wake(self, refs: Sequence[Ref]) -> Sequence[None]:
        await self.bus.wake(refs)
        return [None] * len(refs)
