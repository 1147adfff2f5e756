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

BATCH = 500
"""How many calls go out together at most, and how many questions one statement settles."""


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

    @property
    def store(self) -> Store:
        """The store, while the desk is open."""
        if self._closed:
            raise DeskClosed
        return self._store

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
