"""Suggested rules: only for what people always approved, bounded by what they saw, and never enabled."""

from __future__ import annotations

from typing import Any

import pytest

from handraise.model.forms import Approval
from handraise.model.questions import Question, Vote, redrafted
from handraise.policies.policy_replay import PolicyReplay
from handraise.policies.suggestions import FEWEST, Suggestion, Suggestions
from tests.policies.drafts import NOON, policy, refund
from tests.policies.past import decided, ended


def asked(**arguments: Any) -> Any:
    return redrafted(refund(), form=Approval.of("refund", arguments))


def suggested(questions: list[Question]) -> list[Suggestion]:
    suggestions = Suggestions()
    suggestions.add(questions)
    return list(suggestions.found())


def usual(number: int = FEWEST) -> list[Question]:
    return [
        decided(refund(2 * place), "approve", by=f"person {place % 3}", after=60.0 * place)
        for place in range(number)
    ]


def matches(rule: dict[str, Any], draft: Any) -> bool:
    return bool(policy({**rule, "mode": "enforce"}).decide(draft, NOON).allow)


def test_what_was_always_approved_is_suggested_with_what_it_is_based_on() -> None:
    [found] = suggested(usual(21))
    assert (found.agent, found.tool, found.decisions, found.people) == ("support", "refund", 21, 3)
    assert (found.median_wait, found.bounds, found.unbounded) == (600.0, ("amount ≤ 40",), ())
    assert found.rule["mode"] == "observe"
    assert found.rule["then"] == {"allow": {"check": 0.05}}
    for amount, expected in ((0, True), (40, True), (39.5, True), (41, False), (-1, False), ("5", False)):
        assert matches(found.rule, refund(amount)) is expected, amount
    assert not matches(found.rule, refund(5, asker="another"))
    assert not matches(found.rule, asked(amount=5, to="a stranger")), "an argument that nobody has seen"


@pytest.mark.parametrize(
    "spoiler",
    [
        decided(refund(5), "deny"),
        decided(refund(5), "approve", taken_back_at=NOON),
        decided(refund(5), "approve", value={"arguments": {"amount": 4}}),
        decided(refund(5, form_risk="high"), "approve"),
        ended(refund(5), "declined", {"by": "ann"}),
    ],
    ids=["denied", "taken back", "edited", "high risk", "declined"],
)
def test_one_that_was_not_approved_as_it_was_asked_spoils_it(spoiler: Question) -> None:
    assert suggested([*usual(), spoiler]) == []
    assert suggested([spoiler, *usual()]) == []


def test_only_decisions_of_people_count() -> None:
    others = [
        decided(refund(5), "approve", by="policy:r", source="policy"),
        decided(refund(5), "approve", source="grant"),
        ended(refund(5), "expired", {}),
        ended(refund(5), "withdrawn", {"by": "support"}),
    ]
    assert suggested(usual(FEWEST - 1) + others * 5) == []
    assert [each.decisions for each in suggested(usual() + others * 5)] == [FEWEST]


def test_everybody_who_voted_is_counted() -> None:
    votes = (Vote("ann", "x"), Vote("bo", "x"))
    [found] = suggested([decided(refund(5), "approve", by="bo", votes=votes)] * FEWEST)
    assert found.people == 2


def test_few_texts_are_listed_and_many_are_not() -> None:
    past = [
        decided(asked(country="at" if place % 2 else "de", order=f"A-{place}", dry=True), "approve")
        for place in range(FEWEST)
    ]
    [found] = suggested(past)
    assert found.bounds == ('country is "at" or "de"', "dry is true")
    assert found.unbounded == ("order",)
    assert matches(found.rule, asked(country="at", order="B-1", dry=True))
    assert not matches(found.rule, asked(country="fr", order="B-1", dry=True))
    assert not matches(found.rule, asked(country="at", order="B-1", dry=False))


def test_arguments_that_are_not_always_there_and_odd_names_are_bounded_too() -> None:
    past = [
        decided(asked(amount=5), "approve"),
        decided(asked(**{'the "note"': "x", "in": 3, "amount": -2}), "approve"),
    ]
    [found] = suggested(past * FEWEST)
    assert matches(found.rule, asked(amount=5))
    assert matches(found.rule, asked(**{'the "note"': "x", "in": 3, "amount": 1}))
    assert not matches(found.rule, asked(**{'the "note"': "y", "in": 3, "amount": 1}))
    assert not matches(found.rule, asked(**{"in": 4, "amount": 1}))
    assert not matches(found.rule, asked(amount=-3))


def test_a_rule_that_would_be_too_long_is_not_suggested() -> None:
    arguments = {f"argument_{number}_{'x' * 50}": "y" * 50 for number in range(20)}
    assert suggested([decided(asked(**arguments), "approve")] * FEWEST) == []


def test_a_suggestion_covers_everything_that_it_is_based_on() -> None:
    past = usual(40)
    [found] = suggested(past)
    replay = PolicyReplay(policy(found.rule))
    replay.add(past)
    assert [each.matches for each in replay.report.rules.values()] == [40]
    assert replay.report.fewer == 0, "it only observes"
