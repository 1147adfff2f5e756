"""Many callers, one statement: concurrent calls of a call_batch-at-a-time method are made together.

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

_MAX_BATCHERS = 1_000


class Batcher(Generic[Item, Result]):
    """Calls `call_batch` with what concurrent callers gave; each gets exactly its own result or error.

    A batch has `at_most` so call_batch calls, or `when_slow` after one that took long: whoever waits for a slow disk is
    served best by few, large batches.
    """

    def __init__(
        self,
        call_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        at_most: int,
        *,
        when_slow: int | None = None,
    ) -> None:
        self._call_batch = call_batch
        self._at_most = at_most
        self._when_slow = at_most if when_slow is None else when_slow
        self._queue: list[tuple[Item, asyncio.Future[Result]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    async def __call__(self, item: Item) -> Result:
        """The result for one item. Cancelling it does not take back what is already on its way."""
        return await self.submit(item)

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """The same without waiting for it: `close` still sees it through."""
        if self._closed:
            raise DeskClosed
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="handraise calls")
        return future

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
            while self._queue:
                size = self._at_most if took < _SLOW else self._when_slow
                batch = self._queue[:size]
                del self._queue[:size]
                # Whoever has been cancelled meanwhile has not asked for anything yet.
                batch = [(item, future) for item, future in batch if not future.done()]
                if batch:
                    began = time.monotonic()
                    await self._send(batch)
                    took = time.monotonic() - began
        finally:
            self._worker = None
            # Only a cancelled worker leaves calls behind, and nobody may wait for ever.
            for _, future in self._queue:
                future.cancel()
            self._queue.clear()

    async def _send(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._call_batch([item for item, _ in batch])
            pairs = list(zip(batch, results, strict=True))
        except Exception as error:  # noqa: BLE001 -- every caller gets it, and decides
            if isinstance(error, StoreUnavailable) and error.refused and len(batch) > 1:
                await self._send_one_by_one(batch)
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), result in pairs:
            if not future.done():
                future.set_result(result)

    async def _send_one_by_one(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        """Nothing was kept because of one of them: the others must not suffer for it."""
        try:
            for item, future in batch:
                if not future.done():
                    await self._send([(item, future)])
        finally:
            for _, future in batch:
                future.cancel()  # only where this was cancelled is any left


class KeyedBatcher(Generic[Item, Result]):
    """Calls made together within each key: one that takes long, or fails, holds up nobody in another."""

    def __init__(
        self,
        call_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        at_most: int,
        key_of: Callable[[Item], Hashable],
        *,
        when_slow: int | None = None,
    ) -> None:
        self._new = partial(Batcher[Item, Result], call_batch, at_most, when_slow=when_slow)
        self._key_of = key_of
        self._batchers: dict[Hashable, Batcher[Item, Result]] = {}
        self._closed = False

    async def __call__(self, item: Item) -> Result:
        """See `Batcher`."""
        return await self.submit(item)

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """See `Batcher`."""
        if self._closed:
            raise DeskClosed
        key = self._key_of(item)
        if key not in self._batchers:
            if len(self._batchers) >= _MAX_BATCHERS:
                self._batchers = {key: calls for key, calls in self._batchers.items() if not calls.is_idle}
            self._batchers[key] = self._new()
        return self._batchers[key].submit(item)

    async def close(self) -> None:
        """See `Batcher`."""
        self._closed = True
        await asyncio.gather(*(calls.close() for calls in self._batchers.values()))


class BackgroundBatcher(Generic[Item]):
    """Calls `call_batch` with what was added to a key meanwhile, each once; nobody waits for it or hears of an error."""

    def __init__(
        self,
        call_batch: Callable[[Collection[Item]], Awaitable[None]],
        key_of: Callable[[Item], Hashable] = lambda _: None,
    ) -> None:
        self._call_batch = call_batch
        self._key_of = key_of
        self._queue: dict[Hashable, dict[Item, None]] = {}
        self._workers: dict[Hashable, asyncio.Task[None]] = {}
        self._closed = False

    def add(self, item: Item) -> None:
        """Have this among the next; `close` still sees it through, and leaves out what comes later."""
        if self._closed:
            return
        key = self._key_of(item)
        self._queue.setdefault(key, {})[item] = None
        if key not in self._workers:
            self._workers[key] = asyncio.create_task(self._work(key), name="handraise hints")

    async def close(self) -> None:
        """Take no more, and finish what has gathered."""
        self._closed = True
        await asyncio.gather(*self._workers.values(), return_exceptions=True)

    async def _work(self, key: Hashable) -> None:
        try:
            while batch := self._queue.pop(key, None):
                try:
                    await self._call_batch(list(batch))
                except Exception as error:  # noqa: BLE001 -- the next ones must go out whatever became of these
                    _log.error("what was gathered could not be sent", exc_info=error)
        finally:
            del self._workers[key]
