"""Every two transitions at the same time, in every order of their statements and commits, on a real PostgreSQL.

python -m chaos pairs                     all of them, in a new database at HANDRAISE_TEST_POSTGRES
python -m chaos pairs "two must agree"    those of one scene

Two at once must give the same result as one after the other, in one order or the other: the same record, events, grants
and deliveries, and each gets the reply that it would have got. Also, the rules that hold for each of them hold.
"""

from __future__ import annotations

import argparse
import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import combinations_with_replacement
from typing import Any, cast

import asyncpg

from chaos.history_checker import ENDINGS
from chaos.pairs.interleaving import Connection, Hand, Run, every_run, interleave
from chaos.pairs.scenes import NOON, SCENES, Deed, Place, Scene
from handraise import Event, HandraiseError, Outcome, Question
from handraise.backends.postgres.connections import SETTINGS
from handraise.backends.postgres.database import Database
from handraise.backends.postgres.executor import PostgresExecutor
from handraise.backends.postgres.pool import Pool
from handraise.backends.postgres.schema import migrate
from handraise.backends.postgres.store import PostgresStore
from handraise.backends.sql.outbox import SqlOutbox
from handraise.backends.sqlite.memory import MemoryBus
from handraise.desks import counted_ids, desk_from_store
from handraise.ports import Filter
from handraise.questions import Ref, Responder
from handraise.testing import ManualClock
from support.database import POSTGRES, own_database

_EMPTY = """
truncate handraise.questions, handraise.inbox, handraise.events, handraise.grants,
    handraise.outbox, handraise.deliveries, handraise.addresses
"""
AT_MOST = 200
"""How many orders of a pair are tried: for most pairs, all."""
_PEOPLE = ("ana", "ben")
_IDS = ("q-1", "q-2", "q-3", "ana-1", "ana-2", "ben-1", "ben-2")
_INBOXES = ("ana", "ben", "cleo", "dan")


@dataclass
class Tally:
    """What was tried, and what was found."""

    pairs: int = 0
    runs: int = 0
    waits: int = 0
    deadlocks: int = 0
    cut: list[str] = field(default_factory=list)
    """The pairs that have more orders than were tried."""
    found: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.pairs} pairs of transitions, {self.runs} interleavings, in {self.waits} of which one waited for the other, "
            f"{self.deadlocks} deadlocks, {len(self.found)} violations; of {len(self.cut)} pairs not all orders"
        )


def main(arguments: list[str]) -> int:
    """Try all pairs; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m chaos pairs", description=__doc__)
    parser.add_argument("scene", nargs="*", help=f"one of: {', '.join(SCENES)}")
    parser.add_argument(
        "--at-most", type=int, default=AT_MOST, help="orders of each pair, fewest changes first"
    )
    given = parser.parse_args(arguments)
    names = given.scene or list(SCENES)
    if unknown := set(names) - set(SCENES):
        parser.error(f"no such scene: {', '.join(sorted(unknown))}")
    tally = asyncio.run(explore(names, at_most=given.at_most))
    print(tally)
    for pair, times in Counter(": ".join(each.split(": ")[:2]) for each in tally.found).items():
        print(f"  {times} violations: {pair}")
    for pair in tally.cut:
        print(f"  not all orders: {pair}")
    return 1 if tally.found else 0


def pairs_of(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Every scene with every two of its actions."""
    return [(name, *pair) for name in names for pair in combinations_with_replacement(SCENES[name].deeds, 2)]


async def explore(
    names: Sequence[str],
    *,
    server: str = POSTGRES,
    until_found: bool = False,
    at_most: int = AT_MOST,
    only: Collection[tuple[str, str, str]] | None = None,
) -> Tally:
    """Try all pairs of these scenes in a new database, or only until one is found that breaks a rule.

    `only` are the pairs to try, each a scene and two actions; by default all.
    """
    total = Tally()
    async with own_database(server) as address, AsyncExitStack() as stack:
        ctx = await stack.enter_async_context(opened(address))
        for name in names:
            began = time.monotonic()
            tally = Tally()
            scene = SCENES[name]
            for pair in combinations_with_replacement(scene.deeds, 2):
                if only is not None and (name, *pair) not in only:
                    continue
                await _try_pair(ctx, name, scene, pair, tally, at_most=at_most)
                if until_found and tally.found:
                    break
            print(f"{name}: {tally}, {time.monotonic() - began:.0f} s", flush=True)
            total = Tally(*(getattr(total, each) + getattr(tally, each) for each in vars(total)))
    return total


