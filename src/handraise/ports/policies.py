"""The policies of workspaces, and their stops. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion
from handraise.model.stops import Stop
from handraise.ports.quotas import Quotas
from handraise.ports.standing_answers import StandingAnswers


class Policies(StandingAnswers, Quotas, Protocol):
    """The versions of each workspace's policy, its stops, standing answers and quotas. What a document means is not known here."""

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

    async def count_waiting_checks(self, workspace: str, rule: str, *, limit: int) -> int:
        """How many spot checks of a rule, given by its digest, wait for people; at most `limit`."""
        ...

    async def stop(
        self, workspace: str, *, agent: str | None = None, tool: str | None = None, why: str, by: str | None
    ) -> Stop:
        """Stop what is covered, with one event of the workspace: an agent, a tool, a tool of an agent, or everything.

        Once this returns, no question that it covers is registered, none is answered except with a denial, and no
        approval of one is consumed: a statement that began earlier has ended. If exactly this is stopped already, that
        stop is returned and there is no event.
        """
        ...

    async def resume(self, workspace: str, stop_id: str, *, by: str | None) -> Stop | None:
        """End a stop, with one event of the workspace; return it as it was. None if there is none."""
        ...

    async def stops(self, workspace: str) -> Sequence[Stop]:
        """The stops of a workspace, the oldest first."""
        ...
