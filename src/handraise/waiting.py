"""All waits of a desk: one listener and one poll, however many there are.

Subscribe, read, then sleep. A wake-up only says what to read again; the poll reads everything now and then,
because a wake-up gets lost sooner or later. Where outcomes are read and hints are heard is for the desk to
say: a store and its bus, or a server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from itertools import islice
from typing import TypeAlias

from handraise.model.errors import (
    DeskClosed,
    HandraiseError,
    QuestionNotFound,
    StillPending,
    StoreUnavailable,
)
from handraise.model.outcomes import Outcome
from handraise.model.questions import Ref
from handraise.ports import Heard

Read: TypeAlias = Callable[[Collection[Ref]], Awaitable[dict[Ref, Outcome | None]]]
"""Reads outcomes as `Store.outcomes` does: what is pending is left out, None is not there at all."""

_log = logging.getLogger(__name__)

_AT_ONCE = 10_000
_LAST_LOOK = 5.0
_SPARE = 4  # a poll that takes a second comes again after four


class WaitingRoom:
    """Who waits for which question, and the one task that reads for all of them."""

    def __init__(
        self,
        read: Read,
        listen: Callable[[Heard], AbstractAsyncContextManager[None]],
        *,
        poll_interval: float,
        tend: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`tend` is what else there is to do at each poll."""
        self._read = read
        self._listen = listen
        self._tend = tend
        self._poll_interval = poll_interval
        self._waits: dict[Ref, set[asyncio.Future[Outcome]]] = {}
        self._unread: set[Ref] = set()
        self._stirred = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def waited_for(self) -> Collection[Ref]:
        """The questions that anybody waits for."""
        return self._waits.keys()

    def __len__(self) -> int:
        """How many waits there are."""
        return sum(map(len, self._waits.values()))

    async def first_of(self, refs: Sequence[Ref], *, timeout: float | None) -> tuple[Ref, Outcome]:
        """Whichever of these is settled first. A timeout raises `StillPending`."""
        waits = {self.enter(ref): ref for ref in refs}
        try:
            done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return await self._settled_after_all(refs)
            first = next(wait for wait in waits if wait in done)
            return waits[first], first.result()
        finally:
            for wait in waits:
                if not wait.cancel() and not wait.cancelled():
                    wait.exception()  # seen: only the first one counts

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

    async def _settled_after_all(self, refs: Sequence[Ref]) -> tuple[Ref, Outcome]:
        """The time is over: look once more, for it may have been too short to look at all."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_LOOK):
                for ref, outcome in (await self._read(refs)).items():
                    if outcome is None:
                        raise QuestionNotFound(ref.id, ref.workspace)
                    return ref, outcome
        raise StillPending([ref.id for ref in refs])

    async def _read_for_all(self) -> None:
        """Listen, read what stirred, and poll everything at intervals, until the desk closes."""
        with suppress(DeskClosed):  # the store is closed, so there is nothing left to read
            await self._listen_and_read()

    async def _listen_and_read(self) -> None:
        async with AsyncExitStack() as listening:
            try:
                await listening.enter_async_context(self._listen(self.stir))
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
                        if self._tend is not None:
                            await self._tend()
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
            for ref, outcome in (await self._read(refs)).items():
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
