"""Moving a workspace to another shard while it is in use.

The old home notes what changes. Its rows are copied, then the noted changes, again and again until few are left. Then
writes are held back for a moment, the last changes are copied, and the old home records that the workspace is away.
That one statement is the decision. What remains is to open the new home and to record where the workspace is. Any
process that asks the old home does this. If a mover dies, the workspace is at its old home, where the fence ends by
itself, or at its new one. The next mover continues from there.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg

from handraise.backends.postgres.connections import SETTINGS, driver_errors_translated
from handraise.backends.shards import row_copy
from handraise.backends.shards.row_copy import Connected, Table, enter
from handraise.backends.shards.shard import STATEMENTS as PLACING
from handraise.backends.sql_files import load_statements
from handraise.model.errors import NotFound, RequestConflict, SchemaMismatch, StoreUnavailable

STATEMENTS = {**PLACING, **load_statements("handraise.backends.shards", "moving.sql")}

FENCE = timedelta(seconds=5)
"""How long writes are held back at most, even if the mover dies."""

_LITTLE = 200
_ROUNDS = 50
_TRIES = 20
_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move. `fenced` is how many seconds writes were held back."""

    workspace: str
    source: int
    target: int
    rows: int
    changes: int
    fenced: float


async def move_workspace(
    placements: str,
    workspace: str,
    *,
    to: int,
    fence: timedelta = FENCE,
    reached: Callable[[str], None] = lambda _: None,
) -> Moved:
    """Move a workspace to shard `to`, or continue a move that somebody else left unfinished.

    While it is moving, moving it to the shard where it still lives cancels the move. Raises `NotFound` if there is no
    such workspace or shard, and `RequestConflict` if somebody else moves it or it is moving to another shard. `reached`
    is called with the name of each step before the step. Run this as a role that owns the tables.
    """
    with driver_errors_translated():
        async with AsyncExitStack() as stack:
            known = await stack.enter_async_context(_connected(placements))
            if not await known.fetchval(*_bound("lock", workspace=workspace)):
                raise RequestConflict(f"Workspace {workspace!r} is being moved by somebody else.")
            placed = await _in(known, workspace, "placement")
            if not placed:
                raise NotFound(f"There is no workspace {workspace!r}.")
            shard, going_to, move = placed[0]["shard"], placed[0]["going_to"], placed[0]["move"]
            if shard == to and going_to is None:
                return Moved(workspace, shard, to, 0, 0, 0.0)
            if going_to is not None and to not in (shard, going_to):
                raise RequestConflict(
                    f"Workspace {workspace!r} is on its way to shard {going_to}. Finish that first, or give it up: "
                    f"handraise shards move {workspace} --to {shard}"
                )
            if going_to is None:
                address = await _address(known, to)
                reached("intend")
                made = await _in(known, workspace, "intend", to=to, move=uuid.uuid4().hex)
                move = made[0]["move"]
            else:
                address = await _address(known, going_to)
            source = await stack.enter_async_context(_connected(await _address(known, shard)))
            target = await stack.enter_async_context(_connected(address))
            mover = _Mover(
                workspace, move, known, source, target, fence=fence.total_seconds(), reached=reached
            )
            if going_to is not None and to == shard:
                await mover.give_up()
                return Moved(workspace, shard, to, 0, 0, 0.0)
            await mover.move(shard, to)
            return Moved(workspace, shard, to, mover.rows, mover.changes, mover.fenced)


async def tidy(placements: str) -> int:
    """Delete what workspaces left on shards that they moved away from; return how many workspaces that were."""
    number = 0
    with driver_errors_translated():
        async with _connected(placements) as known:
            shards = await known.fetch(STATEMENTS["shards"].numbered)
        for shard in shards:
            async with _connected(shard["address"]) as connected:
                tables = row_copy.tables_of(await connected.fetch(STATEMENTS["tables"].numbered))
                for row in await connected.fetch(STATEMENTS["untidied"].numbered):
                    await _purge(connected, tables, row["workspace"], "guard_away")
                    await _in(connected, row["workspace"], "tidied")
                    number += 1
    return number


