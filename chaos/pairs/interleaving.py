"""Two who work on one PostgreSQL at the same time, in every order of their statements and commits.

Each runs the product's own code on its own connection. Before every statement, and before every commit, it waits for
its turn. So a schedule is a list of choices, and all of them are tried: the first run always lets the same one go, and
each choice is made the other way in another run. A worker that waits for a lock, as PostgreSQL says, has no turn. That
two statements that only read can change places is not tried.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias, cast

import asyncpg

from handraise.backends.postgres import executor, store
from handraise.backends.postgres.pool import Pool

_READS = frozenset(
    [
        "read",
        "read_by_key",
        "outcomes",
        "followers",
        "consumed_by",
        "find_grant",
        "covering_stop",
        "grants",
        "read_grant",
        "history",
        "feed",
        "feed_end",
        "writers",
        "pending_all",
        "urgent_all",
        "urgent_by_asker",
        "urgent_by_recipient",
        "urgent_by_conversation",
        "pending_by_asker",
        "pending_by_recipient",
        "pending_by_conversation",
        "count_pending",
        "due_workspaces",
        "entries",
        "deliveries",
        "addresses",
        "routing",
        "shortest_keep",
    ]
)
_NOTHING_WRITTEN = frozenset(
    [
        "insert",
        "settle",
        "sweep",
        "expire_older",
        "consume",
        "take_back",
        "report",
        "claim_sending",
        "mark_sent",
        "join",
        "revoke",
        "unreached",
        "take",
    ]
)
"""If these return no row, they have written none: their commit can be at any time."""
_SOON, _STUCK = 0.004, 60.0

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@dataclass(frozen=True)
class Step:
    """What a worker does next."""

    name: str
    reads: bool


class Hand:
    """One of the two: a connection of which every statement and every commit waits for its turn."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names = {
            each.numbered: name for part in (store, executor) for name, each in part.STATEMENTS.items()
        }
        self._begun = self._wrote = False
        self._go: asyncio.Future[None] | None = None
        self.pid: int = connection.get_server_pid()
        self.step: Step | None = None
        self.steps: list[str] = []
        self.ready = asyncio.Event()

    @property
    def pool(self) -> Pool:
        """What a `Database` takes its connections from."""
        return cast("Pool", self)

    async def take(self) -> Hand:
        """See `Pool.take`; here there is only one connection, with one user."""
        return self

    def give_back(self, connection: Hand) -> None:
        """See `Pool.give_back`."""

    hang_up = give_back
    each_transaction = ""

    async def execute(self, statement: str, *, timeout: float | None = None) -> None:
        """Begin, commit or roll back, however long that takes: it may have to wait for its turn."""
        del timeout
        if statement == "commit" and self._wrote:
            await self._turn(Step("commit", reads=False))
        self._begun, self._wrote = statement.startswith("begin"), False
        await self._connection.execute(statement)

    async def fetch(self, statement: str, *arguments: Any, timeout: float | None = None) -> list[Any]:
        """A statement: by itself, which is in a transaction that only it knows of, or in one that was begun."""
        del timeout
        name = self._names.get(statement, statement)
        reads = name in _READS
        await self._turn(Step(name, reads=reads))
        if reads or self._begun:
            rows = await self._connection.fetch(statement, *arguments)
            self._wrote = self._wrote or not (reads or _is_nothing(name, rows))
            return rows
        await self._connection.execute("begin")
        try:
            rows = await self._connection.fetch(statement, *arguments)
            if not _is_nothing(name, rows):
                await self._turn(Step("commit", reads=False))
        except BaseException:
            await self._connection.execute("rollback")
            raise
        await self._connection.execute("commit")
        return rows

    def go(self) -> None:
        """Let it do its step."""
        assert self._go is not None
        assert self.step is not None
        self.steps.append(self.step.name)
        self.step = None
        self._go.set_result(None)

    async def _turn(self, step: Step) -> None:
        self._go = asyncio.get_running_loop().create_future()
        self.step = step
        self.ready.set()
        await self._go


@dataclass(frozen=True)
class Run:
    """One run: which of the two had each choice, the steps in their order, and the results of both."""

    choices: tuple[int, ...]
    steps: tuple[tuple[int, str], ...]
    results: tuple[Any, ...]
    waits: int
    deadlocks: int


async def interleave(
    hands: Sequence[Hand],
    work: Sequence[Callable[[], Awaitable[Any]]],
    prefix: Sequence[int],
    watcher: Connection,
) -> Run:
    """Run both in the order of `prefix` and, after it, the first one first."""
    tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(each()) for each in work]
    choices: list[int] = []
    steps: list[tuple[int, str]] = []
    waits = deadlocks = 0
    for hand, task in zip(hands, tasks, strict=True):
        task.add_done_callback(partial(_ready, hand))
    async with asyncio.timeout(_STUCK):
        while True:
            waiting = await _quiet(hands, tasks, watcher)
            waits += bool(waiting)
            able = [place for place, hand in enumerate(hands) if hand.step is not None]
            if not able:
                if all(task.done() for task in tasks):
                    break
                deadlocks += 1  # PostgreSQL finds out, and ends one of them
                await asyncio.wait(
                    [asyncio.ensure_future(hand.ready.wait()) for hand in hands],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                continue
            chosen = able[0]
            if len(able) > 1 and not all(cast("Step", hand.step).reads for hand in hands):
                chosen = prefix[len(choices)] if len(choices) < len(prefix) else 0
                choices.append(chosen)
            steps.append((chosen, cast("Step", hands[chosen].step).name))
            hands[chosen].go()
    results = tuple(task.result() for task in tasks)
    return Run(tuple(choices), tuple(steps), results, waits, deadlocks)


async def every_run(
    once: Callable[[tuple[int, ...]], Awaitable[Run]], at_most: int
) -> AsyncIterator[tuple[Run, int]]:
    """A run for each different order, and how many orders are known to be left after it.

    If there are more than `at_most`, it takes those in which the two change turns least often: a mistake nearly always
    shows with one change or two.
    """
    prefixes: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    for _ in range(at_most):
        _, prefix = heapq.heappop(prefixes)
        run = await once(prefix)
        for place in range(len(prefix), len(run.choices)):
            longer = (*run.choices[:place], 1 - run.choices[place])
            changes = sum(one != other for one, other in pairwise(longer))
            heapq.heappush(prefixes, (changes, longer))
        yield run, len(prefixes)
        if not prefixes:
            return


async def _quiet(hands: Sequence[Hand], tasks: Sequence[asyncio.Future[Any]], watcher: Connection) -> int:
    """Wait until all are done, at their next step, or wait for a lock; return how many wait for one."""
    while True:
        busy = [
            hand for hand, task in zip(hands, tasks, strict=True) if hand.step is None and not task.done()
        ]
        if not busy:
            return 0
        for hand in busy:
            hand.ready.clear()
        heard = [asyncio.ensure_future(hand.ready.wait()) for hand in busy]
        await asyncio.wait(heard, timeout=_SOON)
        for each in heard:
            each.cancel()
        still = [hand.pid for hand in busy if not hand.ready.is_set()]
        if still:
            locked = await watcher.fetchval(
                "select count(*) from unnest($1::int[]) as t (pid) where cardinality(pg_blocking_pids(pid)) > 0",
                still,
            )
            if locked == len(still) == len(busy):
                return len(still)


def _is_nothing(name: str, rows: Sequence[Any]) -> bool:
    return not rows and name in _NOTHING_WRITTEN


def _ready(hand: Hand, _: asyncio.Future[Any]) -> None:
    hand.ready.set()
