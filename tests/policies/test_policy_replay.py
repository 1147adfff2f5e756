"""A policy over past questions: what is counted, what is listed, and that each is judged as it was asked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from handraise.model.questions import Question, posted
from handraise.policies.policy_replay import MOST_LISTED, PolicyReplay, ReplayReport
from tests.policies.drafts import NOON, open_question, policy, refund, require
from tests.policies.past import decided, ended

SMALL = {"name": "small", "when": "args.amount <= 40", "then": "allow"}
HUGE = {"name": "huge", "when": "args.amount > 900", "then": {"deny": "too much"}}
LARGE = {"name": "large", "when": "args.amount > 100", "then": {"require": {"people": ["group:finance"]}}}


def replayed(questions: list[Question], *rules: dict[str, Any], **more: Any) -> ReplayReport:
    replay = PolicyReplay(policy(*rules, **more))
    replay.add(questions)
    return replay.report


def test_what_would_end_at_once_is_fewer_questions() -> None:
    past = [decided(refund(amount), "approve") for amount in (5, 40, 50, 500)]
    report = replayed(past, SMALL, HUGE, LARGE)
    assert (report.questions, report.went_to_people, report.would_go_to_people) == (4, 4, 2)
    assert (report.fewer, report.allowed, report.denied, report.required) == (2, 2, 0, 1)
    assert report.sent_elsewhere == {"group:finance": 1}
    assert {each.name: each.matches for each in report.rules.values()} == {"small": 2, "huge": 0, "large": 1}
    assert report.is_safe


def test_what_people_denied_and_it_would_allow_is_listed_and_not_safe() -> None:
    past = [
        decided(refund(5), "deny", by="bo", number=1),
        decided(refund(6), "approve", number=2),
        ended(refund(7), "declined", {"by": "cy", "reason": "no"}),
        decided(refund(8), "approve", number=4, taken_back_at=NOON),
        ended(refund(9), "expired", {}),
    ]
    report = replayed(past, SMALL)
    assert (report.denied_but_allowed, report.is_safe) == (3, False)
    assert [each.decided_by for each in report.denied_but_allowed_list] == ["bo", "cy", "ann"]
    first = report.denied_but_allowed_list[0]
    assert (first.id, first.agent, first.tool, first.rule) == ("q1", "support", "refund", "small")


def test_what_people_approved_and_it_would_deny_is_listed() -> None:
    report = replayed([decided(refund(1_000), "approve"), decided(refund(1_000), "deny")], HUGE)
    assert (report.approved_but_denied, len(report.approved_but_denied_list), report.denied) == (1, 1, 2)
    assert report.is_safe


def test_a_long_list_is_counted_whole_and_listed_in_part() -> None:
    report = replayed([decided(refund(5), "deny")] * (MOST_LISTED + 5), SMALL)
    assert (report.denied_but_allowed, len(report.denied_but_allowed_list)) == (MOST_LISTED + 5, MOST_LISTED)


def test_spot_checks_still_go_to_people() -> None:
    rule = SMALL | {"then": {"allow": {"check": 0.25}}}
    report = replayed([decided(refund(5), "approve")] * 40, rule)
    assert (report.allowed, report.checked, report.fewer) == (40, 10.0, 30)


def test_what_a_rule_or_a_grant_answered_did_not_go_to_people() -> None:
    by_rule = decided(refund(5), "approve", by="policy:small", source="policy")
    by_grant = decided(refund(5), "approve", source="grant")
    report = replayed([by_rule, by_grant])
    assert (report.went_to_people, report.would_go_to_people, report.fewer) == (0, 1, -1)
    again = replayed([by_rule, by_grant], SMALL)
    assert (again.fewer, again.denied_but_allowed) == (0, 0)
    denied_by_rule = ended(open_question(), "declined", {"by": "policy:x", "reason": "no"})
    assert replayed([denied_by_rule]).went_to_people == 0


def test_rules_that_observe_are_counted_and_change_nothing() -> None:
    past = [decided(refund(5), "deny"), decided(refund(50), "approve")]
    report = replayed(
        past, SMALL | {"mode": "observe"}, HUGE | {"when": "args.nothing > 3", "mode": "observe"}
    )
    assert (report.fewer, report.denied_but_allowed) == (0, 0)
    assert report.rules["small"].matches == 1
    assert (report.rules["huge"].matches, report.rules["huge"].failed) == (2, 2)


def test_a_question_is_judged_as_it_was_asked_and_when_it_was_asked() -> None:
    old = policy(require(people=["group:finance"], risk="high"))
    draft = old.apply(refund(5, recipients=["ann"]), NOON, lambda: 1.0)
    past = decided(draft, "approve")
    assert past.recipients == ("group:finance",)
    as_asked = "recipients == ['ann'] && risk == 'medium' && hour == 12"
    report = replayed([past], {"name": "as asked", "when": as_asked, "then": "allow"})
    assert report.allowed == 1
    same = replayed([past], require(people=["group:finance"]))
    assert same.sent_elsewhere == {}, "it went there already"


def test_the_time_that_was_replayed_is_reported() -> None:
    days = [ended(refund(5), "expired", {}, asked_at=NOON - timedelta(days=day)) for day in (1, 3, 2)]
    report = replayed(days)
    assert (report.oldest, report.newest) == (NOON - timedelta(days=3), NOON - timedelta(days=1))
    assert replayed([]).oldest is None
    assert posted(refund(5), NOON).outcome is None
