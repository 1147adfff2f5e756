"""`Heartbeats` by itself: signs go together, and waits that need none cost next to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack

import pytest

from handraise import PermissionDenied
from handraise.errors import StoreUnavailable
from handraise.heartbeats import MOST_BEATS, Heartbeats
from handraise.questions import Ref

SOON = 10.0
FIRST = 0.03


class Signs:
    """Takes signs, as a store does."""

    def __init__(self, heartbeats: Mapping[str, float]) -> None:
        self._heartbeats = heartbeats
        self.calls: list[tuple[list[str], str]] = []
        self.errors: list[Exception] = []
        self._called = asyncio.Condition()

    async def beat(self, refs: Sequence[Ref], asker: str) -> Mapping[Ref, float]:
        async with self._called:
            self.calls.append(([ref.id for ref in refs], asker))
            self._called.notify_all()
        if self.errors:
            raise self.errors.pop(0)
        return {ref: self._heartbeats[ref.id] for ref in refs if ref.id in self._heartbeats}

    async def until(self, count: int) -> None:
        async with asyncio.timeout(SOON), self._called:
            await self._called.wait_for(lambda: len(self.calls) >= count)


@pytest.fixture
async def signs() -> Signs:
    return Signs({"a": 3 * FIRST, "b": 3 * FIRST, "slow": 3_600.0})


@pytest.fixture
async def heartbeats(signs: Signs) -> AsyncIterator[Heartbeats]:
    made = Heartbeats(signs.beat, first=FIRST)
    yield made
    await made.close()


def refs(*ids: str, workspace: str = "w") -> list[Ref]:
    return [Ref(workspace, each) for each in ids]


async def test_signs_of_one_asker_go_together_and_again_after_a_third(
    signs: Signs, heartbeats: Heartbeats
) -> None:
    with heartbeats.waiting_for(refs("a", "b"), "bot"), heartbeats.waiting_for(refs("a"), "bot"):
        await signs.until(3)
    assert [(sorted(ids), asker) for ids, asker in signs.calls[:3]] == [(["a", "b"], "bot")] * 3


async def test_a_heartbeat_that_is_known_is_not_forgotten_if_its_question_is_locked(
    signs: Signs, heartbeats: Heartbeats
) -> None:
    (ref,) = refs("locked")
    with heartbeats.waiting_for([ref], "bot", {ref: 3 * FIRST}):
        await signs.until(4)


async def test_no_more_signs_are_planned_for_a_question_without_a_heartbeat(heartbeats: Heartbeats) -> None:
    with heartbeats.waiting_for(refs("none"), "bot"):
        async with asyncio.timeout(SOON):
            while len(heartbeats):
                await asyncio.sleep(FIRST)
        with heartbeats.waiting_for(refs("none"), "bot"):
            assert len(heartbeats) == 0


async def test_another_asker_and_another_workspace_have_a_call_of_their_own(
    signs: Signs, heartbeats: Heartbeats
) -> None:
    with (
        heartbeats.waiting_for(refs("slow"), "bot"),
        heartbeats.waiting_for(refs("slow"), "other"),
        heartbeats.waiting_for(refs("slow", workspace="w2"), "bot"),
    ):
        await signs.until(3)
    assert sorted(asker for _, asker in signs.calls) == ["bot", "bot", "other"]


async def test_a_call_is_about_a_thousand_questions_at_most(signs: Signs, heartbeats: Heartbeats) -> None:
    many = list(map(str, range(3 * MOST_BEATS)))
    with heartbeats.waiting_for(refs(*many), "bot"):
        async with asyncio.timeout(SOON):
            while {each for ids, _ in signs.calls for each in ids} != {*many}:
                await signs.until(len(signs.calls) + 1)
    assert max(len(ids) for ids, _ in signs.calls) <= MOST_BEATS


async def test_a_short_wait_gives_no_sign_and_leaves_nothing_behind(
    signs: Signs, heartbeats: Heartbeats
) -> None:
    for _ in range(100):
        with heartbeats.waiting_for(refs("a"), "bot"):
            await asyncio.sleep(0)
    with heartbeats.waiting_for(refs("slow"), "bot"):
        await signs.until(1)
    assert signs.calls == [(["slow"], "bot")]
    assert len(heartbeats) == 0


async def test_what_has_no_heartbeat_is_asked_about_twice_and_never_again(
    signs: Signs, heartbeats: Heartbeats
) -> None:
    with heartbeats.waiting_for(refs("none"), "bot"), heartbeats.waiting_for(refs("a"), "bot"):
        await signs.until(6)
    assert sum("none" in ids for ids, _ in signs.calls) == 2
    assert len(heartbeats) == 0


async def test_a_store_that_cannot_be_reached_is_tried_again(
    signs: Signs, heartbeats: Heartbeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handraise.heartbeats._AGAIN", FIRST)
    signs.errors = [StoreUnavailable("gone"), RuntimeError("worse")]
    with heartbeats.waiting_for(refs("a"), "bot"):
        await signs.until(4)


async def test_who_may_not_give_a_sign_does_not_try_for_ever(signs: Signs, heartbeats: Heartbeats) -> None:
    signs.errors = [PermissionDenied("ana", "people have none") for _ in range(2)]
    with ExitStack() as waits:
        waits.enter_context(heartbeats.waiting_for(refs("x"), "ana"))
        await signs.until(2)
        waits.enter_context(heartbeats.waiting_for(refs("a"), "bot"))
        await signs.until(5)
    assert [asker for _, asker in signs.calls[:5]] == ["ana", "ana", "bot", "bot", "bot"]
