from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import pytest

from handraise import StoreUnavailable
from handraise.desk import batcher
from handraise.desk.batcher import BackgroundBatcher, Batcher, KeyedBatcher
from handraise.errors import DeskClosed

SOON = 10.0
"""No wait here may take longer than this; one that passes takes microseconds."""


class Doubling:
    """Doubles numbers, many at a time; keeps the batches, and holds the first one until `go` is set."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.busy = asyncio.Event()
        self.go = asyncio.Event()
        if not held:
            self.go.set()

    async def __call__(self, items: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(items))
        self.busy.set()
        await asyncio.wait_for(self.go.wait(), SOON)
        if 666 in items:
            raise ValueError(f"666 is among {list(items)}")
        return [2 * item for item in items]


async def held_up(work: Doubling, calls: Batcher[int, int]) -> asyncio.Task[int]:
    """A call that is under way, and stays so until `work.go` is set."""
    first = asyncio.create_task(calls(0))
    await asyncio.wait_for(work.busy.wait(), SOON)
    return first


async def test_each_caller_gets_its_own_result() -> None:
    work = Doubling()
    calls = Batcher(work, 500)
    assert await asyncio.gather(*(calls(n) for n in range(100))) == [2 * n for n in range(100)]
    assert work.batches == [list(range(100))]


async def test_an_idle_call_goes_out_at_once_and_alone() -> None:
    work = Doubling()
    calls = Batcher(work, 500)
    assert [await calls(1), await calls(2)] == [2, 4]
    assert work.batches == [[1], [2]]


async def test_calls_gather_while_a_batch_is_under_way() -> None:
    work = Doubling(held=True)
    calls = Batcher(work, 500)
    first = await held_up(work, calls)
    others = [calls.submit(n) for n in (1, 2, 3)]
    assert work.batches == [[0]]
    work.go.set()
    assert await asyncio.gather(first, *others) == [0, 2, 4, 6]
    assert work.batches == [[0], [1, 2, 3]]


async def test_no_batch_is_larger_than_allowed_and_the_order_is_kept() -> None:
    work = Doubling(held=True)
    calls = Batcher(work, 2)
    first = await held_up(work, calls)
    others = [calls.submit(n) for n in (1, 2, 3, 4, 5)]
    work.go.set()
    await asyncio.gather(first, *others)
    assert work.batches == [[0], [1, 2], [3, 4], [5]]


@pytest.mark.parametrize(("slow", "second"), [(0.0, [1, 2, 3, 4]), (2 * SOON, [1, 2])])
async def test_a_slow_store_gets_more_at_a_time(
    monkeypatch: pytest.MonkeyPatch, slow: float, second: list[int]
) -> None:
    monkeypatch.setattr(batcher, "_SLOW", slow)
    work = Doubling(held=True)
    calls = Batcher(work, 2, when_slow=4)
    first = await held_up(work, calls)
    others = [calls.submit(n) for n in (1, 2, 3, 4, 5)]
    work.go.set()
    await asyncio.wait_for(asyncio.gather(first, *others), SOON)
    assert work.batches[:2] == [[0], second]


async def test_an_error_reaches_everybody_in_its_batch_and_nobody_else() -> None:
    work = Doubling(held=True)
    calls = Batcher(work, 2)
    first = await held_up(work, calls)
    others = [calls.submit(n) for n in (1, 666, 2, 3)]
    work.go.set()
    results = await asyncio.gather(first, *others, return_exceptions=True)
    assert [str(result) for result in results] == [
        "0",
        "666 is among [1, 666]",
        "666 is among [1, 666]",
        "4",
        "6",
    ]
    assert await calls(4) == 8


async def test_a_caller_that_is_cancelled_while_gathered_is_not_sent() -> None:
    work = Doubling(held=True)
    calls = Batcher(work, 500)
    first = await held_up(work, calls)
    cancelled = asyncio.create_task(calls(1))
    kept = asyncio.create_task(calls(2))
    await asyncio.wait([cancelled], timeout=0)
    cancelled.cancel()
    await asyncio.wait([cancelled], timeout=SOON)
    work.go.set()
    assert [await first, await kept] == [0, 4]
    assert cancelled.cancelled()
    assert work.batches == [[0], [2]]


async def test_where_everybody_gathered_is_cancelled_nothing_is_sent() -> None:
    work = Doubling(held=True)
    calls = Batcher(work, 500)
    first = await held_up(work, calls)
    for call in [calls.submit(n) for n in (1, 2)]:
        call.cancel()
    work.go.set()
    assert await first == 0
    await calls.close()
    assert work.batches == [[0]]


async def test_cancelling_a_caller_does_not_take_back_what_is_on_its_way() -> None:
    work = Doubling(held=True)
    calls = Batcher(work, 500)
    first, second = calls.submit(0), calls.submit(1)
    await asyncio.wait_for(work.busy.wait(), SOON)
    first.cancel()
    work.go.set()
    assert await second == 2
    assert first.cancelled()
    assert work.batches == [[0, 1]]


async def test_a_closed_one_takes_no_more_calls() -> None:
    work = Doubling()
    calls = Batcher(work, 500)
    await calls.close()
    with pytest.raises(DeskClosed):
        await calls(1)
    with pytest.raises(DeskClosed):
        calls.submit(1)
    assert work.batches == []


async def test_closing_finishes_what_is_under_way_and_what_has_gathered() -> None:
    work = Doubling(held=True)
    calls = Batcher(work, 2)
    first = await held_up(work, calls)
    others = [calls.submit(n) for n in (1, 2, 3)]
    closing = asyncio.create_task(calls.close())
    await asyncio.wait([closing], timeout=0)
    assert not closing.done()
    with pytest.raises(DeskClosed):
        calls.submit(4)
    work.go.set()
    await asyncio.wait_for(closing, SOON)
    assert [call.result() for call in others] == [2, 4, 6]
    assert await first == 0
    assert work.batches == [[0], [1, 2], [3]]


async def test_closing_after_an_error_and_closing_twice_are_fine() -> None:
    calls = Batcher(Doubling(), 500)
    with pytest.raises(ValueError, match="666"):
        await calls(666)
    await calls.close()
    await calls.close()


async def test_a_wrong_number_of_results_is_an_error_for_everybody_and_hangs_nobody() -> None:
    async def forgetful(items: Sequence[int]) -> Sequence[int]:
        return items[1:]

    calls = Batcher(forgetful, 500)
    async with asyncio.timeout(SOON):
        results = await asyncio.gather(calls(1), calls(2), return_exceptions=True)
    assert all(isinstance(result, Exception) for result in results)


async def test_work_that_is_cancelled_from_within_hangs_nobody() -> None:
    tries: list[list[int]] = []

    async def gives_up_once(items: Sequence[int]) -> Sequence[int]:
        tries.append(list(items))
        if len(tries) == 1:
            raise asyncio.CancelledError
        return items

    calls = Batcher(gives_up_once, 2)
    waiting = [calls.submit(n) for n in (1, 2, 3)]
    done, _ = await asyncio.wait(waiting, timeout=SOON)
    assert len(done) == 3
    assert await asyncio.wait_for(calls(4), SOON) == 4


async def test_what_a_store_refuses_does_not_fail_its_neighbours() -> None:
    tries: list[list[int]] = []

    async def choosy(items: Sequence[int]) -> Sequence[int]:
        tries.append(list(items))
        if 666 in items:
            refusal = StoreUnavailable("666 cannot be kept")
            refusal.refused = True
            raise refusal
        return items

    calls = Batcher(choosy, 500)
    results = await asyncio.gather(calls(1), calls(666), calls(2), return_exceptions=True)
    assert [str(result) for result in results] == ["1", "666 cannot be kept", "2"]
    assert tries == [[1, 666, 2], [1], [666], [2]]


async def test_work_that_is_cancelled_while_it_is_made_again_hangs_nobody() -> None:
    async def gives_up_alone(items: Sequence[int]) -> Sequence[int]:
        if len(items) == 1:
            raise asyncio.CancelledError
        refusal = StoreUnavailable("one of them cannot be kept")
        refusal.refused = True
        raise refusal

    calls = Batcher(gives_up_alone, 500)
    done, _ = await asyncio.wait([calls.submit(n) for n in (1, 2, 3)], timeout=SOON)
    assert len(done) == 3
    assert all(call.cancelled() for call in done)


async def test_what_may_have_been_kept_is_not_sent_twice() -> None:
    tries: list[list[int]] = []

    async def lost(items: Sequence[int]) -> Sequence[int]:
        tries.append(list(items))
        raise StoreUnavailable("the connection was lost")

    calls = Batcher(lost, 500)
    results = await asyncio.gather(calls(1), calls(2), return_exceptions=True)
    assert [str(result) for result in results] == ["the connection was lost"] * 2
    assert tries == [[1, 2]]


class Noting:
    """Keeps what is sent; holds the first until `go` is set."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.busy = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, items: Collection[int]) -> None:
        self.sent.append(list(items))
        self.busy.set()
        await asyncio.wait_for(self.go.wait(), SOON)
        if 666 in items:
            raise ValueError("666")


