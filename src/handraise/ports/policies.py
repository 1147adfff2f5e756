"""The policies of workspaces. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion


class Policies(Protocol):
    """The versions of each workspace's policy. What a document means is not known here."""

    async def current(self, workspace: str) -> CurrentPolicy | None:
        """The latest version, with the rules that are suspended; None if the workspace has no policy."""
        ...

    async def put(
        self, workspace: str, document: Json, *, by: str | None, expected: int
    ) -> PolicyVersion | None:
        """Store the version after `expected` (0 for the first one), with one event of the workspace.

        None if `expected` is not the latest version: of any number of concurrent calls, one succeeds.
        """
        ...

    async def versions(self, workspace: str, *, before: int | None, limit: int) -> Sequence[PolicyVersion]:
        """The versions before a number, the latest first."""
        ...

    async def lift_suspension(self, workspace: str, rule: str, *, name: str, by: str | None) -> bool:
        """Let a suspended rule, given by its digest, allow questions again; False if it was not suspended.

        The event of the workspace has the rule's `name`.
        """
        ...
