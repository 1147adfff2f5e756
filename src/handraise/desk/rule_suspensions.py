"""Rules that a denied spot check has suspended: which they are, and who wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy, Suspension
from handraise.policies.rules import parse_policy
from handraise.ports import Policies

_VERSIONS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class SuspendedRule:
    """A rule of the current policy that allows nothing any more."""

    name: str
    suspension: Suspension


def suspended_rules(current: CurrentPolicy | None) -> list[SuspendedRule]:
    """The rules of the latest version that are suspended. A rule that was written differently is not in it."""
    if current is None or not current.suspensions:
        return []
    by_digest = {each.rule: each for each in current.suspensions}
    rules = parse_policy(current.version.document).rules
    return [SuspendedRule(rule.name, by_digest[rule.digest]) for rule in rules if rule.digest in by_digest]


async def find_author(policies: Policies, workspace: str, rule: str) -> str | None:
    """Who applied the version since which the policy has this rule as it is written now; None if that is not known.

    Another mode does not make it another rule.
    """
    written: Json = None
    author: str | None = None
    before: int | None = None
    while versions := await policies.versions(workspace, before=before, limit=_VERSIONS_AT_ONCE):
        for version in versions:
            found = _written(version.document, rule)
            if found is None or written not in (None, found):
                return author
            written, author, before = found, version.by, version.version
    return author


async def suspended_rules_for(
    policies: Policies, workspace: str, person: str, *, is_admin: bool
) -> Sequence[tuple[SuspendedRule, bool]]:
    """The suspended rules that this person is shown, each with whether they wrote it.

    Administrators are shown all, and others those that they wrote while they were administrators.
    """
    found = suspended_rules(await policies.current(workspace))
    told = [(each, person == await find_author(policies, workspace, each.name)) for each in found]
    return [(each, is_author) for each, is_author in told if is_author or is_admin]


def _written(document: Json, name: str) -> Json:
    """A rule of a stored document without its mode, or None if it is not there."""
    for rule in document["rules"]:
        if rule["name"] == name:
            return {part: value for part, value in rule.items() if part != "mode"}
    return None
