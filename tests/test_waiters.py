"""`Waiters` by itself: what a wait costs, and how everything is read without anybody being held up."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from handraise import Answered, Outcome, QuestionNotFound, StillPending
from handraise.errors import DeskClosed
from handraise.ports import HintHandler
from handraise.questions import Ref
from handraise.testing import promise
from handraise.waiters import Waiters

SOON = 10.0
NEVER = 1_000.0
PLACES = [Ref("w", f"{n:036}") for n in range(5_000)]
YES = Answered(value="yes", at=datetime(2026, 1, 1, tzinfo=UTC), by="ana")


class Records:
    """What `Waiters` reads, and when it may go on reading."""

    def __init__(self) -> None:
        self.settled: dict[Ref, Outcome | None] = {}
        self.reads: list[set[Ref]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.takes = 0.0
        self.tended = 0

    async def read(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        self.reads.append(set(refs))
        await self.open.wait()
        await asyncio.sleep(self.takes)
        return {ref: self.settled[ref] for ref in refs if ref in self.settled}

    @asynccontextmanager
    async def listen(self, on_hint: HintHandler) -> AsyncIterator[None]:
        del on_hint
        yield

    async def run_maintenance(self) -> None:
        self.tended += 1

    @asynccontextmanager
    async def waiters(self, poll_interval: float) -> AsyncIterator[Waiters]:
        waiters = Waiters(self.read, self.listen, poll_interval=poll_interval, on_poll=self.run_maintenance)
        try:
            yield waiters
        finally:
            await waiters.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not true():
            await asyncio.sleep(0.001)


async def waiting(waiters: Waiters, refs: Collection[Ref]) -> list[asyncio.Task[Outcome]]:
    tasks = [asyncio.create_task(waiters.outcome_of(ref, timeout=None)) for ref in refs]
    await until(lambda: len(waiters) == len(refs))
    return tasks


async def sent_home(*waits: asyncio.Task[Outcome]) -> None:
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_a_wait_costs_less_than_two_kilobytes_its_task_included() -> None:
    records = Records()
    async with records.waiters(NEVER) as waiters:
        await sent_home(*await waiting(waiters, PLACES[:10]))
        gc.collect()
        tracemalloc.start()
        try:
            waits = await waiting(waiters, PLACES)
            await until(lambda: sum(map(len, records.reads)) >= len(PLACES))
            records.reads.clear()
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held / len(PLACES) < 2_000
        await sent_home(*waits)


async def test_many_waits_are_read_in_small_parts() -> None:
    records = Records()
    async with records.waiters(0.05) as waiters:
        waits = await waiting(waiters, PLACES)
        await until(lambda: sum(map(len, records.reads)) >= 3 * len(PLACES))
        assert max(map(len, records.reads)) <= 1_500
        await sent_home(*waits)


async def test_what_is_told_of_is_read_before_the_rest_of_a_poll() -> None:
    records = Records()
    async with records.waiters(NEVER) as waiters:
        waits = await waiting(waiters, PLACES)
        await until(lambda: sum(map(len, records.reads)) >= len(PLACES))
        records.reads.clear()
        records.open.clear()
        waiters.mark_dirty(None)
        await until(lambda: len(records.reads) == 1)
        told = next(ref for ref in PLACES if ref not in records.reads[0])
        records.settled[told] = YES
        waiters.mark_dirty([told])
        records.open.set()
        assert await waits[PLACES.index(told)] == YES
        assert told in records.reads[1]
        await until(lambda: len(set().union(*records.reads)) == len(PLACES))
        await sent_home(*waits)


@pytest.mark.slow("compares wall-clock times: what six polls take at least")
async def test_whoever_hurries_all_the_time_does_not_keep_the_store_busy() -> None:
    records = Records()
    async with records.waiters(0.05) as waiters:
        waits = await waiting(waiters, PLACES[:100])
        await until(lambda: bool(records.reads))
        records.takes = 0.05
        records.reads.clear()
        began = time.monotonic()
        async with asyncio.timeout(SOON):
            while len(records.reads) < 6:
                waiters.mark_dirty(None)
                await asyncio.sleep(0)
        # Each poll is followed by three times its own length in which there is none.
        assert time.monotonic() - began > 4 * 0.05 * 4
        assert records.tended >= 2, "what is due must be done all the same"
        await sent_home(*waits)


async def test_everything_is_read_again_when_a_hint_says_so_in_the_middle_of_a_poll() -> None:
    records = Records()
    async with records.waiters(NEVER) as waiters:
        waits = await waiting(waiters, PLACES)
        await until(lambda: sum(map(len, records.reads)) >= len(PLACES))
        records.reads.clear()
        records.open.clear()
        waiters.mark_dirty(None)
        await until(lambda: len(records.reads) == 1)
        (settled, *_) = records.reads[0]
        waiters.mark_dirty(None)
        records.open.set()
        await until(lambda: len(set().union(*records.reads)) == len(PLACES))
        records.settled[settled] = YES
        assert await asyncio.wait_for(waits[PLACES.index(settled)], SOON) == YES
        await sent_home(*waits)


@promise("P4")
async def test_a_poll_of_many_waits_reads_only_what_was_settled_and_now_and_then_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handraise.waiters._MANY", 10)
    records = Records()
    asked: list[str | None] = []

    async def settled_since(workspace: str, mark: str | None, *, limit: int) -> tuple[list[str], str | None]:
        assert (workspace, limit) == ("w", 1_000)
        asked.append(mark)
        return [ref.id for ref in records.settled] if mark else [], str(len(asked))

    waiters = Waiters(records.read, records.listen, poll_interval=0.02, settled_since=settled_since)
    try:
        waits = await waiting(waiters, PLACES[:1_000])
        await until(lambda: len(asked) >= 2)  # everything was read with the first mark
        records.reads.clear()
        await until(lambda: len(asked) >= 6)
        assert records.reads == []
        records.settled[PLACES[3]] = YES
        async with asyncio.timeout(SOON):
            assert await waits[3] == YES
        assert records.reads == [{PLACES[3]}]
        records.settled = {PLACES[4]: YES}
        records.reads.clear()
        monkeypatch.setattr("handraise.waiters._POLL_ALL", 0.0)
        waiters.mark_dirty(None)
        await until(lambda: sum(map(len, records.reads)) >= 999)
        assert asked[:3] == [None, "1", "2"]
        await sent_home(*waits)
    finally:
        await waiters.close()


async def test_what_a_poll_found_settled_is_read_until_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handraise.waiters._MANY", 10)
    records = Records()
    found: list[list[str]] = [[], [], [PLACES[3].id]]

    async def settled_since(*_: object, **__: object) -> tuple[list[str], str | None]:
        return found.pop(0) if found else [], "mark"

    waiters = Waiters(records.read, records.listen, poll_interval=0.02, settled_since=settled_since)
    try:
        waits = await waiting(waiters, PLACES[:100])
        await until(lambda: records.reads.count({PLACES[3]}) >= 2)
        records.settled[PLACES[3]] = YES
        async with asyncio.timeout(SOON):
            assert await waits[3] == YES
        await sent_home(*waits)
    finally:
        await waiters.close()


async def test_a_workspace_that_does_not_say_what_was_settled_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handraise.waiters._MANY", 10)
    monkeypatch.setattr("handraise.waiters._MARK_WITHIN", 0.05)
    records = Records()

    async def settled_since(*_: object, **__: object) -> tuple[list[str], str | None]:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    waiters = Waiters(records.read, records.listen, poll_interval=0.02, settled_since=settled_since)
    try:
        waits = await waiting(waiters, PLACES[:100])
        other = asyncio.create_task(waiters.outcome_of(Ref("other", "q"), timeout=SOON))
        await asyncio.sleep(0.1)
        records.settled |= {Ref("other", "q"): YES, PLACES[3]: YES}
        async with asyncio.timeout(SOON):
            assert (await other, await waits[3]) == (YES, YES)
        await sent_home(*waits)
    finally:
        await waiters.close()


async def test_waits_that_time_out_together_are_read_together() -> None:
    records = Records()
    async with records.waiters(NEVER) as waiters:
        waits = [asyncio.create_task(waiters.outcome_of(ref, timeout=0.2)) for ref in PLACES[:500]]
        await until(lambda: sum(map(len, records.reads)) >= len(waits))
        records.reads.clear()
        records.settled[PLACES[7]] = YES
        ends = await asyncio.gather(*waits, return_exceptions=True)
        assert ends[7] == YES
        assert all(isinstance(end, StillPending) for end in ends[:7] + ends[8:])
        assert sum(map(len, records.reads)) == len(waits)
        assert len(records.reads) < 20


async def test_closing_ends_a_last_read_with_the_reason() -> None:
    records = Records()
    async with records.waiters(NEVER) as waiters:
        wait = asyncio.create_task(waiters.outcome_of(PLACES[0], timeout=0.05))
        await until(lambda: len(records.reads) == 1)
        records.open.clear()
        await until(lambda: len(records.reads) == 2)
    with pytest.raises(DeskClosed):
        await wait


@pytest.mark.parametrize("many", [1, 2, 3])
async def test_whoever_leaves_leaves_nothing_behind(many: int) -> None:
    records = Records()
    ref, other = PLACES[0], PLACES[1]
    async with records.waiters(0.01) as waiters:

        async def given_up() -> Outcome:
            return await waiters.outcome_of(ref, timeout=0.02)

        async def first() -> Outcome:
            return (await waiters.first_of([ref, other], timeout=None))[1]

        async def plain() -> Outcome:
            return await waiters.outcome_of(ref, timeout=SOON)

        kinds: list[Callable[[], Awaitable[Outcome]]] = [given_up, first, plain]
        waits = [asyncio.ensure_future(kind()) for kind in kinds for _ in range(many)]
        await until(lambda: len(waiters) == 4 * many)
        for wait in waits[:many]:
            with pytest.raises(StillPending):
                await wait
        assert len(waiters) == 3 * many
        waits[-1].cancel()
        records.settled[ref] = YES
        assert await asyncio.gather(*waits[many:-1]) == [YES] * (2 * many - 1)
        await asyncio.gather(waits[-1], return_exceptions=True)
        assert (len(waiters), list(waiters.waited_for)) == (0, [])
        records.settled[other] = None
        with pytest.raises(QuestionNotFound):
            await waiters.outcome_of(other, timeout=SOON)
        assert (len(waiters), list(waiters.waited_for)) == (0, [])


async def test_ten_thousand_waits_for_one_question_are_woken_and_gone_at_once() -> None:
    records = Records()
    async with records.waiters(NEVER) as waiters:
        waits = [asyncio.create_task(waiters.outcome_of(PLACES[0], timeout=None)) for _ in range(10_000)]
        await until(lambda: len(waiters) == len(waits))
        waiters.resolve(PLACES[0], YES)
        began = time.process_time()
        assert await asyncio.gather(*waits) == [YES] * len(waits)
        assert len(waiters) == 0
        assert time.process_time() - began < 2, "leaving must not take longer for each who is still there"