@dataclass(frozen=True)
class ServerContext:
    """Three connections: two for the workers, one to prepare, read and watch."""

    hands: Sequence[Connection]
    other: Connection


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[ServerContext]:
    """The connections to a database that has the schema."""
    settings = {
        **SETTINGS,
        "synchronous_commit": "off",
    }  # nothing crashes here, and thousands of commits are faster
    connections = [await asyncpg.connect(address, server_settings=settings) for _ in range(3)]
    try:
        await migrate(connections[2])
        yield ServerContext(connections[:2], connections[2])
    finally:
        for each in connections:
            await each.close()


async def _try_pair(
    ctx: ServerContext, name: str, scene: Scene, pair: tuple[str, str], tally: Tally, *, at_most: int
) -> None:
    deeds = tuple(scene.deeds[each] for each in pair)
    serial = [await _once(ctx, scene, deeds, order=order) for order in ((0, 1), (1, 0))]
    allowed = [end for _, end in serial]
    removed = any(deed.removes for deed in deeds)

    async def once(prefix: tuple[int, ...]) -> Run:
        run, end = await _once(ctx, scene, deeds, prefix=prefix)
        problems = list(end.broken(removed=removed)) + (
            [] if end in allowed else [f"neither order gives {end}, but {allowed}"]
        )
        order = " ".join(f"{_PEOPLE[who]}:{step}" for who, step in run.steps)
        for problem in problems[: 0 if tally.found else 1]:  # the first is enough to look at
            print(f"VIOLATION {name}: {' with '.join(pair)}\n  {order}\n  {problem}", flush=True)
        tally.found.extend(f"{name}: {' with '.join(pair)}: {order}: {problem}" for problem in problems)
        tally.waits += run.waits > 0
        tally.deadlocks += run.deadlocks
        return run

    for _, end in serial:
        tally.found.extend(
            f"{name}: {' then '.join(pair)}: {problem}" for problem in end.broken(removed=removed)
        )
    tally.pairs += 1
    left = 0
    async for _, known in every_run(once, at_most):
        tally.runs += 1
        left = known
    if left:
        tally.cut.append(f"{name}: {' with '.join(pair)}")


