from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from handraise import (
    AlreadySettled,
    Answered,
    Escalation,
    InvalidAnswer,
    Open,
    Outcome,
    PermissionDenied,
    Question,
    QuestionNotFound,
    StoreUnavailable,
    Timeline,
)
from handraise.backends.sqlite.memory import MemoryBus, MemoryStore
from handraise.desk import engine
from handraise.desk.engine import Engine
from handraise.desks import desk_from_store
from handraise.ports import HintHandler
from handraise.questions import Ref
from handraise.testing import ManualClock

HOUR = timedelta(hours=1)


class CountingStore(MemoryStore):
    def __init__(self, clock: ManualClock | None = None) -> None:
        super().__init__(clock)
        self.reads = 0

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        self.reads += len(refs)
        return await super().read(refs)


async def test_an_answer_where_the_question_was_asked_reads_nothing() -> None:
    store = CountingStore()
    async with desk_from_store(store, MemoryBus()) as desk:
        question = await desk.post("Which?", choices=["a"])
        with pytest.raises(InvalidAnswer):
            await desk.answer(question.id, "x", by="ana")
        answered = await desk.answer(question.id, "a", by="ana")
        assert (answered.attempts, store.reads) == (1, 0)
        assert await desk.get(question.id) == answered


async def test_an_answer_to_what_was_seen_on_a_page_reads_nothing_again() -> None:
    store = CountingStore()
    async with desk_from_store(store, MemoryBus()) as there, desk_from_store(store, MemoryBus()) as here:
        await there.post("Which?", choices=["a"])
        (question,) = (await here.list_pending()).items
        answered = await here.answer(question.id, "a", by="ana")
        assert (answered.status, store.reads) == ("answered", 0)
        with pytest.raises(AlreadySettled):
            await here.answer(question.id, "a", by="bob")


async def test_what_is_remembered_never_decides() -> None:
    """Another process settles the question that this one has at hand."""
    store = CountingStore()
    async with desk_from_store(store, MemoryBus()) as here, desk_from_store(store, MemoryBus()) as there:
        question = await here.post("Which?", choices=["a"], max_attempts=1)
        settled = await there.answer(question.id, "a", by="bob")
        for value in ("a", "x"):
            with pytest.raises(AlreadySettled) as late:
                await here.answer(question.id, value, by="ana")
            assert late.value.outcome == settled.outcome
        with pytest.raises(AlreadySettled):
            await here.decline(question.id, by="ana")


async def test_an_escalation_done_elsewhere_is_noticed() -> None:
    clock = ManualClock()
    store = CountingStore(clock)
    after = Timeline(escalate=(Escalation(after=HOUR, to=("zoe",)),))
    async with desk_from_store(store, MemoryBus()) as here, desk_from_store(store, MemoryBus()) as there:
        question = await here.post("Which?", recipients=["ana"], timeline=after)
        with pytest.raises(PermissionDenied):
            await here.answer(question.id, "a", by="zoe")
        clock.advance(HOUR)
        await there.run_due()
        assert (await here.answer(question.id, "a", by="zoe")).status == "answered"


def test_only_some_questions_are_kept_at_hand() -> None:
    store = MemoryStore()
    engine = Engine(store, MemoryBus())
    asked_at = ManualClock().now()
    questions = [
        Question(id=f"q-{n}", workspace="w", asker="a", prompt="?", form=Open(), asked_at=asked_at)
        for n in range(2_100)
    ]
    for question in questions:
        engine.remember(question)
    assert engine.recall(questions[-1].ref) == questions[-1]
    assert engine.recall(questions[0].ref) is None


class StumblingStore(MemoryStore):
    stumbles = 2

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        if self.stumbles:
            self.stumbles -= 1
            raise RuntimeError("a row that nobody expected")
        return await super().outcomes(refs)


class BrokenBus(MemoryBus):
    @asynccontextmanager
    async def listen(self, on_hint: HintHandler, **needed: object) -> AsyncIterator[None]:
        del on_hint, needed
        raise KeyError("no such bus")
        yield


async def test_waits_survive_whatever_a_store_or_a_bus_raises() -> None:
    async with desk_from_store(StumblingStore(), BrokenBus(), poll_interval=0.01) as desk:
        question = await desk.post("Which?")
        waiting = asyncio.create_task(desk.wait(question.id, timeout=10))
        with pytest.raises(QuestionNotFound):
            await desk.wait("nonesuch", timeout=10)
        await desk.answer(question.id, "a", by="ana")
        assert isinstance(await waiting, Answered)


class UntidyStore(MemoryStore):
    """Cannot be tidied the first time."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        super().__init__(clock)
        self.tidied = 0

    async def tidy(self, *, keep: timedelta | None, limit: int) -> int:
        self.tidied += 1
        if self.tidied == 1:
            raise StoreUnavailable("not now")
        return await super().tidy(keep=keep, limit=limit)


async def test_whoever_tends_removes_what_is_not_kept_and_tries_again_where_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_TIDY_EVERY", 0.0)
    clock = ManualClock()
    store = UntidyStore(clock)
    async with asyncio.timeout(10), desk_from_store(store, MemoryBus(), keep_settled=HOUR) as desk:
        question = await desk.post("Which?")
        await desk.answer(question.id, "this", by="ana")
        clock.advance(HOUR / 2)
        for _ in range(5):
            await desk.run_maintenance()
            await asyncio.sleep(0)
        assert store.tidied > 1
        assert (await desk.get(question.id)).status == "answered"
        clock.advance(HOUR)
        while (await store.read([question.ref]))[0]:
            await desk.run_maintenance()
            await asyncio.sleep(0)
        with pytest.raises(QuestionNotFound):
            await desk.get(question.id)
        with pytest.raises(QuestionNotFound):
            await desk.wait(question.id)
