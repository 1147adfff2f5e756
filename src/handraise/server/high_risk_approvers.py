"""Who of the people of a workspace can approve an action of high risk, by the rule that an answer goes by."""

from __future__ import annotations

from collections.abc import Iterable

from handraise.model.evidence import approves_high_risk
from handraise.model.identities import Person
from handraise.ports import Directory
from handraise.server.settings import ServerSettings


async def high_risk_approvers(
    directory: Directory, settings: ServerSettings, workspace: str, people: Iterable[Person]
) -> frozenset[str]:
    """Those of these people who have evidence that is strong enough, or can sign in with the provider to have it."""
    has_provider = settings.oidc_issuer is not None and workspace == settings.oidc_workspace
    evidence = await directory.evidence(workspace)
    return frozenset(
        each.id
        for each in people
        if each.disabled_at is None
        and (
            (has_provider and each.email is not None)
            or any(map(approves_high_risk, evidence.get(each.id, ())))
        )
    )
