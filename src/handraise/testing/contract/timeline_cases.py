"""Timing: silence is never consent, and only what the asker named happens."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from handraise import (
    AlreadySettled,
    Answered,
    Approval,
    Desk,
    Escalation,
    Expired,
    NotApproved,
    Open,
    PermissionDenied,
    Question,
    Timeline,
)
from handraise.desks import Recovered
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON, Backend, ContractFixtures
from handraise.testing.promises import promise

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class TimelineCases(ContractFixtures):
    """The store itself runs timelines, by one clock."""

    @promise("P10")
    async def test_without_a_timeline_it_waits_for_ever(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?")
        clock.advance(timedelta(days=3650))
        await desk.run_due()
        assert (await desk.get(question.id)).status == "pending"
        assert (await desk.answer(question.id, "a", by="ana")).status == "answered"

    @promise("P10", "P13")
    async def test_it_expires_when_told_to(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", expires_in=_HOUR)
        clock.advance(_HOUR - _MINUTE)
        await desk.run_due()
        assert (await desk.get(question.id)).status == "pending"
        clock.advance(_MINUTE)
        assert await desk.run_due() >= 1
        assert (await desk.get(question.id)).outcome == Expired(at=clock.now())
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "expired"]

    @promise("P2")
    async def test_a_late_answer_is_refused_even_before_a_sweep(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", expires_in=_HOUR)
        clock.advance(_HOUR)
        with pytest.raises(AlreadySettled) as late:
            await desk.answer(question.id, "a", by="ana")
        assert late.value.outcome == Expired(at=clock.now())

    @promise("P5")
    @pytest.mark.parametrize("look", ["get", "find", "pending", "post"])
    async def test_nobody_sees_an_expired_question_as_pending(
        self, desk: Desk, clock: ManualClock, look: str
    ) -> None:
        question = await desk.post("Which?", expires_in=_HOUR, key="k")
        clock.advance(_DAY)
        if look == "pending":
            assert (await desk.list_pending()).items == []
        elif look == "get":
            assert (await desk.get(question.id)).status == "expired"
        elif look == "find":
            found = await desk.find_by_key("k")
            assert found is not None
            assert found.status == "expired"
        else:
            assert (await desk.post("Which?", expires_in=_HOUR, key="k")).status == "expired"

    @promise("P9")
    async def test_a_default_with_an_odd_number_is_the_same_question_when_it_is_posted_again(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        form, timeline = Open(type="number"), Timeline(expire=_HOUR, default=1e300)
        posted = await desk.post("How much?", key="k", form=form, timeline=timeline)
        again = await desk.post("How much?", key="k", form=form, timeline=timeline)
        assert again.id == posted.id
        assert again.timeline == timeline
        clock.advance(_HOUR)
        outcome = await desk.wait(posted.id, timeout=SOON)
        assert isinstance(outcome, Answered)
        assert outcome.value == 1e300

    @promise("P13")
    async def test_a_default_is_taken_only_where_it_was_named_and_is_marked(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        timeline = Timeline(expire=_HOUR, default="b")
        question = await desk.post("Which?", choices=["a", "b"], timeline=timeline, key="k")
        clock.advance(_HOUR)
        await desk.run_due()
        outcome = (await desk.get(question.id)).outcome
        assert outcome == Answered(value="b", at=clock.now(), by=None, source="default")
        assert "by default" in str(outcome)
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "answered"]
        assert await desk.ask("Which?", choices=["a", "b"], timeline=timeline, key="k", timeout=SOON) == "b"

    @promise("P11")
    async def test_an_approval_expires_into_not_approved(self, desk: Desk, clock: ManualClock) -> None:
        form = Approval.of("pay", {"amount": 1})
        await desk.post("Pay?", form=form, expires_in=_HOUR, key="k")
        clock.advance(_HOUR)
        with pytest.raises(NotApproved) as ended:
            await desk.request_approval(form, prompt="Pay?", expires_in=_HOUR, key="k", timeout=SOON)
        assert isinstance(ended.value.outcome, Expired)

    @promise("P7")
    async def test_reminders_come_in_order_once_each(self, desk: Desk, clock: ManualClock) -> None:
        timeline = Timeline(remind=(2 * _HOUR, _HOUR), expire=_DAY)
        question = await desk.post("Which?", timeline=timeline)
        for _ in range(3):
            clock.advance(_HOUR)
            await desk.run_due()
            await desk.run_due()
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "reminded", "reminded"]
        assert (await desk.get(question.id)).status == "pending"

    @promise("P7")
    async def test_a_sweep_that_comes_late_does_every_step_and_leaves_time_behind_each_until_the_end(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        timeline = Timeline(
            remind=(_MINUTE, 4 * _HOUR), escalate=(Escalation(after=_HOUR, to=("zoe",)),), expire=_DAY
        )
        question = await desk.post("Which?", timeline=timeline, recipients=["ana"])
        clock.advance(_DAY - 15 * _MINUTE)
        kinds = ["asked"]
        for kind, left in (("reminded", 10 * _MINUTE), ("escalated", 5 * _MINUTE)):
            assert await desk.run_due() == 0
            kinds.append(kind)
            assert [event.kind for event in await desk.history(question.id)] == kinds
            late = await desk.get(question.id)
            assert (late.due_at, late.expires_at) == (clock.now() + left, question.expires_at)
            clock.advance(left)
        assert await desk.run_due() == 1
        assert [event.kind for event in await desk.history(question.id)] == [*kinds, "expired"]
        ended = await desk.get(question.id)
        assert (ended.due_at, ended.expires_at) == (None, clock.now())

    async def test_steps_that_come_late_keep_the_gaps_that_were_planned_where_those_are_short(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        timeline = Timeline(
            remind=(_MINUTE,), escalate=(Escalation(after=_MINUTE, to=("zoe",)),), expire=3 * _MINUTE
        )
        question = await desk.post("Which?", timeline=timeline, recipients=["ana"])
        clock.advance(2 * _MINUTE)
        late = await desk.get(question.id)
        assert (late.steps_taken, late.expires_at) == (2, clock.now() + _MINUTE)
        clock.advance(_MINUTE)
        assert isinstance((await desk.get(question.id)).outcome, Expired)

    async def test_steps_that_come_in_time_put_nothing_off(self, desk: Desk, clock: ManualClock) -> None:
        timeline = Timeline(
            remind=(_MINUTE, _HOUR), escalate=(Escalation(after=2 * _HOUR, to=("zoe",)),), expire=_DAY
        )
        question = await desk.post("Which?", timeline=timeline, recipients=["ana"])
        for due in (_MINUTE, _HOUR, 2 * _HOUR):
            assert (await desk.get(question.id)).due_at == question.asked_at + due
            clock.advance(question.asked_at + due - clock.now())
            assert (await desk.get(question.id)).expires_at == question.expires_at
        assert (await desk.get(question.id)).due_at == question.expires_at == question.asked_at + _DAY

    @promise("P2", "P13")
    async def test_after_an_outage_over_its_end_a_question_has_ended_and_nobody_is_reminded(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        timeline = Timeline(remind=(_HOUR,), expire=2 * _HOUR, default="b")
        question = await desk.post("Which?", choices=["a", "b"], recipients=["ana"], timeline=timeline)
        clock.advance(_DAY)
        with pytest.raises(AlreadySettled):
            await desk.answer(question.id, "a", by="ana")
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "answered"]
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Answered)
        assert (outcome.source, str(outcome)) == (
            "default",
            "answered 'b' by default, because its time ran out",
        )

    @pytest.mark.parametrize("look", ["pending", "urgent", "answer", "get"])
    async def test_those_escalated_to_see_it_and_answer_without_anybody_sweeping(
        self, desk: Desk, clock: ManualClock, look: str
    ) -> None:
        timeline = Timeline(escalate=(Escalation(after=_HOUR, to=("boss",)),), expire=_DAY)
        question = await desk.post("Which?", timeline=timeline, recipients=["ana"])
        assert not (await desk.list_pending(recipient="boss")).items
        clock.advance(_HOUR)
        match look:
            case "pending":
                assert [each.id for each in (await desk.list_pending(recipient="boss")).items] == [
                    question.id
                ]
            case "urgent":
                page = await desk.list_pending(recipient="boss", order="urgency")
                assert [each.id for each in page.items] == [question.id]
            case "answer":
                assert (await desk.answer(question.id, "x", by="boss")).outcome is not None
            case _:
                assert (await desk.get(question.id)).audience == ("ana", "boss")
        assert [event.kind for event in await desk.history(question.id)][:2] == ["asked", "escalated"]

    async def test_an_escalation_lets_others_answer_too(self, desk: Desk, clock: ManualClock) -> None:
        timeline = Timeline(escalate=(Escalation(after=_HOUR, to=("zoe", "group:leads")),))
        question = await desk.post("Which?", recipients=["ana"], timeline=timeline)
        with pytest.raises(PermissionDenied):
            await desk.answer(question.id, "a", by="zoe")
        assert (await desk.list_pending(recipient="zoe")).items == []
        clock.advance(_HOUR)
        await desk.run_due()
        escalated = await desk.get(question.id)
        assert escalated.audience == ("ana", "zoe", "group:leads")
        assert (await desk.list_pending(recipient="zoe")).items == [escalated]
        assert (await desk.list_pending(recipient="ana")).items == [escalated]
        assert (await desk.history(question.id))[-1].data == {"to": ["zoe", "group:leads"]}
        assert (await desk.answer(question.id, "a", by="zoe")).status == "answered"
        assert (await desk.list_pending(recipient="zoe")).items == []

    async def test_an_escalation_does_not_narrow_a_question_to_anyone(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        timeline = Timeline(escalate=(Escalation(after=_HOUR, to=("zoe",)),))
        question = await desk.post("Which?", timeline=timeline)
        clock.advance(_HOUR)
        await desk.run_due()
        assert (await desk.answer(question.id, "a", by="bob")).status == "answered"

    async def test_an_answer_stops_the_timeline(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", timeline=Timeline(remind=(_HOUR,), expire=_DAY))
        settled = await desk.answer(question.id, "a", by="ana")
        clock.advance(2 * _DAY)
        await desk.run_due()
        assert await desk.get(question.id) == settled

    @promise("P7")
    async def test_many_sweeps_at_once_do_each_deed_once(
        self, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        async with (
            backend.open(clock=clock, workspace=workspace) as one,
            backend.open(clock=clock, workspace=workspace) as two,
        ):
            questions = [await one.post("Which?", expires_in=_HOUR) for _ in range(30)]
            clock.advance(_HOUR)
            await asyncio.gather(*(desk.run_due() for desk in (one, two) * 4))
            for question in questions:
                assert [event.kind for event in await two.history(question.id)] == ["asked", "expired"]

    @promise("P2")
    async def test_answers_race_with_the_sweep_to_one_outcome(
        self, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        async with (
            backend.open(clock=clock, workspace=workspace) as one,
            backend.open(clock=clock, workspace=workspace) as two,
        ):
            questions = [await one.post("Which?", expires_in=_HOUR) for _ in range(20)]
            clock.advance(_HOUR - timedelta(microseconds=1))

            async def advance_and_sweep() -> None:
                await asyncio.sleep(0)
                clock.advance(timedelta(microseconds=1))
                await two.run_due()

            await asyncio.gather(
                advance_and_sweep(),
                *(one.answer(question.id, "a", by="ana") for question in questions),
                return_exceptions=True,
            )
            await one.run_due()
            for question in questions:
                kinds = [event.kind for event in await one.history(question.id)]
                assert kinds in (["asked", "answered"], ["asked", "expired"])
                assert (await two.get(question.id)).status.value == kinds[-1].value

    @promise("P4", "P10")
    async def test_a_waiter_is_told_of_an_expiry_without_anybody_sweeping(
        self, backend: Backend, workspace: str
    ) -> None:
        # Without a clock of the test: the store's own decides.
        async with backend.open(workspace=workspace, poll_interval=0.05) as desk:
            question = await desk.post("Which?", expires_in=0.1)
            assert isinstance(await desk.wait(question.id, timeout=SOON), Expired)

    async def test_a_negative_age_is_refused_and_expires_nothing(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        with pytest.raises(ValueError, match="max_age must not be negative"):
            await desk.recover(timedelta(seconds=-1))
        assert (await desk.get(question.id)).status == "pending"

    @promise("P10")
    async def test_recover_expires_what_is_too_old_and_counts_the_rest(
        self, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        async with backend.open(clock=clock, workspace=workspace) as before:
            old = [await before.post("Old?") for _ in range(3)]
            answered = await before.post("Answered?")
            await before.answer(answered.id, "a", by="ana")
            clock.advance(_HOUR)
            young = [await before.post("Young?") for _ in range(2)]
            elsewhere = await before.scoped(f"{workspace}-2").post("Elsewhere?")
            others = await before.scoped(asker="another agent").post("Another's?")
            clock.advance(_MINUTE / 2)
        async with backend.open(clock=clock, workspace=workspace) as restarted:
            assert await restarted.recover(_MINUTE) == Recovered(expired=3, live=2)
            assert await restarted.recover(_MINUTE) == Recovered(expired=0, live=2)
            assert [(await restarted.get(each.id)).outcome for each in old] == [Expired(at=clock.now())] * 3
            assert {(await restarted.get(each.id)).status for each in young} == {"pending"}
            assert (await restarted.history(old[0].id))[-1].kind == "expired"
            assert (await restarted.answer(young[0].id, "a", by="ana")).status == "answered"
            assert (await restarted.scoped(f"{workspace}-2").get(elsewhere.id)).status == "pending"
            clock.advance(_DAY)
            assert await restarted.recover(_MINUTE) == Recovered(expired=1, live=0)
            assert (await restarted.scoped(asker="another agent").get(others.id)).status == "pending"

    async def test_recover_hands_what_is_live_back_to_be_shown_again(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        await desk.post("Too old?")
        clock.advance(_DAY)
        live = [await desk.post(f"Which {number}?", state={"room": number}) for number in range(3)]
        await desk.scoped(asker="another agent").post("Whose?")
        shown: list[Question] = []
        assert await desk.recover(_HOUR, show=shown.append) == Recovered(expired=1, live=3)
        assert [(each.id, each.state) for each in shown] == [(each.id, each.state) for each in live]

        async def show(question: Question) -> None:
            shown.append(question)

        await desk.recover(_HOUR, show=show)
        assert len(shown) == 6