@dataclass(frozen=True)
class End:
    """The result of a run: what both were told, and what is stored."""

    told: tuple[Any, ...]
    questions: tuple[dict[str, Any], ...]
    grants: tuple[Any, ...]

    def broken(self, *, removed: bool) -> list[str]:
        """The rules that do not hold; if one of the two removes, what was told may no longer be recorded."""
        problems: list[str] = []
        for each in self.questions:
            kinds = Counter(kind for kind, _ in each["events"])
            endings = [kind for kind in kinds.elements() if kind in ENDINGS]
            if endings != ([] if each["status"] == "pending" else [each["status"]]):
                problems.append(f"{each['id']} is {each['status']} and has the endings {endings}")
            if kinds["asked"] != 1:
                problems.append(f"{each['id']} was asked {kinds['asked']} times")
            if kinds["attempted"] + kinds["exhausted"] != each["attempts"]:
                problems.append(f"{each['id']} has {each['attempts']} attempts and {kinds}")
            if kinds["consumed"] != bool(each["consumed"]):
                problems.append(f"{each['id']} was consumed {kinds['consumed']} times: {each['consumed']}")
            if kinds["taken_back"] != bool(each["taken_back"]):
                problems.append(
                    f"{each['id']} was taken back {kinds['taken_back']} times: {each['taken_back']}"
                )
            if each["consumed"] and each["taken_back"]:
                problems.append(f"{each['id']} was both consumed and taken back")
            if each["status"] == "returned" and each["consumed"]:
                problems.append(f"{each['id']} was sent back, and consumed")
            if kinds["reported"] != (each["report"] is not None):
                problems.append(f"{each['id']} was reported {kinds['reported']} times: {each['report']}")
            if sum(kinds[name] for name in ("asked_back", "noted", "replied")) != each["thread"]:
                problems.append(f"{each['id']} has {each['thread']} messages by its row: {kinds}")
            if each["uncovered"]:
                problems.append(f"{each['id']} was approved by somebody who had not seen all messages")
            if each["listed"] != (each["status"] == "pending"):
                problems.append(f"{each['id']} is {each['status']}, and in an inbox: {each['listed']}")
        problems += self._left_waiting()
        outcomes = {each["outcome"] for each in self.questions}
        return problems + [
            f"somebody was told {told}, which is recorded nowhere"
            for told in self.told
            if not removed
            if isinstance(told, tuple) and told[-1] is not None and told[-1] not in outcomes
        ]

    def _left_waiting(self) -> list[str]:
        """What is wrong with the questions of topics: of those that are pending, one is asked, and the others follow it."""
        problems: list[str] = []
        pending = [each for each in self.questions if each["topic"] and each["status"] == "pending"]
        asked: dict[str, list[str]] = {each["topic"]: [] for each in pending}
        for each in pending:
            if each["follows"] is None:
                asked[each["topic"]].append(each["id"])
            elif each["inboxes"]:
                problems.append(f"{each['id']} follows another one, and {each['inboxes']} see it")
        problems += [
            f"of the topic {topic}, {ids} are asked" for topic, ids in asked.items() if len(ids) != 1
        ]
        return problems + [
            f"{each['id']} follows {each['follows']}, which is not asked"
            for each in pending
            if each["follows"] is not None and asked[each["topic"]] != [each["follows"]]
        ]


async def _once(
    ctx: ServerContext,
    scene: Scene,
    deeds: Sequence[Deed],
    *,
    prefix: tuple[int, ...] = (),
    order: tuple[int, int] | None = None,
) -> tuple[Run, End]:
    """One run from the beginning, interleaved or one after the other, and its result."""
    workspace = f"w-{uuid.uuid4().hex}"
    if scene.tidies:
        await ctx.other.execute(_EMPTY)
    hands = [Hand(each) for each in ctx.hands]
    pools = [_Alone(each).pool for each in ctx.hands] if order else [hand.pool for hand in hands]
    async with AsyncExitStack() as stack:
        third = _Alone(ctx.other).pool
        preparing = await stack.enter_async_context(_place(third, workspace, "q", timedelta()))
        await scene.prepare(preparing)
        places = [
            await stack.enter_async_context(_place(pool, workspace, person, deed.later))
            for pool, person, deed in zip(pools, _PEOPLE, deeds, strict=True)
        ]
        work = [partial(_told, deed, place) for deed, place in zip(deeds, places, strict=True)]
        if order is None:
            run = await interleave(hands, work, prefix, ctx.other)
        else:
            results = {place: await work[place]() for place in order}
            run = Run((), (), (results[0], results[1]), 0, 0)
        latest = max(deed.later for deed in deeds)
        for deed in deeds:
            if deed.passes:
                again = _place(third, workspace, "q", deed.later)
                await _told(deed, await stack.enter_async_context(again))
        told = tuple("passes" if deed.passes else each for deed, each in zip(deeds, run.results, strict=True))
        looking = await stack.enter_async_context(_place(third, workspace, "q", latest))
        return run, await _end(looking, told)


