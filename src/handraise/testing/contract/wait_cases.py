"""Waiting: subscribe, read, then sleep; hints only affect speed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from handraise import Answered, Desk, QuestionNotFound, StillPending
from handraise.errors import DeskClosed, WrongLoop
from handraise.questions import Ref
from handraise.testing.buses import ManualBus, SilentBus
from handraise.testing.contract.backend import SOON, Backend, ContractFixtures, in_a_forked_child
from handraise.testing.promises import promise


class WaitCases(ContractFixtures):
    """Every waiter gets the recorded outcome, wherever and whenever it was recorded."""

    @promise("P4")
    async def test_an_answer_given_before_anybody_waits_is_not_lost(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        await desk.answer(question.id, "a", by="ana")
        assert isinstance(await desk.wait(question.id, timeout=SOON), Answered)

    @promise("P4")
    async def test_a_waiter_is_woken_by_an_answer_at_the_same_desk(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        waiting = asyncio.create_task(desk.wait(question.id, timeout=SOON))
        await asyncio.sleep(0)
        answered = await desk.answer(question.id, "a", by="ana")
        assert await waiting == answered.outcome

    @promise("P4")
    async def test_a_waiter_is_woken_by_an_answer_at_another_desk(
        self, backend: Backend, workspace: str
    ) -> None:
        # The poll comes after the test has given up: only a hint can wake this waiter.
        async with (
            backend.open(workspace=workspace, poll_interval=10 * SOON) as asker,
            backend.open(workspace=workspace) as person,
        ):
            for n in range(5):
                question = await asker.post("Which?")
                waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
                with pytest.raises(StillPending):
                    await asker.wait(question.id, timeout=0.1 if n == 0 else 0.01)
                answered = await person.answer(question.id, "a", by="ana")
                assert await waiting == answered.outcome

    @promise("P4")
    async def test_a_waiter_finds_out_by_polling_where_every_hint_is_lost(
        self, backend: Backend, workspace: str
    ) -> None:
        async with (
            backend.open(workspace=workspace, poll_interval=0.05, bus=SilentBus()) as asker,
            backend.open(workspace=workspace, bus=SilentBus()) as person,
        ):
            question = await asker.post("Which?")
            waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
            await asyncio.sleep(0)
            await person.answer(question.id, "a", by="ana")
            assert isinstance(await waiting, Answered)

    @promise("P4")
    async def test_polling_goes_on_while_hints_about_others_keep_coming(
        self, backend: Backend, workspace: str
    ) -> None:
        bus = ManualBus()
        async with (
            backend.open(workspace=workspace, poll_interval=0.1, bus=bus) as asker,
            backend.open(workspace=workspace, bus=SilentBus()) as person,
        ):
            question, busy = await asker.post("Which?"), await asker.post("Busy?")
            waits = [asyncio.create_task(asker.wait(each.id, timeout=SOON)) for each in (question, busy)]
            await asyncio.sleep(0)
            await person.answer(question.id, "a", by="ana")
            async with asyncio.timeout(SOON):
                while not waits[0].done():
                    bus.deliver([busy.ref])
                    await asyncio.sleep(0.01)
            assert isinstance(await waits[0], Answered)
            await person.answer(busy.id, "a", by="ana")
            await waits[1]

    @promise("P5")
    async def test_an_early_or_doubled_hint_delivers_nothing(self, backend: Backend, workspace: str) -> None:
        bus = ManualBus()
        async with (
            backend.open(workspace=workspace, poll_interval=10 * SOON, bus=bus) as asker,
            backend.open(workspace=workspace, bus=bus) as person,
        ):
            question = await asker.post("Which?")
            waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
            for hint in ([question.ref], [question.ref], None, [Ref("elsewhere", "x")]):
                with pytest.raises(StillPending):
                    await asker.wait(question.id, timeout=0.02)
                bus.deliver(hint)
            answered = await person.answer(question.id, "a", by="ana")
            assert not waiting.done()
            bus.deliver([question.ref])
            assert await waiting == answered.outcome

    @promise("P5")
    async def test_what_a_waiter_gets_is_what_is_recorded(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as asker, backend.open(workspace=workspace) as person:
            question = await asker.post("Which?")
            waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
            await person.answer(question.id, "a", by="ana")
            outcome = await waiting
            assert (await person.get(question.id)).outcome == outcome
            assert (await person.history(question.id))[-1].kind == "answered"

    @promise("P10")
    async def test_a_wait_that_times_out_changes_nothing(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        with pytest.raises(StillPending) as pending:
            await desk.wait(question.id, timeout=timedelta(milliseconds=20))
        assert pending.value.question_ids == (question.id,)
        assert await desk.get(question.id) == question
        assert len(await desk.history(question.id)) == 1
        await desk.answer(question.id, "a", by="ana")
        assert isinstance(await desk.wait(question.id, timeout=SOON), Answered)

    @promise("P4")
    async def test_a_wait_without_patience_still_finds_what_is_settled(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        with pytest.raises(StillPending):
            await desk.wait(question.id, timeout=0)
        answered = await desk.answer(question.id, "a", by="ana")
        assert await desk.wait(question.id, timeout=0) == answered.outcome

    @promise("P10")
    async def test_ask_times_out_and_the_question_stays(self, desk: Desk) -> None:
        with pytest.raises(StillPending):
            await desk.ask("Which?", key="k", timeout=0.02)
        question = await desk.find_by_key("k")
        assert question is not None
        await desk.answer(question.id, "a", by="ana")
        assert await desk.ask("Which?", key="k", timeout=SOON) == "a"

    @promise("P10")
    async def test_waiting_for_an_unknown_question_fails(self, desk: Desk) -> None:
        with pytest.raises(QuestionNotFound):
            await desk.wait("nonesuch", timeout=SOON)

    @promise("P10")
    async def test_waiting_for_several_of_which_one_is_unknown_fails(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        for ids in ([question.id, "nonesuch", "nor this"], [question.id, "\x00"]):
            with pytest.raises(QuestionNotFound):
                await desk.wait_any(ids, timeout=SOON)

    @promise("P8")
    async def test_waiting_in_another_workspace_fails(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        with pytest.raises(QuestionNotFound):
            await desk.scoped("another workspace").wait(question.id, timeout=SOON)

    async def test_a_cancelled_wait_leaves_the_others_alone(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        one, two = (asyncio.create_task(desk.wait(question.id, timeout=SOON)) for _ in range(2))
        await asyncio.sleep(0.01)
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
        await desk.answer(question.id, "a", by="ana")
        assert isinstance(await two, Answered)
        assert one.cancelled()

    @promise("P4")
    async def test_everybody_who_waits_is_woken(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as asker, backend.open(workspace=workspace) as person:
            questions = await asyncio.gather(*(asker.post(f"Which {n}?") for n in range(50)))
            waits = [
                asyncio.create_task(asker.wait(question.id, timeout=SOON))
                for question in questions
                for _ in range(4)
            ]
            await asyncio.gather(*(person.answer(each.id, each.prompt, by="ana") for each in questions))
            outcomes = await asyncio.gather(*waits)
            got = [outcome.value for outcome in outcomes if isinstance(outcome, Answered)]
            assert got == [question.prompt for question in questions for _ in range(4)]

    async def test_wait_any_gives_the_first_that_settles(self, desk: Desk) -> None:
        questions = [await desk.post(f"Which {n}?") for n in range(3)]
        waiting = asyncio.create_task(desk.wait_any([each.id for each in questions], timeout=SOON))
        await asyncio.sleep(0)
        answered = await desk.answer(questions[1].id, "a", by="ana")
        assert await waiting == (questions[1].id, answered.outcome)
        with pytest.raises(StillPending):
            await desk.wait_any([questions[0].id, questions[2].id], timeout=0.01)

    async def test_wait_any_needs_a_question(self, desk: Desk) -> None:
        with pytest.raises(ValueError, match="at least one"):
            await desk.wait_any([])

    @promise("P10")
    async def test_closing_the_desk_ends_its_waits_and_keeps_the_question(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            question = await desk.post("Which?")
            waiting = asyncio.create_task(desk.wait(question.id))
            await asyncio.sleep(0.01)
        with pytest.raises(DeskClosed):
            await waiting
        for verb in (
            desk.post("Another?"),
            desk.wait(question.id),
            desk.get(question.id),
            desk.find_by_key("k"),
            desk.list_pending(),
            desk.history(question.id),
            desk.feed(),
            desk.run_due(),
            desk.recover(timedelta(1)),
            desk.durability(),
        ):
            with pytest.raises(DeskClosed):
                await verb
        async with backend.open(workspace=workspace) as another:
            assert (await another.get(question.id)).status == "pending"

    @promise("P10")
    async def test_a_forked_child_is_told_at_once_to_open_a_desk_of_its_own(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        for work in (
            lambda: asyncio.run(desk.post("Which?")),
            lambda: asyncio.run(desk.scoped(desk.workspace).get(question.id)),
            lambda: asyncio.run(desk.wait(question.id)),
            lambda: asyncio.run(desk.list_pending()),
            lambda: asyncio.run(anext(desk.follow())),
        ):
            assert in_a_forked_child(work) == "ForkedDesk"
        assert (await desk.get(question.id)).status == "pending"

    @promise("P10")
    async def test_another_event_loop_is_told_to_open_a_desk_of_its_own(self, desk: Desk) -> None:
        with pytest.raises(WrongLoop, match="async with open_desk"):
            await asyncio.to_thread(lambda: asyncio.run(desk.post("Which?")))
