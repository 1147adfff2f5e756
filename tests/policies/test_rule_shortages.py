"""Whether there are enough people for a rule: what nobody can fulfil is said before somebody waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from handraise.policies.rule_shortages import staffing_of
from handraise.policies.rules import parse_policy

PEOPLE = ("ann", "bob", "cid")
GROUPS = {"finance": ["ann", "bob", "gone"], "legal": ["cid"], "empty": []}


def found(require: dict[str, Any], **rule: Any) -> list[str]:
    policy = parse_policy({"rules": [{"name": "refunds", "then": {"require": require}, **rule}]})
    return [each.text for each in staffing_of(policy, PEOPLE, GROUPS)]


@pytest.mark.parametrize(
    ("require", "said"),
    [
        (
            {"people": ["group:finance"], "quorum": 7},
            ["rule 'refunds' needs 7 people of group:finance, but there are only 2. Nobody can fulfil it."],
        ),
        (
            {"people": ["group:finance"], "quorum": 2},
            [
                "rule 'refunds' needs 2 people of group:finance, and there are exactly 2. One absence blocks it."
            ],
        ),
        ({"people": ["group:finance"]}, []),
        ({"people": ["group:finance", "cid"], "quorum": 2}, []),
        ({"people": ["ann", "bob"], "quorum": 2}, []),
        (
            {"people": ["group:empty"]},
            ["rule 'refunds' needs 1 person of group:empty, but there is nobody."],
        ),
        (
            {"also": ["group:legal"]},
            ["rule 'refunds' needs 1 person of group:legal, and there is exactly 1. One absence blocks it."],
        ),
        (
            {"one_of_each": ["group:finance", "group:gone"]},
            ["rule 'refunds' needs 1 person of group:gone, but there is nobody."],
        ),
        (
            {"stages": [["group:legal"], ["cid", "group:legal"]]},
            ["rule 'refunds' needs 2 people of group:legal, cid, but there is only 1. Nobody can fulfil it."],
        ),
        ({"quorum": 4}, ["rule 'refunds' needs 4 people, but there are only 3. Nobody can fulfil it."]),
        ({"quorum": 3}, []),
    ],
)
def test_what_a_rule_needs_is_compared_with_who_is_there(require: dict[str, Any], said: list[str]) -> None:
    assert found(require) == said


def test_rules_that_observe_and_workspaces_without_people_are_left_out() -> None:
    require = {"people": ["group:finance"], "quorum": 7}
    assert found(require, mode="observe") == []
    policy = parse_policy({"rules": [{"name": "refunds", "then": {"require": require}}]})
    assert staffing_of(policy, (), GROUPS) == []
