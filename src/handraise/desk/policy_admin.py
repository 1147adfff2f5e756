"""What administrators do with the policy of a workspace: read it, replace it, and resume a suspended rule."""

from __future__ import annotations

from handraise.desk.recipient_check import Recipients
from handraise.desk.rule_suspensions import suspended_rules
from handraise.model.errors import InvalidPolicy, NotFound, PermissionDenied, PreconditionFailed
from handraise.model.json_values import Json
from handraise.model.people import ADMIN_PROGRAM, OPERATOR
from handraise.model.policy_versions import PolicyVersion
from handraise.policies.decide import compile_document
from handraise.policies.rules import Policy, named_recipients
from handraise.ports import Policies

_TRIES = 5
NO_POLICY = Policy().document()
"""The document of a workspace that has no policy."""


async def checked_document(
    document: Json, *, workspace: str, recipients: Recipients | None
) -> dict[str, Json]:
    """The document as it is stored, or `InvalidPolicy` with every problem, each with its rule.

    With `recipients`, it also refuses people and groups that do not exist.
    """
    policy = compile_document(document).policy
    if recipients is not None:
        problems = await recipients.unknown(workspace, named_recipients(policy))
        if problems:
            raise InvalidPolicy(problems)
    return policy.document()


def check_author(document: dict[str, Json], current: PolicyVersion | None, *, by: str | None) -> None:
    """Raise `PermissionDenied` if whoever stores a checked document may not let it allow so much.

    What is stored already may be stored again by everybody.
    """
    policy = Policy.model_validate(document)
    if (current is not None and current.document == document) or (by or "").startswith(OPERATOR):
        return
    if policy.allow_high_risk:
        raise PermissionDenied(
            by or "",
            "only the operator can store allow_high_risk, with `handraise policy apply` at the store",
        )
    if policy.allows and (by or "").startswith(ADMIN_PROGRAM):
        raise PermissionDenied(
            by or "",
            "a token cannot store a policy that allows actions: an administrator does it in a session, or the operator "
            "with `handraise policy apply` at the store",
        )


async def put_policy(
    policies: Policies, workspace: str, document: dict[str, Json], *, by: str | None, expected: int | None
) -> tuple[PolicyVersion, bool]:
    """Store a checked document as the next version; return it, and whether it differs from the one before.

    The same document makes no new version. If `expected` is given and is not the latest version, this raises
    `PreconditionFailed`; without it, it replaces whichever version is the latest. See `check_author` for who may store what.
    """
    for _ in range(_TRIES):
        current = await policies.current(workspace)
        latest = 0 if current is None else current.version.version
        if expected not in (None, latest):
            break
        if current is not None and current.version.document == document:
            return current.version, False
        check_author(document, None if current is None else current.version, by=by)
        stored = await policies.put(workspace, document, by=by, expected=latest)
        if stored is not None:
            return stored, True
    raise PreconditionFailed(
        "Somebody has changed the policy since you read it. Nothing was replaced. Read it again, and make your "
        "change there."
    )


async def get_version(policies: Policies, workspace: str, version: int) -> PolicyVersion:
    """One version of a policy, or `NotFound`."""
    found = await policies.versions(workspace, before=version + 1, limit=1)
    if not found or found[0].version != version:
        raise NotFound(f"The policy has no version {version}.")
    return found[0]


async def resume_rule(policies: Policies, workspace: str, name: str, *, by: str | None) -> None:
    """Let a suspended rule of the latest version allow questions again, or raise `NotFound`."""
    for each in suspended_rules(await policies.current(workspace)):
        if each.name == name and await policies.lift_suspension(
            workspace, each.suspension.rule, name=name, by=by
        ):
            return
    raise NotFound(f"No rule with the name {name!r} is suspended.")
