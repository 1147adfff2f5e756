"""Topics: equal questions of several askers are asked once, and one answer is for all."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from handraise import (
    Answered,
    Approval,
    Declined,
    Desk,
    Expired,
    Field,
    Form,
    InvalidQuestion,
    KeyConflict,
    Question,
    Timeline,
)
from handraise.forms import File
from handraise.model.provenance import Provenance
from handraise.outcomes import Returned
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON, Backend, ContractFixtures
from handraise.testing.promises import promise

_TOPIC = "vat-rate:DE"


async def _rate(desk: Desk, **options: Any) -> Question:
    """A question about the rate, of another asker than the last one."""
    options = {"choices": ["7", "19"], "recipients": ["ana"], "topic": _TOPIC, **options}
    return await desk.post("Which rate?", **options)


async def _inbox(desk: Desk, person: str = "ana") -> list[str]:
    by_urgency = await desk.list_pending(recipient=person, order="urgency")
    by_age = await desk.list_pending(recipient=person)
    assert sorted(each.id for each in by_urgency) == [each.id for each in by_age]
    return [each.id for each in by_age]


class TopicCases(ContractFixtures):
    """Of equal questions with one topic, people see one; its answer ends all of them."""

    @pytest.mark.parametrize("ends", ["expire", "recover"])
    async def test_if_those_before_end_at_once_the_next_one_is_asked(
        self, backend: Backend, workspace: str, clock: ManualClock, ends: str
    ) -> None:
        async with (
            backend.open(workspace=workspace, asker="one", clock=clock) as one,
            backend.open(workspace=workspace, asker="two", clock=clock) as two,
        ):
            ends_after: list[dict[str, Any]] = [{}, {}]
            if ends == "expire":
                ends_after = [{"expires_in": "10m"}, {"expires_in": "20m"}]
            over = [await _rate(one, **options) for options in ends_after]
            last = await _rate(two)
            clock.advance(timedelta(hours=1))
            await (two.run_due() if ends == "expire" else one.recover(timedelta(minutes=30)))
            assert [(await one.get(each.id)).status for each in over] == ["expired", "expired"]
            assert (await two.get(last.id)).follows is None
            assert await _inbox(two) == [last.id]
            assert [each.kind for each in await two.history(last.id)] == ["asked", "opened"]

    @promise("P4")
    async def test_one_answer_is_for_all_who_ask(self, backend: Backend, workspace: str) -> None:
        async with (
            backend.open(workspace=workspace, asker="one") as one,
            backend.open(workspace=workspace, asker="two") as two,
            backend.open(workspace=workspace, asker="three") as three,
        ):
            first, second, third = [await _rate(desk) for desk in (one, two, three)]
            assert (first.follows, second.follows, third.follows) == (None, first.id, first.id)
            assert await two.get(second.id) == second
            assert await _inbox(one) == [first.id]
            assert [each.id for each in await two.list_pending(asker="two")] == [second.id]
            waiting = [asyncio.create_task(two.wait(second.id)), asyncio.create_task(three.wait(third.id))]
            await asyncio.sleep(0)
            where = Provenance(channel="inbox")
            answered = await one.answer(first.id, "19", by="ana", provenance=where)
            async with asyncio.timeout(SOON):
                outcomes = await asyncio.gather(*waiting)
            for outcome in outcomes:
                assert isinstance(outcome, Answered)
                assert (outcome.value, outcome.by, outcome.source) == ("19", "ana", "shared")
                assert outcome.at == answered.outcome.at if answered.outcome else False
            for desk, question in ((two, second), (three, third)):
                asked, ended = await desk.history(question.id)
                assert (asked.kind, ended.kind, ended.by, ended.channel) == (
                    "asked",
                    "answered",
                    "ana",
                    "inbox",
                )
                assert (ended.data["source"], ended.data["question"]) == ("shared", first.id)
                assert await _inbox(desk) == []
            assert isinstance(answered.outcome, Answered)
            assert answered.outcome.source == "person"

    @pytest.mark.parametrize(
        "other",
        [
            {"topic": "vat-rate:FR"},
            {"prompt": "Which number do you like?"},
            {"choices": ["7", "19", "20"]},
            {"recipients": ["ana", "bo"]},
            {"recipients": []},
            {"quorum": 2, "recipients": ["ana", "bo"]},
            {"topic": None},
        ],
    )
    async def test_other_questions_are_asked_by_themselves(self, desk: Desk, other: dict[str, Any]) -> None:
        first = await _rate(desk)
        options = {key: value for key, value in {"topic": _TOPIC, **other}.items() if value is not None}
        prompt = options.pop("prompt", "Which rate?")
        second = await desk.post(prompt, **{"choices": ["7", "19"], "recipients": ["ana"], **options})
        assert second.follows is None
        await desk.answer(first.id, "19", by="ana")
        assert (await desk.get(second.id)).status == "pending"

    @promise("P11")
    async def test_an_asker_never_answers_its_own_question_by_another_one(
        self, backend: Backend, workspace: str
    ) -> None:
        async with (
            backend.open(workspace=workspace, asker="robot") as robot,
            backend.open(workspace=workspace, asker="ana") as ana,
        ):
            first, own = [await _rate(desk, recipients=["ana", "bo"]) for desk in (robot, ana)]
            assert own.follows == first.id
            await robot.answer(first.id, "19", by="ana")
            left = await ana.get(own.id)
            assert (left.status, left.follows) == ("pending", None)

    async def test_a_vote_of_an_asker_does_not_count_for_its_own_question(
        self, backend: Backend, workspace: str
    ) -> None:
        async with (
            backend.open(workspace=workspace, asker="robot") as robot,
            backend.open(workspace=workspace, asker="ana") as ana,
        ):
            options = {"recipients": ["ana", "bo", "cy"], "quorum": 2}
            first, own = [await _rate(desk, **options) for desk in (robot, ana)]
            assert own.follows == first.id
            await robot.answer(first.id, "19", by="ana")
            await robot.answer(first.id, "19", by="bo")
            assert (await robot.get(first.id)).status == "answered"
            assert (await ana.get(own.id)).status == "pending"

    async def test_workspaces_do_not_share(self, backend: Backend, workspace: str) -> None:
        async with (
            backend.open(workspace=workspace) as here,
            backend.open(workspace=workspace + "-2") as there,
        ):
            await _rate(here)
            assert (await _rate(there)).follows is None

    async def test_approvals_have_no_topic(self, desk: Desk) -> None:
        with pytest.raises(InvalidQuestion, match="each approval is asked by itself"):
            await desk.post("Refund?", form=Approval.of("refund", {}), topic=_TOPIC)

    async def test_questions_for_files_have_no_topic(self, desk: Desk) -> None:
        for form in (File(), Form(fields=(Field(name="invoice", form=File()),))):
            with pytest.raises(InvalidQuestion, match="a file answers one question"):
                await desk.post("Which invoice?", form=form, topic=_TOPIC)

    async def test_the_next_one_after_an_answer_is_asked_again(self, desk: Desk) -> None:
        first = await _rate(desk)
        await desk.answer(first.id, "19", by="ana")
        second = await _rate(desk)
        assert (second.follows, await _inbox(desk)) == (None, [second.id])

    async def test_a_decline_and_a_return_are_shared_too(self, desk: Desk) -> None:
        first, second = await _rate(desk), await _rate(desk)
        await desk.decline(first.id, by="ana", reason="Ask Bo.")
        declined = (await desk.get(second.id)).outcome
        assert isinstance(declined, Declined)
        assert (declined.by, declined.reason) == ("ana", "Ask Bo.")
        first, second = await _rate(desk), await _rate(desk)
        await desk.send_back(first.id, by="ana", reason="Say for which year.")
        returned = (await desk.get(second.id)).outcome
        assert isinstance(returned, Returned)
        assert (returned.by, returned.reason) == ("ana", "Say for which year.")

    async def test_if_the_first_is_withdrawn_the_next_is_asked(self, desk: Desk) -> None:
        first, second, third = [await _rate(desk) for _ in range(3)]
        await desk.withdraw(first.id)
        second, third = await desk.get(second.id), await desk.get(third.id)
        assert (second.follows, third.follows) == (None, second.id)
        assert await _inbox(desk) == [second.id]
        assert [event.kind for event in await desk.history(second.id)] == ["asked", "opened"]
        assert [event.kind for event in await desk.history(third.id)] == ["asked"]
        assert (await _rate(desk)).follows == second.id
        await desk.answer(second.id, "7", by="ana")
        assert (await desk.get(third.id)).status == "answered"

    async def test_if_the_first_expires_the_next_is_asked(self, desk: Desk, clock: ManualClock) -> None:
        first = await _rate(desk, expires_in=60)
        second = await _rate(desk, expires_in=600)
        clock.advance(timedelta(minutes=2))
        await desk.run_due()
        assert (await desk.get(first.id)).status == "expired"
        assert (await desk.get(second.id)).follows is None
        assert await _inbox(desk) == [second.id]

    async def test_each_keeps_its_own_expiry(self, desk: Desk, clock: ManualClock) -> None:
        first = await _rate(desk, expires_in=600)
        second = await _rate(desk, expires_in=60)
        clock.advance(timedelta(minutes=2))
        assert isinstance((await desk.get(second.id)).outcome, Expired)
        await desk.answer(first.id, "19", by="ana")
        assert isinstance((await desk.get(second.id)).outcome, Expired)

    async def test_nobody_is_reminded_of_one_that_follows(self, desk: Desk, clock: ManualClock) -> None:
        later = Timeline(remind=(timedelta(minutes=1),), expire=timedelta(hours=1))
        first, second = [await _rate(desk, timeline=later) for _ in range(2)]
        clock.advance(timedelta(minutes=2))
        await desk.run_due()
        assert [event.kind for event in await desk.history(first.id)] == ["asked", "reminded"]
        assert [event.kind for event in await desk.history(second.id)] == ["asked"]
        assert (await desk.get(second.id)).due_at == second.asked_at + timedelta(hours=1)

    async def test_one_that_follows_can_be_withdrawn(self, desk: Desk) -> None:
        first, second = await _rate(desk), await _rate(desk)
        await desk.withdraw(second.id)
        await desk.answer(first.id, "19", by="ana")
        assert (await desk.get(second.id)).status == "withdrawn"

    async def test_one_that_follows_is_not_shown_to_who_is_brought_in(self, desk: Desk) -> None:
        first, second = (
            await _rate(desk, recipients=["ana", "ben"]),
            await _rate(desk, recipients=["ana", "ben"]),
        )
        await desk.bring_in(second.id, ["cleo"], by="ben")
        assert [await _inbox(desk, person) for person in ("ana", "cleo")] == [[first.id], []]
        await desk.withdraw(first.id)
        assert [await _inbox(desk, person) for person in ("ana", "cleo")] == [[second.id], [second.id]]

    async def test_one_that_is_withdrawn_with_its_successor_is_followed_by_it(self, desk: Desk) -> None:
        first, second = await _rate(desk), await _rate(desk)
        new = await _rate(desk, replaces=first.id)
        assert (await desk.get(first.id)).status == "withdrawn"
        questions = [await desk.get(each.id) for each in (second, new)]
        leaders = [each.id for each in questions if each.follows is None]
        assert len(leaders) == 1
        assert await _inbox(desk) == leaders
        assert {each.follows for each in questions} == {None, leaders[0]}

    async def test_the_same_key_is_the_same_question(self, desk: Desk) -> None:
        await _rate(desk)
        second = await _rate(desk, key="k")
        assert (await _rate(desk, key="k")) == second
        with pytest.raises(KeyConflict):
            await _rate(desk, key="k", topic="another")

    async def test_who_follows_is_listed(self, desk: Desk) -> None:
        first, second, third = [await _rate(desk) for _ in range(3)]
        assert [each.id for each in await desk.list_followers(first.id)] == [second.id, third.id]
        assert [each.id for each in await desk.list_followers(first.id, limit=1)] == [second.id]
        assert list(await desk.list_followers(second.id)) == []

    async def test_of_many_at_once_one_is_asked(self, backend: Backend, workspace: str) -> None:
        async with (
            backend.open(workspace=workspace, asker="one") as one,
            backend.open(workspace=workspace, asker="two") as two,
        ):
            posted = await asyncio.gather(*(_rate(desk) for _ in range(8) for desk in (one, two)))
            leaders = [each.id for each in posted if each.follows is None]
            assert len(leaders) == 1
            assert {each.follows for each in posted} == {None, leaders[0]}
            assert await _inbox(one) == leaders
            desk = one if posted[0].asker == "one" else two
            await desk.answer(leaders[0], "19", by="ana")
            for each in posted:
                assert (await (one if each.asker == "one" else two).get(each.id)).status == "answered"
