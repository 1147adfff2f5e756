"""Many callers, one statement: concurrent calls of a many-at-a-time method are made together.

Idle, a call goes out at once. Busy, whatever gathered while the last batch was under way goes out next.
There is no timer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Generic, TypeVar

from handraise.model.errors import DeskClosed, StoreUnavailable

_log = logging.getLogger(__name__)

_SLOW = 0.02

Item = TypeVar("Item")
Result = TypeVar("Result")

_LANES = 1_000


class Batched(Generic[Item, Result]):
    """Calls `many` with what concurrent callers gave; each gets exactly its own result or error.

    A batch has `at_most` so many calls, or `when_slow` after one that took long: whoever waits for a slow disk is
    served best by few, large batches.
    """

    def __init__(
        self,
        many: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        at_most: int,
        *,
        when_slow: int | None = None,
    ) -> None:
        self._many = many
        self._at_most = at_most
        self._when_slow = at_most if when_slow is None else when_slow
        self._gathered: list[tuple[Item, asyncio.Future[Result]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    async def __call__(self, item: Item) -> Result:
        """The result for one item. Cancelling it does not take back what is already on its way."""
        return await self.soon(item)

    def soon(self, item: Item) -> asyncio.Future[Result]:
        """The same without waiting for it: `close` still sees it through."""
        if self._closed:
            raise DeskClosed
        mine: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._gathered.append((item, mine))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="handraise calls")
        return mine

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._worker is None

    async def close(self) -> None:
        """Take no more calls, and finish those under way."""
        self._closed = True
        if self._worker is not None:
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _work(self) -> None:
        try:
            took = 0.0
            while self._gathered:
                size = self._at_most if took < _SLOW else self._when_slow
                batch = self._gathered[:size]
                del self._gathered[:size]
                # Whoever has been cancelled meanwhile has not asked for anything yet.
                batch = [(item, mine) for item, mine in batch if not mine.done()]
                if batch:
                    began = time.monotonic()
                    await self._send(batch)
                    took = time.monotonic() - began
        finally:
            self._worker = None
            # Only a cancelled worker leaves calls behind, and nobody may wait for ever.
            for _, mine in self._gathered:
                mine.cancel()
            self._gathered.clear()

    async def _send(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._many([item for item, _ in batch])
            pairs = list(zip(batch, results, strict=True))
        except Exception as error:  # noqa: BLE001 -- every caller gets it, and decides
            if isinstance(error, StoreUnavailable) and error.refused and len(batch) > 1:
                await self._send_one_by_one(batch)
                return
            for _, mine in batch:
                if not mine.done():
                    mine.set_exception(error)
            return
        except BaseException:
            for _, mine in batch:
                mine.cancel()
            raise
        for (_, mine), result in pairs:
            if not mine.done():
                mine.set_result(result)

    async def _send_one_by_one(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        """Nothing was kept because of one of them: the others must not suffer for it."""
        try:
            for item, mine in batch:
                if not mine.done():
                    await self._send([(item, mine)])
        finally:
            for _, mine in batch:
                mine.cancel()  # only where this was cancelled is any left


class Lanes(Generic[Item, Result]):
    """Calls made together within each lane: one that takes long, or fails, holds up nobody in another."""

    def __init__(
        self,
        many: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        at_most: int,
        lane_of: Callable[[Item], Hashable],
        *,
        when_slow: int | None = None,
    ) -> None:
        self._new = partial(Batched[Item, Result], many, at_most, when_slow=when_slow)
        self._lane_of = lane_of
        self._lanes: dict[Hashable, Batched[Item, Result]] = {}
        self._closed = False

    async def __call__(self, item: Item) -> Result:
        """See `Batched`."""
        return await self.soon(item)

    def soon(self, item: Item) -> asyncio.Future[Result]:
        """See `Batched`."""
        if self._closed:
            raise DeskClosed
        lane = self._lane_of(item)
        if lane not in self._lanes:
            if len(self._lanes) >= _LANES:
                self._lanes = {lane: calls for lane, calls in self._lanes.items() if not calls.is_idle}
            self._lanes[lane] = self._new()
        return self._lanes[lane].soon(item)

    async def close(self) -> None:
        """See `Batched`."""
        self._closed = True
        await asyncio.gather(*(calls.close() for calls in self._lanes.values()))


class Gathered(Generic[Item]):
    """Calls `many` with what was added to a lane meanwhile, each once; nobody waits for it or hears of an error."""

    def __init__(
        self,
        many: Callable[[Collection[Item]], Awaitable[None]],
        lane_of: Callable[[Item], Hashable] = lambda _: None,
    ) -> None:
        self._many = many
        self._lane_of = lane_of
        self._gathered: dict[Hashable, dict[Item, None]] = {}
        self._workers: dict[Hashable, asyncio.Task[None]] = {}
        self._closed = False

    def add(self, item: Item) -> None:
        """Have this among the next; `close` still sees it through, and leaves out what comes later."""
        if self._closed:
            return
        lane = self._lane_of(item)
        self._gathered.setdefault(lane, {})[item] = None
        if lane not in self._workers:
            self._workers[lane] = asyncio.create_task(self._work(lane), name="handraise hints")

    async def close(self) -> None:
        """Take no more, and finish what has gathered."""
        self._closed = True
        await asyncio.gather(*self._workers.values(), return_exceptions=True)

    async def _work(self, lane: Hashable) -> None:
        try:
            while batch := self._gathered.pop(lane, None):
                try:
                    await self._many(list(batch))
                except Exception as error:  # noqa: BLE001 -- the next ones must go out whatever became of these
                    _log.error("what was gathered could not be sent", exc_info=error)
        finally:
            del self._workers[lane]
