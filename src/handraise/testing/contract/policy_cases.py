"""Policies: what they require of the people who answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from handraise import Approval, Desk, Escalation, PermissionDenied, Question, Responder, Timeline
from handraise.desks import desk_from_store
from handraise.errors import ApprovalLapsed, InvalidQuestion
from handraise.model.json_values import Json
from handraise.ports import Backend as Ports
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import Backend, ContractFixtures, put_policy
from handraise.testing.contract.permission_cases import people
from handraise.testing.promises import promise

_ALWAYS = Approval.of("pay", {"amount": 10}, scopes=("once", "always"))
_PAY = Approval.of("pay", {"amount": 10})
ONE_OF_EACH = {"one_of_each": ["group:finance", "group:legal"]}
STAGES = {"stages": [["group:finance"], ["group:legal"]]}
THREE_GROUPS = {"one_of_each": ["group:finance", "group:legal", "group:safety"]}
THREE_STAGES = {"stages": [["group:finance"], ["group:legal"], ["group:safety"]]}


def requiring(*requirements: Json) -> Json:
    """A policy with a rule for each of these requirements, which match every question."""
    rules = [
        {"name": f"rule {number}", "when": "true", "then": {"require": each}}
        for number, each in enumerate(requirements)
    ]
    return {"rules": rules}


def member(name: str, *groups: str) -> Responder:
    """A person with the groups that the program vouches for."""
    return Responder(name, frozenset(groups))


def deciding(then: Json) -> Json:
    """A policy with one rule, about the tool `pay`."""
    return {"rules": [{"name": "payments", "when": "tool == 'pay'", "then": then}]}


class PolicyCases(ContractFixtures):
    """What a policy requires counts when people vote; the program vouches for their groups."""

    @promise("P11", "P14")
    async def test_an_acknowledged_policy_decides_the_next_question_on_every_desk(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        async with backend.open(clock=clock, workspace=workspace) as other:
            for each in (desk, other):
                assert (await each.post("Pay?", form=_PAY)).ruling is None
            for version, (then, approved) in enumerate([({"deny": "not now"}, False), ("allow", True)], 1):
                await backend.set_policy(workspace, deciding(then))
                for each in (desk, other):
                    decided = await each.post("Pay?", form=_PAY)
                    assert decided.ruling is not None
                    assert (decided.ruling.version, bool(decided.decision)) == (version, approved)
                    assert await each.get(decided.id) == decided
                    kinds = [event.kind for event in await each.history(decided.id)]
                    assert kinds == ["asked", "answered"]

    @promise("P11", "P14")
    async def test_what_a_rule_allowed_is_not_given_out_if_the_policy_no_longer_allows_it(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, deciding("allow"))
        first, second = [await desk.post("Pay?", form=_PAY) for _ in range(2)]
        assert await desk.consume_approval(first.id, request="one") == _PAY.action
        await backend.set_policy(workspace, deciding({"deny": "not now"}))
        with pytest.raises(ApprovalLapsed, match="policy"):
            await desk.consume_approval(second.id)
        assert await desk.consume_approval(first.id, request="one") == _PAY.action

    @promise("P9", "P14")
    async def test_a_key_gives_the_same_question_whatever_the_policy_has_made_of_it(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring({"people": ["boss"], "quorum": 1, "risk": "high"}))
        first = await desk.post("Pay?", form=_PAY, recipients=["ana"], key="k", check_recipients=False)
        assert (first.recipients, first.risk) == (("boss",), "high")
        await backend.set_policy(workspace, deciding({"deny": "not now"}))
        again = await desk.post("Pay?", form=_PAY, recipients=["ana"], key="k", check_recipients=False)
        assert again == first

    @promise("P11", "P14")
    async def test_a_denied_spot_check_suspends_its_rule_at_once(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, deciding({"allow": {"check": 1.0}}))
        checked, other = [await desk.post("Pay?", form=_PAY) for _ in range(2)]
        assert (checked.status, checked.ruling and checked.ruling.checked is not None) == ("pending", True)
        await desk.answer(checked.id, "deny", by="ana")
        await desk.answer(other.id, "approve", by="ana")
        later = await desk.post("Pay?", form=_PAY)
        assert later.status == "pending"

    @promise("P11")
    async def test_a_rule_allows_nothing_while_as_many_of_its_spot_checks_wait_as_it_says(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, deciding({"allow": {"check": 0.5, "outstanding": 2}}))
        # That none of 40 questions is a check, or all of them are, never happens.
        first = [await desk.post("Pay?", form=_PAY) for _ in range(40)]
        places = [place for place, each in enumerate(first) if each.ruling and each.ruling.checked]
        assert [place for place, each in enumerate(first) if each.status == "pending"] == [
            places[0],
            *range(places[1], 40),
        ]
        waiting = [each for each in first if each.status == "pending"]
        allowed = 0
        for _ in range(40):
            for each in waiting:
                await desk.answer(each.id, "approve", by="ana")
            posted = await desk.post("Pay?", form=_PAY)
            allowed += posted.status == "answered"
            waiting = [posted] if posted.status == "pending" else []
        assert allowed

    @promise("P11")
    async def test_what_needs_a_passkey_is_denied_without_one_and_not_approved(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring({"evidence": "session"}, {"evidence": "passkey"}))
        pay, which = await desk.post("Pay?", form=_PAY), await desk.post("Which?", choices=["a", "b"])
        assert (pay.evidence, which.evidence) == ("passkey", "passkey")
        for question, value in ((pay, "approve"), (which, "a")):
            with pytest.raises(PermissionDenied, match="passkey"):
                await desk.answer(question.id, value, by="ana")
            assert (await desk.get(question.id)).outcome is None
        assert (await desk.answer(pay.id, "deny", by="ana")).status == "answered"
        assert (await desk.decline(which.id, by="ana")).status == "declined"

    @promise("P11")
    async def test_one_person_in_both_groups_does_not_approve_alone(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring(ONE_OF_EACH))
        question = await desk.post("Pay?", form=_PAY)
        assert question.audience == ("group:finance", "group:legal")
        both = member("admin", "finance", "legal")
        for _ in range(3):
            voted = await desk.answer(question.id, "approve", by=both)
            assert (voted.status, voted.missing) == ("pending", (0, 0))
        assert (await desk.answer(question.id, "approve", by=member("lee", "legal"))).decision

    @promise("P11")
    async def test_a_group_of_which_nobody_agrees_is_missed(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring(ONE_OF_EACH))
        question = await desk.post("Pay?", form=_PAY)
        voted = question
        for name in ("fay", "fred", "flo"):
            voted = await desk.answer(question.id, "approve", by=member(name, "finance"))
            assert (voted.status, voted.missing) == ("pending", (0, 1))
            assert await desk.get(question.id) == voted
        settled = await desk.answer(question.id, "approve", by=member("lee", "legal"))
        assert settled.decision
        assert await desk.get(question.id) == settled

    @promise("P11")
    async def test_people_of_each_group_must_give_the_same_answer(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring(ONE_OF_EACH))
        question = await desk.post("Which?", choices=["a", "b"])
        await desk.answer(question.id, "a", by=member("fay", "finance"))
        assert (await desk.answer(question.id, "b", by=member("lee", "legal"))).status == "pending"
        assert (await desk.answer(question.id, "b", by=member("lou", "legal"))).status == "pending"
        settled = await desk.answer(question.id, "b", by=member("fay", "finance"))
        assert (settled.status, len(settled.votes)) == ("answered", 3)

    async def test_declines_are_votes_too(self, desk: Desk, backend: Backend, workspace: str) -> None:
        await backend.set_policy(workspace, requiring(ONE_OF_EACH))
        question = await desk.post("Which?", choices=["a", "b"])
        assert (await desk.decline(question.id, by=member("fay", "finance"))).status == "pending"
        assert (await desk.decline(question.id, by=member("flo", "finance"))).status == "pending"
        assert (await desk.decline(question.id, by=member("lee", "legal"))).status == "declined"

    @promise("P11")
    async def test_the_people_of_every_rule_must_agree(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(
            workspace, requiring({"people": ["group:ops", "ana"], "quorum": 2}, {"people": ["group:legal"]})
        )
        question = await desk.post("Pay?", form=_PAY, recipients=["me"])
        await desk.answer(question.id, "approve", by=member("lee", "legal"))
        voted = await desk.answer(question.id, "approve", by="ana")
        assert (voted.status, voted.missing) == ("pending", (1, 0))
        assert (await desk.answer(question.id, "approve", by=member("oz", "ops"))).decision

    @promise("P11")
    async def test_somebody_must_agree_in_addition_to_the_recipients(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring({"also": ["group:legal"]}))
        for recipients in (["ana", "bob"], []):
            question = await desk.post("Pay?", form=_PAY, recipients=recipients)
            assert (question.quorum, question.status) == (2, "pending")
            assert (await desk.answer(question.id, "approve", by="ana")).status == "pending"
            assert (
                await desk.answer(question.id, "approve", by="bob" if recipients else "eve")
            ).outcome is None
            assert (await desk.answer(question.id, "approve", by=member("lee", "legal"))).decision

    @promise("P11")
    async def test_one_person_who_meets_every_need_does_not_approve_alone(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring({"also": ["group:legal"]}))
        for recipients, other in ((["lee", "bob"], "bob"), ([], "eve")):
            question = await desk.post("Pay?", form=_PAY, recipients=recipients)
            voted = await desk.answer(question.id, "approve", by=member("lee", "legal"))
            assert ([vote.by for vote in voted.votes], voted.outcome) == (["lee"], None)
            assert (await desk.answer(question.id, "approve", by=other)).decision

    @promise("P11", "P14")
    async def test_a_question_that_nobody_could_answer_is_refused_with_the_rule(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        first = await desk.post("Pay?", form=_PAY, recipients=["ana", "bob"], quorum=2, key="k")
        await backend.set_policy(workspace, requiring({"people": ["boss"]}))
        with pytest.raises(InvalidQuestion, match="'rule 0'"):
            await desk.post("Pay?", form=_PAY, recipients=["ana", "bob"], quorum=2)
        again = await desk.post("Pay?", form=_PAY, recipients=["ana", "bob"], quorum=2, key="k")
        assert again == first, "what was asked before is returned"
        await backend.set_policy(workspace, requiring({"people": ["boss", "deputy"]}))
        possible = await desk.post("Pay?", form=_PAY, recipients=["ana", "bob"], quorum=2)
        assert possible.recipients == ("boss", "deputy")

    @promise("P11")
    async def test_a_grant_does_not_answer_what_needs_certain_people(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        first = await desk.post("Pay?", form=_ALWAYS, recipients=["ana"])
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        assert (
            await desk.apply_grant((await desk.post("Pay?", form=_ALWAYS, recipients=["ana"])).id)
        ) is not None
        await backend.set_policy(workspace, requiring({"also": ["ana", "bob"]}))
        again = await desk.post("Pay?", form=_ALWAYS, recipients=["ana"])
        assert await desk.apply_grant(again.id) is None
        assert (await desk.get(again.id)).status == "pending"

    @promise("P11")
    async def test_the_asker_does_not_vote_for_any_group(
        self, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace, clock=clock, asker="bot") as desk:
            await backend.set_policy(workspace, requiring(STAGES))
            question = await desk.post("Pay?", form=_PAY)
            with pytest.raises(PermissionDenied):
                await desk.answer(question.id, "approve", by=member("bot", "finance", "legal"))

    @promise("P11")
    @pytest.mark.parametrize("require", [THREE_GROUPS, THREE_STAGES], ids=["groups", "stages"])
    async def test_somebody_of_two_groups_and_two_of_the_third_are_not_one_of_each(
        self, backend: Backend, workspace: str, desk: Desk, require: Json
    ) -> None:
        await backend.set_policy(workspace, requiring(require))
        question = await desk.post("Pay?", form=_PAY, check_recipients=False)
        fay = member("fay", "finance", "legal")
        for person in (fay, member("sam", "safety"), member("sue", "safety")):
            voted = await desk.answer(question.id, "approve", by=person)
            assert voted.status == "pending"
        assert (await desk.answer(question.id, "approve", by=member("lee", "legal"))).decision

    @promise("P11")
    async def test_stages_are_asked_one_after_the_other(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring(STAGES))
        question = await desk.post("Pay?", form=_PAY)
        fay, lee = member("fay", "finance"), member("lee", "legal")
        assert (question.stage, question.audience, question.veto) == (0, ("group:finance",), True)
        assert await _inboxes(desk, fay, lee) == [[question.id], []]
        with pytest.raises(PermissionDenied, match="another stage"):
            await desk.answer(question.id, "approve", by=lee)
        voted = await desk.answer(question.id, "approve", by=fay)
        assert (voted.status, voted.stage, voted.audience) == ("pending", 1, ("group:legal",))
        assert await desk.get(question.id) == voted
        assert await _inboxes(desk, fay, lee) == [[], [question.id]]
        with pytest.raises(PermissionDenied, match="another stage"):
            await desk.answer(question.id, "approve", by=fay)
        assert (await desk.answer(question.id, "approve", by=lee)).decision
        assert await _inboxes(desk, fay, lee) == [[], []]
        events = await desk.history(question.id)
        assert [(event.kind, (event.data or {}).get("to")) for event in events] == [
            ("asked", None),
            ("voted", ["group:legal"]),
            ("answered", None),
        ]

    @promise("P11")
    async def test_a_stage_that_is_over_takes_no_vote_of_somebody_who_saw_it_open(
        self, desk: Desk, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring(STAGES))
        async with backend.open(workspace=workspace, clock=clock) as other:
            question = await desk.post("Pay?", form=_PAY)
            assert (await other.get(question.id)).stage == 0
            await desk.answer(question.id, "approve", by=member("fay", "finance"))
            with pytest.raises(PermissionDenied, match="another stage"):
                await other.answer(question.id, "approve", by=member("flo", "finance"))
            assert [vote.by for vote in (await desk.get(question.id)).votes] == ["fay"]

    @promise("P11")
    async def test_a_denial_in_any_stage_ends_it(self, desk: Desk, backend: Backend, workspace: str) -> None:
        await backend.set_policy(workspace, requiring(STAGES))
        for stage in range(2):
            question = await desk.post("Pay?", form=_PAY)
            if stage:
                await desk.answer(question.id, "approve", by=member("fay", "finance"))
            denied = await desk.answer(
                question.id, "deny", by=member("lee", "legal") if stage else member("flo", "finance")
            )
            assert denied.status == "answered"
            assert not denied.decision

    async def test_somebody_of_two_stages_counts_for_both_but_is_one_person(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring(STAGES))
        question = await desk.post("Pay?", form=_PAY)
        both = member("admin", "finance", "legal")
        voted = await desk.answer(question.id, "approve", by=both)
        assert (voted.status, voted.missing, voted.stage) == ("pending", (0, 0), None)
        assert (await desk.answer(question.id, "approve", by=both)).status == "pending"
        fay = member("fay", "finance")
        assert await _inboxes(desk, fay) == [[question.id]]
        assert (await desk.answer(question.id, "approve", by=fay)).decision

    async def test_those_who_disagree_do_not_open_the_next_stage(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_policy(
            workspace,
            requiring(
                {"stages": [["fay"], ["lee", "lou"], ["boss"]]}, {"people": ["flo", "fay"], "quorum": 2}
            ),
        )
        question = await desk.post("Which?", choices=["a", "b"])
        await desk.answer(question.id, "a", by="fay")
        assert (await desk.answer(question.id, "b", by="flo")).stage == 0
        assert (await desk.answer(question.id, "a", by="flo")).stage == 1
        assert (await desk.answer(question.id, "b", by="lee")).stage == 1
        voted = await desk.answer(question.id, "a", by="lou")
        assert (voted.stage, voted.audience) == (2, ("boss",))
        assert (await desk.answer(question.id, "b", by="boss")).status == "pending"
        assert (await desk.answer(question.id, "a", by="boss")).status == "answered"

    async def test_an_escalation_does_not_open_a_later_stage(
        self, desk: Desk, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring({"stages": [["fay"], ["lee"]]}))
        hour = timedelta(hours=1)
        late = Timeline(escalate=(Escalation(after=hour, to=("lee", "zoe")),))
        question = await desk.post("Pay?", form=_PAY, recipients=["fay"], timeline=late)
        clock.advance(hour)
        await desk.run_due()
        for name in ("lee", "zoe"):
            with pytest.raises(PermissionDenied):
                await desk.answer(question.id, "approve", by=name)
        assert await _inboxes(desk, Responder("fay"), Responder("lee")) == [[question.id], []]

    @promise("P2")
    async def test_racing_votes_of_a_stage_open_the_next_one_once(
        self, desk: Desk, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await backend.set_policy(workspace, requiring(STAGES))
        async with backend.open(workspace=workspace, clock=clock) as other:
            question = await desk.post("Pay?", form=_PAY)
            await asyncio.gather(
                *(
                    (desk, other)[n % 2].answer(question.id, "approve", by=member(f"p{n}", "finance"))
                    for n in range(8)
                ),
                return_exceptions=True,
            )
            lee = member("lee", "legal")
            assert await _inboxes(other, lee) == [[question.id]]
            assert (await other.answer(question.id, "approve", by=lee)).decision
            opened = [event for event in await desk.history(question.id) if "to" in (event.data or {})]
            assert [event.kind for event in opened] == ["voted"]


class NeedCases(ContractFixtures):
    """What a policy requires, if a directory says who is in which group; you define `parts`, of one backend."""

    @pytest.fixture
    def parts(self) -> Ports:
        raise NotImplementedError("A contract class needs a `parts` fixture.")

    @pytest.fixture
    async def desk(self, parts: Ports, clock: ManualClock, workspace: str) -> AsyncIterator[Desk]:
        await people(parts.directory, workspace, "fay", "flo", "lee", "lou", "ann")
        await parts.directory.put_group(workspace, "finance", ["fay", "flo"])
        await parts.directory.put_group(workspace, "legal", ["lee", "lou"])
        async with desk_from_store(
            parts.store,
            parts.bus,
            workspace=workspace,
            directory=parts.directory,
            policies=parts.policies,
            clock=clock,
        ) as desk:
            yield desk

    async def _post(self, desk: Desk, parts: Ports, requirement: Json) -> Question:
        await put_policy(parts.policies, desk.workspace, requiring(requirement))
        return await desk.post("Pay?", form=_PAY)

    async def test_the_directory_says_who_is_in_a_group(self, desk: Desk, parts: Ports) -> None:
        question = await self._post(desk, parts, ONE_OF_EACH)
        assert (await desk.answer(question.id, "approve", by="fay")).missing == (0, 1)
        assert (await desk.answer(question.id, "approve", by="lee")).decision

    @promise("P11")
    async def test_what_a_program_vouches_for_does_not_count_against_the_directory(
        self, desk: Desk, parts: Ports
    ) -> None:
        question = await self._post(desk, parts, ONE_OF_EACH)
        await desk.answer(question.id, "approve", by="fay")
        voted = await desk.answer(question.id, "approve", by=member("ann", "legal"))
        assert (voted.status, voted.missing) == ("pending", (0, 1))
        voted = await desk.answer(question.id, "approve", by=member("flo", "legal", "finance"))
        assert (voted.status, voted.missing) == ("pending", (0, 1))
        assert (await desk.answer(question.id, "approve", by=member("unknown", "legal"))).decision

    @promise("P11")
    async def test_somebody_who_left_a_group_does_not_count_for_it(self, desk: Desk, parts: Ports) -> None:
        question = await self._post(
            desk, parts, {"one_of_each": ["group:finance", "group:legal"], "people": None}
        )
        await parts.directory.put_group(desk.workspace, "legal", ["lee", "fay"])
        await desk.answer(question.id, "approve", by="fay")
        await parts.directory.put_group(desk.workspace, "legal", ["lee"])
        voted = await desk.answer(question.id, "approve", by="flo")
        assert (voted.status, voted.missing) == ("pending", (0, 1))
        assert (await desk.answer(question.id, "approve", by="lee")).decision

    @promise("P11")
    async def test_an_earlier_stage_is_asked_again_if_its_voter_is_removed(
        self, desk: Desk, parts: Ports
    ) -> None:
        question = await self._post(desk, parts, STAGES)
        assert (await desk.answer(question.id, "approve", by="fay")).stage == 1
        await parts.directory.remove_person(desk.workspace, "fay")
        voted = await desk.answer(question.id, "approve", by="lee")
        assert (voted.status, voted.stage, voted.missing) == ("pending", 0, (1, 0))
        assert [vote.by for vote in voted.votes] == ["lee"]
        flo, lou = member("flo", "finance"), member("lou", "legal")
        assert await _inboxes(desk, flo, lou) == [[question.id], []]
        events = await desk.history(question.id)
        assert (events[-1].data or {})["to"] == ["group:finance"]
        assert (events[-1].data or {})["uncounted"] == ["fay"]
        assert (await desk.answer(question.id, "approve", by="flo")).decision

    @promise("P11")
    async def test_an_earlier_stage_is_asked_again_if_its_voter_left_the_group(
        self, desk: Desk, parts: Ports
    ) -> None:
        question = await self._post(desk, parts, STAGES)
        await desk.answer(question.id, "approve", by="fay")
        await parts.directory.put_group(desk.workspace, "finance", ["flo"])
        voted = await desk.answer(question.id, "approve", by="lee")
        assert (voted.status, voted.stage) == ("pending", 0)

    async def test_a_person_who_is_named_counts_without_a_group(self, desk: Desk, parts: Ports) -> None:
        question = await self._post(desk, parts, {"stages": [["ann"], ["group:legal", "fay"]]})
        await desk.answer(question.id, "approve", by="ann")
        assert (await desk.answer(question.id, "approve", by="fay")).decision


async def _inboxes(desk: Desk, *responders: Responder) -> list[list[str]]:
    """The ids of the questions that wait for each person, which are the same in both orders."""
    found = []
    for each in responders:
        ids = [question.id for question in await desk.list_pending(recipient=each)]
        assert [question.id for question in await desk.list_pending(recipient=each, order="urgency")] == ids
        found.append(ids)
    return found
