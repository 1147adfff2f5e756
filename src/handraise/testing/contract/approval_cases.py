"""Approving: exactly the approved action is executed, once; a remembered approval applies only to equal actions."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Literal

import pytest

from handraise import (
    Action,
    Answered,
    Approval,
    Confirm,
    Desk,
    InvalidAnswer,
    InvalidQuestion,
    NotApproved,
    PermissionDenied,
    Question,
    QuestionNotFound,
)
from handraise.errors import AlreadyConsumed, ApprovalLapsed, ApprovalTakenBack, GrantNotFound
from handraise.model.provenance import Provenance
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, Backend, ContractFixtures
from handraise.testing.promises import promise

_ARGUMENTS = {"amount": 10, "to": "ana"}
_PAY = Approval.of("pay", _ARGUMENTS, editable=["amount"])


def wide(arguments: dict[str, Any] = _ARGUMENTS, **options: Any) -> Approval:
    """An approval that a person may give for more than one use."""
    return Approval.of("pay", arguments, scopes=("once", "session", "always"), **options)


class ApprovalCases(ContractFixtures):
    """An approval is consumed at most once, and a grant is an approval with a scope and an end."""

    @promise("P7", "P11")
    async def test_an_approved_action_is_given_out_once(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Pay?", form=_PAY)
        await desk.answer(question.id, "approve", by="ana")
        assert await desk.consume_approval(question.id) == _PAY.action
        for _ in range(2):
            with pytest.raises(AlreadyConsumed):
                await desk.consume_approval(question.id)
        assert (await desk.get(question.id)).consumed_at == clock.now()
        events = await desk.history(question.id)
        assert [event.kind for event in events] == ["asked", "answered", "consumed"]
        assert events[-1].by == "agent"
        assert (events[-1].data["digest"], events[-1].data.keys()) == (_PAY.digest, {"digest", "request"})

    @promise("P7", "P11")
    async def test_the_same_request_again_is_given_the_same_action_again(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await desk.post("Pay?", form=_PAY)
        with pytest.raises(NotApproved):
            await desk.consume_approval(question.id, request="mine")
        await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 7}}, by="ana")
        given = await desk.consume_approval(question.id, request="mine")
        began = clock.now()
        clock.advance(timedelta(days=2))
        for _ in range(2):
            assert await desk.consume_approval(question.id, request="mine") == given
            for other in ("", "Mine", None):
                with pytest.raises(AlreadyConsumed):
                    await desk.consume_approval(question.id, request=other)
            with pytest.raises(REFUSED):
                await desk.scoped(asker="another agent").consume_approval(question.id, request="mine")
        assert given.arguments == {"amount": 7, "to": "ana"}
        assert (await desk.get(question.id)).consumed_at == began
        events = await desk.history(question.id)
        assert [event.kind for event in events] == ["asked", "answered", "consumed"]
        assert events[-1].data["request"] == "mine"

    async def test_a_request_is_for_one_question(self, desk: Desk) -> None:
        for _ in range(2):
            question = await desk.post("Pay?", form=_PAY)
            await desk.answer(question.id, "approve", by="ana")
            assert await desk.consume_approval(question.id, request="mine") == _PAY.action

    async def test_a_request_that_cannot_be_kept_uses_nothing_up(self, desk: Desk) -> None:
        question = await desk.post("Pay?", form=_PAY)
        await desk.answer(question.id, "approve", by="ana")
        for unfit in ("\0", "\ud800", "r" * 100_000):
            with pytest.raises(InvalidAnswer):
                await desk.consume_approval(question.id, request=unfit)
        assert await desk.consume_approval(question.id) == _PAY.action

    @promise("P11")
    async def test_the_edited_action_is_the_one_given_out(self, desk: Desk) -> None:
        question = await desk.post("Pay?", form=_PAY)
        await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 7}}, by="ana")
        assert (await desk.consume_approval(question.id)).arguments == {"amount": 7, "to": "ana"}

    @promise("P11")
    @pytest.mark.parametrize("number", [1e16, 1.0, 1e300, 0.1])
    async def test_an_edit_leaves_the_other_arguments_as_they_were(self, desk: Desk, number: float) -> None:
        form = Approval.of("pay", {"amount": number, "to": "ana"}, editable=["to"])
        question = await desk.post("Pay?", form=form)
        await desk.answer(question.id, {"decision": "approve", "arguments": {"to": "bob"}}, by="ana")
        assert (await desk.consume_approval(question.id)).arguments == {"amount": number, "to": "bob"}

    @promise("P11")
    @pytest.mark.parametrize("ending", ["pending", "deny", "decline", "withdraw", "expire"])
    async def test_nothing_else_gives_out_an_action(
        self, desk: Desk, clock: ManualClock, ending: str
    ) -> None:
        question = await desk.post("Pay?", form=_PAY, expires_in=timedelta(hours=1))
        if ending == "deny":
            await desk.answer(question.id, {"decision": "deny", "reason": "too much"}, by="ana")
        elif ending == "decline":
            await desk.decline(question.id, by="ana")
        elif ending == "withdraw":
            await desk.withdraw(question.id)
        elif ending == "expire":
            clock.advance(timedelta(hours=1))
        with pytest.raises(NotApproved) as refused:
            await desk.consume_approval(question.id)
        assert (refused.value.outcome is None) is (ending == "pending")
        assert (await desk.get(question.id)).consumed_at is None

    @promise("P11")
    async def test_a_question_that_is_no_approval_approves_nothing(self, desk: Desk) -> None:
        question = await desk.post("Sure?", form=Confirm())
        await desk.answer(question.id, True, by="ana")
        with pytest.raises(NotApproved):
            await desk.consume_approval(question.id)

    async def test_only_the_asker_executes(self, desk: Desk) -> None:
        question = await desk.post("Pay?", form=_PAY)
        await desk.answer(question.id, "approve", by="ana")
        with pytest.raises(REFUSED):
            await desk.scoped(asker="another agent").consume_approval(question.id)
        assert await desk.consume_approval(question.id) == _PAY.action

    @promise("P11")
    async def test_of_racing_consumers_one_gets_the_action(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:
            question = await one.post("Pay?", form=_PAY)
            await one.answer(question.id, "approve", by="ana")
            results = await asyncio.gather(
                *(desk.consume_approval(question.id) for desk in (one, two) * 5), return_exceptions=True
            )
            assert sum(result == _PAY.action for result in results) == 1
            assert sum(isinstance(result, AlreadyConsumed) for result in results) == 9

    @promise("P7", "P11")
    async def test_of_racing_requests_one_gets_the_action_however_often_it_is_made(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:
            question = await one.post("Pay?", form=_PAY)
            await one.answer(question.id, "approve", by="ana")
            requests = ["mine", "yours"] * 5
            results = await asyncio.gather(
                *(
                    desk.consume_approval(question.id, request=request)
                    for desk in (one, two)
                    for request in requests
                ),
                return_exceptions=True,
            )
            given = {request: set[str]() for request in requests}
            for request, result in zip(requests * 2, results, strict=True):
                given[request].add(type(result).__name__)
            assert sorted(given.values(), key=sorted) == [{"Action"}, {"AlreadyConsumed"}]
            assert len(await one.history(question.id)) == 3

    @promise("P13")
    async def test_a_remembered_approval_answers_the_same_action_again(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c1")
        assert await desk.apply_grant(first.id) is None
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        (grant,) = await desk.list_grants()
        assert (grant.asker, grant.tool, grant.scope, grant.granted_by) == ("agent", "pay", "always", "ana")
        assert (grant.question_id, grant.expires_at) == (first.id, clock.now() + timedelta(days=30))
        again = await desk.post("Pay once more?", form=wide(), conversation="c2")
        answered = await desk.apply_grant(again.id)
        assert answered is not None
        assert isinstance(answered.outcome, Answered)
        assert (answered.outcome.source, answered.outcome.by) == ("grant", "ana")
        assert await desk.get(again.id) == answered
        last = (await desk.history(again.id))[-1]
        assert (last.kind, last.data["source"], last.data["grant"]) == ("answered", "grant", grant.id)
        assert await desk.consume_approval(again.id) == _PAY.action

    @pytest.mark.parametrize(
        ("arguments", "asker", "tool"),
        [
            ({"amount": 11, "to": "ana"}, "agent", "pay"),
            ({"amount": 10, "to": "eve"}, "agent", "pay"),
            ({"amount": 10, "to": "ana", "cc": None}, "agent", "pay"),
            (_ARGUMENTS, "another agent", "pay"),
            (_ARGUMENTS, "agent", "pay_twice"),
        ],
    )
    @promise("P11")
    async def test_an_approval_of_something_else_asks_again(
        self, desk: Desk, arguments: dict[str, Any], asker: str, tool: str
    ) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        other = desk.scoped(asker=asker)
        form = Approval.of(tool, arguments, scopes=("once", "session", "always"))
        again = await other.post("Pay?", form=form, conversation="c")
        assert await other.apply_grant(again.id) is None
        assert (await other.get(again.id)).status == "pending"

    @promise("P8")
    async def test_a_grant_holds_in_its_own_workspace_only(self, desk: Desk, workspace: str) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        elsewhere = desk.scoped(f"{workspace}-2")
        again = await elsewhere.post("Pay?", form=wide(), conversation="c")
        assert await elsewhere.apply_grant(again.id) is None
        assert not await elsewhere.list_grants()
        (grant,) = await desk.list_grants()
        with pytest.raises(GrantNotFound):
            await elsewhere.revoke_grant(grant.id, by="ana")

    async def test_a_grant_for_the_session_holds_in_its_conversation(self, desk: Desk) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c1")
        await desk.answer(first.id, {"decision": "approve", "scope": "session"}, by="ana")
        same, other, none = [
            await desk.post("Pay?", form=wide(), conversation="c1"),
            await desk.post("Pay?", form=wide(), conversation="c2"),
            await desk.post("Pay?", form=Approval.of("pay", _ARGUMENTS, scopes=("once", "always"))),
        ]
        assert await desk.apply_grant(other.id) is None
        assert await desk.apply_grant(none.id) is None
        assert await desk.apply_grant(same.id) is not None

    @promise("P11")
    async def test_a_grant_does_not_answer_for_people_who_did_not_give_it(self, desk: Desk) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="intern")
        for recipients in (["cfo"], ["intern", "cfo"]):
            strict = await desk.post("Pay?", form=wide(), conversation="c", recipients=recipients)
            assert await desk.apply_grant(strict.id) is None

    @promise("P11")
    async def test_a_grant_does_not_answer_an_action_of_high_risk(self, desk: Desk) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        risky = await desk.post("Pay?", form=Approval.of("pay", _ARGUMENTS, risk="high"), conversation="c")
        assert await desk.apply_grant(risky.id) is None

    @promise("P11")
    @pytest.mark.parametrize("value", ["approve", {"decision": "deny", "reason": "no"}, "rubbish"])
    async def test_the_word_of_a_program_ends_nothing_of_high_risk(
        self, desk: Desk, value: str | dict[str, str]
    ) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", risk="high"))
        with pytest.raises(PermissionDenied, match="of high risk"):
            await desk.answer(question.id, value, by="ana", provenance=Provenance(evidence="client-asserted"))
        with pytest.raises(PermissionDenied, match="of high risk"):
            await desk.decline(question.id, by="ana", provenance=Provenance(evidence="client-asserted"))
        assert await desk.get(question.id) == question
        assert [event.kind for event in await desk.history(question.id)] == ["asked"]
        answered = await desk.answer(
            question.id, "approve", by="ana", provenance=Provenance(evidence="session")
        )
        assert answered.decision

    @promise("P11")
    async def test_the_word_of_a_program_is_no_vote_where_the_risk_is_high(self, desk: Desk) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", risk="high"), quorum=2)
        await desk.answer(question.id, "approve", by="ana", provenance=Provenance(evidence="session"))
        with pytest.raises(PermissionDenied, match="of high risk"):
            await desk.answer(
                question.id, "approve", by="bob", provenance=Provenance(evidence="client-asserted")
            )
        assert [vote.by for vote in (await desk.get(question.id)).votes] == ["ana"]

    @pytest.mark.parametrize("risk", ["low", "medium"])
    async def test_the_word_of_a_program_is_enough_where_the_risk_is_less(
        self, desk: Desk, risk: Literal["low", "medium"]
    ) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", risk=risk))
        answered = await desk.answer(
            question.id, "approve", by="ana", provenance=Provenance(evidence="client-asserted")
        )
        assert isinstance(answered.outcome, Answered)
        assert (answered.outcome.evidence, bool(answered.decision)) == ("client-asserted", True)

    @promise("P11")
    async def test_a_grant_does_not_answer_what_must_be_approved_each_time(self, desk: Desk) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        strict = await desk.post("Pay?", form=Approval.of("pay", _ARGUMENTS), conversation="c")
        assert await desk.apply_grant(strict.id) is None

    async def test_a_grant_may_look_at_some_arguments_only(self, desk: Desk) -> None:
        first = await desk.post("Pay?", form=wide(remember_by=["to"]), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "session"}, by="ana")
        more = await desk.post(
            "Pay?", form=wide({"amount": 99, "to": "ana"}, remember_by=["to"]), conversation="c"
        )
        assert await desk.apply_grant(more.id) is not None
        eve = await desk.post(
            "Pay?", form=wide({"amount": 10, "to": "eve"}, remember_by=["to"]), conversation="c"
        )
        assert await desk.apply_grant(eve.id) is None

    @promise("P11")
    async def test_a_grant_ends(self, desk: Desk, clock: ManualClock) -> None:
        until = (clock.now() + timedelta(hours=1)).isoformat()
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always", "until": until}, by="ana")
        clock.advance(timedelta(hours=1))
        again = await desk.post("Pay?", form=wide(), conversation="c")
        assert await desk.apply_grant(again.id) is None

    @promise("P12")
    async def test_a_grant_that_has_ended_already_is_refused_and_nothing_is_approved(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await desk.post("Pay?", form=wide(), conversation="c", max_attempts=2)
        clock.advance(timedelta(hours=1))
        answer = {"decision": "approve", "scope": "always", "until": clock.now().isoformat()}
        with pytest.raises(InvalidAnswer, match="past") as misfit:
            await desk.answer(question.id, answer, by="ana")
        assert [problem.path for problem in misfit.value.problems] == ["until"]
        assert (await desk.get(question.id)).status == "pending"
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "attempted"]
        assert not await desk.list_grants()

    @pytest.mark.parametrize("until", ["2030-01-01T00:00:00+23:00", "0001-01-01T00:00:00+14:00"])
    async def test_an_odd_end_fails_nobody_else(self, desk: Desk, until: str) -> None:
        odd = await desk.post("Pay?", form=wide(), conversation="c")
        others = [await desk.post(f"Which {n}?") for n in range(3)]
        answer = {"decision": "approve", "scope": "always", "until": until}
        results = await asyncio.gather(
            desk.answer(odd.id, answer, by="ana"),
            *(desk.answer(other.id, "a", by="ana") for other in others),
            return_exceptions=True,
        )
        assert not any(isinstance(result, BaseException) for result in results[1:])
        assert isinstance(results[0], InvalidAnswer) or await desk.list_grants()

    async def test_nobody_can_stretch_a_grant_beyond_what_the_asker_remembers(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        until = (clock.now() + timedelta(days=999)).isoformat()
        first = await desk.post("Pay?", form=wide(remember_for=timedelta(days=2)), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always", "until": until}, by="ana")
        (grant,) = await desk.list_grants()
        assert grant.expires_at == clock.now() + timedelta(days=2)

    @promise("P7", "P11")
    async def test_a_revoked_grant_holds_no_more(self, desk: Desk, clock: ManualClock) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        (grant,) = await desk.list_grants()
        revoked = await desk.revoke_grant(grant.id, by="bob")
        assert (revoked.revoked_by, revoked.revoked_at) == ("bob", clock.now())
        assert await desk.revoke_grant(grant.id, by="cy") == revoked
        assert list(await desk.list_grants()) == [revoked]
        again = await desk.post("Pay?", form=wide(), conversation="c")
        assert await desk.apply_grant(again.id) is None
        kinds = [event.kind for event in await desk.history(first.id)]
        assert kinds == ["asked", "answered", "revoked"]

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            ({"decision": "deny", "scope": "always"}, "scope"),
            ({"decision": "approve", "scope": "for ever"}, "scope"),
            ({"decision": "approve", "scope": "always"}, "scope"),
            ({"decision": "approve", "until": "2027-01-01T00:00Z"}, "until"),
            ({"decision": "approve", "scope": "session", "until": "soon"}, "until"),
        ],
    )
    async def test_a_scope_that_was_not_offered_is_refused(
        self, desk: Desk, value: dict[str, Any], path: str
    ) -> None:
        form = Approval.of("pay", scopes=("once", "session"))
        question = await desk.post("Pay?", form=form, conversation="c")
        with pytest.raises(InvalidAnswer) as misfit:
            await desk.answer(question.id, value, by="ana")
        assert path in {problem.path for problem in misfit.value.problems}
        assert not await desk.list_grants()

    @pytest.mark.parametrize(
        "options",
        [
            {"form": Approval.of("pay", scopes=("once", "session"))},
            {"form": Approval.of("pay", scopes=("always",))},
            {"form": Approval.of("pay", remember_by=["amount"])},
            {"form": Approval.of("pay", {"amount": 1}, remember_by=[])},
            {"form": Approval.of("pay", scopes=("once", "always")), "quorum": 2},
            {"form": Approval.of("pay", remember_for=timedelta(0))},
        ],
        ids=["no conversation", "no once", "no such argument", "any argument", "several people", "no time"],
    )
    async def test_a_scope_that_makes_no_sense_cannot_be_asked_for(
        self, desk: Desk, options: dict[str, Any]
    ) -> None:
        with pytest.raises(InvalidQuestion):
            await desk.post("Pay?", **options)

    async def test_an_unknown_grant_cannot_be_revoked(self, desk: Desk) -> None:
        for name in ("nonesuch", "\x00"):
            with pytest.raises(GrantNotFound):
                await desk.revoke_grant(name, by="ana")

    @promise("P11")
    async def test_an_approval_is_good_for_the_time_that_the_asker_says(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        form = Approval.of("pay", _ARGUMENTS, valid_for=timedelta(minutes=5))
        late, used = [await desk.post("Pay?", form=form) for _ in range(2)]
        for question in (late, used):
            await desk.answer(question.id, "approve", by="ana")
        clock.advance(timedelta(minutes=5) - timedelta(milliseconds=1))
        assert await desk.consume_approval(used.id, request="r") == form.action
        clock.advance(timedelta(milliseconds=1))
        with pytest.raises(ApprovalLapsed, match="not used in time") as lapsed:
            await desk.consume_approval(late.id)
        assert isinstance(lapsed.value.outcome, Answered)
        assert await desk.consume_approval(used.id, request="r") == form.action
        assert [event.kind for event in await desk.history(late.id)] == ["asked", "answered"]

    @promise("P6", "P7", "P11")
    async def test_an_approval_can_be_taken_back_until_it_is_consumed(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await desk.post("Pay?", form=_PAY)
        answered = await desk.answer(question.id, "approve", by="ana")
        taken = await desk.take_back(question.id, by="ana", reason="wait")
        assert (taken.status, taken.outcome, taken.taken_back_at) == (
            "answered",
            answered.outcome,
            clock.now(),
        )
        assert await desk.take_back(question.id, by="ana") == taken == await desk.get(question.id)
        with pytest.raises(ApprovalTakenBack):
            await desk.consume_approval(question.id)
        *_, last = await desk.history(question.id)
        assert (last.kind, last.by, last.data) == ("taken_back", "ana", {"reason": "wait"})
        assert len(await desk.history(question.id)) == 3

    @promise("P2")
    async def test_what_is_not_approved_or_used_cannot_be_taken_back(self, desk: Desk) -> None:
        pending, denied, used = [await desk.post("Pay?", form=_PAY) for _ in range(3)]
        await desk.answer(denied.id, "deny", by="ana")
        await desk.answer(used.id, "approve", by="ana")
        await desk.consume_approval(used.id)
        for question in (pending, denied):
            with pytest.raises(NotApproved):
                await desk.take_back(question.id, by="ana")
        with pytest.raises(AlreadyConsumed):
            await desk.take_back(used.id, by="ana")
        with pytest.raises(QuestionNotFound):
            await desk.take_back("nonesuch", by="ana")
        assert (await desk.get(used.id)).taken_back_at is None

    @promise("P2", "P11")
    async def test_of_taking_back_and_consuming_one_wins(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as other:
            for _ in range(5):
                question = await one.post("Pay?", form=_PAY)
                await one.answer(question.id, "approve", by="ana")
                used, taken = await asyncio.gather(
                    one.consume_approval(question.id),
                    other.take_back(question.id, by="ana"),
                    return_exceptions=True,
                )
                if isinstance(used, Action):
                    assert isinstance(taken, AlreadyConsumed)
                else:
                    assert isinstance(used, ApprovalTakenBack)
                    assert isinstance(taken, Question)

    @promise("P11")
    async def test_what_a_grant_approved_is_not_executed_once_that_is_revoked(self, desk: Desk) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        again = await desk.post("Pay?", form=wide(), conversation="c")
        assert await desk.apply_grant(again.id) is not None
        (grant,) = await desk.list_grants()
        await desk.revoke_grant(grant.id, by="ana")
        with pytest.raises(ApprovalLapsed, match="grant"):
            await desk.consume_approval(again.id)
        # What the person approved herself is not affected.
        assert await desk.consume_approval(first.id) == wide().action

    async def test_another_asker_cannot_use_a_grant_for_my_question(self, desk: Desk) -> None:
        question = await desk.post("Pay?", form=_PAY)
        with pytest.raises(REFUSED):
            await desk.scoped(asker="another agent").apply_grant(question.id)

    async def test_a_grant_changes_nothing_that_is_settled(self, desk: Desk) -> None:
        first = await desk.post("Pay?", form=wide(), conversation="c")
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        again = await desk.post("Pay?", form=_PAY)
        denied = await desk.answer(again.id, "deny", by="bob")
        assert await desk.apply_grant(again.id) == denied
        assert await desk.get(again.id) == denied

    async def test_grants_are_listed_in_pages(self, desk: Desk) -> None:
        for n in range(5):
            question = await desk.post("Pay?", form=wide({"amount": n, "to": "ana"}), conversation="c")
            await desk.answer(question.id, {"decision": "approve", "scope": "session"}, by="ana")
        first = await desk.list_grants(limit=3)
        rest = await desk.list_grants(limit=3, after=first.next)
        assert (len(first), len(rest), rest.next) == (3, 2, None)
        assert len({grant.id for grant in (*first, *rest)}) == 5
