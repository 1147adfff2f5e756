"""Finding the shard of a workspace, also while it moves.

Where a workspace lives is looked up once, and remembered until its shard says otherwise. If a statement would write,
the shard says so inside that statement. After a read, the shard is asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from handraise.backends.postgres.database import Database
from handraise.backends.shards.shard import AWAY, STATEMENTS, Shard, refusal
from handraise.model.errors import StoreUnavailable
from handraise.ports import Backend

Item = TypeVar("Item")
Result = TypeVar("Result")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_PATIENCE = 15.0
"""How long a call waits for a workspace that is about to move."""
_GRACE = 0.5
"""How long a call to all shards waits for one of them."""
_KEPT = 200_000


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

    def batch_key(self, workspace: str) -> int | str:
        """Return the key of calls that may share a batch: the shard, or the workspace if its shard is unknown."""
        return self._known.get(workspace, workspace)

    def on_new_shard(self, callback: Callable[[Shard], None]) -> Callable[[], None]:
        """Register a callback for shards that are found later; return a function that ends that."""
        self._new_shard_callbacks.append(callback)
        return lambda: self._new_shard_callbacks.remove(callback)

    async def write(
        self,
        workspace: str,
        work: Callable[[Backend], Awaitable[T]],
        *,
        is_noop: Callable[[T], bool] = lambda _: False,
        place: bool = True,
    ) -> T:
        """The result of `work` on the shard of a workspace; one without a shard gets one if it may be placed.

        A shard that a workspace has left refuses writes. If `is_noop` is true for the result, the call wrote nothing,
        or can be repeated, so it was not refused. Then the shard is asked.
        """

        async def at(shard: Shard) -> T:
            done = await shard.call(work)
            if is_noop(done) and await shard.moved_away([workspace]):
                raise _WorkspaceMoved
            return done

        return await self._call_on_shard(workspace, at, place=place)

    async def read(self, workspace: str, work: Callable[[Backend], Awaitable[T]]) -> T:
        """The same for a call that changes nothing."""

        async def at(shard: Shard) -> T:
            found = await shard.call(work)
            if await shard.moved_away([workspace]):
                raise _WorkspaceMoved
            return found

        return await self._call_on_shard(workspace, at, place=False)

    async def write_many(
        self,
        items: Sequence[Item],
        workspace_of: Callable[[Item], str],
        work: Callable[[Backend, Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        is_noop: Callable[[Item, Result], bool],
    ) -> Sequence[Result]:
        """The results of `work` for items of several workspaces, in their order.

        Each shard gets all its items in one call. If one of its workspaces has moved, each workspace gets its own call.
        If one call fails, the others are finished before its error is raised.
        """
        results: dict[int, Result] = {}

        async def together(shard: Shard, places: Sequence[int]) -> None:
            parts = _parts(places, items, workspace_of)
            if len(parts) == 1:
                await by_itself(places)
                return
            own = [items[place] for place in places]
            try:
                done = await shard.call(lambda ports: work(ports, own))
            except StoreUnavailable as error:
                if refusal(error) is None:
                    raise
                await _all(
                    [by_itself(part) for part in parts]
                )  # it was one statement, and all of it was undone
                return
            results.update(zip(places, done, strict=True))
            if unsure := [place for place in places if is_noop(items[place], results[place])]:
                gone = await shard.moved_away({workspace_of(items[place]) for place in unsure})
                again = [place for place in unsure if workspace_of(items[place]) in gone]
                await _all([by_itself(part) for part in _parts(again, items, workspace_of)])

        async def by_itself(places: Sequence[int]) -> None:
            workspace = workspace_of(items[places[0]])

            async def at(shard: Shard) -> None:
                nonlocal places
                own = [items[place] for place in places]
                done = await shard.call(lambda ports: work(ports, own))
                results.update(zip(places, done, strict=True))
                places = [place for place in places if is_noop(items[place], results[place])]
                if places and await shard.moved_away([workspace]):
                    raise _WorkspaceMoved

            await self._call_on_shard(workspace, at, place=True)

        await _all([together(*each) for each in await self._by_shard(items, workspace_of, place=True)])
        return [results[place] for place in range(len(items))]

    async def read_many(
        self,
        items: Sequence[Item],
        workspace_of: Callable[[Item], str],
        work: Callable[[Backend, Sequence[Item]], Awaitable[Sequence[Result]]],
    ) -> Sequence[Result]:
        """The same for a call that changes nothing."""
        results: dict[int, Result] = {}

        async def together(shard: Shard, places: Sequence[int]) -> None:
            own = [items[place] for place in places]
            done = await shard.call(lambda ports: work(ports, own))
            results.update(zip(places, done, strict=True))
            gone = await shard.moved_away({workspace_of(item) for item in own})
            again = [place for place in places if workspace_of(items[place]) in gone]
            await _all([by_itself(part) for part in _parts(again, items, workspace_of)])

        async def by_itself(places: Sequence[int]) -> None:
            own = [items[place] for place in places]
            done = await self.read(workspace_of(own[0]), lambda ports: work(ports, own))
            results.update(zip(places, done, strict=True))

        await _all([together(*each) for each in await self._by_shard(items, workspace_of, place=False)])
        return [results[place] for place in range(len(items))]

    async def call_each(
        self,
        name: str,
        work: Callable[[Backend], Awaitable[T]],
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

    async def call_all(self, work: Callable[[Backend], Awaitable[T]]) -> list[T]:
        """The results of `work` on every shard, however long it takes; `StoreUnavailable` if none can do it."""
        if not self.shards:
            await self.load()
        asked = [shard.call(work) for shard in self.shards.values()]
        done = await asyncio.gather(*asked, return_exceptions=True)
        errors = [each for each in done if isinstance(each, BaseException)]
        for error in errors:
            if not isinstance(error, StoreUnavailable) or len(errors) == len(asked):
                raise error
            _log.warning("a shard is left out for now: %s", error)
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
            _log.warning("a shard is left out for now: %s", error)
        return [task.result() for task in done if task.exception() is None]

    async def shard_of(self, workspace: str, *, place: bool) -> Shard:
        """The shard that a workspace lives on; if it has none, the shard that it would get."""
        number = self._known.get(workspace)
        if number is None:
            number = await self._look_up(workspace, place=place)
        if number not in self.shards:
            await self.load()
        return self.shards[number]

    async def _call_on_shard(self, workspace: str, at: Callable[[Shard], Awaitable[T]], *, place: bool) -> T:
        """Do something on a workspace's shard, and repeat it if the workspace has moved or is moving."""
        until, pause = time.monotonic() + _PATIENCE, 0.005
        while True:
            shard = await self.shard_of(workspace, place=place)
            try:
                return await at(shard)
            except _WorkspaceMoved:
                moved = True
            except StoreUnavailable as error:
                why = refusal(error)
                if why is None:
                    raise
                moved = why == AWAY
            if moved and await self._follow(workspace, shard):
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
        here = await (await left.opened()).database.fetch_in(
            workspace, STATEMENTS["home"], workspace=workspace
        )
        if not here or here[0]["state"] != "away" or here[0]["move"] != rows[0]["move"]:
            return False
        await self.load()
        await complete(
            self._placements,
            (await self.shards[here[0]["shard"]].opened()).database,
            workspace,
            here[0]["move"],
        )
        return True

    async def _look_up(self, workspace: str, *, place: bool) -> int:
        rows = await self._placements.fetch_in(workspace, STATEMENTS["find"], workspace=workspace)
        if not rows and place:
            await self._placements.fetch_in(workspace, STATEMENTS["place"], workspace=workspace)
            rows = await self._placements.fetch_in(workspace, STATEMENTS["find"], workspace=workspace)
        if not self.shards:
            await self.load()
        if rows:
            number: int = rows[0]["shard"]
            if len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[workspace] = number
            return number
        if place or not self.shards:
            raise StoreUnavailable("No shard takes workspaces. Run: handraise shards add postgresql://…")
        return min(self.shards)  # it has no rows anywhere, so any shard can say so

    async def _by_shard(
        self, items: Sequence[Item], workspace_of: Callable[[Item], str], *, place: bool
    ) -> list[tuple[Shard, Sequence[int]]]:
        parts: dict[Shard, list[int]] = {}
        homes: dict[str, Shard] = {}
        for number, item in enumerate(items):
            workspace = workspace_of(item)
            if workspace not in homes:
                homes[workspace] = await self.shard_of(workspace, place=place)
            parts.setdefault(homes[workspace], []).append(number)
        return list(parts.items())


async def complete(placements: Database, new_home: Database, workspace: str, move: str) -> None:
    """Finish a move that the old home has decided; a second time changes nothing."""
    await new_home.fetch_in(workspace, STATEMENTS["open_home"], workspace=workspace, move=move)
    await placements.fetch_in(workspace, STATEMENTS["flip"], workspace=workspace, move=move)


class _WorkspaceMoved(Exception):
    """What was read cannot be trusted, because the workspace has moved."""


def _parts(
    places: Sequence[int], items: Sequence[Item], workspace_of: Callable[[Item], str]
) -> list[Sequence[int]]:
    """Places by workspace."""
    parts: dict[str, list[int]] = {}
    for place in places:
        parts.setdefault(workspace_of(items[place]), []).append(place)
    return list(parts.values())


async def _all(calls: Collection[Awaitable[None]]) -> None:
    """Await all of them, and only then raise the first error."""
    for done in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(done, BaseException):
            raise done
