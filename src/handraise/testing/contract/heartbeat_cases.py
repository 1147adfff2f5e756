"""Heartbeats: whether somebody still waits for an answer, and what the policy does if nobody does."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from handraise import Desk, Question, Status, Withdrawn
from handraise.errors import InvalidQuestion
from handraise.model.due_changes import ORPHAN_RECORD
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON, Backend, ContractFixtures
from handraise.testing.promises import promise

_MINUTE = timedelta(minutes=1)
_MOMENT = timedelta(milliseconds=1)
_CLOSING = {"close_orphans": "10m", "rules": []}


async def _heard(desk: Desk, question: Question) -> Any:
    return (await desk.get(question.id)).heard_at


async def _until_heard(desk: Desk, question: Question, clock: ManualClock) -> None:
    async with asyncio.timeout(SOON):
        while await _heard(desk, question) != clock.now():  # noqa: ASYNC110 -- a sign of an asker leaves no event
            await asyncio.sleep(0.02)


class HeartbeatCases(ContractFixtures):
    """An asker that waits is heard. One that is not heard for its heartbeat leaves an orphan, which people can answer."""

    async def test_without_a_heartbeat_nobody_knows_who_waits(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?")
        assert (question.heartbeat, question.heard_at) == (None, None)
        clock.advance(timedelta(days=400))
        assert await desk.heartbeat([question.id]) == 0
        read = await desk.get(question.id)
        assert (read.heartbeat, read.heard_at, read.is_orphaned(clock.now())) == (None, None, False)

    async def test_a_heartbeat_is_kept_and_the_post_is_the_first_sign(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        spans: list[Any] = ["5m", 300, 300.0, timedelta(minutes=5)]
        for given in spans:
            question = await desk.post("Which?", heartbeat=given)
            assert (question.heartbeat, question.heard_at) == (300.0, clock.now())
            assert await desk.get(question.id) == question
        assert [each.heartbeat for each in await desk.list_pending()] == [300.0] * len(spans)

    async def test_a_heartbeat_is_from_ten_seconds_to_thirty_days(self, desk: Desk) -> None:
        wrong: list[Any] = ["9s", 9.99, "31d", -60, "soon", None, True, float("nan")]
        for given in wrong:
            with pytest.raises(InvalidQuestion) as raised:
                await desk.post("Which?", heartbeat=given)
            assert [problem.path for problem in raised.value.problems] == ["heartbeat"], given
        assert not await desk.list_pending()

    async def test_a_question_is_an_orphan_after_its_heartbeat_and_no_longer_after_a_sign(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await desk.post("Which?", heartbeat="5m")
        clock.advance(5 * _MINUTE)
        assert not (await desk.get(question.id)).is_orphaned(clock.now())
        clock.advance(timedelta(milliseconds=1))
        assert (await desk.get(question.id)).is_orphaned(clock.now())
        assert await desk.heartbeat([question.id]) == 1
        read = await desk.get(question.id)
        assert (read.heard_at, read.is_orphaned(clock.now())) == (clock.now(), False)

    @promise("P7")
    async def test_a_sign_leaves_no_event_and_changes_nothing_else(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await desk.post("Which?", heartbeat="5m", expires_in="1h", recipients=["ana"])
        clock.advance(4 * _MINUTE)
        assert await desk.heartbeat([question.id]) == 1
        read = await desk.get(question.id)
        assert {name for name, value in vars(read).items() if value != getattr(question, name)} == {
            "heard_at"
        }
        assert [event.kind for event in await desk.history(question.id)] == ["asked"]

    async def test_a_sign_soon_after_another_is_not_written(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", heartbeat="100s")
        clock.advance(timedelta(seconds=9.9))
        assert await desk.heartbeat([question.id]) == 1
        assert await _heard(desk, question) == question.asked_at
        clock.advance(timedelta(seconds=0.1))
        assert await desk.heartbeat([question.id]) == 1
        assert await _heard(desk, question) == clock.now()

    @promise("P8")
    async def test_nobody_gives_a_sign_for_another_asker_or_workspace(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        question = await desk.post("Which?", heartbeat="1m", key="k", shared=True)
        clock.advance(10 * _MINUTE)
        async with (
            backend.open(clock=clock, workspace=workspace, asker="other") as other,
            backend.open(clock=clock, workspace=f"{workspace}-2") as elsewhere,
        ):
            for stranger in (other, elsewhere):
                assert await stranger.heartbeat([question.id]) == 0
        read = await desk.get(question.id)
        assert (read.heard_at, read.is_orphaned(clock.now())) == (question.asked_at, True)

    @promise("P6")
    async def test_a_sign_for_what_has_ended_changes_nothing(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", heartbeat="1m")
        answered = await desk.answer(question.id, "a", by="ana")
        clock.advance(_MINUTE)
        assert await desk.heartbeat([question.id]) == 0
        read = await desk.get(question.id)
        assert (read, read.is_orphaned(clock.now() + _MINUTE)) == (answered, False)

    async def test_signs_for_several_questions_at_once(self, desk: Desk, clock: ManualClock) -> None:
        asked = [await desk.post("Which?", heartbeat="1m") for _ in range(3)]
        plain = await desk.post("Which?")
        clock.advance(_MINUTE)
        ids = [*(each.id for each in asked[:2]), plain.id, asked[0].id, "unknown", "\0", "a b"]
        assert await desk.heartbeat(ids) == 2
        assert [await _heard(desk, each) == clock.now() for each in asked] == [True, True, False]
        assert await desk.heartbeat([]) == 0
        with pytest.raises(TypeError, match="several ids"):
            await desk.heartbeat(asked[0].id)

    async def test_people_can_answer_an_orphan(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", heartbeat="1m", recipients=["ana"])
        clock.advance(timedelta(days=3))
        assert [each.id for each in await desk.list_pending(recipient="ana")] == [question.id]
        assert (await desk.answer(question.id, "a", by="ana")).status is Status.ANSWERED

    async def test_posting_the_same_key_again_is_a_sign(
        self, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        async with backend.open(clock=clock, workspace=workspace) as desk:
            first = await desk.post("Which?", key="k", heartbeat="1m")
        clock.advance(10 * _MINUTE)
        async with backend.open(clock=clock, workspace=workspace) as desk:
            again = await desk.post("Which?", key="k", heartbeat="2m")
            assert (again.id, again.heartbeat, again.heard_at) == (first.id, 60.0, clock.now())
            assert not again.is_orphaned(clock.now())

    @pytest.mark.parametrize("how", ["wait", "wait_any", "messages"])
    async def test_a_wait_is_a_sign_also_of_a_process_that_did_not_ask(
        self, backend: Backend, workspace: str, clock: ManualClock, how: str
    ) -> None:
        options: Any = {"clock": clock, "workspace": workspace, "poll_interval": 0.05}
        async with backend.open(**options) as desk:
            question = await desk.post("Which?", heartbeat="1m", replies="program")
            clock.advance(10 * _MINUTE)
        async with backend.open(**options) as desk:

            async def waits() -> None:
                if how == "messages":
                    async for _ in desk.messages(question.id):
                        pass
                else:
                    await (desk.wait(question.id) if how == "wait" else desk.wait_any([question.id]))

            waiting = asyncio.create_task(waits())
            await _until_heard(desk, question, clock)
            await desk.answer(question.id, "a", by="ana")
            await asyncio.wait_for(waiting, SOON)

    async def test_the_wait_of_another_asker_is_no_sign(
        self, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        options: Any = {"clock": clock, "workspace": workspace, "poll_interval": 0.05}
        async with backend.open(**options) as desk, backend.open(**options, asker="other") as other:
            shared: Any = {"key": "k", "shared": True, "heartbeat": "1m"}
            question = await desk.post("Which?", **shared)
            own = await other.post("Mine?", heartbeat="1m")
            clock.advance(_MINUTE)
            waiting = asyncio.create_task(other.wait_any([question.id, own.id]))
            await _until_heard(other, own, clock)
            assert await _heard(desk, question) == question.asked_at
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


class OrphanCases(ContractFixtures):
    """The policy can close questions that nobody waits for. A sign that was acknowledged before counts."""

    async def _orphan(self, desk: Desk, backend: Backend, workspace: str, **options: Any) -> Question:
        await backend.set_policy(workspace, _CLOSING)
        return await desk.post("Which?", heartbeat="5m", **options)

    @promise("P7", "P13")
    async def test_the_policy_withdraws_what_nobody_has_waited_for_so_long(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        question = await self._orphan(desk, backend, workspace)
        assert question.closes_at == clock.now() + 15 * _MINUTE
        clock.advance(15 * _MINUTE - _MOMENT)
        await desk.run_due()
        assert (await desk.get(question.id)).status is Status.PENDING
        clock.advance(_MOMENT)
        await desk.run_due()
        closed = await desk.get(question.id)
        assert closed.outcome == Withdrawn(at=clock.now(), **ORPHAN_RECORD)
        assert closed.closes_at is None
        events = await desk.history(question.id)
        assert [event.kind for event in events] == ["asked", "withdrawn"]
        assert (events[-1].by, events[-1].data) == ("policy:close_orphans", dict(ORPHAN_RECORD))
        assert not await desk.list_pending()

    @promise("P4")
    async def test_who_waits_for_an_orphan_gets_its_outcome(
        self, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        # The first sign comes after the test has given up.
        async with backend.open(clock=clock, workspace=workspace, poll_interval=10 * SOON) as desk:
            question = await self._orphan(desk, backend, workspace)
            waiting = asyncio.create_task(desk.wait(question.id, timeout=SOON))
            await asyncio.sleep(0)
            clock.advance(15 * _MINUTE)
            await desk.run_due()
            assert isinstance(await waiting, Withdrawn)

    async def test_a_sign_just_before_it_is_closed_puts_that_off(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        question = await self._orphan(desk, backend, workspace)
        for _ in range(3):
            clock.advance(15 * _MINUTE - _MOMENT)
            assert await desk.heartbeat([question.id]) == 1
            clock.advance(_MOMENT)
            await desk.run_due()
            assert (await desk.get(question.id)).status is Status.PENDING
        clock.advance(15 * _MINUTE)
        await desk.run_due()
        assert (await desk.get(question.id)).status is Status.WITHDRAWN

    async def test_only_questions_with_a_heartbeat_are_closed(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        earlier = await desk.post("Asked before the policy?", heartbeat="5m")
        orphan = await self._orphan(desk, backend, workspace)
        plain = await desk.post("Which?")
        clock.advance(timedelta(days=30))
        await desk.run_due()
        found = [(await desk.get(each.id)).status for each in (earlier, orphan, plain)]
        assert found == [Status.PENDING, Status.WITHDRAWN, Status.PENDING]

    async def test_an_expiry_that_is_due_comes_first(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        question = await self._orphan(desk, backend, workspace, expires_in="12m")
        clock.advance(timedelta(hours=1))
        await desk.run_due()
        assert (await desk.get(question.id)).status is Status.EXPIRED
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "expired"]

    @promise("P2")
    async def test_an_answer_before_counts(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        question = await self._orphan(desk, backend, workspace)
        clock.advance(10 * _MINUTE)
        assert (await desk.get(question.id)).is_orphaned(clock.now())
        answered = await desk.answer(question.id, "a", by="ana")
        clock.advance(timedelta(hours=1))
        await desk.run_due()
        assert await desk.get(question.id) == answered

    async def test_the_next_of_a_topic_is_asked_instead(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        orphan = await self._orphan(desk, backend, workspace, topic="vat")
        follower = await desk.post("Which?", topic="vat")
        assert follower.follows == orphan.id
        clock.advance(timedelta(hours=1))
        await desk.run_due()
        assert (await desk.get(orphan.id)).status is Status.WITHDRAWN
        assert (await desk.get(follower.id)).follows is None

    async def test_an_administrator_closes_an_orphan(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", heartbeat="1m")
        clock.advance(timedelta(hours=1))
        closed = await desk.withdraw(question.id, by="boss", reason="the agent is gone")
        assert closed.outcome == Withdrawn(at=clock.now(), by="boss", reason="the agent is gone")
