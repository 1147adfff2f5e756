"""Whether a workspace has enough people for its policy."""

from __future__ import annotations

from handraise.desk.everybody import everybody
from handraise.policies.rule_shortages import Staffing, staffing_of
from handraise.policies.rules import Policy
from handraise.ports import Directory


async def staffing_in(
    directory: Directory, workspace: str, policy: Policy, *, without: str | None = None
) -> list[Staffing]:
    """The rules for which there are not enough people in a workspace, or just enough; also as it is `without` somebody.

    Who is disabled does not count.
    """
    people = [
        each.id
        async for each in everybody(directory, workspace)
        if each.disabled_at is None and each.id != without
    ]
    return staffing_of(policy, people, await directory.groups(workspace))
