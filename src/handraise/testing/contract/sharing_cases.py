"""Sharing the work: take, bring in, hand over, set aside."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from handraise import AlreadySettled, Approval, Desk, Escalation, PermissionDenied, Timeline
from handraise.errors import AlreadyTaken, CannotShare
from handraise.model.people import Responder
from handraise.model.provenance import Provenance
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, Backend, ContractFixtures
from handraise.testing.promises import promise

_REFUND = Approval.of("refund", {"amount": 300})
_OPS = Responder("cy", frozenset({"ops"}))
_VERBS: dict[str, Any] = {
    "take": lambda desk, question, by: desk.take(question, by=by),
    "release": lambda desk, question, by: desk.release(question, by=by),
    "bring_in": lambda desk, question, by: desk.bring_in(question, ["bo"], by=by),
    "hand_over": lambda desk, question, by: desk.hand_over(question, ["bo"], by=by),
    "set_aside": lambda desk, question, by: desk.set_aside(question, by=by),
    "put_back": lambda desk, question, by: desk.put_back(question, by=by),
}


async def _inbox(desk: Desk, person: str | Responder, **options: Any) -> list[str]:
    """What a person has in their inbox, by age and by urgency."""
    by_age = await desk.list_pending(recipient=person, **options)
    by_urgency = await desk.list_pending(recipient=person, order="urgency", **options)
    found = [each.id for each in by_age]
    assert sorted(each.id for each in by_urgency) == found
    return found


class SharingCases(ContractFixtures):
    """Who may answer may also share; the question stays pending, with one event."""

    @pytest.mark.parametrize("verb", _VERBS)
    async def test_only_people_who_may_answer_share(self, desk: Desk, verb: str) -> None:
        question = await desk.post("Refund the order?", form=_REFUND, recipients=["ana", "group:ops"])
        for stranger in ("agent", "bo", Responder("bo", frozenset({"sales"}))):
            with pytest.raises((PermissionDenied, REFUSED)):
                await _VERBS[verb](desk, question.id, stranger)
        assert len(await desk.history(question.id)) == 1

    @promise("P6")
    @pytest.mark.parametrize("verb", _VERBS)
    async def test_nothing_is_shared_once_it_has_ended(self, desk: Desk, verb: str) -> None:
        question = await desk.post("Refund the order?", form=_REFUND, recipients=["ana", "bo"])
        await desk.decline(question.id, by="ana")
        with pytest.raises(AlreadySettled):
            await _VERBS[verb](desk, question.id, "bo")
        assert len(await desk.history(question.id)) == 2


class TakingCases(ContractFixtures):
    """Somebody says that they are working on the answer."""

    async def test_a_person_takes_a_question(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which one?", recipients=["ana", "bo"])
        taken = await desk.take(question.id, by="ana", provenance=Provenance(channel="inbox"))
        assert (taken.status, taken.taken_by) == ("pending", "ana")
        assert taken.taken_until == taken.asked_at + timedelta(minutes=10)
        assert taken.taker(taken.asked_at) == "ana"
        assert await desk.get(question.id) == taken
        last = (await desk.history(question.id))[-1]
        assert (last.kind, last.by, last.channel) == ("taken", "ana", "inbox")
        clock.advance(timedelta(minutes=4))
        again = await desk.take(question.id, by="ana")
        assert again.taken_until == question.asked_at + timedelta(minutes=14)

    async def test_another_person_may_answer_but_not_take_it(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana", "bo"])
        taken = await desk.take(question.id, by="ana")
        with pytest.raises(AlreadyTaken, match="ana is working on") as refused:
            await desk.take(question.id, by="bo")
        assert (refused.value.question_id, refused.value.taken_by, refused.value.until) == (
            question.id,
            "ana",
            taken.taken_until,
        )
        assert (await desk.answer(question.id, "this", by="bo")).status == "answered"

    async def test_after_ten_minutes_it_is_free(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which one?", recipients=["ana", "bo"])
        await desk.take(question.id, by="ana")
        clock.advance(timedelta(minutes=10, seconds=1))
        assert (await desk.take(question.id, by="bo")).taken_by == "bo"

    async def test_a_person_releases_it(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana", "bo"])
        await desk.take(question.id, by="ana")
        assert (await desk.release(question.id, by="bo")).taken_by == "ana"
        released = await desk.release(question.id, by="ana")
        assert (released.taken_by, released.taken_until) == (None, None)
        assert await desk.release(question.id, by="ana") == released
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "taken", "released"]
        assert (await desk.take(question.id, by="bo")).taken_by == "bo"

    async def test_of_many_at_once_one_takes_it(self, desk: Desk) -> None:
        question = await desk.post("Which one?")
        people = [f"p{n}" for n in range(6)]
        results = await asyncio.gather(
            *(desk.take(question.id, by=person) for person in people), return_exceptions=True
        )
        assert sum(isinstance(each, AlreadyTaken) for each in results) == 5
        assert len(await desk.history(question.id)) == 2


class BringingInCases(ContractFixtures):
    """Others are asked too."""

    async def test_others_are_brought_in(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana"])
        assert await _inbox(desk, "bo") == []
        shared = await desk.bring_in(question.id, ["bo", "group:ops", "bo"], by="ana", reason="You know it.")
        assert (shared.status, shared.recipients, shared.added) == ("pending", ("ana",), ("bo", "group:ops"))
        assert shared.audience == ("ana", "bo", "group:ops")
        assert await desk.get(question.id) == shared
        last = (await desk.history(question.id))[-1]
        assert (last.kind, last.by) == ("brought_in", "ana")
        assert (last.data["to"], last.data["reason"]) == (["bo", "group:ops"], "You know it.")
        for person in ("ana", "bo", _OPS):
            assert await _inbox(desk, person) == [question.id]
        assert (await desk.answer(question.id, "this", by="bo")).status == "answered"
        for person in ("ana", "bo", _OPS):
            assert await _inbox(desk, person) == []
        assert [each.id for each in await desk.list_settled(recipient=_OPS)] == [question.id]

    async def test_who_was_brought_in_brings_in_others(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana"])
        await desk.bring_in(question.id, ["bo"], by="ana")
        shared = await desk.bring_in(question.id, ["di", "bo"], by="bo")
        assert shared.added == ("bo", "di")

    @promise("P6")
    async def test_what_was_asked_stays(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana"], key="k")
        await desk.bring_in(question.id, ["bo"], by="ana")
        assert (await desk.post("Which one?", recipients=["ana"], key="k")).id == question.id

    async def test_anyone_can_still_answer_what_is_for_anyone(self, desk: Desk) -> None:
        question = await desk.post("Which one?")
        shared = await desk.bring_in(question.id, ["bo"], by="ana")
        assert (shared.added, shared.audience) == (("bo",), ())
        assert await _inbox(desk, "di") == [question.id]
        assert await _inbox(desk, "bo") == [question.id]

    @pytest.mark.parametrize(
        ("people", "why"),
        [
            ([], "name at least one"),
            (["agent"], "the asker cannot answer"),
            ([""], "is empty"),
            (["*"], "anyone"),
            (["Group: ops"], "group:ops"),
            ([f"p{n}" for n in range(101)], "at most 100"),
        ],
    )
    async def test_wrong_names_are_refused(self, desk: Desk, people: list[str], why: str) -> None:
        question = await desk.post("Which one?", recipients=["ana"])
        with pytest.raises(CannotShare, match=why):
            await desk.bring_in(question.id, people, by="ana")
        with pytest.raises(CannotShare, match=why):
            await desk.hand_over(question.id, people, by="ana")
        assert (await desk.get(question.id)).added == ()

    async def test_votes_of_those_who_were_brought_in_count(self, desk: Desk) -> None:
        question = await desk.post("Refund?", form=_REFUND, recipients=["ana", "bo"], quorum=2)
        await desk.answer(question.id, "approve", by="ana")
        await desk.bring_in(question.id, ["di"], by="bo")
        assert (await desk.answer(question.id, "approve", by="di")).decision

    async def test_a_later_escalation_adds_nobody_twice(self, desk: Desk, clock: ManualClock) -> None:
        later = Timeline(escalate=(Escalation(after=timedelta(hours=1), to=("bo", "di")),))
        question = await desk.post("Which one?", recipients=["ana"], timeline=later)
        await desk.bring_in(question.id, ["bo"], by="ana")
        assert await _inbox(desk, "bo") == [question.id]
        assert await _inbox(desk, "di") == []
        clock.advance(timedelta(hours=2))
        await desk.run_due()
        assert await _inbox(desk, "di") == [question.id]
        assert (await desk.get(question.id)).audience == ("ana", "bo", "di")

    async def test_who_is_brought_in_has_it_again(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana", "bo", "cy"])
        await desk.set_aside(question.id, by="bo")
        await desk.set_aside(question.id, by="cy", until=question.asked_at + timedelta(hours=2))
        brought = await desk.bring_in(question.id, ["bo", "cy"], by="ana")
        assert brought.aside == ()
        assert await desk.get(question.id) == brought
        for person in ("ana", "bo", "cy"):
            assert await _inbox(desk, person) == [question.id]
            assert await _inbox(desk, person, aside=True) == []

    async def test_it_stays_last_while_it_is_the_askers_turn(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana"], replies="program")
        await desk.ask_back(question.id, "Of what?", by="ana")
        other = await desk.post("And this?", recipients=["bo"])
        await desk.bring_in(question.id, ["bo"], by="ana")
        order = await desk.list_pending(recipient="bo", order="urgency")
        assert [each.id for each in order] == [other.id, question.id]


class RuledSharingCases(ContractFixtures):
    """What a policy requires of certain people cannot be handed away."""

    async def test_a_policy_names_who_answers(self, desk: Desk, backend: Backend, workspace: str) -> None:
        people = {"require": {"people": ["ana"]}}
        await backend.set_policy(workspace, {"rules": [{"name": "finance", "when": "true", "then": people}]})
        question = await desk.post("Refund?", form=_REFUND)
        for share in (desk.bring_in, desk.hand_over):
            with pytest.raises(CannotShare, match="the policy says who answers"):
                await share(question.id, ["bo"], by="ana")
        with pytest.raises(PermissionDenied):
            await desk.answer(question.id, "approve", by="bo")

    async def test_what_a_policy_needs_cannot_be_handed_away(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        also = {"require": {"also": ["ana"]}}
        await backend.set_policy(workspace, {"rules": [{"name": "finance", "when": "true", "then": also}]})
        question = await desk.post("Refund?", form=_REFUND, recipients=["cy"])
        with pytest.raises(CannotShare, match="bring others in, but stay"):
            await desk.hand_over(question.id, ["bo"], by="ana")
        await desk.bring_in(question.id, ["bo"], by="ana")
        await desk.answer(question.id, "approve", by="bo")
        assert (await desk.answer(question.id, "approve", by="cy")).status == "pending"
        assert (await desk.answer(question.id, "approve", by="ana")).decision


class HandingOverCases(ContractFixtures):
    """Others are asked, and the person who hands over has it no longer in their inbox."""

    async def test_a_question_is_handed_over(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana", "cy"])
        await desk.take(question.id, by="ana")
        handed = await desk.hand_over(question.id, ["bo"], by="ana", reason="I am on leave.")
        assert (handed.added, handed.taken_by) == (("bo",), None)
        assert [(each.person, each.until) for each in handed.aside] == [("ana", None)]
        assert await desk.get(question.id) == handed
        assert await _inbox(desk, "ana") == []
        assert await _inbox(desk, "ana", aside=True) == [question.id]
        assert await _inbox(desk, "bo") == await _inbox(desk, "cy") == [question.id]
        last = (await desk.history(question.id))[-1]
        assert (last.kind, last.data["to"], last.data["reason"]) == ("handed_over", ["bo"], "I am on leave.")

    async def test_what_somebody_else_took_stays_taken(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana", "cy"])
        await desk.take(question.id, by="cy")
        assert (await desk.hand_over(question.id, ["bo"], by="ana")).taken_by == "cy"

    async def test_it_can_come_back(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana"])
        await desk.hand_over(question.id, ["bo"], by="ana")
        back = await desk.hand_over(question.id, ["ana"], by="bo")
        assert [(each.person, each.until) for each in back.aside] == [("bo", None)]
        assert await desk.get(question.id) == back
        assert await _inbox(desk, "ana") == [question.id]
        assert await _inbox(desk, "bo") == await _inbox(desk, "ana", aside=True) == []

    async def test_nobody_hands_over_to_themselves(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana"])
        with pytest.raises(CannotShare, match="you cannot hand it over to yourself"):
            await desk.hand_over(question.id, ["bo", "ana"], by="ana")
        assert await _inbox(desk, "ana") == [question.id]


class AsideCases(ContractFixtures):
    """A person does not want a question in their inbox, for good or until a time."""

    async def test_a_question_is_not_for_one_of_several(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana", "group:ops"])
        aside = await desk.set_aside(question.id, by=_OPS)
        assert [(each.person, each.until) for each in aside.aside] == [("cy", None)]
        assert aside.is_aside("cy", aside.asked_at)
        assert not aside.is_aside("ana", aside.asked_at)
        assert await desk.get(question.id) == aside
        assert await _inbox(desk, _OPS) == []
        assert await _inbox(desk, Responder("di", frozenset({"ops"}))) == [question.id]
        assert await _inbox(desk, "ana") == [question.id]
        assert await _inbox(desk, _OPS, aside=True) == [question.id]
        assert await _inbox(desk, "ana", aside=True) == []
        assert (await desk.history(question.id))[-1].kind == "set_aside"
        assert (await desk.answer(question.id, "this", by=_OPS)).status == "answered"

    async def test_a_question_is_snoozed(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which one?", recipients=["ana"], conversation="c")
        until = question.asked_at + timedelta(hours=2)
        aside = await desk.set_aside(question.id, by="ana", until=until)
        assert [(each.person, each.until) for each in aside.aside] == [("ana", until)]
        assert (await desk.history(question.id))[-1].data["until"] == until.isoformat()
        assert await _inbox(desk, "ana") == await _inbox(desk, "ana", conversation="c") == []
        assert await _inbox(desk, "ana", aside=True) == [question.id]
        clock.advance(timedelta(hours=2, seconds=1))
        assert await _inbox(desk, "ana") == await _inbox(desk, "ana", conversation="c") == [question.id]
        assert await _inbox(desk, "ana", aside=True) == []

    async def test_it_is_put_back(self, desk: Desk) -> None:
        question = await desk.post("Which one?")
        assert await desk.put_back(question.id, by="ana") == question
        await desk.set_aside(question.id, by="ana")
        await desk.set_aside(question.id, by="bo")
        back = await desk.put_back(question.id, by="ana")
        assert [each.person for each in back.aside] == ["bo"]
        assert await _inbox(desk, "ana") == [question.id]
        kinds = [event.kind for event in await desk.history(question.id)]
        assert kinds == ["asked", "set_aside", "set_aside", "put_back"]

    async def test_names_with_signs_are_names(self, desk: Desk) -> None:
        question = await desk.post("Which one?")
        for person in ("$.ana", 'a"b', "a.b", "[0]", "é ü"):
            await desk.set_aside(question.id, by=person)
            assert await _inbox(desk, person) == []
        assert await _inbox(desk, "ana") == [question.id]

    async def test_the_only_one_cannot_set_it_aside_for_good(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana"])
        with pytest.raises(CannotShare, match="nobody else has this in their inbox"):
            await desk.set_aside(question.id, by="ana")
        assert await _inbox(desk, "ana") == [question.id]

    async def test_the_last_one_cannot_set_it_aside_for_good(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which one?", recipients=["ana", "bo"])
        await desk.set_aside(question.id, by="ana")
        with pytest.raises(CannotShare, match="nobody else has this in their inbox"):
            await desk.set_aside(question.id, by="bo")
        assert await _inbox(desk, "bo") == [question.id]
        await desk.set_aside(question.id, by="bo", until=clock.now() + timedelta(hours=1))
        await desk.put_back(question.id, by="ana")
        await desk.set_aside(question.id, by="bo")
        assert await _inbox(desk, "ana") == [question.id]

    async def test_of_all_who_set_it_aside_at_once_one_keeps_it(self, desk: Desk) -> None:
        people = ["ana", "bo", "cy"]
        question = await desk.post("Which one?", recipients=people)
        done = await asyncio.gather(
            *(desk.set_aside(question.id, by=person) for person in people), return_exceptions=True
        )
        assert any(isinstance(each, CannotShare) for each in done)
        assert any([await _inbox(desk, person) == [question.id] for person in people])

    async def test_others_do_not_notice(self, desk: Desk) -> None:
        question = await desk.post("Refund?", form=_REFUND, recipients=["ana", "bo"], quorum=2)
        await desk.answer(question.id, "approve", by="ana")
        await desk.set_aside(question.id, by="ana")
        assert (await desk.answer(question.id, "approve", by="bo")).decision

    async def test_who_was_brought_in_later_has_it(self, desk: Desk) -> None:
        question = await desk.post("Which one?", recipients=["ana", "cy"])
        await desk.set_aside(question.id, by="ana")
        await desk.bring_in(question.id, ["bo", "group:ops"], by="cy")
        assert await _inbox(desk, Responder("ana", frozenset({"ops"}))) == []
        assert await _inbox(desk, "bo") == [question.id]
