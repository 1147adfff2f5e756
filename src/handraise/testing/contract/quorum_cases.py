"""Agreeing: questions that need several people."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from handraise import Approval, Desk, Escalation, PermissionDenied, Responder, Timeline
from handraise.model.provenance import Provenance
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import Backend, ContractFixtures
from handraise.testing.promises import promise


class QuorumCases(ContractFixtures):
    """`quorum` distinct people must give the same answer."""

    @promise("P2", "P7")
    async def test_two_people_must_agree(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a", "b"], quorum=2)
        first = await desk.answer(question.id, "a", by="ana")
        assert (first.status, [vote.by for vote in first.votes]) == ("pending", ["ana"])
        second = await desk.answer(question.id, "a", by="bob")
        assert second.status == "answered"
        assert await desk.get(question.id) == second
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "voted", "answered"]

    async def test_people_to_whom_it_is_escalated_make_up_the_number(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        hour = timedelta(hours=1)
        late = Timeline(escalate=(Escalation(after=hour, to=("zoe",)),))
        question = await desk.post("Which?", choices=["a", "b"], recipients=["ana"], quorum=2, timeline=late)
        await desk.answer(question.id, "a", by="ana")
        clock.advance(hour)
        await desk.run_due()
        assert (await desk.answer(question.id, "a", by="zoe")).status == "answered"

    async def test_after_the_end_everybody_can_read_what_each_person_said(self, desk: Desk) -> None:
        question = await desk.post(
            "May I?", form=Approval.of("refund", {"amount": 40}), quorum=2, key="refund"
        )
        await desk.answer(question.id, {"decision": "approve", "reason": "seen"}, by="ana")
        pending = await desk.get(question.id)
        assert [(vote.by, vote.value, vote.reason) for vote in pending.votes] == [("ana", None, None)]
        await desk.answer(question.id, "approve", by="bob")
        told = {vote.by: (vote.value, vote.reason) for vote in (await desk.get(question.id)).votes}
        assert told.keys() == {"ana", "bob"}
        assert [value["decision"] for value, _ in told.values()] == ["approve", "approve"]
        assert (told["ana"][1], told["bob"][1]) == ("seen", None)
        by_key = await desk.find_by_key("refund")
        assert by_key is not None
        assert by_key.votes == (await desk.get(question.id)).votes

    @promise("P11")
    async def test_one_person_cannot_agree_with_themselves(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a", "b"], quorum=2)
        for channel in ("web", "slack", "email"):
            voted = await desk.answer(question.id, "a", by="ana", provenance=Provenance(channel=channel))
            assert (voted.status, len(voted.votes)) == ("pending", 1)

    async def test_people_who_disagree_settle_nothing(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a", "b"], quorum=2)
        await desk.answer(question.id, "a", by="ana")
        assert (await desk.answer(question.id, "b", by="bob")).status == "pending"
        assert (await desk.answer(question.id, "b", by="cy")).outcome is not None

    async def test_a_person_may_change_their_mind_while_it_is_pending(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a", "b"], quorum=2)
        await desk.answer(question.id, "a", by="ana")
        await desk.answer(question.id, "b", by="bob")
        assert (await desk.answer(question.id, "b", by="ana")).status == "answered"

    async def test_reasons_do_not_keep_people_from_agreeing(self, desk: Desk) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 1}), quorum=2)
        await desk.answer(question.id, {"decision": "deny", "reason": "too much"}, by="ana")
        denied = await desk.answer(question.id, {"decision": "deny", "reason": "too late"}, by="bob")
        assert denied.status == "answered"
        assert denied.outcome is not None

    @promise("P11")
    async def test_approvals_of_different_edits_do_not_agree(self, desk: Desk) -> None:
        form = Approval.of("pay", {"amount": 10}, editable=["amount"])
        question = await desk.post("Pay?", form=form, quorum=2)
        await desk.answer(question.id, "approve", by="ana")
        edited = {"decision": "approve", "arguments": {"amount": 9}}
        assert (await desk.answer(question.id, edited, by="bob")).status == "pending"

    @promise("P11")
    async def test_with_a_veto_one_denial_ends_it(self, desk: Desk) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay"), quorum=2, veto=True, key="k")
        await desk.answer(question.id, "approve", by="ana")
        await desk.answer(question.id, "deny", by="bob")
        decision = (await desk.get(question.id)).decision
        assert decision is not None
        assert not decision

    async def test_with_a_veto_one_refusal_ends_it(self, desk: Desk) -> None:
        question = await desk.post("Which?", quorum=2, veto=True)
        assert (await desk.decline(question.id, by="ana")).status == "declined"

    async def test_without_a_veto_one_refusal_is_a_vote(self, desk: Desk) -> None:
        question = await desk.post("Which?", quorum=2)
        assert (await desk.decline(question.id, by="ana")).status == "pending"
        assert (await desk.decline(question.id, by="bob")).status == "declined"

    async def test_only_recipients_vote(self, desk: Desk) -> None:
        question = await desk.post("Which?", quorum=2, recipients=["group:leads"])
        await desk.answer(question.id, "a", by=Responder("ana", groups=frozenset({"leads"})))
        with pytest.raises(PermissionDenied):
            await desk.answer(question.id, "a", by="bob")

    @promise("P2")
    async def test_racing_votes_reach_the_number_exactly_once(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:
            for _ in range(10):
                question = await one.post("Which?", quorum=5)
                results = await asyncio.gather(
                    *((one, two)[n % 2].answer(question.id, "x", by=f"p{n}") for n in range(12)),
                    return_exceptions=True,
                )
                kinds = [event.kind for event in await one.history(question.id)]
                assert kinds == ["asked", "voted", "voted", "voted", "voted", "answered"]
                assert sum(not isinstance(result, BaseException) for result in results) == 5
                assert len((await one.get(question.id)).votes) == 5
