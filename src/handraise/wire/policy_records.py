"""Policies, their versions and replays as they cross the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from handraise.model.json_values import Json
from handraise.model.policy_versions import PolicyVersion, Suspension, policy_changes
from handraise.wire.records import Record


class SuspendedRuleRecord(Record):
    """A rule that allows nothing any more, because `by` denied the question that was a spot check of it."""

    rule: str
    question_id: str
    by: str | None = None
    at: datetime

    @classmethod
    def of(cls, name: str, suspension: Suspension) -> SuspendedRuleRecord:
        """The record of a suspension of the rule with this name."""
        return cls(rule=name, question_id=suspension.question_id, by=suspension.by, at=suspension.at)


class PolicyRecord(Record):
    """A version of the policy: its document, who stored it, and when. Version 0 is no policy at all.

    `suspended` lists the suspended rules of the latest version.
    """

    version: int
    document: dict[str, Any]
    by: str | None = None
    at: datetime | None = None
    suspended: tuple[SuspendedRuleRecord, ...] = ()


class PolicyChangeRecord(Record):
    """A part of the policy that a version changed: a rule by its name, or a setting."""

    part: str
    change: Literal["added", "changed", "removed"]


class PolicyVersionRecord(Record):
    """A version of the policy without its document, and what it changed."""

    version: int
    by: str | None = None
    at: datetime
    changes: tuple[PolicyChangeRecord, ...] = ()

    @classmethod
    def of(cls, version: PolicyVersion, before: PolicyVersion | None) -> PolicyVersionRecord:
        """The record of a version; `before` is the version before it."""
        return cls(
            version=version.version,
            by=version.by,
            at=version.at,
            changes=changes_between(None if before is None else before.document, version.document),
        )


class PolicyVersionPage(Record):
    """Some versions of the policy, the latest first; `next` is the cursor of the page after it."""

    items: tuple[PolicyVersionRecord, ...]
    next: str | None = None


def changes_between(before: Json, after: Json) -> tuple[PolicyChangeRecord, ...]:
    """Which parts differ between two documents. Before the first version there is nothing."""
    changes = policy_changes(before, after)
    parts = {name: each for name, each in changes.items() if name.startswith("rule ")}
    # The order changes with every rule that is added or removed. It matters by itself only if nothing else changed.
    parts |= {name: each for name, each in changes.items() if name != "order of rules" or not parts}
    return tuple(
        PolicyChangeRecord(
            part=name,
            change="added" if each["from"] is None else "removed" if each["to"] is None else "changed",
        )
        for name, each in sorted(parts.items())
    )
