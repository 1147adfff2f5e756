"""The quotas of a workspace: they override the desk's own, for all agents or for one."""

from __future__ import annotations

import pytest

from handraise import Desk
from handraise.errors import QuotaExceeded
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.testing.contract.backend import Backend, ContractFixtures
from handraise.testing.promises import promise


class QuotaCases(ContractFixtures):
    """A desk of these tests has no quota of its own."""

    @promise("P8")
    async def test_the_quota_of_an_agent_goes_before_that_of_its_workspace(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_quotas(workspace, WorkspaceQuotas(pending=2, agents={"agent": 1}))
        other = desk.scoped(asker="other")
        for asker, quota in ((desk, 1), (other, 2)):
            posted = [await asker.post("Which?", key=str(number)) for number in range(quota)]
            with pytest.raises(QuotaExceeded) as refused:
                await asker.post("Which else?")
            assert refused.value.quota == quota
            # What is there already is found, and what is withdrawn leaves room.
            assert (await asker.post("Which?", key="0")).id == posted[0].id
            await asker.withdraw(posted[0].id)
            await asker.post("Which else?")

    @promise("P8")
    async def test_a_quota_is_of_one_workspace_and_zero_is_any_number(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_quotas(workspace, WorkspaceQuotas(pending=1, agents={"agent": 0}))
        elsewhere = desk.scoped(f"{workspace}-2", asker="other")
        for number in range(5):
            await desk.post("Which?", key=str(number))
            await elsewhere.post("Which?", key=str(number))

    async def test_without_quotas_agents_have_that_of_the_desk_again(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        await backend.set_quotas(workspace, WorkspaceQuotas(pending=1))
        await desk.post("Which?")
        with pytest.raises(QuotaExceeded):
            await desk.post("Which else?")
        await backend.set_quotas(workspace, WorkspaceQuotas())
        assert (await desk.post("Which else?")).status == "pending"
