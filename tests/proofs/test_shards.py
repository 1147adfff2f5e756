"""Three PostgreSQL servers of our own: throughput follows their number, and one that dies takes nobody along.

The machine of a test has few cores, and three servers share them. So each commit is made to take 90 ms, as a slow disk or a
standby far away would have it: then it is the shard that limits, and not the processor. What the processor allows is
printed beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from chaos.servers import Server, own_servers
from handraise import open_desk
from handraise.backends.shards import enlist, list_shards, move_workspace
from handraise.model.drafting import QuestionOptions
from handraise.model.errors import StoreUnavailable
from handraise.model.events import Event
from handraise.ports.desk import Desk

pytestmark = [pytest.mark.proof, pytest.mark.timeout(180)]

CALLERS = 130
YES: QuestionOptions = {"choices": ["yes", "no"]}


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    with own_servers(3) as servers:
        for each in servers:
            asyncio.run(enlist(servers[0].address, each.address))
        yield servers


@pytest.fixture
def address(servers: list[Server]) -> str:
    return servers[0].address.replace("postgresql", "postgresql+shards", 1)


@pytest.mark.slow("compares throughputs")
async def test_throughput_follows_the_number_of_shards(servers: list[Server], address: str) -> None:
    rates: dict[str, dict[int, float]] = {"commits of 90 ms": {}, "as fast as it goes": {}}
    async with open_desk(address) as desk:
        for number in (1, 2, 3):
            workspaces = [f"tenant-{number}-{place}" for place in range(number)]
            for place, workspace in enumerate(workspaces, 1):
                await placed(desk, servers, workspace, place)
            for how, delay in (("commits of 90 ms", 90_000), ("as fast as it goes", 0)):
                async with commits_take(servers, delay):
                    rates[how][number] = await pairs_a_second(desk, workspaces, seconds=2)
    for how, by_number in rates.items():
        print(f"\n  {how}: ", end="")
        print(", ".join(f"{number} shards {rate:,.0f} pairs/s" for number, rate in by_number.items()), end="")
    slow = rates["commits of 90 ms"]
    print(f"\n  ratio_of_three_shards_to_one {slow[3] / slow[1]:.2f}", end="")
    assert slow[2] / slow[1] > 1.25
    assert slow[3] / slow[1] > 1.5


@pytest.mark.slow(
    "starts three PostgreSQL servers; tests/backends/test_shards.py moves workspaces between databases"
)
async def test_a_feed_goes_on_at_a_server_that_has_counted_fewer_transactions(
    servers: list[Server], address: str
) -> None:
    async with open_desk(address, workspace="told") as desk:
        await placed(desk, servers, "told", 1)
        connection = await asyncpg.connect(servers[0].address)
        await connection.execute(
            "do $$ begin for n in 1..30000 loop perform pg_current_xact_id(); commit; end loop; end $$"
        )
        await connection.close()
        seen: list[Event] = []
        for home in (2, 1, 3):
            for number in range(3):
                question = await desk.post(f"Question {home}.{number}?", **YES)
                await desk.answer(question.id, "yes", by="ann")
            seen += await _new_events(desk, seen, 6 if seen else 7)
            await move_workspace(servers[0].address, "told", to=home)
            assert list(await desk.feed()) == seen
            assert not await desk.feed(after=seen[-1].cursor)
        last = await desk.post("Still here?", **YES)
        assert [each.question_id for each in await _new_events(desk, seen, 1)] == [last.id]
        for each in {event.question_id for event in seen[1:]}:
            kinds = [str(event.kind) for event in await desk.history(each)]
            assert kinds in (["asked", "answered"], ["asked"])


async def _new_events(desk: Desk, seen: Sequence[Event], number: int) -> Sequence[Event]:
    """What is new in the feed, once there is so much."""
    async with asyncio.timeout(20):
        while True:
            new = await desk.feed(after=seen[-1].cursor if seen else None)
            if len(new) >= number:
                return new.items
            await asyncio.sleep(0.02)


@pytest.mark.slow("starts three PostgreSQL servers, and measures how long calls take")
@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_one_shard_down_leaves_the_others_untouched(
    servers: list[Server], address: str, how: str
) -> None:
    victim = servers[2]
    done: Counter[str] = Counter()
    errors: list[Exception] = []
    slowest = 0.0
    over = asyncio.Event()
    async with open_desk(address, poll_interval=0.5) as desk, open_desk(address, poll_interval=0.5) as other:
        for place in (1, 2, 3):
            await placed(desk, servers, f"{how}-{place}", place)
        waiting = asyncio.create_task(_asked_and_answered_later(desk.scoped(f"{how}-3")))

        async def call(workspace: str) -> None:
            nonlocal slowest
            while not over.is_set():
                began = time.monotonic()
                try:
                    question = await desk.scoped(workspace).post("Ship it?", **YES)
                    await other.scoped(workspace).answer(question.id, "yes", by="ann")
                    await desk.scoped(workspace).wait(question.id, timeout=20)
                except StoreUnavailable as error:
                    if not workspace.endswith("3"):
                        errors.append(error)
                    await asyncio.sleep(0.05)
                else:
                    done[workspace] += 1
                    if not workspace.endswith("3"):
                        slowest = max(slowest, time.monotonic() - began)

        async with asyncio.TaskGroup() as group:
            for place in (1, 2, 3):
                for _ in range(8):
                    group.create_task(call(f"{how}-{place}"))
            await asyncio.sleep(1.5)
            before = Counter(done)
            await asyncio.to_thread(victim.kill if how == "killed" else victim.freeze)
            await asyncio.sleep(3)
            during = done - before
            await asyncio.to_thread(victim.start if how == "killed" else victim.thaw)
            after = Counter(done)
            async with asyncio.timeout(60):
                while done[f"{how}-3"] - after[f"{how}-3"] < 10:
                    await asyncio.sleep(0.1)
            over.set()
        assert (await asyncio.wait_for(waiting, 30)) == "yes"
    assert not errors
    assert during[f"{how}-1"] > 20
    assert during[f"{how}-2"] > 20
    assert during[f"{how}-3"] <= 8
    print(
        f"\n  one of three shards {how}: pairs on the others meanwhile {during[f'{how}-1']} and {during[f'{how}-2']}, "
        f"no error, the slowest took {slowest:.2f} s",
        end="",
    )
    assert slowest < 5


async def _asked_and_answered_later(desk: Desk) -> object:
    """A wait on the shard that goes down, whose answer comes when it is back."""
    question = await desk.post("Still there?", **YES)

    async def answer() -> None:
        await asyncio.sleep(3)
        while True:
            with suppress(StoreUnavailable):
                await desk.answer(question.id, "yes", by="ann")
                return
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as group:
        group.create_task(answer())
        outcome = await desk.wait(question.id, timeout=60)
    return getattr(outcome, "value", None)


async def pairs_a_second(desk: Desk, workspaces: Sequence[str], *, seconds: float) -> float:
    """How many questions are asked and answered, with so many callers for each shard."""
    until = time.monotonic() + seconds
    done = 0

    async def call(at: Desk) -> None:
        nonlocal done
        while time.monotonic() < until:
            question = await at.post("Ship it?", **YES)
            await at.answer(question.id, "yes", by="ann")
            done += 1

    began = time.monotonic()
    await asyncio.gather(*(call(desk.scoped(workspace)) for workspace in workspaces for _ in range(CALLERS)))
    return done / (time.monotonic() - began)


async def placed(desk: Desk, servers: Sequence[Server], workspace: str, number: int) -> None:
    """Have a workspace live on one shard."""
    await desk.scoped(workspace).post("First?", **YES)
    await move_workspace(servers[0].address, workspace, to=number)
    assert [each.number for each in await list_shards(servers[0].address)] == [1, 2, 3]


@asynccontextmanager
async def commits_take(servers: Sequence[Server], microseconds: int) -> AsyncIterator[None]:
    """Have every commit take so long, while inside."""
    await _set(servers, microseconds)
    try:
        yield
    finally:
        await _set(servers, 0)


async def _set(servers: Sequence[Server], microseconds: int) -> None:
    for server in servers:
        connection = await asyncpg.connect(server.address)
        try:
            await connection.execute(f"alter system set commit_delay = {microseconds}")
            await connection.execute("alter system set commit_siblings = 0")
            await connection.execute("select pg_reload_conf()")
        finally:
            await connection.close()
