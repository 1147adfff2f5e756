"""Rights: a store and a directory together, when people who voted or gave a grant lose the right to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial

import pytest

from handraise import Answered, Approval, Desk, Escalation, PermissionDenied, Responder, Timeline
from handraise.desks import desk_from_store
from handraise.errors import ApprovalLapsed, ApprovalTakenBack
from handraise.model.identities import Role
from handraise.ports import Backend, Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import ContractFixtures
from handraise.testing.promises import promise

_ALWAYS = {"decision": "approve", "scope": "always"}
_PAY = Approval.of("pay", {"amount": 10}, scopes=("once", "always"))


class PermissionCases(ContractFixtures):
    """Voters and givers of grants are checked again when it counts; you define `parts`, of one backend."""

    @pytest.fixture
    def parts(self) -> Backend:
        raise NotImplementedError("A contract class needs a `parts` fixture.")

    @pytest.fixture
    async def desk(self, parts: Backend, workspace: str) -> AsyncIterator[Desk]:
        async with desk_from_store(parts.store, parts.bus, workspace=workspace) as desk:
            yield desk

    @pytest.fixture
    def directory(self, parts: Backend) -> Directory:
        return parts.directory

    @promise("P11")
    async def test_a_vote_of_somebody_who_was_removed_does_not_count(
        self, desk: Desk, directory: Directory, workspace: str
    ) -> None:
        await people(directory, workspace, "ann", "bob", "cfo")
        question = await desk.post("Drop it?", form=_ONCE, recipients=["ann", "bob", "cfo"], quorum=2)
        await desk.answer(question.id, "approve", by="bob")
        await directory.remove_person(workspace, "bob")
        voted = await desk.answer(question.id, "approve", by="ann")
        assert (voted.status, [vote.by for vote in voted.votes]) == ("pending", ["ann"])
        assert await desk.get(question.id) == voted
        kinds = [
            (event.kind, event.by, (event.data or {}).get("uncounted"))
            for event in await desk.history(question.id)
        ]
        assert kinds == [("asked", "agent", None), ("voted", "bob", None), ("voted", "ann", ["bob"])]
        assert (await desk.answer(question.id, "approve", by="cfo")).decision

    @promise("P11")
    async def test_somebody_who_is_disabled_decides_nothing(
        self, parts: Backend, directory: Directory, workspace: str
    ) -> None:
        await people(directory, workspace, "ann", "bob", "cfo", "dan")
        await directory.put_group(workspace, "ops", ["bob", "dan"])
        await directory.put_group(workspace, "friends", ["ann"])
        async with desk_from_store(
            parts.store, parts.bus, directory=directory, workspace=workspace, asker="bob's agent"
        ) as desk:
            voted = await desk.post("Drop it?", form=_ONCE, recipients=["ann", "bob", "cfo"], quorum=2)
            vouched = await desk.post("Drop it?", form=_ONCE, recipients=["group:friends"], quorum=2)
            plain = await desk.post("Drop it?", form=_ONCE, recipients=["group:ops"])
            friends = frozenset({"friends"})
            await desk.answer(voted.id, "approve", by="bob")
            await desk.answer(vouched.id, "approve", by=Responder("bob", friends))
            await directory.disable_person(workspace, "bob", by="boss")
            assert (await desk.answer(voted.id, "approve", by="ann")).status == "pending"
            assert (
                await desk.answer(vouched.id, "approve", by=Responder("eve", friends))
            ).status == "pending"
            for by in ("bob", Responder("bob", frozenset({"ops"}))):
                for move in (
                    partial(desk.answer, plain.id, "approve", by=by),
                    partial(desk.decline, plain.id, by=by),
                    partial(desk.answer, voted.id, "approve", by=by),
                ):
                    with pytest.raises(PermissionDenied, match="disabled this person"):
                        await move()
            assert (await desk.get(plain.id)).status == "pending"
            assert (await desk.answer(plain.id, "approve", by=Responder("dan", frozenset({"ops"})))).decision
            await directory.enable_person(workspace, "bob")
            assert (await desk.answer(voted.id, "approve", by="bob")).decision

    @promise("P11")
    async def test_a_vote_of_somebody_who_left_the_group_does_not_count(
        self, desk: Desk, directory: Directory, workspace: str
    ) -> None:
        await people(directory, workspace, "dan", "eve", "fay")
        await directory.put_group(workspace, "ops", ["dan", "eve", "fay"])
        question = await desk.post("Drop it?", form=_ONCE, recipients=["group:ops"], quorum=2)
        await desk.answer(question.id, "approve", by=Responder("dan", frozenset({"ops"})))
        await directory.put_group(workspace, "ops", ["eve", "fay"])
        voted = await desk.answer(question.id, "approve", by=Responder("eve", frozenset({"ops"})))
        assert (voted.status, [vote.by for vote in voted.votes]) == ("pending", ["eve"])
        assert (await desk.answer(question.id, "approve", by=Responder("fay", frozenset({"ops"})))).decision

    async def test_a_vote_counts_for_as_long_as_its_voter_may_answer(
        self, desk: Desk, directory: Directory, workspace: str
    ) -> None:
        name = 'o\'hara "the" \\ b'
        await people(directory, workspace, name, "eve", "ann")
        await directory.put_group(workspace, "ops", [name, "eve"])
        await directory.put_group(workspace, "leads", [name])
        for recipients in (["group:ops"], ["group:ops", name], []):
            question = await desk.post("Drop it?", form=_ONCE, recipients=recipients, quorum=2)
            await desk.answer(question.id, "approve", by=Responder(name, frozenset({"ops"})))
            await directory.put_group(workspace, "ops", ["eve", name])
            await directory.put_group(workspace, "leads", [])
            if recipients != ["group:ops"]:
                await directory.put_group(workspace, "ops", ["eve"])
            settled = await desk.answer(question.id, "approve", by=Responder("eve", frozenset({"ops"})))
            assert [vote.by for vote in settled.votes] == sorted([name, "eve"])
            assert settled.decision
            await directory.put_group(workspace, "ops", ["eve", name])

    async def test_without_a_directory_a_vote_is_as_good_as_the_program_that_vouched(
        self, desk: Desk
    ) -> None:
        question = await desk.post("Drop it?", form=_ONCE, recipients=["group:ops", "ann"], quorum=3)
        await desk.answer(question.id, "approve", by=Responder("dan", frozenset({"ops"})))
        await desk.answer(question.id, "approve", by=Responder("eve", frozenset({"ops"})))
        assert (await desk.answer(question.id, "approve", by="ann")).decision

    @promise("P11")
    async def test_a_right_that_a_program_vouched_for_ends_with_its_person(
        self, desk: Desk, directory: Directory, workspace: str
    ) -> None:
        await people(directory, workspace, "dan", "eve", "fay")
        question = await desk.post("Drop it?", form=_ONCE, recipients=["group:ops"], quorum=2)
        ops = frozenset({"ops"})
        await desk.answer(question.id, "approve", by=Responder("dan", ops))
        await directory.remove_person(workspace, "dan")
        assert (await desk.answer(question.id, "approve", by=Responder("eve", ops))).status == "pending"
        assert (await desk.answer(question.id, "approve", by=Responder("fay", ops))).decision

    @promise("P11")
    async def test_a_grant_by_somebody_escalated_to_does_not_answer_for_the_recipient(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        minute = timedelta(minutes=1)
        late = Timeline(escalate=(Escalation(after=minute, to=("intern",)),), expire=60 * minute)
        first = await desk.post("Pay?", form=_PAY, recipients=["cfo"], timeline=late)
        clock.advance(minute)
        await desk.run_due()
        await desk.answer(first.id, _ALWAYS, by="intern")
        again = await desk.post("Pay?", form=_PAY, recipients=["cfo"])
        assert await desk.apply_grant(again.id) is None
        # Once it is escalated to them too, they may answer it, and so may their grant.
        same = await desk.post("Pay?", form=_PAY, recipients=["cfo"], timeline=late)
        assert await desk.apply_grant(same.id) is None
        clock.advance(minute)
        await desk.run_due()
        assert await desk.apply_grant(same.id) is not None

    @promise("P11")
    @pytest.mark.parametrize("lost", ["removed", "left", "disabled"])
    async def test_a_grant_ends_with_the_right_of_its_giver(
        self, desk: Desk, directory: Directory, workspace: str, lost: str
    ) -> None:
        await people(directory, workspace, "gus", "hal")
        await directory.put_group(workspace, "ops", ["gus", "hal"])
        first = await desk.post("Pay?", form=_PAY, recipients=["group:ops"])
        await desk.answer(first.id, _ALWAYS, by=Responder("gus", frozenset({"ops"})))
        used = await desk.post("Pay?", form=_PAY, recipients=["group:ops"])
        assert await desk.apply_grant(used.id) is not None
        await (
            directory.remove_person(workspace, "gus")
            if lost == "removed"
            else directory.disable_person(workspace, "gus")
            if lost == "disabled"
            else directory.put_group(workspace, "ops", ["hal"])
        )
        again = await desk.post("Pay?", form=_PAY, recipients=["group:ops"])
        assert await desk.apply_grant(again.id) is None
        assert (await desk.get(again.id)).status == "pending"
        with pytest.raises(ApprovalLapsed):
            await desk.consume_approval(used.id)

    @promise("P11")
    @pytest.mark.parametrize("lost", ["removed", "left", "disabled"])
    async def test_a_standing_answer_ends_with_the_right_of_its_giver(
        self, parts: Backend, directory: Directory, workspace: str, lost: str
    ) -> None:
        async with desk_from_store(
            parts.store, parts.bus, directory=directory, policies=parts.policies, workspace=workspace
        ) as desk:
            await people(directory, workspace, "gus", "hal")
            await directory.put_group(workspace, "tax", ["gus", "hal"])
            asked = partial(desk.post, "Which rate?", recipients=["group:tax"], topic="rate")
            first = await asked()
            answered = await desk.answer(first.id, "19", by="gus")
            assert answered.outcome is not None
            until = answered.outcome.at + timedelta(days=1)
            await desk.keep_answer(first.id, until=until, by="gus", spot_check=0.0)
            assert (await asked()).outcome is not None
            await (
                directory.remove_person(workspace, "gus")
                if lost == "removed"
                else directory.disable_person(workspace, "gus")
                if lost == "disabled"
                else directory.put_group(workspace, "tax", ["hal"])
            )
            assert (await asked()).outcome is None

    @promise("P11")
    async def test_everybody_who_approved_takes_that_back_and_nobody_else(self, desk: Desk) -> None:
        question = await desk.post("Drop it?", form=_ONCE, quorum=2, recipients=["ann", "bob", "cy"])
        await desk.answer(question.id, "deny", by="cy")
        await desk.answer(question.id, "approve", by="ann")
        await desk.answer(question.id, "approve", by="bob")
        with pytest.raises(PermissionDenied):
            await desk.take_back(question.id, by="cy")
        assert (await desk.take_back(question.id, by="ann")).taken_back_at is not None

    @promise("P11")
    async def test_an_administrator_takes_back_what_others_approved(
        self, desk: Desk, directory: Directory, workspace: str
    ) -> None:
        await people(directory, workspace, "ann", "bob")
        await directory.put_person(workspace, "root", name="Root", email=None, role=Role.ADMIN)
        question = await desk.post("Drop it?", form=_ONCE, recipients=["ann"])
        await desk.answer(question.id, "approve", by="ann")
        with pytest.raises(PermissionDenied):
            await desk.take_back(question.id, by="bob")
        taken = await desk.take_back(question.id, by="root")
        assert taken.taken_back_at is not None
        with pytest.raises(ApprovalTakenBack):
            await desk.consume_approval(question.id)

    async def test_without_a_directory_a_grant_is_as_good_as_the_program_that_vouched(
        self, desk: Desk
    ) -> None:
        first = await desk.post("Pay?", form=_PAY, recipients=["group:ops"])
        await desk.answer(first.id, _ALWAYS, by=Responder("gus", frozenset({"ops"})))
        again = await desk.post("Pay?", form=_PAY, recipients=["group:ops"])
        assert await desk.apply_grant(again.id) is not None

    async def test_the_grant_is_one_of_a_scope_that_the_question_offers(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        always = await desk.post("Pay?", form=_PAY, conversation="c")
        await desk.answer(always.id, _ALWAYS, by="ann")
        clock.advance(timedelta(seconds=1))
        form = Approval.of("pay", {"amount": 10}, scopes=("once", "session"), remember_for=timedelta(days=1))
        session = await desk.post("Pay?", form=form, conversation="c")
        assert await desk.apply_grant(session.id) is None
        await desk.answer(session.id, {"decision": "approve", "scope": "session"}, by="ann")
        again = await desk.post("Pay?", form=form, conversation="c")
        applied = await desk.apply_grant(again.id)
        assert applied is not None
        (grant,) = [each for each in await desk.list_grants() if each.scope == "session"]
        assert (await desk.history(again.id))[-1].data["grant"] == grant.id

    async def test_the_grant_is_one_whose_giver_may_answer(self, desk: Desk, clock: ManualClock) -> None:
        minute = timedelta(minutes=1)
        late = Timeline(escalate=(Escalation(after=minute, to=("intern",)),), expire=60 * minute)
        first = await desk.post("Pay?", form=_PAY, recipients=["cfo"])
        await desk.answer(first.id, {**_ALWAYS, "until": (clock.now() + 60 * minute).isoformat()}, by="cfo")
        longer = await desk.post("Pay?", form=_PAY, recipients=["cfo"], timeline=late)
        clock.advance(minute)
        await desk.run_due()
        await desk.answer(longer.id, _ALWAYS, by="intern")
        again = await desk.post("Pay?", form=_PAY, recipients=["cfo"])
        applied = await desk.apply_grant(again.id)
        assert applied is not None
        assert isinstance(applied.outcome, Answered)
        assert applied.outcome.by == "cfo"


_ONCE = Approval.of("drop", {"db": "prod"})


async def people(directory: Directory, workspace: str, *names: str) -> None:
    """Put people into a directory."""
    for name in names:
        await directory.put_person(workspace, name, name=name, email=None, role=Role.MEMBER)
