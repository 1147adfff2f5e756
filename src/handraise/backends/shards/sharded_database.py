"""Running statements on several shards: each on the shard on which its workspace lives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from handraise.backends.postgres.database import Database, Run, call_parts, places_by
from handraise.backends.shards.shard import Shard, refusal
from handraise.backends.shards.shard_router import ShardRouter
from handraise.backends.sql_files import Statement
from handraise.model.errors import StoreUnavailable

Item = TypeVar("Item")
Result = TypeVar("Result")


class ShardedDatabase:
    """Several shards. See `handraise.backends.postgres.database.StatementRunner`."""

    def __init__(self, router: ShardRouter, *, only: int | None = None) -> None:
        """With `only`, a statement that is not about a workspace runs on one shard."""
        self._router = router
        self._only = only

    def by_shard(self) -> Sequence[ShardedDatabase]:
        """The same for each shard, as the only one."""
        return [ShardedDatabase(self._router, only=number) for number in self._router.shards]

    async def fetch(self, statement: Statement, /, **values: Any) -> list[Any]:
        """The rows of a statement that is not about a workspace, of every shard that answers."""
        name = statement.name if self._only is None else f"{statement.name} {self._only}"
        found = await self._router.call_each(
            name, lambda opened: opened.database.fetch(statement, **values), only=self._only
        )
        return [row for rows in found for row in rows]

    async def fetch_in(self, workspace: str, /, *statements: Statement, **values: Any) -> list[Any]:
        """The rows of the last of these statements about a workspace, in one transaction."""
        return await self._call_on_home(
            workspace,
            lambda database: database.fetch_in(workspace, *statements, **values),
            writes=any(each.writes for each in statements),
        )

    async def fetch_as_keeper(self, workspace: str, /, *statements: Statement, **values: Any) -> list[Any]:
        """The same for statements that only a keeper may run."""
        return await self._call_on_home(
            workspace, lambda database: database.fetch_as_keeper(workspace, *statements, **values)
        )

    async def work_in(self, workspaces: Iterable[str], work: Callable[[Run], Awaitable[Result]]) -> Result:
        """The result of several statements about workspaces of one shard, or about one wherever it is."""
        names = list(dict.fromkeys(workspaces))
        return await self._call_together(names, lambda database: database.work_in(names, work))

    async def fetch_batch(
        self, workspaces: Iterable[str], statement: Statement, /, **values: Any
    ) -> list[Any]:
        """The rows of a statement about several workspaces of one shard, or about one wherever it is."""
        names = list(dict.fromkeys(workspaces))
        return await self._call_together(
            names,
            lambda database: database.fetch_batch(names, statement, **values),
            writes=statement.writes,
        )

    async def run_batch(
        self,
        items: Sequence[Item],
        workspace_of: Callable[[Item], str],
        call_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
    ) -> Sequence[Result]:
        """Call `call_batch` with the items of each shard.

        If one of their workspaces is moving, or has no home yet, each of them gets its own call.
        """
        homes = {name: await self._router.find_shard(name) for name in set(map(workspace_of, items))}

        async def together(own: Sequence[Item]) -> Sequence[Result]:
            parts = places_by(workspace_of, own)
            shard = homes[next(iter(parts))]
            if shard is not None:
                try:
                    # Not `shard.call`: what is called finds its shard by itself, and that may be another one.
                    return await (await shard.opened()).database.run_batch(own, workspace_of, call_batch)
                except _WorkspacesApartError:
                    pass
                except StoreUnavailable as error:
                    if len(parts) == 1 or refusal(error) is None:
                        raise
            return await call_parts(own, parts.values(), call_batch)

        return await call_parts(
            items, places_by(lambda item: homes[workspace_of(item)], items).values(), together
        )

    async def _call_together(
        self, names: Sequence[str], work: Callable[[Database], Awaitable[Result]], *, writes: bool = True
    ) -> Result:
        """Call the database of several workspaces. `run_batch` does what follows if they live on different shards."""
        if len(names) == 1:
            return await self._call_on_home(names[0], work, writes=writes)
        homes = {await self._router.find_shard(each) for each in names}
        shard = homes.pop()
        if homes or shard is None:
            raise _WorkspacesApartError
        return await shard.call(lambda opened: work(opened.database))

    async def _call_on_home(
        self, workspace: str, work: Callable[[Database], Awaitable[Result]], *, writes: bool = True
    ) -> Result:
        """Call the database of a workspace. One without a home gets it if the call writes."""
        if not writes and await self._router.find_shard(workspace) is None:
            # No shard has rows of it, so any can say so.
            shard = await self._router.any_shard()
            return await shard.call(lambda opened: work(opened.unchecked.as_shard(only_reads=True)))

        async def at(shard: Shard) -> Result:
            return await shard.call(lambda opened: work(opened.database))

        return await self._router.call_on_home(workspace, at)


class _WorkspacesApartError(Exception):
    """The workspaces of a batch live on different shards, because one of them has moved."""
