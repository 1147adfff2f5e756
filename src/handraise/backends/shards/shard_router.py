"""Finding the shard of a workspace, also while it moves.

Where a workspace lives is looked up once, and remembered until its shard says otherwise: a transaction about a workspace
that does not live there any more is refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from handraise.backends.postgres.database import Database
from handraise.backends.shards.shard import AWAY, STATEMENTS, Opened, Shard, refusal
from handraise.model.errors import StoreUnavailable
from handraise.ports import PoolStats

T = TypeVar("T")

_log = logging.getLogger(__name__)

_PATIENCE = 15.0
"""How long a call waits for a workspace that is about to move."""
_GRACE = 0.5
"""How long a call to all shards waits for one of them."""
_KEPT = 200_000
_NO_SHARD = "No shard takes workspaces. Run: handraise shards add postgresql://…"


class ShardRouter:
    """All shards, and which of them each workspace lives on."""

    def __init__(self, placements: Database, make: Callable[[int, str], Shard]) -> None:
        self._placements = placements
        self._make = make
        self._known: dict[str, int] = {}
        self._late: dict[tuple[str, Shard], asyncio.Task[Any]] = {}
        self._new_shard_callbacks: list[Callable[[Shard], None]] = []
        self.shards: dict[int, Shard] = {}

    async def load(self) -> None:
        """Load the list of all shards."""
        for row in await self._placements.fetch(STATEMENTS["shards"]):
            if row["number"] not in self.shards:
                shard = self.shards[row["number"]] = self._make(row["number"], row["address"])
                for callback in self._new_shard_callbacks:
                    callback(shard)

    async def close(self) -> None:
        """Close every connection."""
        for task in self._late.values():
            task.cancel()
        await asyncio.gather(*self._late.values(), return_exceptions=True)
        await asyncio.gather(*(shard.close() for shard in self.shards.values()))

    def pool_stats(self) -> PoolStats:
        """How busy the pools of all shards are now."""
        found = [shard.pool_stats for shard in self.shards.values()]
        return PoolStats(
            size=sum(each.size for each in found),
            in_use=sum(each.in_use for each in found),
            waiters=sum(each.waiters for each in found),
        )

    def batch_key(self, workspace: str) -> int | str:
        """Return the key of calls that may share a batch: the shard, or the workspace if its shard is unknown."""
        return self._known.get(workspace, workspace)

    def on_new_shard(self, callback: Callable[[Shard], None]) -> Callable[[], None]:
        """Register a callback for shards that are found later; return a function that ends that."""
        self._new_shard_callbacks.append(callback)
        return lambda: self._new_shard_callbacks.remove(callback)

    async def call_each(
        self,
        name: str,
        work: Callable[[Opened], Awaitable[T]],
        *,
        only: int | None = None,
        grace: float | None = _GRACE,
    ) -> list[T]:
        """The results of `work` on every shard that answers, or on one; `StoreUnavailable` if none answers."""
        if not self.shards:
            await self.load()
        asked = [shard for shard in self.shards.values() if only in (None, shard.number)]
        return await self.call_shards(
            name, {shard: partial(shard.call_briefly, work) for shard in asked}, grace=grace
        )

    async def call_all(self, work: Callable[[Opened], Awaitable[T]]) -> list[T]:
        """The results of `work` on every shard, however long it takes; `StoreUnavailable` if none can do it."""
        if not self.shards:
            await self.load()
        asked = [shard.call(work) for shard in self.shards.values()]
        done = await asyncio.gather(*asked, return_exceptions=True)
        errors = [each for each in done if isinstance(each, BaseException)]
        for error in errors:
            if not isinstance(error, StoreUnavailable) or len(errors) == len(asked):
                raise error
            _log.warning("a shard is left out for now: %s", error, extra={"event": "shard_left_out"})
        return [each for each in done if not isinstance(each, BaseException)]

    async def call_shards(
        self,
        name: str,
        calls: Mapping[Shard, Callable[[], Coroutine[Any, Any, T]]],
        *,
        grace: float | None = _GRACE,
    ) -> list[T]:
        """The results of calls to several shards, without those that take longer than others can wait.

        The result of a call that takes too long is given to the next call of the same name. Until then its shard is not
        asked again. Raises `StoreUnavailable` if all fail. Errors of other kinds are always raised.
        """
        done: list[asyncio.Task[T]] = []
        fresh: dict[asyncio.Task[T], Shard] = {}
        for shard, call in calls.items():
            late = self._late.get((name, shard))
            if late is not None and not late.done():
                continue
            if late is not None:
                del self._late[name, shard]
                done += [] if late.cancelled() else [late]
            fresh[asyncio.create_task(call(), name=f"handraise {name}")] = shard
        try:
            if fresh:
                await asyncio.wait(fresh, timeout=grace if len(self.shards) > 1 else None)
        except asyncio.CancelledError:
            for task in fresh:
                task.cancel()
            raise
        for task, shard in fresh.items():
            # If two calls run at once, the late result of the second is dropped: the next call reads it again.
            if not task.done() and self._late.setdefault((name, shard), task) is not task:
                task.cancel()
        done += [task for task in fresh if task.done() and not task.cancelled()]
        errors = [error for task in done if (error := task.exception()) is not None]
        for error in errors:
            if not isinstance(error, StoreUnavailable) or len(errors) == len(calls):
                raise error
            _log.warning("a shard is left out for now: %s", error, extra={"event": "shard_left_out"})
        return [task.result() for task in done if task.exception() is None]

    async def find_shard(self, workspace: str) -> Shard | None:
        """The shard that a workspace lives on, if it has a home."""
        number = self._known.get(workspace)
        if number is None:
            number = await self._look_up(workspace)
        return None if number is None else await self._shard(number)

    async def any_shard(self) -> Shard:
        """A shard that can say that there is nothing of a workspace without a home."""
        if not self.shards:
            await self.load()
        if not self.shards:
            raise StoreUnavailable(_NO_SHARD)
        return self.shards[min(self.shards)]

    async def call_on_home(self, workspace: str, at: Callable[[Shard], Awaitable[T]]) -> T:
        """Do something on a workspace's shard, and repeat it if the workspace has moved or is moving.

        A workspace without a home gets one.
        """
        until, pause = time.monotonic() + _PATIENCE, 0.005
        while True:
            shard = await self.find_shard(workspace) or await self._place(workspace)
            try:
                return await at(shard)
            except StoreUnavailable as error:
                why = refusal(error)
                if why is None:
                    raise
            if why == AWAY and await self._follow(workspace, shard):
                continue
            if time.monotonic() > until:
                raise StoreUnavailable(f"Workspace {workspace!r} is being moved to another shard; try again.")
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.2)

    async def _follow(self, workspace: str, left: Shard) -> bool:
        """Find where a workspace went that is not on a shard any more; False if it is still moving.

        Only its old home decides that it has moved. The process that moved it may have died right after, so any process
        may open the new home and record where the workspace is.
        """
        self._known.pop(workspace, None)
        rows = await self._placements.fetch_in(workspace, STATEMENTS["find"], workspace=workspace)
        if not rows or rows[0]["shard"] != left.number:
            return True
        here = await (await left.opened()).unchecked.fetch_in(
            workspace, STATEMENTS["home"], workspace=workspace
        )
        if not here or here[0]["state"] != "away" or here[0]["move"] != rows[0]["move"]:
            return False
        await self.load()
        await complete(
            self._placements,
            (await self.shards[here[0]["shard"]].opened()).unchecked,
            workspace,
            here[0]["move"],
        )
        return True

    async def _place(self, workspace: str) -> Shard:
        await self._placements.fetch_in(workspace, STATEMENTS["place"], workspace=workspace)
        shard = await self.find_shard(workspace)
        if shard is None:
            raise StoreUnavailable(_NO_SHARD)
        return shard

    async def _look_up(self, workspace: str) -> int | None:
        rows = await self._placements.fetch_in(workspace, STATEMENTS["find"], workspace=workspace)
        if not rows:
            return None
        number: int = rows[0]["shard"]
        if len(self._known) >= _KEPT:
            del self._known[next(iter(self._known))]
        self._known[workspace] = number
        return number

    async def _shard(self, number: int) -> Shard:
        if number not in self.shards:
            await self.load()
        return self.shards[number]


async def complete(placements: Database, new_home: Database, workspace: str, move: str) -> None:
    """Finish a move that the old home has decided; a second time changes nothing."""
    await new_home.fetch_in(workspace, STATEMENTS["open_home"], workspace=workspace, move=move)
    await placements.fetch_in(workspace, STATEMENTS["flip"], workspace=workspace, move=move)
