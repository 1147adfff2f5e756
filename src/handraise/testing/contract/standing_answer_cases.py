"""Standing answers: an answer that is kept for its topic answers the next question at once."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from handraise import Answered, Approval, Desk, Field, Form, Question, Responder
from handraise.errors import CannotKeep, NotFound, PermissionDenied, QuestionNotFound, Stopped
from handraise.forms import Open
from handraise.model.events import EventKind
from handraise.questions import StandingAnswer
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON, Backend, ContractFixtures
from handraise.testing.promises import promise

_TOPIC = "vat-rate:DE"
_DAY = timedelta(days=1)


async def _rate(desk: Desk, **options: Any) -> Question:
    options = {"choices": ["7", "19"], "recipients": ["ana"], "topic": _TOPIC, **options}
    return await desk.post("Which rate?", **options)


async def _keep(
    desk: Desk, clock: ManualClock, *, lasts: timedelta = _DAY, spot_check: float = 0.0, **options: Any
) -> tuple[Question, StandingAnswer]:
    """A question that ana answers with 19, and the answer that she keeps."""
    question = await _rate(desk, **options)
    await desk.answer(question.id, "19", by="ana")
    until = clock.now() + lasts
    return question, await desk.keep_answer(question.id, until=until, by="ana", spot_check=spot_check)


def _source(question: Question) -> str | None:
    return question.outcome.source if isinstance(question.outcome, Answered) else None


class StandingAnswerCases(ContractFixtures):
    """An answer that a person keeps for its topic answers the next equal question, until it ends."""

    async def test_the_next_equal_question_is_answered_at_once(self, desk: Desk, clock: ManualClock) -> None:
        first, kept = await _keep(desk, clock)
        assert (kept.topic, kept.value, kept.given_by) == (_TOPIC, "19", "ana")
        assert (kept.question_id, kept.expires_at) == (first.id, clock.now() + _DAY)
        second = await _rate(desk)
        assert isinstance(second.outcome, Answered)
        assert (second.outcome.value, second.outcome.by, second.outcome.source) == ("19", "ana", "standing")
        assert await desk.get(second.id) == second
        assert list(await desk.list_pending(recipient="ana")) == []
        assert await desk.wait(second.id, timeout=SOON) == second.outcome

    async def test_histories_say_where_the_answer_came_from(self, desk: Desk, clock: ManualClock) -> None:
        first, kept = await _keep(desk, clock, spot_check=0.0)
        second = await _rate(desk)
        asked, answered = await desk.history(second.id)
        assert (asked.kind, answered.kind, answered.by) == (EventKind.ASKED, EventKind.ANSWERED, "ana")
        assert (answered.data["standing"], answered.data["question"]) == (kept.id, first.id)
        noted = (await desk.history(first.id))[-1]
        assert (noted.kind, noted.by) == (EventKind.KEPT, "ana")
        assert noted.data == {"standing": kept.id, "until": kept.expires_at.isoformat(), "spot_check": 0.0}

    @pytest.mark.parametrize(
        "options",
        [
            pytest.param({"topic": "vat-rate:FR"}, id="another topic"),
            pytest.param({"topic": None}, id="no topic"),
            pytest.param({"choices": ["7", "19", "20"]}, id="other choices"),
            pytest.param({"recipients": ["bob"]}, id="other people"),
            pytest.param({"recipients": []}, id="everybody"),
        ],
    )
    async def test_what_differs_is_asked(
        self, desk: Desk, clock: ManualClock, options: dict[str, Any]
    ) -> None:
        await _keep(desk, clock)
        assert (await _rate(desk, **options)).outcome is None

    async def test_another_prompt_is_asked(self, desk: Desk, clock: ManualClock) -> None:
        await _keep(desk, clock)
        other = await desk.post("Pay?", choices=["7", "19"], recipients=["ana"], topic=_TOPIC)
        assert other.outcome is None

    async def test_of_answers_that_are_kept_at_once_one_stands(self, desk: Desk, clock: ManualClock) -> None:
        asked = []
        for _ in range(6):
            asked.append(await _rate(desk))
            await desk.answer(asked[-1].id, "19", by="ana")
        until = clock.now() + _DAY
        await asyncio.gather(*(desk.keep_answer(each.id, until=until, by="ana") for each in asked))
        kept = await desk.list_standing_answers()
        assert len([each for each in kept if each.revoked_at is None]) == 1

    async def test_an_answer_that_is_kept_ends_none_of_another_workspace(
        self, backend: Backend, desk: Desk, clock: ManualClock
    ) -> None:
        await _keep(desk, clock)
        async with backend.open(clock=clock, workspace=f"{desk.workspace}-other") as other:
            await _keep(other, clock)
        assert _source(await _rate(desk)) == "standing"

    async def test_another_workspace_is_asked(self, backend: Backend, desk: Desk, clock: ManualClock) -> None:
        await _keep(desk, clock)
        async with backend.open(clock=clock, workspace=f"{desk.workspace}-other") as other:
            assert (await _rate(other)).outcome is None
            assert list(await other.list_standing_answers()) == []

    async def test_another_asker_gets_it_too(self, backend: Backend, desk: Desk, clock: ManualClock) -> None:
        await _keep(desk, clock)
        async with backend.open(clock=clock, workspace=desk.workspace, asker="other") as other:
            assert _source(await _rate(other)) == "standing"

    async def test_an_asker_is_not_answered_by_its_own_name(
        self, backend: Backend, desk: Desk, clock: ManualClock
    ) -> None:
        people = ["ana", "bob"]
        await _keep(desk, clock, recipients=people)
        assert _source(await _rate(desk, recipients=people)) == "standing"
        async with backend.open(clock=clock, workspace=desk.workspace, asker="ana") as other:
            assert (await _rate(other, recipients=people)).outcome is None

    async def test_it_ends_at_its_time(self, desk: Desk, clock: ManualClock) -> None:
        await _keep(desk, clock, lasts=_DAY)
        clock.advance(_DAY - timedelta(seconds=1))
        assert _source(await _rate(desk)) == "standing"
        clock.advance(timedelta(seconds=1))
        assert (await _rate(desk)).outcome is None

    async def test_it_can_be_revoked(self, desk: Desk, clock: ManualClock) -> None:
        first, kept = await _keep(desk, clock)
        clock.advance(timedelta(minutes=1))
        ended = await desk.revoke_standing_answer(kept.id, by="ana")
        assert (ended.revoked_at, ended.revoked_by) == (clock.now(), "ana")
        assert await desk.revoke_standing_answer(kept.id, by="ana") == ended
        assert (await _rate(desk)).outcome is None
        told = [event for event in await desk.history(first.id) if event.kind is EventKind.REVOKED]
        assert [(event.by, event.data) for event in told] == [("ana", {"standing": kept.id})]

    async def test_what_is_not_there_cannot_be_revoked(self, desk: Desk) -> None:
        for unknown in ("nothing", "\x00"):
            with pytest.raises(NotFound):
                await desk.revoke_standing_answer(unknown, by="ana")

    async def test_they_are_listed_with_those_that_ended(self, desk: Desk, clock: ManualClock) -> None:
        _, one = await _keep(desk, clock)
        _, two = await _keep(desk, clock, topic="vat-rate:FR")
        ended = await desk.revoke_standing_answer(one.id, by="ana")
        assert list(await desk.list_standing_answers()) == [ended, two]
        page = await desk.list_standing_answers(limit=1)
        assert (list(page), page.next) == ([ended], one.id)
        assert list(await desk.list_standing_answers(after=page.next)) == [two]

    async def test_a_later_answer_takes_its_place(self, desk: Desk, clock: ManualClock) -> None:
        _, old = await _keep(desk, clock, spot_check=1.0)
        question = await _rate(desk)
        await desk.answer(question.id, "19", by="ana")
        new = await desk.keep_answer(question.id, until=clock.now() + _DAY, by="ana", spot_check=0.0)
        before, after = await desk.list_standing_answers()
        assert (before.id, before.revoked_by, after) == (old.id, "ana", new)
        assert (await desk.history((await _rate(desk)).id))[-1].data["standing"] == new.id

    async def test_all_questions_are_spot_checks(self, desk: Desk, clock: ManualClock) -> None:
        _, kept = await _keep(desk, clock, spot_check=1.0)
        check = await _rate(desk)
        assert (check.outcome, check.ruling and check.ruling.standing) == (None, kept.id)
        await desk.answer(check.id, "19", by="ana")
        (found,) = await desk.list_standing_answers()
        assert found == kept

    @pytest.mark.parametrize("verb", ["answer", "decline", "send_back"])
    async def test_a_spot_check_that_ends_otherwise_ends_it(
        self, desk: Desk, clock: ManualClock, verb: str
    ) -> None:
        first, kept = await _keep(desk, clock, spot_check=1.0)
        check = await _rate(desk)
        if verb == "answer":
            await desk.answer(check.id, "7", by="ana")
        elif verb == "decline":
            await desk.decline(check.id, by="ana")
        else:
            await desk.send_back(check.id, by="ana", reason="For which year?")
        (found,) = await desk.list_standing_answers()
        assert (found.revoked_by, found.contradicted_in) == ("ana", check.id)
        told = (await desk.history(first.id))[-1]
        assert (told.kind, told.by) == (EventKind.REVOKED, "ana")
        assert told.data == {"standing": kept.id, "question": check.id}

    async def test_a_spot_check_that_nobody_answers_changes_nothing(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        _, kept = await _keep(desk, clock, spot_check=1.0)
        check = await _rate(desk)
        await desk.withdraw(check.id)
        assert list(await desk.list_standing_answers()) == [kept]

    async def test_only_who_answered_can_keep_it(self, desk: Desk, clock: ManualClock) -> None:
        question = await _rate(desk, recipients=["ana", "bob"])
        await desk.answer(question.id, "19", by="ana")
        with pytest.raises(CannotKeep, match="only the person who gave the answer"):
            await desk.keep_answer(question.id, until=clock.now() + _DAY, by="bob")
        with pytest.raises((CannotKeep, PermissionDenied, QuestionNotFound)):
            await desk.keep_answer(question.id, until=clock.now() + _DAY, by="eve")
        assert list(await desk.list_standing_answers()) == []

    async def test_what_nobody_answered_cannot_be_kept(self, desk: Desk, clock: ManualClock) -> None:
        question = await _rate(desk)
        with pytest.raises(CannotKeep, match="only an answer that a person gave"):
            await desk.keep_answer(question.id, until=clock.now() + _DAY, by="ana")
        await desk.decline(question.id, by="ana")
        with pytest.raises(CannotKeep, match="only an answer that a person gave"):
            await desk.keep_answer(question.id, until=clock.now() + _DAY, by="ana")

    async def test_a_standing_answer_is_not_kept_again(self, desk: Desk, clock: ManualClock) -> None:
        await _keep(desk, clock)
        answered = await _rate(desk)
        with pytest.raises(CannotKeep, match="only an answer that a person gave"):
            await desk.keep_answer(answered.id, until=clock.now() + 2 * _DAY, by="ana")

    async def test_without_a_topic_nothing_is_kept(self, desk: Desk, clock: ManualClock) -> None:
        question = await _rate(desk, topic=None)
        await desk.answer(question.id, "19", by="ana")
        with pytest.raises(CannotKeep, match="it has no topic"):
            await desk.keep_answer(question.id, until=clock.now() + _DAY, by="ana")

    async def test_an_approval_cannot_be_kept(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", {}), recipients=["ana"])
        await desk.answer(question.id, "approve", by="ana")
        with pytest.raises(CannotKeep, match="it has no topic"):
            await desk.keep_answer(question.id, until=clock.now() + _DAY, by="ana")

    async def test_several_who_must_agree_are_asked_each_time(self, desk: Desk, clock: ManualClock) -> None:
        question = await _rate(desk, recipients=["ana", "bob"], quorum=2)
        for person in ("bob", "ana"):
            await desk.answer(question.id, "19", by=person)
        with pytest.raises(CannotKeep, match="more than one person's word"):
            await desk.keep_answer(question.id, until=clock.now() + _DAY, by="ana")

    @pytest.mark.parametrize(
        ("lasts", "why"),
        [
            pytest.param(timedelta(0), "this time is past", id="now"),
            pytest.param(-_DAY, "this time is past", id="before"),
            pytest.param(367 * _DAY, "at most 366 days", id="too long"),
        ],
    )
    async def test_its_end_must_make_sense(
        self, desk: Desk, clock: ManualClock, lasts: timedelta, why: str
    ) -> None:
        with pytest.raises(CannotKeep, match=why):
            await _keep(desk, clock, lasts=lasts)
        assert list(await desk.list_standing_answers()) == []

    async def test_its_end_needs_a_time_zone(self, desk: Desk) -> None:
        question = await _rate(desk)
        await desk.answer(question.id, "19", by="ana")
        with pytest.raises(CannotKeep, match="a time zone"):
            await desk.keep_answer(question.id, until=datetime(2050, 1, 1), by="ana")  # noqa: DTZ001

    async def test_one_who_was_brought_in_cannot_keep_it(self, desk: Desk, clock: ManualClock) -> None:
        question = await _rate(desk)
        await desk.bring_in(question.id, ["bob"], by="ana")
        await desk.answer(question.id, "19", by="bob")
        with pytest.raises(CannotKeep, match="among the first who were asked"):
            await desk.keep_answer(question.id, until=clock.now() + _DAY, by="bob")

    async def test_a_member_of_a_group_can_keep_it(self, desk: Desk, clock: ManualClock) -> None:
        ana = Responder("ana", groups=frozenset({"tax"}))
        question = await _rate(desk, recipients=["group:tax"])
        await desk.answer(question.id, "19", by=ana)
        await desk.keep_answer(question.id, until=clock.now() + _DAY, by=ana, spot_check=0.0)
        assert _source(await _rate(desk, recipients=["group:tax"])) == "standing"

    async def test_values_of_forms_are_kept(self, desk: Desk, clock: ManualClock) -> None:
        form = Form(
            fields=(
                Field(name="rate", form=Open(type="number")),
                Field(name="note", form=Open(), required=False),
            )
        )
        options: dict[str, Any] = {"form": form, "recipients": ["ana"], "topic": _TOPIC}
        question = await desk.post("Which rate?", **options)
        await desk.answer(question.id, {"rate": 7.5, "note": "ä"}, by="ana")
        kept = await desk.keep_answer(question.id, until=clock.now() + _DAY, by="ana", spot_check=0.0)
        again = await desk.post("Which rate?", **options)
        assert isinstance(again.outcome, Answered)
        assert again.outcome.value == kept.value

    async def test_a_key_finds_the_question_that_was_answered(self, desk: Desk, clock: ManualClock) -> None:
        _, kept = await _keep(desk, clock)
        question = await _rate(desk, key="once")
        await desk.revoke_standing_answer(kept.id, by="ana")
        assert await _rate(desk, key="once") == question

    async def test_it_answers_nothing_that_is_stopped(
        self, backend: Backend, desk: Desk, clock: ManualClock
    ) -> None:
        await _keep(desk, clock)
        stop = await backend.stop(desk.workspace)
        with pytest.raises(Stopped):
            await _rate(desk)
        await backend.resume(desk.workspace, stop)
        assert _source(await _rate(desk)) == "standing"

    @promise("P14")
    async def test_a_policy_that_denies_comes_first(
        self, backend: Backend, desk: Desk, clock: ManualClock
    ) -> None:
        await _keep(desk, clock)
        rule = {"name": "no", "when": f'topic == "{_TOPIC}"', "then": {"deny": {"reason": "Not now."}}}
        await backend.set_policy(desk.workspace, {"rules": [rule]})
        denied = await _rate(desk)
        assert str(denied.outcome) == "declined by policy:no: Not now."

    @promise("P14")
    async def test_a_policy_that_needs_others_asks_them(
        self, backend: Backend, desk: Desk, clock: ManualClock
    ) -> None:
        await _keep(desk, clock)
        rule = {"name": "tax", "when": "true", "then": {"require": {"people": ["bob"]}}}
        await backend.set_policy(desk.workspace, {"rules": [rule]})
        assert (await _rate(desk)).outcome is None

    async def test_the_outcome_says_so(self, desk: Desk, clock: ManualClock) -> None:
        await _keep(desk, clock)
        assert str((await _rate(desk)).outcome) == "answered '19' by a standing answer of ana"
