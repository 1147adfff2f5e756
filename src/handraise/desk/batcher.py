"""Batches: concurrent calls become one call of a method that takes many items.

If idle, a call goes out at once. If busy, the calls that queue during one batch are the next batch.
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
    """Calls `call_batch` with the items of concurrent callers; each gets its own result or error.

    A batch has `at_most` items, or `when_slow` after a slow one: on a slow disk, few large batches are faster.
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
        """Return the result for one item. Cancelling does not undo a batch that was sent."""
        return await self.submit(item)

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Queue an item and return its future. `close` waits for it."""
        if self._closed:
            raise DeskClosed
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="handraise calls")
        return future

    @property
    def is_idle(self) -> bool:
        """Whether no batch is in progress."""
        return self._worker is None

    async def close(self) -> None:
        """Refuse new calls, and finish those in progress."""
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
                # Leave out calls that were cancelled meanwhile.
                batch = [(item, future) for item, future in batch if not future.done()]
                if batch:
                    began = time.monotonic()
                    await self._send(batch)
                    took = time.monotonic() - began
        finally:
            self._worker = None
            # Only a cancelled worker leaves calls behind; they must not wait forever.
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
        """Send each item alone: one of them made the store refuse the whole batch."""
        try:
            for item, future in batch:
                if not future.done():
                    await self._send([(item, future)])
        finally:
            for _, future in batch:
                future.cancel()  # any are left only if this was cancelled


class KeyedBatcher(Generic[Item, Result]):
    """A `Batcher` for each key: a slow or failing batch of one key does not delay the others."""

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
        batcher = self._batchers.get(key)
        if batcher is None:
            if len(self._batchers) >= _MAX_BATCHERS:
                self._batchers = {key: calls for key, calls in self._batchers.items() if not calls.is_idle}
            batcher = self._batchers[key] = self._new()
        return batcher.submit(item)

    async def close(self) -> None:
        """See `Batcher`."""
        self._closed = True
        await asyncio.gather(*(calls.close() for calls in self._batchers.values()))


class BackgroundBatcher(Generic[Item]):
    """Calls `call_batch` in the background with the items queued for a key, each once. Errors are only logged."""

    def __init__(
        self,
        call_batch: Callable[[Collection[Item]], Awaitable[None]],
        key_of: Callable[[Item], Hashable] | None = None,
    ) -> None:
        self._call_batch = call_batch
        self._key_of = key_of
        self._queue: dict[Hashable, dict[Item, None]] = {}
        self._workers: dict[Hashable, asyncio.Task[None]] = {}
        self._closed = False

    def add(self, item: Item) -> None:
        """Queue an item for the next batch. After `close`, it is ignored."""
        if self._closed:
            return
        key = None if self._key_of is None else self._key_of(item)
        queued = self._queue.get(key)
        if queued is None:
            self._queue[key] = {item: None}
        else:
            queued[item] = None
        if key not in self._workers:
            self._workers[key] = asyncio.create_task(self._work(key), name="handraise hints")

    async def close(self) -> None:
        """Ignore new items, and finish what is queued."""
        self._closed = True
        await asyncio.gather(*self._workers.values(), return_exceptions=True)

    async def _work(self, key: Hashable) -> None:
        try:
            while batch := self._queue.pop(key, None):
                try:
                    await self._call_batch(list(batch))
                except Exception as error:  # noqa: BLE001 -- an error must not stop the next batch
                    _log.error("a batch could not be sent", exc_info=error, extra={"event": "batch_failed"})
        finally:
            del self._workers[key]
