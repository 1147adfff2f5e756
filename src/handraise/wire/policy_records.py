"""Policies, their versions and replays as they cross the wire."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from handraise.model.json_values import Json
from handraise.model.policy_versions import PolicyVersion, Suspension, policy_changes
from handraise.model.rulings import Effect, RuleMode
from handraise.wire.records import Record

if TYPE_CHECKING:
    from handraise.policies.policy_replay import ReplayReport


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


class PastQuestionRecord(Record):
    """A past question that would have ended differently: who decided it, and the rule that would have."""

    id: str
    agent: str
    tool: str
    prompt: str
    asked_at: datetime
    decided_by: str
    rule: str


class RuleCountRecord(Record):
    """How many past questions a rule matches, and for how many of them its expression fails."""

    name: str
    effect: Effect
    mode: RuleMode
    matches: int
    failed: int


class ReplayRecord(Record):
    """What a policy would have done to past questions.

    `fewer` is how many questions fewer would have gone to people. `allowed` and `denied` would have ended at once; about
    `checked` of them would still have gone to people, as spot checks. `denied_but_allowed` counts those that people denied
    and the policy would have allowed, and `approved_but_denied` the opposite; their lists have up to 100 of them.
    `sent_elsewhere` counts, for each person or group, the questions that would have needed them and were not sent to
    them. `truncated` is set if there were more questions than one request replays.
    """

    questions: int
    fewer: int
    allowed: int
    denied: int
    checked: int
    required: int
    denied_but_allowed: int
    denied_but_allowed_list: tuple[PastQuestionRecord, ...]
    approved_but_denied: int
    approved_but_denied_list: tuple[PastQuestionRecord, ...]
    sent_elsewhere: dict[str, int]
    rules: tuple[RuleCountRecord, ...]
    oldest: datetime | None = None
    newest: datetime | None = None
    truncated: bool = False

    @classmethod
    def of(cls, report: ReplayReport) -> ReplayRecord:
        """The record of a report."""
        as_they_are = [
            *("questions", "fewer", "allowed", "denied", "required", "denied_but_allowed"),
            *("approved_but_denied", "oldest", "newest", "truncated"),
        ]
        one, other = report.denied_but_allowed_list, report.approved_but_denied_list
        return cls(
            **{name: getattr(report, name) for name in as_they_are},
            checked=round(report.checked),
            denied_but_allowed_list=tuple(PastQuestionRecord(**asdict(each)) for each in one),
            approved_but_denied_list=tuple(PastQuestionRecord(**asdict(each)) for each in other),
            sent_elsewhere=dict(report.sent_elsewhere.most_common()),
            rules=tuple(RuleCountRecord(**asdict(each)) for each in report.rules.values()),
        )


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
