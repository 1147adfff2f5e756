"""Many callers, one statement: concurrent calls of a many-at-a-time method are made together.

Idle, a call goes out at once. Busy, whatever gathered while the last batch was under way goes out next.
There is no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from handraise.model.errors import DeskClosed

Item = TypeVar("Item")
Result = TypeVar("Result")


class Coalesced(Generic[Item, Result]):
    """Calls `many` with what concurrent callers gave; each gets exactly its own result or error."""

    def __init__(self, many: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], at_most: int) -> None:
        self._many = many
        self._at_most = at_most
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

    async def close(self) -> None:
        """Take no more calls, and finish those under way."""
        self._closed = True
        if self._worker is not None:
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _work(self) -> None:
        try:
            while self._gathered:
                batch = self._gathered[: self._at_most]
                del self._gathered[: self._at_most]
                # Whoever has been cancelled meanwhile has not asked for anything yet.
                batch = [(item, mine) for item, mine in batch if not mine.done()]
                if batch:
                    await self._send(batch)
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
