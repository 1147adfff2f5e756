"""All waits of a process: one listener and one poll, however many there are.

Subscribe, read, then sleep. A wake-up only says what to read again; the poll reads everything now and then,
because a wake-up gets lost sooner or later.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from itertools import islice

from handraise.desk.sweeping import sweep
from handraise.model.errors import DeskClosed, HandraiseError, QuestionNotFound, StoreUnavailable
from handraise.model.outcomes import Outcome
from handraise.model.questions import Ref
from handraise.ports import Bus, Store

_log = logging.getLogger(__name__)

_AT_ONCE = 10_000
_SPARE = 4  # a poll that takes a second comes again after four


class WaitingRoom:
    """Who waits for which question, and the one task that reads for all of them."""

    def __init__(self, store: Store, bus: Bus, *, poll_interval: float) -> None:
        self._store = store
        self._bus = bus
        self._poll_interval = poll_interval
        self._waits: dict[Ref, set[asyncio.Future[Outcome]]] = {}
        self._unread: set[Ref] = set()
        self._stirred = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

    def enter(self, ref: Ref) -> asyncio.Future[Outcome]:
        """A future that gets the question's outcome, or `QuestionNotFound`. Cancel it to leave."""
        if self._closed:
            raise DeskClosed
        wait: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waits.setdefault(ref, set()).add(wait)
        wait.add_done_callback(lambda done: self._leave(ref, done))
        self.stir([ref])
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_for_all(), name="handraise waits")
        return wait

    def stir(self, refs: Collection[Ref] | None) -> None:
        """Read these again soon, where anybody waits for them; None is everything."""
        self._unread.update(self._waits if refs is None else (ref for ref in refs if ref in self._waits))
        if self._unread:
            self._stirred.set()

    def tell(self, ref: Ref, outcome: Outcome) -> None:
        """Give a recorded outcome to whoever waits for it here, without reading it again."""
        for wait in list(self._waits.get(ref, ())):
            if not wait.done():
                wait.set_result(outcome)

    async def close(self) -> None:
        """Send everybody away; their questions stay pending."""
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        for ref in list(self._waits):
            self._refuse(ref, DeskClosed())

    async def _read_for_all(self) -> None:
        """Listen, read what stirred, and poll everything at intervals, until the desk closes."""
        with suppress(DeskClosed):  # the store is closed, so there is nothing left to read
            await self._listen_and_read()

    async def _listen_and_read(self) -> None:
        async with AsyncExitStack() as listening:
            try:
                await listening.enter_async_context(self._bus.listen(self.stir))
            except DeskClosed:
                raise
            except Exception as error:  # noqa: BLE001 -- hearing is only for speed, whatever a bus does
                _log.warning("nothing can be heard; waits find out by polling", exc_info=error)
            next_poll = time.monotonic() + self._poll_interval
            while True:
                try:
                    await self._read_unread()
                    await self._something_stirs(within=next_poll - time.monotonic())
                    began = time.monotonic()
                    if self._waits and began >= next_poll:
                        self.stir(await sweep(self._store, self._bus))
                        self.stir(None)
                        await self._read_unread()
                        took = time.monotonic() - began
                        next_poll = began + max(self._poll_interval, _SPARE * took)
                except DeskClosed:
                    raise
                except StoreUnavailable as error:
                    _log.warning("the store cannot be reached (%s); waiting for it to come back", error)
                    await self._try_again_later()
                except Exception as error:  # noqa: BLE001 -- everybody's waits depend on this task
                    _log.error("reading for all waits failed; trying again", exc_info=error)
                    await self._try_again_later()

    async def _try_again_later(self) -> None:
        await asyncio.sleep(self._poll_interval)
        self.stir(None)

    async def _something_stirs(self, *, within: float) -> None:
        """Until something does or the time is over; while nobody waits, there is no time to keep."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within if self._waits else None):
                await self._stirred.wait()

    async def _read_unread(self) -> None:
        self._stirred.clear()
        while self._unread:
            refs = list(islice(self._unread, _AT_ONCE))
            self._unread.difference_update(refs)
            for ref, outcome in (await self._store.outcomes(refs)).items():
                if outcome is None:
                    self._refuse(ref, QuestionNotFound(ref.id, ref.workspace))
                else:
                    self.tell(ref, outcome)

    def _refuse(self, ref: Ref, error: HandraiseError) -> None:
        for wait in list(self._waits.get(ref, ())):
            if not wait.done():
                wait.set_exception(error)

    def _leave(self, ref: Ref, wait: asyncio.Future[Outcome]) -> None:
        waits = self._waits[ref]
        waits.discard(wait)
        if not waits:
            del self._waits[ref]
