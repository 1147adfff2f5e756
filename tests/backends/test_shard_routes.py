"""What is done on all shards at once waits for none of them for long, and loses nothing that comes late."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from handraise.backends.postgres.database import Database
from handraise.backends.shards.placement import Routes
from handraise.backends.shards.shard import Shard
from handraise.model.errors import StoreUnavailable


@pytest.fixture
async def routes() -> Routes:
    def make(number: int, address: str) -> Shard:
        return Shard(number, address, clock=None, connections=2, confined=None)

    routes = Routes(cast("Database", None), make)
    routes.shards = {number: make(number, "") for number in (1, 2)}
    return routes


async def test_what_comes_late_is_given_the_next_time_and_nobody_asks_again_meanwhile(routes: Routes) -> None:
    gate, asked = asyncio.Event(), list[int]()

    async def slow() -> str:
        asked.append(2)
        await gate.wait()
        return "late"

    async def quick() -> str:
        return "quick"

    one, two = routes.shards.values()
    calls = {one: quick, two: slow}
    assert await routes.soon("x", calls, grace=0.01) == ["quick"]
    assert await routes.soon("x", calls, grace=0.01) == ["quick"]
    assert asked == [2]
    gate.set()
    await asyncio.sleep(0)
    assert sorted(await routes.soon("x", calls, grace=1)) == ["late", "late", "quick"]
    await routes.close()


async def test_of_two_who_call_at_once_each_gets_its_own_answer(routes: Routes) -> None:
    async def told(what: str) -> str:
        await asyncio.sleep(0.01)
        return what

    one, two = routes.shards.values()
    first = routes.soon("x", {one: lambda: told("a"), two: lambda: told("b")}, grace=1)
    second = routes.soon("x", {one: lambda: told("c"), two: lambda: told("d")}, grace=1)
    assert [*await asyncio.gather(first, second)] == [["a", "b"], ["c", "d"]]
    await routes.close()


async def test_a_caller_who_goes_away_leaves_nothing_for_the_next(routes: Routes) -> None:
    one, two = routes.shards.values()

    async def never() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def quick() -> str:
        return "quick"

    caller = asyncio.create_task(routes.soon("x", {one: never, two: never}, grace=10))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.sleep(0)
    assert await routes.soon("x", {one: quick, two: quick}, grace=1) == ["quick", "quick"]
    await routes.close()


async def test_one_that_fails_is_left_out_and_all_that_fail_are_told(routes: Routes) -> None:
    one, two = routes.shards.values()

    async def fail() -> str:
        raise StoreUnavailable("no")

    async def quick() -> str:
        return "quick"

    assert await routes.soon("x", {one: fail, two: quick}) == ["quick"]
    with pytest.raises(StoreUnavailable):
        await routes.soon("x", {one: fail, two: fail})
    await routes.close()