class _Mover:
    """Moves a workspace. A process that continues the same move later takes it over."""

    def __init__(
        self,
        workspace: str,
        move: str,
        known: Connected,
        source: Connected,
        target: Connected,
        *,
        fence: float,
        reached: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._move = move
        self._known = known
        self._source = source
        self._target = target
        self._fence = fence
        self._reached = reached
        self._name = uuid.uuid4().hex
        self._tables: list[Table] = []
        self.rows = 0
        self.changes = 0
        self.fenced = 0.0

    async def move(self, source: int, target: int) -> None:
        """Do every step that has not been done."""
        await self._check_schema()
        if not await self._is_decided():
            progress = await self._expect(source)
            await self._leave(target)
            await self._copy(progress)
            await self._catch_up()
            await self._go()
        self._reached("open")
        await _in(self._target, self._workspace, "open_home", move=self._move)
        self._reached("flip")
        await _in(self._known, self._workspace, "flip", move=self._move)
        self._reached("tidy")
        await _purge(self._source, self._tables, self._workspace, "guard_away")
        await _in(self._source, self._workspace, "tidied")
        self._reached("done")

    async def give_up(self) -> None:
        """Stay at the old home, unless it has been decided that the workspace is away."""
        await self._check_schema()
        if await self._is_decided():
            raise RequestConflict(f"Workspace {self._workspace!r} has arrived already; move it back instead.")
        await _in(self._source, self._workspace, "stay", move=self._move)
        await _in(self._target, self._workspace, "unexpect", move=self._move)
        await _in(self._known, self._workspace, "give_up", move=self._move)

    async def _check_schema(self) -> None:
        ours = await self._source.fetchval(STATEMENTS["schema"].numbered)
        theirs = await self._target.fetchval(STATEMENTS["schema"].numbered)
        if ours != theirs:
            raise SchemaMismatch(f"The shards have schemas {ours} and {theirs}. Run handraise migrate first.")
        self._tables = row_copy.tables_of(await self._source.fetch(STATEMENTS["tables"].numbered))

    async def _is_decided(self) -> bool:
        here = await _in(self._source, self._workspace, "home")
        return bool(here) and (here[0]["state"], here[0]["move"]) == ("away", self._move)

    async def _expect(self, source: int) -> dict[str, Any]:
        """Make the new home refuse everybody else, and delete what was left there; return how far the copy is."""
        self._reached("expect")
        rows = await _in(
            self._target, self._workspace, "expect", source=source, move=self._move, mover=self._name
        )
        if not rows:
            raise RequestConflict(
                f"The new shard does not expect workspace {self._workspace!r} by this move."
            )
        if rows[0]["progress"] is None:
            self._reached("purge")
            await _purge(self._target, self._tables, self._workspace, "guard", mover=self._name)
            await _in(self._target, self._workspace, "progress", progress="{}", mover=self._name)
            return {}
        progress: dict[str, Any] = json.loads(rows[0]["progress"])
        return progress

    async def _leave(self, target: int) -> None:
        """Make the old home note what changes, and wait for all transactions that began before."""
        self._reached("leave")
        if not await _in(
            self._source, self._workspace, "leave", to=target, move=self._move, mover=self._name
        ):
            raise RequestConflict(f"Workspace {self._workspace!r} does not leave its shard by this move.")
        await self._everybody_before()
        await self._get_ahead()

    async def _everybody_before(self, within: float = 60.0) -> None:
        """Wait until every transaction is over that may not have seen what was written last."""
        writers = await self._source.fetchval(*_bound("writers", some=None))
        until = time.monotonic() + within
        while writers:
            if time.monotonic() > until:
                raise StoreUnavailable("A transaction on the old shard has run for too long; try again.")
            await asyncio.sleep(0.005)
            writers = await self._source.fetchval(*_bound("writers", some=writers))

    async def _copy(self, progress: dict[str, Any]) -> None:
        self._reached("copy")
        related = [table for table in self._tables if table.related]
        if "related" not in progress:
            # In one snapshot of all of them: a row that another one refers to must be there.
            async with self._source.transaction(isolation="repeatable_read", readonly=True):
                await enter(self._source, self._workspace)
                for table in related:
                    await self._copy_table(table, None)
            await self._note(related=True)
        for table in self._tables:
            place = progress.get(table.name, [])
            if not table.related and place is not None:
                async with self._source.transaction():
                    await enter(self._source, self._workspace)
                    await self._copy_table(table, place or None, noting=True)

    async def _copy_table(self, table: Table, place: Sequence[str] | None, *, noting: bool = False) -> None:
        while True:
            rows, place = await row_copy.read_page(self._source, table, self._workspace, place)
            async with self._arriving():
                await row_copy.put(self._target, table, rows)
                self.rows += await self._target.fetchval(f"select count(*) from {table.stage}")  # noqa: S608 -- names of the catalogue
                if noting:
                    await self._target.execute(
                        *_bound(
                            "progress",
                            workspace=self._workspace,
                            mover=self._name,
                            progress=json.dumps({table.name: place}),
                        )
                    )
            self._reached(f"page {table.name}")
            if place is None:
                return

    async def _note(self, **progress: object) -> None:
        await _in(self._target, self._workspace, "progress", progress=json.dumps(progress), mover=self._name)

    async def _catch_up(self) -> None:
        """Copy the noted changes, until few are left."""
        self._reached("catch up")
        for _ in range(_ROUNDS):
            if await self._take_changes() < _LITTLE:
                return
        raise StoreUnavailable(
            f"Workspace {self._workspace!r} changes faster than it can be copied; move it when it is quieter."
        )

    async def _take_changes(self) -> int:
        """Copy the changes that were noted up to now; return how many that were."""
        async with self._source.transaction(isolation="repeatable_read", readonly=True):
            await enter(self._source, self._workspace)
            noted = await self._source.fetch(*_bound("changes", workspace=self._workspace))
            if not noted:
                return 0
            questions, keys = _sorted_out(noted)
            async with self._arriving():
                for table in self._tables:
                    changed = list(keys.get(table.name, {}).values())
                    chunk = min(_CHUNK, table.page)
                    for first in range(0, len(changed), chunk):
                        await self._bring(table, changed[first : first + chunk])
                for first in range(0, len(questions), _CHUNK):
                    await self._bring_questions(questions[first : first + _CHUNK])
        self._reached("changes")
        await _in(self._source, self._workspace, "forget_changes", numbers=[each["number"] for each in noted])
        self.changes += len(noted)
        return len(noted)

    async def _bring(self, table: Table, keys: Sequence[Any]) -> None:
        await row_copy.stage(self._target, table, b"")
        rows = await row_copy.read_keys(self._source, table, keys)
        await row_copy.put(self._target, table, rows)
        await row_copy.drop_keys(self._target, table, keys)

    async def _bring_questions(self, ids: Sequence[str]) -> None:
        """Questions with all that changes together with them."""
        for table in self._tables:
            if table.name in ("questions", "inbox", "events"):
                column = "id" if table.name == "questions" else "question_id"
                rows = await row_copy.read_of(self._source, table, self._workspace, column, ids)
                await row_copy.put(self._target, table, rows)
                if table.name != "events":
                    await row_copy.drop_of(self._target, table, self._workspace, column, ids)

    async def _go(self) -> None:
        """Hold writes back, copy the last changes, and decide."""
        for _ in range(_TRIES):
            self._reached("fence")
            began = time.monotonic()
            if not await _in(self._source, self._workspace, "fence", seconds=self._fence, mover=self._name):
                raise RequestConflict(f"Somebody else has gone on with moving {self._workspace!r}.")
            try:
                await self._everybody_before(within=self._fence)
                self._reached("last changes")
                while await self._take_changes():
                    pass
                async with self._arriving():
                    await self._target.execute(*_bound("hear", workspace=self._workspace))
                await self._get_ahead()
                await self._count_on()
                await self._known.fetchval(
                    "select 1"
                )  # without this connection another process may have taken over
                self._reached("go")
                if await self._decide():
                    return
            except (StoreUnavailable, asyncpg.LockNotAvailableError):
                pass  # a transaction takes long, and nobody else should wait for it
            finally:
                self.fenced = time.monotonic() - began
            await _in(self._source, self._workspace, "unfence", mover=self._name)
            await asyncio.sleep(1.0)
            await self._catch_up()
        raise StoreUnavailable(f"Workspace {self._workspace!r} could not be held still; try again.")

    async def _decide(self) -> bool:
        async with self._source.transaction():
            await enter(self._source, self._workspace)
            await self._source.execute("set local lock_timeout = '1s'")
            await self._source.execute(*_bound("hold", workspace=self._workspace))
            bound = _bound("go", workspace=self._workspace, mover=self._name)
            return bool(await self._source.fetch(*bound))

    async def _get_ahead(self) -> None:
        """Make the new home order its new events after those that are moved."""
        epoch = await self._source.fetchval(STATEMENTS["epoch"].numbered) + 1
        if await self._target.fetchval(STATEMENTS["epoch"].numbered) >= epoch:
            return
        for tried in range(1, _TRIES + 1):
            try:
                async with self._target.transaction():
                    await self._target.execute("set local lock_timeout = '500ms'")
                    await self._target.execute(*_bound("raise_epoch", epoch=epoch))
                    return
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
                if tried == _TRIES:
                    raise
                await asyncio.sleep(0.05 * tried)

    async def _count_on(self) -> None:
        """Make the new home continue counting from where the old one was."""
        there = {
            row["sequence"]: row["last"] for row in await self._target.fetch(STATEMENTS["sequences"].numbered)
        }
        for row in await self._source.fetch(STATEMENTS["sequences"].numbered):
            if row["last"] > there[row["sequence"]]:
                await self._target.execute(*_bound("count_from", sequence=row["sequence"], last=row["last"]))

    @asynccontextmanager
    async def _arriving(self) -> AsyncIterator[None]:
        """A transaction at the new home, for as long as it expects this mover."""
        async with self._target.transaction():
            await enter(self._target, self._workspace)
            if not await self._target.fetch(*_bound("guard", workspace=self._workspace, mover=self._name)):
                raise RequestConflict(f"Somebody else has gone on with moving {self._workspace!r}.")
            yield


def _sorted_out(noted: Sequence[Any]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The questions that were noted, and the keys of other rows by their tables."""
    questions: dict[str, None] = {}
    keys: dict[str, dict[str, Any]] = {}
    for each in noted:
        key = json.loads(each["key"])
        if each["relation"] == "questions":
            questions[key["id"]] = None
            continue
        if "question_id" in key and each["relation"] in ("events", "deliveries"):
            questions[key["question_id"]] = None
        if each["relation"] != "events":
            keys.setdefault(each["relation"], {})[each["key"]] = key
    return list(questions), keys


async def _purge(
    connected: Connected, tables: Sequence[Table], workspace: str, guard: str, **values: object
) -> None:
    """Delete a workspace's rows, some at a time, for as long as a guard holds."""
    for table in reversed(tables):
        left = row_copy.PAGE
        while left >= row_copy.PAGE:
            async with connected.transaction():
                await enter(connected, workspace)
                if not await connected.fetch(*_bound(guard, workspace=workspace, **values)):
                    raise RequestConflict(f"Workspace {workspace!r} is not to be deleted here any more.")
                left = await row_copy.drop_some(connected, table, workspace)


async def _in(connected: Connected, workspace: str, name: str, **values: object) -> Any:
    """The rows of a statement about a workspace, in its own transaction."""
    async with connected.transaction():
        await enter(connected, workspace)
        return await connected.fetch(*_bound(name, workspace=workspace, **values))


def _bound(name: str, **values: object) -> list[Any]:
    """A statement and its values."""
    statement = STATEMENTS[name]
    return [statement.numbered, *statement.arguments(**values)]


async def _address(known: Connected, number: int) -> str:
    found: str | None = await known.fetchval(*_bound("address", number=number))
    if found is None:
        raise NotFound(f"There is no shard {number}. See: handraise shards list")
    return found


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator[Connected]:
    settings = {**SETTINGS, "application_name": "handraise mover"}
    opened = await asyncpg.connect(address, server_settings=settings, command_timeout=60, timeout=15)
    try:
        yield opened
    finally:
        # Close it properly: the next process that moves it must not find our lock.
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await opened.close(timeout=2)
        opened.terminate()
