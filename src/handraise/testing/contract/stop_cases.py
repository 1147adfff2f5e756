"""Stopping: after an acknowledged stop nothing that it covers is asked, approved or executed; everything else goes on."""

from __future__ import annotations

from typing import Any

import pytest

from handraise import Approval, Desk
from handraise.errors import Stopped
from handraise.testing.contract.backend import STOPPER, WHY, Backend, ContractFixtures
from handraise.testing.promises import promise

_PAY = Approval.of("pay", {"amount": 10}, scopes=("once", "always"))
_LOOK = Approval.of("look", {"at": "orders"})

_SCOPES = pytest.mark.parametrize(
    "scope",
    [{}, {"agent": "agent"}, {"tool": "pay"}, {"agent": "agent", "tool": "pay"}],
    ids=["workspace", "agent", "tool", "tool of an agent"],
)


class StopCases(ContractFixtures):
    """A stop covers a workspace, an agent, a tool, or a tool of an agent."""

    @promise("P18", "P11")
    @_SCOPES
    async def test_what_is_stopped_is_not_asked_approved_or_consumed(
        self, desk: Desk, backend: Backend, workspace: str, scope: dict[str, Any]
    ) -> None:
        waiting = await desk.post("Pay?", form=_PAY, key="waiting")
        approved = await desk.post("Pay?", form=_PAY, key="approved")
        await desk.answer(approved.id, "approve", by="ana")
        stop = await backend.stop(workspace, **scope)
        with pytest.raises(Stopped) as refused:
            await desk.post("Pay?", form=_PAY)
        assert (refused.value.stop.why, refused.value.stop.by) == (WHY, STOPPER)
        assert (refused.value.stop.agent, refused.value.stop.tool) == (scope.get("agent"), scope.get("tool"))
        with pytest.raises(Stopped, match=WHY):
            await desk.answer(waiting.id, "approve", by="ana")
        with pytest.raises(Stopped, match=WHY):
            await desk.consume_approval(approved.id)
        assert [event.kind for event in await desk.history(waiting.id)] == ["asked"]
        assert (await desk.get(approved.id)).consumed_at is None
        # What is stored stays as it is, and can be read.
        assert (await desk.post("Pay?", form=_PAY, key="waiting")).id == waiting.id
        await backend.resume(workspace, stop)
        assert (await desk.answer(waiting.id, "approve", by="ana")).decision
        assert await desk.consume_approval(approved.id) == _PAY.action
        await desk.post("Pay?", form=_PAY)

    @promise("P18")
    @_SCOPES
    async def test_what_is_stopped_can_be_denied_declined_and_withdrawn(
        self, desk: Desk, backend: Backend, workspace: str, scope: dict[str, Any]
    ) -> None:
        denied, declined, withdrawn = [await desk.post("Pay?", form=_PAY) for _ in range(3)]
        await backend.stop(workspace, **scope)
        assert (await desk.answer(denied.id, "deny", by="ana")).outcome is not None
        assert (await desk.decline(declined.id, by="ana")).outcome is not None
        assert (await desk.withdraw(withdrawn.id)).outcome is not None

    @promise("P18")
    async def test_a_stop_of_a_tool_leaves_other_tools_and_questions_alone(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.stop(workspace, tool="pay")
        looks = await desk.post("Look?", form=_LOOK)
        await desk.answer(looks.id, "approve", by="ana")
        assert await desk.consume_approval(looks.id) == _LOOK.action
        name = await desk.post("What is it called?")
        assert (await desk.answer(name.id, "Rover", by="ana")).outcome is not None

    @promise("P18")
    async def test_a_stop_of_an_agent_leaves_other_agents_alone(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        question = await desk.post("What is it called?")
        await backend.stop(workspace, agent="agent")
        other = desk.scoped(asker="other")
        paid = await other.post("Pay?", form=_PAY)
        await desk.answer(paid.id, "approve", by="ana")
        assert await other.consume_approval(paid.id) == _PAY.action
        with pytest.raises(Stopped):
            await desk.answer(question.id, "Rover", by="ana")

    @promise("P18")
    async def test_a_stop_of_a_tool_of_an_agent_covers_only_both_together(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.stop(workspace, agent="agent", tool="pay")
        for asker, form in (("other", _PAY), ("agent", _LOOK)):
            asking = desk.scoped(asker=asker)
            question = await asking.post("May I?", form=form)
            await desk.answer(question.id, "approve", by="ana")
            assert await asking.consume_approval(question.id) == form.action

    @promise("P8", "P18")
    async def test_a_stop_is_of_one_workspace(self, desk: Desk, backend: Backend, workspace: str) -> None:
        await backend.stop(workspace)
        other = await desk.scoped(f"{workspace}-other").post("Pay?", form=_PAY)
        assert other.status == "pending"

    @promise("P18")
    async def test_a_grant_does_not_approve_what_is_stopped(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        first = await desk.post("Pay?", form=_PAY)
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        second = await desk.post("Pay?", form=_PAY)
        stop = await backend.stop(workspace, tool="pay")
        with pytest.raises(Stopped):
            await desk.apply_grant(second.id)
        assert (await desk.get(second.id)).outcome is None
        await backend.resume(workspace, stop)
        applied = await desk.apply_grant(second.id)
        assert applied is not None
        assert applied.decision

    @promise("P18")
    async def test_a_vote_that_approves_is_refused_and_one_that_denies_counts(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        question = await desk.post("Pay?", form=_LOOK, quorum=2)
        await desk.answer(question.id, "approve", by="ana")
        await backend.stop(workspace)
        with pytest.raises(Stopped):
            await desk.answer(question.id, "approve", by="bo")
        assert len((await desk.answer(question.id, "deny", by="bo")).votes) == 2

    @promise("P18")
    async def test_an_approval_until_a_time_is_refused_and_is_no_attempt(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        question = await desk.post("Pay?", form=_PAY, max_attempts=1)
        await backend.stop(workspace)
        until = {"decision": "approve", "scope": "always", "until": "2999-01-01T00:00:00Z"}
        with pytest.raises(Stopped):
            await desk.answer(question.id, until, by="ana")
        assert (await desk.get(question.id)).attempts == 0

    @promise("P18")
    async def test_a_repeated_request_for_an_action_does_not_get_it_while_it_is_stopped(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        question = await desk.post("Pay?", form=_PAY)
        await desk.answer(question.id, "approve", by="ana")
        await desk.consume_approval(question.id, request="one")
        stop = await backend.stop(workspace)
        with pytest.raises(Stopped):
            await desk.consume_approval(question.id, request="one")
        await backend.resume(workspace, stop)
        assert await desk.consume_approval(question.id, request="one") == _PAY.action

    @promise("P18")
    async def test_of_two_stops_the_end_of_one_leaves_the_other(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        wide, narrow = await backend.stop(workspace), await backend.stop(workspace, tool="pay")
        assert await backend.stop(workspace) == wide, "the same stop again is one stop"
        await backend.resume(workspace, wide)
        with pytest.raises(Stopped):
            await desk.post("Pay?", form=_PAY)
        await backend.resume(workspace, narrow)
        await desk.post("Pay?", form=_PAY)