async def test_hints_gather_while_others_are_under_way_each_once() -> None:
    work = Noting()
    hints = BackgroundBatcher(work)
    hints.add(0)
    await asyncio.wait_for(work.busy.wait(), SOON)
    for each in (3, 1, 3, 2, 1):
        hints.add(each)
    work.go.set()
    await asyncio.wait_for(hints.close(), SOON)
    assert work.sent == [[0], [3, 1, 2]]


async def test_hints_that_cannot_be_sent_do_not_keep_later_ones_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Noting()
    hints = BackgroundBatcher(work)
    hints.add(666)
    await asyncio.wait_for(work.busy.wait(), SOON)
    hints.add(1)
    work.go.set()
    await asyncio.wait_for(hints.close(), SOON)
    assert work.sent == [[666], [1]]
    assert "could not be sent" in caplog.text


async def test_a_hint_after_the_end_is_left_out() -> None:
    work = Noting()
    hints = BackgroundBatcher(work)
    await hints.close()
    hints.add(1)
    await hints.close()
    assert work.sent == []


async def test_a_lane_that_takes_long_holds_up_no_other() -> None:
    gate = asyncio.Event()

    async def many(items: Sequence[str]) -> Sequence[str]:
        if items[0].startswith("slow"):
            await gate.wait()
        return [item.upper() for item in items]

    batcher = KeyedBatcher(many, 10, lambda item: item[:4])
    slow = [batcher.submit("slow 1"), batcher.submit("slow 2")]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await batcher("fast 1") == "FAST 1"
    assert not any(each.done() for each in slow)
    gate.set()
    assert await asyncio.gather(*slow) == ["SLOW 1", "SLOW 2"]
    await batcher.close()
    with pytest.raises(DeskClosed):
        batcher.submit("fast 2")
