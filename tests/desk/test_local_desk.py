"""A question that others change while it is being settled is tried again, and says so if that never works."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from handraise import (
    AlreadySettled,
    Answered,
    Approval,
    InvalidAnswer,
    PermissionDenied,
    Question,
    StoreUnavailable,
    Timeline,
)
from handraise.backends.sqlite.memory import MemoryBus, MemoryStore
from handraise.desk import question_access
from handraise.desks import desk_from_store
from handraise.model.events import EventKind
from handraise.model.lifecycle import Move, Refusal
from handraise.model.move_decisions import Refused
from handraise.testing import ManualClock

HOUR = timedelta(hours=1)


PAY = Approval.of("pay", {"amount": 10}, scopes=["once", "always"])


def for_ever(clock: ManualClock, lasts: timedelta) -> dict[str, str]:
    return {"decision": "approve", "scope": "always", "until": (clock.now() + lasts).isoformat()}


class JumpingStore(MemoryStore):
    """Between the desk's look at a question and its move, deeds of the timeline come due."""

    def __init__(self, clock: ManualClock, jumps: int) -> None:
        super().__init__(clock)
        self._clock_to_move, self._jumps = clock, jumps

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        if self._jumps:
            self._jumps -= 1
            self._clock_to_move.advance(20 * HOUR)
        return await super().settle(moves)


class RefusingStore(MemoryStore):
    """It says of every question that it has ended, although it is pending."""

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        return [Refused(why=Refusal.SETTLED, question=move.question) for move in moves]


@pytest.mark.parametrize("jumps", [1, 2, 3])
async def test_an_answer_is_tried_again_while_deeds_come_due(jumps: int) -> None:
    store = JumpingStore(ManualClock(), jumps)
    timeline = Timeline(remind=[HOUR, 20 * HOUR, 40 * HOUR, 60 * HOUR], expire=500 * HOUR)
    async with desk_from_store(store, MemoryBus()) as desk:
        question = await desk.post("Which?", timeline=timeline)
        answered = await desk.answer(question.id, "this", by="ana")
        assert isinstance(answered.outcome, Answered)


@pytest.mark.parametrize("jumps", [1, 2, 3])
async def test_an_approval_until_later_is_tried_again_too(jumps: int) -> None:
    clock = ManualClock()
    store = JumpingStore(clock, jumps)
    timeline = Timeline(remind=[HOUR, 20 * HOUR, 40 * HOUR, 60 * HOUR], expire=500 * HOUR)
    async with desk_from_store(store, MemoryBus()) as desk:
        question = await desk.post("Pay?", form=PAY, timeline=timeline)
        answered = await desk.answer(question.id, for_ever(clock, 1_000 * HOUR), by="ana")
        assert isinstance(answered.outcome, Answered)
        assert [event.kind for event in await desk.history(question.id)][-1] == "answered"
        assert len(await desk.list_grants()) == 1


async def test_an_approval_until_later_says_why_it_is_refused() -> None:
    clock = ManualClock()
    store, bus = MemoryStore(clock), MemoryBus()
    async with desk_from_store(store, bus) as desk, desk_from_store(store, bus) as other:
        settled = await desk.post("Pay?", form=PAY)
        await other.answer(settled.id, "deny", by="bo")  # this desk has not noticed yet
        with pytest.raises(AlreadySettled):
            await desk.answer(settled.id, for_ever(clock, HOUR), by="ana")
        addressed = await desk.post("Pay?", form=PAY, recipients=["bo"])
        with pytest.raises(PermissionDenied):
            await desk.answer(addressed.id, for_ever(clock, -HOUR), by="ana")
        expired = await desk.post("Pay?", form=PAY, expires_in=HOUR)
        clock.advance(2 * HOUR)
        with pytest.raises(AlreadySettled):
            await desk.answer(expired.id, for_ever(clock, -HOUR), by="ana")
        late = await desk.post("Pay?", form=PAY, timeline=Timeline(remind=HOUR, expire=5 * HOUR))
        clock.advance(2 * HOUR)
        with pytest.raises(InvalidAnswer, match="past"):
            await desk.answer(late.id, for_ever(clock, -HOUR), by="ana")
        kinds = [event.kind for event in await desk.history(late.id)]
        assert (kinds.count(EventKind.ATTEMPTED), kinds[-1]) == (1, "attempted")


async def test_a_move_that_is_never_decided_says_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_access, "PATIENCE", 0.05)
    async with desk_from_store(RefusingStore(), MemoryBus()) as desk:
        question = await desk.post("Which?")
        with pytest.raises(StoreUnavailable, match="Try again"):
            await desk.answer(question.id, "this", by="ana")
        with pytest.raises(StoreUnavailable, match="Try again"):
            await desk.withdraw(question.id)
        assert (await desk.get(question.id)).outcome is None
