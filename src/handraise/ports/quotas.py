"""How many pending questions agents may have in a workspace. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from handraise.model.workspace_quotas import WorkspaceQuotas


class Quotas(Protocol):
    """A part of the policies: the quotas of a workspace. `Store.insert` lets them override the quota that it is given."""

    async def quotas(self, workspace: str) -> WorkspaceQuotas:
        """The quotas of a workspace; without any, those that change nothing."""
        ...

    async def put_quotas(
        self,
        workspace: str,
        quotas: WorkspaceQuotas,
        *,
        by: str | None = None,
        check: Callable[[WorkspaceQuotas], None] | None = None,
    ) -> None:
        """Replace the quotas of a workspace. If that changes anything, it leaves one event of the workspace.

        `check` is called with the quotas that are stored, in the same transaction. If it raises, nothing changes.
        """
        ...
