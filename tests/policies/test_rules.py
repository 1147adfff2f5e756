"""What a policy may not say, and that each problem names its rule."""

from __future__ import annotations

from typing import Any

import pytest

from handraise.model.errors import InvalidPolicy
from handraise.policies.decide import compile_document
from handraise.policies.rules import MAX_EXPRESSION, MAX_RULES, named_recipients, parse_policy

ALLOW: dict[str, Any] = {"allow": {}}


def problems(document: Any) -> list[str]:
    with pytest.raises(InvalidPolicy) as refused:
        compile_document(document)
    return [str(problem) for problem in refused.value.problems]


def rule(then: Any, **more: Any) -> dict[str, Any]:
    return {"rules": [{"name": "r", "then": then, **more}]}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (None, "dictionary"),
        ([], "dictionary"),
        ({"rulez": []}, "rulez: there is no such field; did you mean 'rules'?"),
        (
            rule({"requires": {"people": ["ana"]}}),
            "then.requires: there is no such field; did you mean 'require'?",
        ),
        ({"time_zone": "Mars/Olympus"}, "is not a time zone"),
        ({"close_orphans": "soon"}, "close_orphans"),
        ({"close_orphans": 0}, "close_orphans"),
        ({"rules": [{"then": ALLOW}]}, "rules[0]: name"),
        ({"rules": [{"name": "a", "then": ALLOW}, {"name": "a", "then": ALLOW}]}, "the name of another rule"),
        ({"rules": [{"name": str(n), "then": ALLOW} for n in range(MAX_RULES + 1)]}, "at most 500 items"),
        (rule(ALLOW, whenever="true"), "rule 'r': whenever"),
        (rule(ALLOW, mode="sometimes"), "rule 'r': mode"),
        (rule(ALLOW, when=""), "rule 'r': when"),
        (rule(ALLOW, when=" " * MAX_EXPRESSION + "true"), "rule 'r': when"),
        (rule(ALLOW, when="args.amount >"), "rule 'r': when"),
        (
            rule(ALLOW, when="amount > 3"),
            "undeclared reference to 'amount': an argument of the action is args.amount",
        ),
        (rule(ALLOW, when="toll == 'x'"), "undeclared reference to 'toll': did you mean 'tool'?"),
        (rule(ALLOW, when="hour"), "gives INT and not true or false"),
        (rule(ALLOW, when="hour == 'noon'"), "rule 'r': when: "),
        (rule(ALLOW, when="true), (true"), "rule 'r': when"),
        (rule({}), "exactly one of deny, require and allow"),
        (rule({"deny": "no", "allow": {}}), "exactly one of deny, require and allow"),
        (rule({"deny": ""}), "rule 'r': then.deny.reason"),
        (rule({"allow": {"check": 1.5}}), "rule 'r': then.allow.check"),
        (rule({"require": {"quorum": 0}}), "rule 'r': then.require.quorum"),
        (rule({"require": {"people": []}}), "name at least one person"),
        (rule({"require": {"people": ["*"]}}), "'*' is nobody's name"),
        (rule({"require": {"people": ["policy:r"]}}), "'policy:r' is nobody's name"),
        (rule({"require": {"people": ["group:"]}}), "the name of a person"),
        (rule({"require": {"people": [" ann"]}}), "the name of a person"),
        (rule({"require": {"people": ["ann"], "quorum": 2}}), "but only 1 are named"),
        (rule({"require": {"one_of_each": ["group:a"]}}), "name at least two groups"),
        (rule({"require": {"one_of_each": ["group:a", "bo"]}}), "name groups"),
        (rule({"require": {"one_of_each": ["group:a", "group:a"]}}), "names a group twice"),
        (rule({"require": {"stages": [["ann"]]}}), "name at least two stages"),
        (rule({"require": {"stages": [["ann"], []]}}), "rule 'r': then.require.stages"),
        (rule({"require": {"people": ["ann"], "stages": [["ann"], ["bo"]]}}), "not both"),
        (rule({"require": {"people": ["ann"], "also": ["bo"]}}), "people replaces them"),
        (rule({"require": {"risk": "extreme"}}), "rule 'r': then.require.risk"),
        (rule({"require": {"evidence": "fax"}}), "rule 'r': then.require.evidence"),
        (rule({"require": {"valid_for": "soon"}}), "rule 'r': then.require.valid_for"),
        (rule({"require": {"valid_for": 0}}), "rule 'r': then.require.valid_for"),
        (rule({"require": {"valid_for": True}}), "rule 'r': then.require.valid_for"),
        (rule({"require": {"grants": "forever"}}), "rule 'r': then.require.grants"),
        (rule({"require": {"editable": True}}), "rule 'r': then.require.editable"),
        (rule({"deny": "no\x00"}), "NUL"),
    ],
)
def test_what_cannot_be_meant_is_refused(document: Any, said: str) -> None:
    assert any(said in problem for problem in problems(document)), problems(document)


def test_all_problems_of_all_rules_are_reported_together() -> None:
    found = problems(
        {"rules": [{"name": "a", "then": {}}, {"name": "b", "when": "nonsense(", "then": ALLOW}]}
    )
    assert [problem.split(":")[0] for problem in found] == ["rule 'a'", "rule 'b'"]


def test_short_forms_mean_the_long_ones() -> None:
    short = parse_policy({"rules": [{"name": "a", "then": {"deny": "no"}}, {"name": "b", "then": "allow"}]})
    long = parse_policy(
        {"rules": [{"name": "a", "then": {"deny": {"reason": "no"}}}, {"name": "b", "then": {"allow": None}}]}
    )
    assert short == long
    assert parse_policy(short.document()) == short


def test_a_rule_keeps_its_digest_in_another_mode_and_gets_another_one_when_it_is_rewritten() -> None:
    [enforced] = parse_policy(rule(ALLOW)).rules
    [observed] = parse_policy(rule(ALLOW, mode="observe")).rules
    [other] = parse_policy(rule({"allow": {"check": 0.5}})).rules
    assert enforced.digest == observed.digest != other.digest


def test_everybody_whom_a_rule_names_is_found_with_the_place() -> None:
    parsed = parse_policy(
        {
            "rules": [
                {"name": "a", "then": {"require": {"people": ["ann"]}}},
                {"name": "b", "then": {"require": {"also": ["bo"]}}},
                {"name": "c", "then": {"require": {"one_of_each": ["group:x", "group:y"]}}},
                {"name": "d", "then": {"require": {"stages": [["cy"], ["di", "ed"]]}}},
                {"name": "e", "then": ALLOW},
            ]
        }
    )
    assert dict(named_recipients(parsed)) == {
        "rule 'a': require.people[0]": "ann",
        "rule 'b': require.also[0]": "bo",
        "rule 'c': require.one_of_each[0]": "group:x",
        "rule 'c': require.one_of_each[1]": "group:y",
        "rule 'd': require.stages[0][0]": "cy",
        "rule 'd': require.stages[1][0]": "di",
        "rule 'd': require.stages[1][1]": "ed",
    }
