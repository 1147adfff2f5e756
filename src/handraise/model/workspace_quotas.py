"""How many pending questions the agents of a workspace may have, if that differs from the server's setting."""

from __future__ import annotations

from typing import Annotated

import pydantic

MOST_PENDING = 1_000_000
"""The largest quota."""
ALL_AGENTS = ""
"""The name under which the quota of all agents is stored; no agent has it."""

Pending = Annotated[int, pydantic.Field(ge=0, le=MOST_PENDING)]
AgentName = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=200)]


class WorkspaceQuotas(pydantic.BaseModel):
    """The quotas of a workspace, which override `HANDRAISE_PENDING_QUOTA`; 0 is any number.

    `pending` is for every agent without its own, and `agents` has those of single agents.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    pending: Pending | None = pydantic.Field(
        default=None,
        description="how many pending questions each agent may have; 0 for any number, "
        "`HANDRAISE_PENDING_QUOTA` if not set",
    )
    agents: Annotated[dict[AgentName, Pending], pydantic.Field(max_length=10_000)] = pydantic.Field(
        default_factory=dict, description="the same for single agents, by their names"
    )

    def of(self, agent: str, default: int | None) -> int | None:
        """How many pending questions an agent may have; None for any number, which `default` also means by None."""
        found = self.agents.get(agent, self.pending)
        return default if found is None else found or None


def stored_quotas(rows: dict[str, int]) -> WorkspaceQuotas:
    """The quotas from the numbers that are stored, by agent."""
    agents = {name: rows[name] for name in sorted(rows) if name != ALL_AGENTS}
    return WorkspaceQuotas(pending=rows.get(ALL_AGENTS), agents=agents)


def rows_of(quotas: WorkspaceQuotas) -> dict[str, int]:
    """The numbers to store, by agent."""
    whole = {} if quotas.pending is None else {ALL_AGENTS: quotas.pending}
    return whole | dict(sorted(quotas.agents.items()))
