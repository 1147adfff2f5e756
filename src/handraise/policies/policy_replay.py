"""Replay a policy over past questions: what it would have decided, compared with what people decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from handraise.model.forms import Approval
from handraise.model.outcomes import Answered, Declined
from handraise.model.questions import Question
from handraise.model.rulings import POLICY, Effect, RuleMode
from handraise.policies.decide import CompiledPolicy, as_asked

MOST_LISTED = 100
"""How many questions of each list a report names. All of them are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastQuestion:
    """A past question that would have ended differently: what was asked, who decided, and the rule that would have."""

    id: str
    agent: str
    tool: str
    prompt: str
    asked_at: datetime
    decided_by: str
    rule: str


@dataclass(slots=True)
class RuleCount:
    """How many past questions a rule matches, and for how many of them its expression fails."""

    name: str
    effect: Effect
    mode: RuleMode
    matches: int = 0
    failed: int = 0


@dataclass(slots=True)
class ReplayReport:
    """What a policy would have done to past questions.

    `went_to_people` are those that people had to answer, and `would_go_to_people` those that they would have to. `allowed`
    and `denied` would have ended at once; about `checked` of the allowed ones would still go to people, as spot checks.
    `required` are those that a rule would have changed. `sent_elsewhere` counts, for each person or group, the questions
    that would have needed them and were not sent to them.
    """

    questions: int = 0
    went_to_people: int = 0
    would_go_to_people: int = 0
    allowed: int = 0
    denied: int = 0
    checked: float = 0.0
    required: int = 0
    denied_but_allowed: int = 0
    denied_but_allowed_list: list[PastQuestion] = field(default_factory=list)
    approved_but_denied: int = 0
    approved_but_denied_list: list[PastQuestion] = field(default_factory=list)
    sent_elsewhere: Counter[str] = field(default_factory=Counter)
    rules: dict[str, RuleCount] = field(default_factory=dict)
    oldest: datetime | None = None
    newest: datetime | None = None
    truncated: bool = False

    @property
    def fewer(self) -> int:
        """How many questions fewer would have gone to people; negative if there would have been more."""
        return self.went_to_people - self.would_go_to_people - round(self.checked)

    @property
    def is_safe(self) -> bool:
        """Whether the policy would have allowed nothing that people denied."""
        return not self.denied_but_allowed


class PolicyReplay:
    """Applies a policy to past questions, and counts. Nothing is kept of a question that would have ended as it did."""

    def __init__(self, policy: CompiledPolicy) -> None:
        self._policy = policy
        self.report = ReplayReport(
            rules={rule.name: RuleCount(rule.name, rule.effect, rule.mode) for rule in policy.policy.rules}
        )

    def add(self, questions: Iterable[Question]) -> None:
        """Count some settled questions."""
        for question in questions:
            self._add(question)

    def _add(self, question: Question) -> None:
        report = self.report
        report.questions += 1
        report.newest = max(report.newest or question.asked_at, question.asked_at)
        report.oldest = min(report.oldest or question.asked_at, question.asked_at)
        verdict = self._policy.decide(as_asked(question), question.asked_at)
        for match in verdict.ruling.matches:
            count = report.rules[match.rule]
            count.matches += 1
            count.failed += match.failed
        went_to_people = _went_to_people(question)
        report.went_to_people += went_to_people
        if verdict.deny is not None:
            report.denied += 1
            self._compare(question, verdict.deny.name, allows=False)
            return
        if verdict.allow is not None and verdict.allow.then.allow is not None:
            report.allowed += 1
            if went_to_people:
                report.checked += verdict.allow.then.allow.check
            self._compare(question, verdict.allow.name, allows=True)
            return
        # A grant would have answered it again, and so would the person who declined or withdrew it.
        report.would_go_to_people += went_to_people or _ended_by_policy(question)
        if verdict.required is not None:
            report.required += 1
            named = dict.fromkeys(name for need in verdict.required.needs for name in need.people)
            report.sent_elsewhere.update(name for name in named if name not in question.recipients)

    def _compare(self, question: Question, rule: str, *, allows: bool) -> None:
        """Note a question if people decided it the other way."""
        approved, by = _decided(question)
        if approved is None or approved == allows:
            return
        report = self.report
        listed = report.denied_but_allowed_list if allows else report.approved_but_denied_list
        if allows:
            report.denied_but_allowed += 1
        else:
            report.approved_but_denied += 1
        if len(listed) < MOST_LISTED:
            form = question.form
            listed.append(
                PastQuestion(
                    id=question.id,
                    agent=question.asker,
                    tool=form.action.tool if isinstance(form, Approval) else "",
                    prompt=question.prompt,
                    asked_at=question.asked_at,
                    decided_by=by or "",
                    rule=rule,
                )
            )


def _ended_by_policy(question: Question) -> bool:
    by = getattr(question.outcome, "by", None)
    return by is not None and by.startswith(POLICY)


def _went_to_people(question: Question) -> bool:
    """Whether people were asked: neither a rule nor a grant answered it."""
    return not _ended_by_policy(question) and getattr(question.outcome, "source", None) != "grant"


def _decided(question: Question) -> tuple[bool | None, str | None]:
    """Whether people approved the action, and who said so; None if no person decided it.

    To decline an action is to deny it. An approval that was taken back counts as denied.
    """
    match question.outcome:
        case Answered(source="person", by=by) if (decision := question.decision) is not None:
            return decision.approved and question.taken_back_at is None, by
        case Declined(by=by) if isinstance(question.form, Approval) and not _ended_by_policy(question):
            return False, by
        case _:
            return None, None