class _Alone:
    """A pool of one connection, for a worker that works alone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def pool(self) -> Pool:
        """What a `Database` takes its connections from."""
        return cast("Pool", self)

    async def take(self) -> Connection:
        """See `Pool.take`."""
        return self._connection

    def give_back(self, connection: Connection) -> None:
        """See `Pool.give_back`."""

    hang_up = give_back
    each_transaction = ""


@asynccontextmanager
async def _place(pool: Pool, workspace: str, person: str, later: timedelta) -> AsyncIterator[Place]:
    clock = ManualClock(NOON + later)
    database = Database(pool, clock=clock)
    store = PostgresStore(database)
    new_id = counted_ids(person)
    async with desk_from_store(store, MemoryBus(), workspace=workspace, asker="agent", new_id=new_id) as desk:
        yield Place(person, desk, store, SqlOutbox(PostgresExecutor(database)), clock)


async def _told(deed: Deed, place: Place) -> Any:
    """The reply to an action, in few words, with the outcome last if there is one."""
    try:
        result = await deed.do(place)
    except HandraiseError as error:
        return type(error).__name__, _outcome(getattr(error, "outcome", None))
    if isinstance(result, Question):
        votes = tuple((vote.by, vote.ballot[:6]) for vote in result.votes)
        return _of(result.id), result.status.value, result.attempts, votes, _outcome(result.outcome)
    return result if result is None or isinstance(result, (str, int)) else ("waited", _outcome(result))


def _of(question_id: str) -> str:
    """Whose question it is: a second insert of it has that worker's next id, which is just as good."""
    return question_id.replace("-2", "-1") if question_id.startswith(_PEOPLE) else question_id


def _outcome(outcome: Outcome | None) -> str | None:
    return None if outcome is None else f"{outcome} at {outcome.at:%d %H:%M}"


def _is_uncovered(question: Question, events: Sequence[Event]) -> bool:
    """Whether a person has approved an action without having seen all messages before."""
    messages = 0
    for event in events:
        messages += event.kind.value in ("asked_back", "noted", "replied")
        value = (event.data or {}).get("value")
        is_approval = isinstance(value, dict) and value.get("decision") == "approve"
        if is_approval and "source" not in event.data and event.data.get("seen", 0) != messages:
            return True
    return question.outcome is not None and bool(question.decision) and _has_stale_vote(question, events)


def _has_stale_vote(question: Question, events: Sequence[Event]) -> bool:
    """Whether a counted vote was given before the last reply."""
    last = max((place for place, event in enumerate(events) if event.kind.value == "replied"), default=-1)
    given = {
        event.by: place
        for place, event in enumerate(events)
        if event.kind.value in ("voted", "answered", "declined")
    }
    ballots = {vote.by: vote.ballot for vote in question.votes}
    agreed = ballots.get(getattr(question.outcome, "by", "") or "")
    return any(given[by] < last for by, ballot in ballots.items() if ballot == agreed)


async def _end(place: Place, told: tuple[Any, ...]) -> End:
    workspace = place.workspace
    found = await place.store.read([Ref(workspace, each) for each in _IDS])
    listed = {
        each.id for each in await place.store.pending(Filter(workspace=workspace), after=None, limit=100)
    }
    inboxes = {
        person: {
            each.id
            for each in await place.store.pending(
                Filter(workspace=workspace, recipient=Responder(person)), after=None, limit=100
            )
        }
        for person in _INBOXES
    }
    questions = []
    for question in found:
        if question is None:
            continue
        events = await place.store.history(question.ref)
        questions.append(
            {
                "id": _of(question.id),
                "status": question.status.value,
                "outcome": _outcome(question.outcome),
                "attempts": question.attempts,
                "votes": tuple((vote.by, vote.ballot[:6]) for vote in question.votes),
                "steps": question.steps_taken,
                "consumed": question.consumed_at is not None,
                "report": None if question.report is None else question.report.text,
                "thread": question.thread,
                "asked_back": question.asked_back,
                "uncovered": _is_uncovered(question, events),
                "taken_back": question.taken_back_at is not None,
                "taken": (question.taken_by, question.taken_until),
                "added": tuple(sorted(question.added)),
                "aside": tuple((aside.person, aside.until) for aside in question.aside),
                "topic": question.topic_key and question.topic,
                "follows": question.follows and _of(question.follows),
                "replaced_by": question.replaced_by and _of(question.replaced_by),
                "inboxes": [person for person in _INBOXES if question.id in inboxes[person]],
                "unreached": question.unreached_at is not None,
                "events": sorted((event.kind.value, event.by or "") for event in events),
                "listed": question.id in listed,
                "deliveries": [
                    (each.id, each.status.value, each.stale, each.turn, each.due_at)
                    for each in await place.outbox.deliveries(question.ref)
                ],
            }
        )
    grants = await place.store.grants(workspace, after=None, limit=100)
    return End(told, tuple(questions), tuple((each.id, each.revoked_at is not None) for each in grants))
