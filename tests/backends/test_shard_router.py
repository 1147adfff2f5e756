"""What is done on all shards at once waits for none of them for long, and loses nothing that comes late."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from handraise.backends.postgres.database import Database
from handraise.backends.shards.shard import Shard
from handraise.backends.shards.shard_router import ShardRouter
from handraise.model.errors import StoreUnavailable


@pytest.fixture
async def router() -> ShardRouter:
    def make(number: int, address: str) -> Shard:
        return Shard(number, address, clock=None, connections=2, confined=None)

    router = ShardRouter(cast("Database", None), make)
    router.shards = {number: make(number, "") for number in (1, 2)}
    return router


async def test_what_comes_late_is_given_the_next_time_and_nobody_asks_again_meanwhile(
    router: ShardRouter,
) -> None:
    gate, asked = asyncio.Event(), list[int]()

    async def slow() -> str:
        asked.append(2)
        await gate.wait()
        return "late"

    async def quick() -> str:
        return "quick"

    one, two = router.shards.values()
    calls = {one: quick, two: slow}
    assert await router.call_shards("x", calls, grace=0.01) == ["quick"]
    assert await router.call_shards("x", calls, grace=0.01) == ["quick"]
    assert asked == [2]
    gate.set()
    await asyncio.sleep(0)
    assert sorted(await router.call_shards("x", calls, grace=1)) == ["late", "late", "quick"]
    await router.close()


async def test_of_two_who_call_at_once_each_gets_its_own_answer(router: ShardRouter) -> None:
    async def told(what: str) -> str:
        await asyncio.sleep(0.01)
        return what

    one, two = router.shards.values()
    first = router.call_shards("x", {one: lambda: told("a"), two: lambda: told("b")}, grace=1)
    second = router.call_shards("x", {one: lambda: told("c"), two: lambda: told("d")}, grace=1)
    assert [*await asyncio.gather(first, second)] == [["a", "b"], ["c", "d"]]
    await router.close()


async def test_a_caller_who_goes_away_leaves_nothing_for_the_next(router: ShardRouter) -> None:
    one, two = router.shards.values()

    async def never() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def quick() -> str:
        return "quick"

    caller = asyncio.create_task(router.call_shards("x", {one: never, two: never}, grace=10))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.sleep(0)
    assert await router.call_shards("x", {one: quick, two: quick}, grace=1) == ["quick", "quick"]
    await router.close()


async def test_one_that_fails_is_left_out_and_all_that_fail_are_told(router: ShardRouter) -> None:
    one, two = router.shards.values()

    async def fail() -> str:
        raise StoreUnavailable("no")

    async def quick() -> str:
        return "quick"

    assert await router.call_shards("x", {one: fail, two: quick}) == ["quick"]
    with pytest.raises(StoreUnavailable):
        await router.call_shards("x", {one: fail, two: fail})
    await router.close()
