"""Several answers together: each is decided by itself, and none of high risk."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from handraise import (
    AlreadySettled,
    Answered,
    Approval,
    Declined,
    Desk,
    InvalidAnswer,
    PermissionDenied,
    Provenance,
    Question,
    QuestionNotFound,
)
from handraise.errors import NotInBulk, Stopped, ThreadMoved
from handraise.questions import BulkAnswer, BulkDecline, BulkItem
from handraise.testing.contract.backend import Backend, ContractFixtures
from handraise.testing.promises import promise


async def refunds(desk: Desk, count: int, **options: Any) -> list[Question]:
    """Pending approvals of refunds: 1, 2, 3 and so on."""
    return [
        await desk.post("Refund?", form=Approval.of("refund", {"amount": amount}), **options)
        for amount in range(1, count + 1)
    ]


class BulkCases(ContractFixtures):
    """`answer_all` does for each what `answer` and `decline` do, and says what came of each."""

    @promise("P2", "P7")
    async def test_several_are_answered_and_each_keeps_what_its_giver_saw(self, desk: Desk) -> None:
        first, second = await refunds(desk, 2)
        digests = {first.id: "a" * 64, second.id: "b" * 64}
        results = await desk.answer_all(
            [
                BulkAnswer(each, "approve", Provenance(channel="api", shown_digest=digest, seen=0))
                for each, digest in digests.items()
            ],
            by="ana",
        )
        assert [(each.question_id, bool(each), each.error) for each in results] == [
            (first.id, True, None),
            (second.id, True, None),
        ]
        for result in results:
            stored = await desk.get(result.question_id)
            assert result.question == stored
            assert isinstance(stored.outcome, Answered)
            assert stored.outcome.by == "ana"
            [answered] = [each for each in await desk.history(stored.id) if each.kind == "answered"]
            assert answered.data is not None
            assert (answered.data["shown_digest"], answered.data["seen"]) == (digests[stored.id], 0)
            assert isinstance(stored.form, Approval)
            assert (await desk.consume_approval(stored.id)).digest == stored.form.digest

    async def test_answers_and_declines_can_be_mixed(self, desk: Desk) -> None:
        choice, text, refund = (
            await desk.post("Which?", choices=["a", "b"]),
            await desk.post("Why?"),
            await desk.post("Refund?", form=Approval.of("refund")),
        )
        results = await desk.answer_all(
            [
                BulkAnswer(choice.id, "b"),
                BulkDecline(text.id, "not mine"),
                BulkAnswer(refund.id, {"decision": "deny", "reason": "no"}),
            ],
            by="ana",
        )
        first, second, third = [each.question for each in results if each.question]
        assert isinstance(first.outcome, Answered)
        assert first.outcome.value == "b"
        assert isinstance(second.outcome, Declined)
        assert (second.outcome.by, second.outcome.reason) == ("ana", "not mine")
        assert third.decision is not None
        assert (third.decision.approved, third.decision.reason) == (False, "no")

    @promise("P11")
    async def test_an_action_of_high_risk_is_never_decided_together_with_others(self, desk: Desk) -> None:
        [low] = await refunds(desk, 1)
        risky = [
            await desk.post("Drop?", form=Approval.of("drop", {"table": name}, risk="high"))
            for name in ("orders", "users", "logs")
        ]
        results = await desk.answer_all(
            [
                BulkAnswer(risky[0].id, "approve"),
                BulkAnswer(low.id, "approve"),
                BulkAnswer(risky[1].id, "deny"),
                BulkDecline(risky[2].id),
            ],
            by="ana",
        )
        assert [bool(each) for each in results] == [False, True, False, False]
        for refused, question in zip((results[0], *results[2:]), risky, strict=True):
            assert isinstance(refused.error, NotInBulk)
            assert refused.error.question_id == question.id
            assert "by itself" in str(refused.error)
            assert await desk.get(question.id) == question
            assert [each.kind for each in await desk.history(question.id)] == ["asked"]
        assert (await desk.answer(risky[0].id, "approve", by="ana")).decision

    async def test_what_is_refused_changes_nothing_for_the_others(self, desk: Desk) -> None:
        good, settled, narrow = (
            await desk.post("Which?", choices=["a", "b"]),
            await desk.post("Which?", choices=["a", "b"]),
            await desk.post("Which?", choices=["a", "b"], recipients=["bob"]),
        )
        await desk.answer(settled.id, "b", by="bob")
        results = await desk.answer_all(
            [BulkAnswer(each, "a") for each in ("nothing", settled.id, narrow.id, good.id)], by="ana"
        )
        assert [type(each.error) for each in results] == [
            QuestionNotFound,
            AlreadySettled,
            PermissionDenied,
            type(None),
        ]
        assert isinstance(results[1].error, AlreadySettled)
        assert results[1].error.outcome == (await desk.get(settled.id)).outcome
        assert (await desk.get(narrow.id)).status == "pending"
        assert (await desk.get(good.id)).status == "answered"

    async def test_what_does_not_fit_is_an_attempt_and_the_question_stays_pending(self, desk: Desk) -> None:
        questions = [await desk.post("Which?", choices=["a", "b"], max_attempts=2) for _ in range(2)]
        results = await desk.answer_all(
            [BulkAnswer(questions[0].id, "c"), BulkAnswer(questions[1].id, "a")], by="ana"
        )
        assert isinstance(results[0].error, InvalidAnswer)
        assert results[0].error.outcome is None
        assert results[0].error.problems
        kinds = [each.kind for each in await desk.history(questions[0].id)]
        assert kinds == ["asked", "attempted"]
        [last] = await desk.answer_all([BulkAnswer(questions[0].id, "c")], by="ana")
        assert isinstance(last.error, InvalidAnswer)
        assert last.error.outcome is not None
        assert (await desk.get(questions[1].id)).status == "answered"

    async def test_a_value_that_is_no_json_is_an_attempt_too(self, desk: Desk) -> None:
        question, other = await desk.post("How much?"), await desk.post("How much?")
        results = await desk.answer_all(
            [BulkAnswer(question.id, float("nan")), BulkAnswer(other.id, "a lot")], by="ana"
        )
        assert isinstance(results[0].error, InvalidAnswer)
        assert results[1]
        assert [each.kind for each in await desk.history(question.id)] == ["asked", "attempted"]

    @promise("P15")
    async def test_an_approval_of_an_older_conversation_is_refused(self, desk: Desk) -> None:
        quiet, talked = await refunds(desk, 2, replies="program")
        await desk.note(talked.id, "ask the shop first", by="bob")
        results = await desk.answer_all(
            [BulkAnswer(each.id, "approve", Provenance(seen=0)) for each in (quiet, talked)], by="ana"
        )
        assert results[0]
        assert isinstance(results[1].error, ThreadMoved)
        assert (results[1].error.seen, results[1].error.thread) == (0, 1)
        [again] = await desk.answer_all([BulkAnswer(talked.id, "approve", Provenance(seen=1))], by="ana")
        assert again

    async def test_one_vote_of_several_is_counted_and_the_question_waits(self, desk: Desk) -> None:
        questions = await refunds(desk, 2, quorum=2)
        items = [BulkAnswer(each.id, "approve") for each in questions]
        first = await desk.answer_all(items, by="ana")
        assert [each.question.status for each in first if each.question] == ["pending", "pending"]
        again = await desk.answer_all(items, by="ana")
        assert [len(each.question.votes) for each in again if each.question] == [1, 1]
        second = await desk.answer_all(items, by="bob")
        assert [each.question.status for each in second if each.question] == ["answered", "answered"]

    @promise("P2")
    async def test_two_people_who_answer_the_same_at_once_settle_each_once(self, desk: Desk) -> None:
        questions = await refunds(desk, 12)
        approve = [BulkAnswer(each.id, "approve") for each in questions]
        deny = [BulkAnswer(each.id, "deny") for each in reversed(questions)]
        ana, bob = await asyncio.gather(desk.answer_all(approve, by="ana"), desk.answer_all(deny, by="bob"))
        won = {each.question_id: "ana" for each in ana if each} | {
            each.question_id: "bob" for each in bob if each
        }
        assert len([each for each in (*ana, *bob) if each]) == len(questions) == len(won)
        for each in questions:
            outcome = (await desk.get(each.id)).outcome
            assert isinstance(outcome, Answered)
            assert outcome.by == won[each.id]

    async def test_many_are_answered_in_order(self, desk: Desk) -> None:
        questions = [await desk.post("Go on?", choices=["yes", "no"]) for _ in range(105)]
        results = await desk.answer_all([BulkAnswer(each.id, "yes") for each in questions], by="ana")
        assert [each.question_id for each in results] == [each.id for each in questions]
        assert all(results)

    @promise("P11")
    async def test_the_asker_cannot_answer_its_own(self, desk: Desk) -> None:
        [question] = await refunds(desk, 1)
        [result] = await desk.answer_all([BulkAnswer(question.id, "approve")], by="agent")
        assert isinstance(result.error, PermissionDenied)
        assert (await desk.get(question.id)).status == "pending"

    async def test_two_answers_to_one_question_are_a_mistake_and_none_is_given(self, desk: Desk) -> None:
        first, second = await refunds(desk, 2)
        twice: list[BulkItem] = [
            BulkAnswer(first.id, "approve"),
            BulkAnswer(second.id, "deny"),
            BulkDecline(first.id),
        ]
        with pytest.raises(ValueError, match="two answers"):
            await desk.answer_all(twice, by="ana")
        assert [(await desk.get(each.id)).status for each in (first, second)] == ["pending", "pending"]

    async def test_no_answers_have_no_results_and_anything_else_is_a_mistake(self, desk: Desk) -> None:
        assert list(await desk.answer_all([], by="ana")) == []
        question: Any = await desk.post("Which?")
        mistakes: list[tuple[Any, str]] = [
            (("1", "approve"), "BulkAnswer"),
            (BulkAnswer(question, "a"), "not the question"),
        ]
        for mistake, why in mistakes:
            with pytest.raises(TypeError, match=why):
                await desk.answer_all([mistake], by="ana")


class RuledBulkCases(ContractFixtures):
    """What operators decide holds for each of many answers."""

    @promise("P18")
    async def test_a_stop_refuses_what_it_covers_and_nothing_else(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        covered = await desk.post("Refund?", form=Approval.of("refund"))
        free = await desk.post("Ship?", form=Approval.of("ship"))
        await backend.stop(workspace, tool="refund")
        results = await desk.answer_all(
            [BulkAnswer(covered.id, "approve"), BulkAnswer(free.id, "approve")], by="ana"
        )
        assert isinstance(results[0].error, Stopped)
        assert results[1]
        assert (await desk.get(covered.id)).status == "pending"

    async def test_weak_evidence_is_refused_as_for_a_single_answer(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        then = {"require": {"evidence": "session"}}
        rules = [{"name": "r", "when": "tool == 'refund'", "then": then}]
        await backend.set_policy(workspace, {"rules": rules})
        signed_in, asserted = await refunds(desk, 2)
        results = await desk.answer_all(
            [
                BulkAnswer(signed_in.id, "approve", Provenance(evidence="session")),
                BulkAnswer(asserted.id, "approve", Provenance(evidence="client-asserted")),
            ],
            by="ana",
        )
        assert results[0]
        assert isinstance(results[1].error, PermissionDenied)
        with pytest.raises(PermissionDenied) as single:
            await desk.answer(
                asserted.id, "approve", by="ana", provenance=Provenance(evidence="client-asserted")
            )
        assert str(results[1].error) == str(single.value)

    @promise("P11")
    async def test_what_needs_a_passkey_is_refused_as_for_a_single_answer(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        then = {"require": {"evidence": "passkey"}}
        rules = [{"name": "r", "when": "tool == 'refund'", "then": then}]
        await backend.set_policy(workspace, {"rules": rules})
        [question] = await refunds(desk, 1)
        [result] = await desk.answer_all([BulkAnswer(question.id, "approve")], by="ana")
        assert isinstance(result.error, PermissionDenied)
        assert "passkey" in result.error.reason
        with pytest.raises(PermissionDenied) as single:
            await desk.answer(question.id, "approve", by="ana")
        assert str(result.error) == str(single.value)
