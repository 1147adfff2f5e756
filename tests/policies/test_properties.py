"""What holds for every policy and every question: found by Hypothesis, which looks for the ones for which it does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from handraise.model.forms import Approval
from handraise.model.questions import Draft, redrafted
from handraise.model.timelines import Escalation, Timeline
from handraise.policies.decide import as_asked
from tests.policies.drafts import NOON, open_question, policy, refund

PEOPLE = {
    "ann": {"group:a"},
    "bo": {"group:a", "group:b"},
    "cy": {"group:b"},
    "di": {"group:c"},
    "ed": {"group:a", "group:b", "group:c"},
    "flo": set[str](),
}
GROUPS = ["group:a", "group:b", "group:c"]
RISKS = ["low", "medium", "high"]
EVIDENCE = [None, "session"]

names = st.lists(st.sampled_from([*PEOPLE, *GROUPS]), min_size=1, max_size=3, unique=True)
spans = st.sampled_from([60, "10m", "1h"])
TRUE, FALSE, FAILS = "args.amount > 10", "args.amount > 1000", "args.missing > 10"


@st.composite
def requirements(draw: st.DrawFn) -> dict[str, Any]:
    """What a rule may require, without what `parse_policy` refuses."""
    found: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "quorum": st.integers(1, 4),
                "veto": st.booleans(),
                "risk": st.sampled_from(RISKS),
                "evidence": st.sampled_from(EVIDENCE[1:]),
                "valid_for": spans,
                "grants": st.sampled_from(["none", "session", "always"]),
                "editable": st.just(False),
            },
        )
    )
    match draw(st.sampled_from(["nobody", "people", "also", "one_of_each", "stages"])):
        case "people":
            people = draw(names)
            if not any(name.startswith("group:") for name in people):
                found["quorum"] = min(found.get("quorum", 1), len(people))
            found["people"] = people
        case "also":
            found["also"] = draw(names)
        case "one_of_each":
            found["one_of_each"] = draw(
                st.lists(st.sampled_from(GROUPS), min_size=2, max_size=3, unique=True)
            )
        case "stages":
            found["stages"] = draw(st.lists(names, min_size=2, max_size=3))
    return found


thens = st.one_of(
    st.just({"deny": "no"}),
    st.builds(lambda check: {"allow": {"check": check}}, st.sampled_from([0, 0.5, 1])),
    requirements().map(lambda fields: {"require": fields}),
)
rules = st.fixed_dictionaries(
    {
        "when": st.sampled_from([TRUE, FALSE, FAILS]),
        "then": thens,
        "mode": st.sampled_from(["enforce", "enforce", "observe"]),
    }
)
policies = st.lists(rules, max_size=5)


@st.composite
def approvals(draw: st.DrawFn) -> Draft:
    quorum = draw(st.integers(1, 3))
    risk = draw(st.sampled_from(RISKS))
    scopes = (
        ("once",) if risk == "high" or quorum > 1 else draw(st.sampled_from([("once",), ("once", "always")]))
    )
    recipients: list[str] = draw(st.one_of(st.just([]), names))
    if recipients and not any(name.startswith("group:") for name in recipients):
        quorum = min(quorum, len(recipients))
    options: dict[str, Any] = {}
    escalates: bool = draw(st.booleans())
    if recipients and escalates:
        options["timeline"] = Timeline(escalate=Escalation(after="1h", to=draw(names)), expire="2h")
    return refund(
        recipients=recipients,
        quorum=quorum,
        veto=draw(st.booleans()) and quorum > 1,
        form_risk=risk,
        form_scopes=scopes,
        form_valid_for=draw(st.one_of(st.none(), spans)),
        form_editable=draw(st.sampled_from([[], ["amount"]])),
        **options,
    )


questions = st.one_of(approvals(), st.just(open_question()), st.just(open_question(recipients=["ann"])))
draws = st.floats(0, 1)


def suffice(draft: Draft, people: Iterable[str], *, with_recipients: bool) -> bool:
    """Whether these people together can answer it, whatever they did before, and when it has escalated."""
    audience = {*draft.recipients, *(name for step in draft.steps for name in step.to)}
    counted = [each for each in people if not audience or audience & {each, *PEOPLE[each]}]
    if not with_recipients:
        counted = list(people)
    return len(counted) >= draft.quorum and all(
        sum(bool({each, *PEOPLE[each]} & {*need.people}) for each in counted) >= need.count
        for need in draft.needs
    )


@given(policies, rules, questions, st.integers(0, 5), draws)
def test_a_deny_beats_everything(
    others: list[dict[str, Any]], last: dict[str, Any], draft: Draft, place: int, draw: float
) -> None:
    deny = {"when": "true", "then": {"deny": "no"}}
    ruling = policy(*others[:place], deny, *others[place:], last).apply(draft, NOON, lambda: draw).ruling
    assert ruling is not None
    assert ruling.ending is not None
    if ruling.ending.status == "answered":
        assert ruling.ending.record["value"]["decision"] == "deny"
    else:
        assert ruling.ending.status == "declined"


@given(policies, requirements(), approvals(), st.sampled_from([TRUE, FAILS]), draws)
def test_adding_a_requirement_makes_nothing_easier(
    others: list[dict[str, Any]], added: dict[str, Any], draft: Draft, when: str, draw: float
) -> None:
    before = policy(*others).apply(draft, NOON, lambda: draw)
    after = policy(*others, {"when": when, "then": {"require": added}}).apply(draft, NOON, lambda: draw)
    assert before.ruling is not None
    assert after.ruling is not None
    if after.ruling.ending is not None:
        assert after.ruling.ending.record["value"]["decision"] == "deny"
        return
    assert before.ruling.ending is None or before.ruling.ending.record["value"]["decision"] == "approve"
    one, other = before.form, after.form
    assert isinstance(one, Approval)
    assert isinstance(other, Approval)
    assert after.quorum >= before.quorum
    assert after.veto >= before.veto
    assert RISKS.index(other.risk) >= RISKS.index(one.risk)
    assert EVIDENCE.index(after.evidence) >= EVIDENCE.index(before.evidence)
    assert {*other.scopes} <= {*one.scopes}
    assert {*other.editable} <= {*one.editable}
    if one.valid_for is not None:
        assert other.valid_for is not None
        assert other.valid_for <= one.valid_for


@given(
    st.lists(requirements(), min_size=1, max_size=3),
    requirements(),
    approvals(),
    st.sets(st.sampled_from([*PEOPLE])),
)
def test_who_suffices_for_more_requirements_suffices_for_fewer(
    fewer: list[dict[str, Any]], added: dict[str, Any], draft: Draft, people: set[str]
) -> None:
    def applied(asked: Draft, *required: dict[str, Any]) -> Draft:
        return policy(*({"then": {"require": each}} for each in required)).apply(asked, NOON, lambda: 1.0)

    after = applied(draft, *fewer, added)
    if not suffice(after, people, with_recipients=True):
        return
    for each in (*fewer, added):  # each rule by itself is met, however the others are
        replaces = replaced([each])
        # How many of the asker's own recipients must agree says nothing about the people of a rule that replaces them.
        alone = applied(redrafted(draft, quorum=1) if replaces else draft, each)
        if replaces or not replaced([*fewer, added]):
            assert suffice(alone, people, with_recipients=True), (alone, after)
        else:  # another rule replaces the asker's recipients, so only what this rule names counts
            needs = tuple(need for need in alone.needs if {*need.people} <= {*each.get("also", ())})
            assert suffice(redrafted(alone, needs=needs), people, with_recipients=False)


def replaced(required: list[dict[str, Any]]) -> bool:
    return any(each.get(name) for each in required for name in ("people", "one_of_each", "stages"))


@given(st.lists(requirements(), min_size=1, max_size=3), approvals(), st.sets(st.sampled_from([*PEOPLE])))
def test_without_a_rule_that_replaces_recipients_the_askers_own_must_suffice_too(
    required: list[dict[str, Any]], draft: Draft, people: set[str]
) -> None:
    after = policy(*({"then": {"require": each}} for each in required)).apply(draft, NOON, lambda: 1.0)
    if not replaced(required) and suffice(after, people, with_recipients=True):
        assert suffice(draft, people, with_recipients=True)


@given(policies, questions, st.lists(thens, min_size=1, max_size=30), draws)
def test_an_expression_that_fails_never_allows(
    others: list[dict[str, Any]], draft: Draft, failing: list[dict[str, Any]], draw: float
) -> None:
    only = (
        policy(*({"when": FAILS, "then": then} for then in failing)).apply(draft, NOON, lambda: draw).ruling
    )
    assert only is not None
    assert only.ending is None or only.ending.record.get("value", {}).get("decision") != "approve"
    without = policy(*others).apply(draft, NOON, lambda: draw)
    both = policy(*others, *({"when": FAILS, "then": then} for then in failing)).apply(
        draft, NOON, lambda: draw
    )
    assert both.ruling is not None
    assert without.ruling is not None
    if (
        both.ruling.ending is not None
        and both.ruling.ending.record.get("value", {}).get("decision") == "approve"
    ):
        assert without.ruling.ending == both.ruling.ending


@given(policies, policies, questions, draws)
def test_rules_that_observe_change_nothing(
    enforced: list[dict[str, Any]], observed: list[dict[str, Any]], draft: Draft, draw: float
) -> None:
    observing = [{**each, "mode": "observe"} for each in observed]
    without = policy(*enforced).apply(draft, NOON, lambda: draw)
    both = policy(*enforced, *observing).apply(draft, NOON, lambda: draw)
    assert without.ruling is not None
    assert both.ruling is not None
    assert redrafted(both, ruling=None) == redrafted(without, ruling=None)
    assert both.ruling.ending == without.ruling.ending
    assert (both.ruling.asked, both.ruling.checked) == (without.ruling.asked, without.ruling.checked)


@given(policies, questions, draws)
def test_every_question_can_be_restored_as_it_was_asked(
    some: list[dict[str, Any]], draft: Draft, draw: float
) -> None:
    changed = policy(*some).apply(draft, NOON, lambda: draw)
    assert as_asked(changed) == draft
    assert changed.definition == draft.definition
