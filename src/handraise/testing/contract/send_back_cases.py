"""Sending back: a third verdict, and the question that replaces the one that was sent back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from handraise import (
    AlreadySettled,
    Approval,
    Desk,
    InvalidAnswer,
    InvalidQuestion,
    KeyConflict,
    NotApproved,
    PermissionDenied,
    Question,
)
from handraise.errors import NothingToReport
from handraise.model.people import Responder
from handraise.model.provenance import Provenance
from handraise.outcomes import Returned
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, SOON, Backend, ContractFixtures
from handraise.testing.promises import promise

_REFUND = Approval.of("refund", {"amount": 300})
_SMALLER = Approval.of("refund", {"amount": 30})
_WHY = "Only 30: the rest was paid back in May."


class SendBackCases(ContractFixtures):
    """A person sends a question back, to be changed and asked again."""

    @promise("P6")
    async def test_a_question_is_sent_back_with_a_reason(self, desk: Desk) -> None:
        question = await desk.post("Refund the order?", form=_REFUND)
        where = Provenance(channel="inbox", evidence="session")
        returned = await desk.send_back(question.id, by="ana", reason=_WHY, provenance=where)
        assert returned.status == "returned"
        outcome = returned.outcome
        assert isinstance(outcome, Returned)
        assert (outcome.by, outcome.reason, outcome.channel, outcome.evidence) == (
            "ana",
            _WHY,
            "inbox",
            "session",
        )
        assert str(outcome) == f"sent back by ana: {_WHY}"
        assert _WHY not in repr(outcome)
        assert await desk.get(question.id) == returned
        assert [(event.kind, event.by) for event in await desk.history(question.id)] == [
            ("asked", "agent"),
            ("returned", "ana"),
        ]

    @promise("P5")
    @pytest.mark.parametrize("options", [{"form": _REFUND}, {"choices": ["a", "b"]}, {}])
    async def test_it_is_never_an_approval_or_an_answer(self, desk: Desk, options: dict[str, Any]) -> None:
        question = await desk.post("What now?", **options)
        returned = await desk.send_back(question.id, by="ana", reason=_WHY)
        assert returned.decision is None
        why = "sent back by ana" if "form" in options else "asks for no approval"
        with pytest.raises(NotApproved, match=why):
            await desk.consume_approval(question.id)
        with pytest.raises(NothingToReport):
            await desk.report(question.id, ok=True, text="Done")
        with pytest.raises(AlreadySettled):
            await desk.answer(question.id, "approve", by="ana")

    async def test_the_wait_ends_with_it(self, backend: Backend, workspace: str) -> None:
        async with (
            backend.open(workspace=workspace) as asking,
            backend.open(workspace=workspace) as answering,
        ):
            question = await asking.post("Refund the order?", form=_REFUND)
            waiting = asyncio.create_task(asking.wait(question.id))
            await asyncio.sleep(0)
            await answering.send_back(question.id, by="ana", reason=_WHY)
            async with asyncio.timeout(SOON):
                assert isinstance(await waiting, Returned)

    @promise("P5")
    async def test_a_request_for_approval_says_why_it_was_sent_back(self, desk: Desk) -> None:
        question = await desk.post("May I run refund?", form=_REFUND, key="refund")
        await desk.send_back(question.id, by="ana", reason=_WHY)
        with pytest.raises(NotApproved) as refused:
            await desk.request_approval(_REFUND, key="refund")
        assert isinstance(refused.value.outcome, Returned)
        assert (refused.value.question_id, refused.value.outcome.reason) == (question.id, _WHY)
        assert str(refused.value).endswith(f"is not approved: sent back by ana: {_WHY}")

    @pytest.mark.parametrize("reason", ["", " \n", None, 7])
    async def test_it_needs_a_reason(self, desk: Desk, reason: Any) -> None:
        question = await desk.post("Refund the order?", form=_REFUND)
        with pytest.raises(InvalidAnswer, match="say what to change"):
            await desk.send_back(question.id, by="ana", reason=reason)
        with pytest.raises(InvalidAnswer):
            await desk.send_back(question.id, by="ana", reason="x" * 10_001)
        assert (await desk.get(question.id)).status == "pending"
        assert len(await desk.history(question.id)) == 1

    async def test_only_people_who_may_answer_send_back(self, desk: Desk) -> None:
        question = await desk.post("Refund the order?", form=_REFUND, recipients=["ana", "group:ops"])
        for stranger in ("agent", "bo", Responder("bo", frozenset({"sales"}))):
            with pytest.raises((PermissionDenied, REFUSED)):
                await desk.send_back(question.id, by=stranger, reason=_WHY)
        sent = await desk.send_back(question.id, by=Responder("bo", frozenset({"ops"})), reason=_WHY)
        assert sent.status == "returned"

    @promise("P3")
    async def test_it_ends_once(self, desk: Desk) -> None:
        question = await desk.post("Refund the order?", form=_REFUND)
        results = await asyncio.gather(
            desk.send_back(question.id, by="ana", reason=_WHY),
            desk.answer(question.id, "approve", by="bo"),
            desk.decline(question.id, by="cy"),
            return_exceptions=True,
        )
        assert sum(isinstance(each, AlreadySettled) for each in results) == 2
        assert len(await desk.history(question.id)) == 2

    async def test_it_covers_no_conversation(self, desk: Desk) -> None:
        question = await desk.post("Refund the order?", form=_REFUND, replies="program")
        await desk.ask_back(question.id, "Which customer?", by="ana")
        sent = await desk.send_back(question.id, by="bo", reason=_WHY)
        assert sent.status == "returned"

    async def test_among_several_it_is_a_vote(self, desk: Desk) -> None:
        question = await desk.post("Refund the order?", form=_REFUND, quorum=2)
        first = await desk.send_back(question.id, by="ana", reason=_WHY)
        assert (first.status, [vote.by for vote in first.votes]) == ("pending", ["ana"])
        second = await desk.send_back(question.id, by="bo", reason="Too much.")
        assert second.status == "returned"
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "voted", "returned"]

    async def test_with_a_veto_one_is_enough(self, desk: Desk) -> None:
        question = await desk.post("Refund the order?", form=_REFUND, quorum=2, veto=True)
        assert (await desk.send_back(question.id, by="ana", reason=_WHY)).status == "returned"

    async def test_votes_to_send_back_and_to_decline_do_not_agree(self, desk: Desk) -> None:
        question = await desk.post("Refund the order?", form=_REFUND, quorum=2)
        await desk.send_back(question.id, by="ana", reason=_WHY)
        assert (await desk.decline(question.id, by="bo")).status == "pending"

    async def test_it_is_among_the_settled_ones(self, desk: Desk) -> None:
        question = await desk.post("Refund the order?", form=_REFUND, recipients=["ana"])
        returned = await desk.send_back(question.id, by="ana", reason=_WHY)
        assert (await desk.list_settled(recipient="ana")).items == [returned]
        assert (await desk.list_pending()).items == []


class ReplacingCases(ContractFixtures):
    """A question replaces another one of the same asker, in one step."""

    async def test_a_question_replaces_one_that_was_sent_back(self, desk: Desk) -> None:
        old = await desk.post("Refund the order?", form=_REFUND)
        returned = await desk.send_back(old.id, by="ana", reason=_WHY)
        new = await desk.post("Refund the order?", form=_SMALLER, replaces=old.id)
        assert (new.replaces, new.replaced_by, new.status) == (old.id, None, "pending")
        assert await desk.get(new.id) == new
        replaced = await desk.get(old.id)
        assert (replaced.replaced_by, replaced.outcome) == (new.id, returned.outcome)
        last = (await desk.history(old.id))[-1]
        assert (last.kind, last.by, last.data) == ("replaced", "agent", {"replaced_by": new.id})

    @promise("P3")
    async def test_a_pending_one_is_withdrawn(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as asking, backend.open(workspace=workspace) as other:
            old = await asking.post("Refund the order?", form=_REFUND, recipients=["ana"])
            waiting = asyncio.create_task(other.wait(old.id))
            await asyncio.sleep(0)
            new = await asking.post("Refund the order?", form=_SMALLER, recipients=["ana"], replaces=old.id)
            async with asyncio.timeout(SOON):
                outcome = await waiting
            assert (outcome.status, getattr(outcome, "by", None)) == ("withdrawn", "agent")
            assert (await asking.list_pending(recipient="ana")).items == [new]
            assert (await asking.get(old.id)).replaced_by == new.id
            last = (await asking.history(old.id))[-1]
            assert (last.kind, last.data) == ("withdrawn", {"by": "agent", "replaced_by": new.id})
            with pytest.raises(AlreadySettled):
                await other.answer(old.id, "approve", by="ana")

    async def test_one_that_was_answered_stays_answered(self, desk: Desk) -> None:
        old = await desk.post("Refund the order?", form=_REFUND)
        await desk.answer(old.id, "approve", by="ana")
        new = await desk.post("Refund the order?", form=_SMALLER, replaces=old.id)
        replaced = await desk.get(old.id)
        assert (replaced.status, replaced.replaced_by) == ("answered", new.id)
        assert (await desk.consume_approval(old.id)).arguments == {"amount": 300}

    async def test_one_that_has_expired_stays_expired(self, desk: Desk, clock: ManualClock) -> None:
        old = await desk.post("Refund the order?", form=_REFUND, expires_in=60)
        clock.advance(timedelta(minutes=2))
        new = await desk.post("Refund the order?", form=_SMALLER, replaces=old.id)
        replaced = await desk.get(old.id)
        assert (replaced.status, replaced.replaced_by) == ("expired", new.id)

    async def test_posting_it_again_changes_nothing(self, desk: Desk) -> None:
        old = await desk.post("Refund the order?", form=_REFUND)
        new = await desk.post("Refund the order?", form=_SMALLER, key="second", replaces=old.id)
        again = await desk.post("Refund the order?", form=_SMALLER, key="second", replaces=old.id)
        assert again == new
        assert len(await desk.history(old.id)) == 2
        with pytest.raises(KeyConflict):
            await desk.post("Refund the order?", form=_SMALLER, key="second")

    async def test_a_question_is_replaced_once(self, desk: Desk) -> None:
        old = await desk.post("Refund the order?", form=_REFUND)
        new = await desk.post("Refund the order?", form=_SMALLER, replaces=old.id)
        with pytest.raises(InvalidQuestion, match=new.id):
            await desk.post("Refund it?", form=_SMALLER, replaces=old.id)
        newer = await desk.post("Refund it?", form=_SMALLER, replaces=new.id)
        assert ((await desk.get(new.id)).replaced_by, newer.replaces) == (newer.id, new.id)

    async def test_of_many_at_once_one_is_its_successor(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:
            old = await one.post("Refund the order?", form=_REFUND)
            posts = (
                desk.post(f"Refund {n}?", form=_SMALLER, replaces=old.id)
                for n in range(5)
                for desk in (one, two)
            )
            results = await asyncio.gather(*posts, return_exceptions=True)
            accepted = [each for each in results if isinstance(each, Question)]
            refused = [each for each in results if isinstance(each, InvalidQuestion)]
            assert (len(accepted), len(refused)) == (1, 9)
            assert all(accepted[0].id in str(each) for each in refused)
            assert (await one.get(old.id)).replaced_by == accepted[0].id
            assert [event.kind for event in await one.history(old.id)] == ["asked", "withdrawn"]
            assert [each.id for each in await one.list_pending()] == [accepted[0].id]

    async def test_nobody_replaces_what_is_not_theirs(self, backend: Backend, workspace: str) -> None:
        async with (
            backend.open(workspace=workspace) as asking,
            backend.open(workspace=workspace, asker="mallory") as other,
        ):
            old = await asking.post("Refund the order?", form=_REFUND)
            for wrong in (old.id, "no-such-question"):
                with pytest.raises(InvalidQuestion, match="you have no question with this id"):
                    await other.post("Refund the order?", form=_SMALLER, replaces=wrong)
            assert (await asking.get(old.id)).status == "pending"
            assert len(await asking.history(old.id)) == 1
