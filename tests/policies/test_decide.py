"""What a policy makes of a question: each effect, each field of `require`, and how rules work together."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

from handraise.model.forms import Approval
from handraise.model.questions import Draft, Need, redrafted
from handraise.model.rulings import Match
from handraise.model.timelines import Escalation, Timeline
from handraise.policies.decide import CompiledPolicy, as_asked, compile_document
from tests.policies.drafts import NOON, open_question, policy, refund, require

ALLOW = {"then": "allow"}
DENY = {"then": {"deny": "not today"}}


def applied(draft: Draft, *rules: dict[str, Any], draw: float = 1.0) -> Draft:
    return policy(*rules).apply(draft, NOON, lambda: draw)


def form_of(draft: Draft) -> Approval:
    assert isinstance(draft.form, Approval)
    return draft.form


class TestDeny:
    def test_an_approval_is_denied_at_once_with_the_reason(self) -> None:
        ruling = applied(refund(), DENY).ruling
        assert ruling is not None
        assert ruling.ending is not None
        assert ruling.ending.status == "answered"
        value = ruling.ending.record["value"]
        assert (value["decision"], value["reason"]) == ("deny", "not today")
        assert (ruling.ending.record["by"], ruling.ending.record["source"]) == ("policy:rule 1", "policy")

    def test_another_question_is_declined(self) -> None:
        ruling = applied(open_question(), DENY).ruling
        assert ruling is not None
        assert ruling.ending is not None
        assert (ruling.ending.status, ruling.ending.record["reason"]) == ("declined", "not today")

    def test_it_beats_everything_wherever_it_stands(self) -> None:
        rules = [ALLOW, require(quorum=3), DENY]
        for order in (rules, rules[::-1]):
            ruling = applied(refund(), *order).ruling
            assert ruling is not None
            assert ruling.ending is not None
            assert ruling.ending.record["value"]["decision"] == "deny"


class TestAllow:
    def test_it_allows_nothing_of_high_risk_unless_the_operator_says_so(self) -> None:
        risky = redrafted(refund(), form=form_of(refund()).model_copy(update={"risk": "high"}))
        rules = [{"name": "all", "then": "allow"}]
        for risk, document, is_allowed in [
            (refund(), {"rules": rules}, True),
            (risky, {"rules": rules}, False),
            (risky, {"rules": rules, "allow_high_risk": True}, True),
        ]:
            ruling = compile_document(document).apply(risk, NOON, lambda: 1.0).ruling
            assert ruling is not None
            assert (ruling.ending is not None) is is_allowed

    def test_an_approval_is_approved_at_once(self) -> None:
        ruling = applied(refund(), ALLOW).ruling
        assert ruling is not None
        assert ruling.ending is not None
        assert ruling.ending.record["value"]["decision"] == "approve"
        assert ruling.matches == (Match(rule="rule 1", effect="allow"),)

    def test_it_does_not_answer_other_questions(self) -> None:
        ruling = applied(open_question(), ALLOW).ruling
        assert ruling is not None
        assert (ruling.ending, ruling.matches) == (None, ())

    def test_it_counts_only_if_nothing_is_required(self) -> None:
        ruling = applied(refund(), ALLOW, require(quorum=2)).ruling
        assert ruling is not None
        assert ruling.ending is None
        assert [each.effect for each in ruling.matches] == ["allow", "require"]

    @pytest.mark.parametrize(
        ("draw", "goes_to_people"), [(0.0, True), (0.049, True), (0.05, False), (1.0, False)]
    )
    def test_a_share_of_them_goes_to_people(self, draw: float, *, goes_to_people: bool) -> None:
        rule = {"then": {"allow": {"check": 0.05}}}
        compiled = policy(rule)
        ruling = compiled.apply(refund(), NOON, lambda: draw).ruling
        assert ruling is not None
        digest = compiled.policy.rules[0].digest
        assert (ruling.checked, ruling.ending is None) == (digest if goes_to_people else None, goes_to_people)

    def test_a_suspended_rule_allows_nothing_and_the_next_one_does(self) -> None:
        rules = policy(ALLOW, {"when": "args.amount < 60", "then": "allow"}).policy
        digest = rules.rules[0].digest
        one = CompiledPolicy(rules, suspended=[digest]).apply(refund(50), NOON, lambda: 1.0).ruling
        none = CompiledPolicy(rules, suspended=[digest]).apply(refund(70), NOON, lambda: 1.0).ruling
        assert one is not None
        assert none is not None
        assert one.ending is not None
        assert one.ending.record["by"] == "policy:rule 2"
        assert none.ending is None


class TestRequire:
    def test_people_replace_those_whom_the_asker_named(self) -> None:
        draft = applied(refund(recipients=["friend"]), require(people=["group:finance"]))
        assert (draft.recipients, draft.needs) == (("group:finance",), ())
        assert draft.ruling is not None
        assert draft.ruling.asked == {"recipients": ["friend"]}

    def test_also_keeps_them_and_needs_somebody_else_too(self) -> None:
        draft = applied(refund(recipients=["friend"]), require(also=["group:legal"]))
        assert draft.recipients == ("friend", "group:legal")
        assert draft.needs == (Need(("friend",)), Need(("group:legal",)))
        assert draft.quorum == 2

    def test_also_for_a_question_to_anyone_leaves_it_to_anyone(self) -> None:
        draft = applied(refund(), require(also=["group:legal"]))
        assert (draft.recipients, draft.needs, draft.quorum) == ((), (Need(("group:legal",)),), 2)

    def test_nobody_counts_as_recipient_and_as_one_of_also(self) -> None:
        draft = applied(refund(recipients=["ann"]), require(also=["bo"]), require(also=["ann", "cy"]))
        assert draft.needs == (
            Need(("ann",)),
            Need(("bo",)),
            Need(("ann", "cy")),
            Need(("ann", "bo"), 2),
            Need(("ann", "cy"), 2),
        )
        staged = applied(
            refund(), require(stages=[["group:team"], ["boss"]]), require(also=["group:legal"], quorum=1)
        )
        assert staged.quorum == 3
        assert staged.needs == (
            Need(("group:team",), 1, 0),
            Need(("boss",), 1, 1),
            Need(("group:legal",)),
            Need(("group:team", "boss"), 2, 2),
        )

    def test_quorum(self) -> None:
        assert applied(refund(), require(quorum=3)).quorum == 3
        assert applied(refund(quorum=4), require(quorum=3)).quorum == 4
        draft = applied(
            refund(), require(people=["group:finance"], quorum=2), require(people=["group:legal"])
        )
        assert draft.needs == (Need(("group:finance",), 2), Need(("group:legal",)))
        assert draft.recipients == ("group:finance", "group:legal")

    def test_one_of_each_group_and_no_person_counts_twice(self) -> None:
        draft = applied(refund(), require(one_of_each=["group:a", "group:b", "group:c"]))
        assert draft.needs == (
            *(Need((name,)) for name in ("group:a", "group:b", "group:c")),
            *(Need(names, 2) for names in combinations(("group:a", "group:b", "group:c"), 2)),
        )
        assert draft.quorum == 3

    def test_stages_come_one_after_another_and_one_refusal_ends_it(self) -> None:
        draft = applied(refund(), require(stages=[["group:team"], ["boss", "deputy"]]))
        assert draft.needs == (Need(("group:team",), 1, 0), Need(("boss", "deputy"), 1, 1))
        assert (draft.quorum, draft.veto) == (2, True)

    def test_veto(self) -> None:
        assert applied(refund(quorum=2), require(veto=True)).veto
        assert applied(refund(quorum=2, veto=True), require()).veto
        assert not applied(refund(quorum=2), require()).veto

    def test_risk_is_never_lowered_and_high_risk_is_remembered_never(self) -> None:
        assert form_of(applied(refund(form_risk="low"), require(risk="medium"))).risk == "medium"
        assert form_of(applied(refund(form_risk="high"), require(risk="low"))).risk == "high"
        draft = refund(form_scopes=("once", "always"))
        assert form_of(applied(draft, require(risk="high"))).scopes == ("once",)

    def test_evidence(self) -> None:
        assert applied(refund(), require()).evidence is None
        assert applied(refund(), require(), require(evidence="session")).evidence == "session"

    def test_valid_for_is_the_shortest(self) -> None:
        assert form_of(applied(refund(), require(valid_for="10m"))).valid_for == 600
        assert form_of(applied(refund(form_valid_for="1m"), require(valid_for="10m"))).valid_for == 60
        two = applied(refund(), require(valid_for=300), require(valid_for="1h"), require())
        assert form_of(two).valid_for == 300

    @pytest.mark.parametrize(
        ("limit", "scopes"),
        [("always", ("once", "session", "always")), ("session", ("once", "session")), ("none", ("once",))],
    )
    def test_grants_limit_how_far_an_approval_may_be_remembered(
        self, limit: str, scopes: tuple[str, ...]
    ) -> None:
        draft = refund(form_scopes=("once", "session", "always"), conversation="c")
        assert form_of(applied(draft, require(grants=limit))).scopes == scopes

    def test_several_people_cannot_remember_an_approval(self) -> None:
        draft = refund(form_scopes=("once", "always"))
        assert form_of(applied(draft, require(quorum=2))).scopes == ("once",)

    def test_editable(self) -> None:
        draft = refund(form_editable=["amount"])
        assert form_of(applied(draft, require())).editable == form_of(draft).editable
        assert form_of(applied(draft, require(editable=False))).editable == ()

    def test_a_timeline_cannot_lead_around_the_people_whom_a_rule_names(self) -> None:
        timeline = Timeline(escalate=Escalation(after="1h", to=["friend"]), expire="2h")
        draft = applied(refund(recipients=["ann"], timeline=timeline), require(people=["bo"]))
        assert [(step.do, step.to) for step in draft.steps] == [("remind", ()), ("expire", ())]

    def test_another_question_gets_what_fits_it(self) -> None:
        draft = applied(open_question(), require(people=["ann"], risk="high", valid_for=5, editable=False))
        assert draft.recipients == ("ann",)
        assert draft.form == open_question().form


SLOW = (
    "args.amount.texts.exists(t, args.amount.body.contains(t))",
    "args.amount.texts.filter(t, args.amount.texts.filter(u, u == t).size() > 9999).size() > 9999",
)


class TestExpressions:
    @pytest.mark.parametrize(
        "when",
        [
            "agent == 'support'",
            "tool == 'refund'",
            "args.amount == 50",
            "risk == 'medium'",
            "kind == 'approval'",
            "recipients == ['ann']",
            "conversation == 'c'",
            "topic == ''",
            "hour == 13",
            "weekday == 'tuesday'",
            "now == timestamp('2026-11-17T12:00:00Z')",
            "has(args.amount) && !has(args.note)  // a comment",
        ],
    )
    def test_each_name_says_what_is_asked(self, when: str) -> None:
        compiled = policy({"when": when, "then": "allow"}, time_zone="Europe/Vienna")
        draft = refund(recipients=["ann"], conversation="c")
        assert compiled.decide(draft, NOON).allow is not None

    def test_one_that_fails_matches_what_restricts_and_never_what_allows(self) -> None:
        fails = "args.missing > 3"
        for then, effect in (({"deny": "no"}, "deny"), ({"require": {"quorum": 2}}, "require")):
            verdict = policy({"when": fails, "then": then}, {"when": "true", "then": "allow"}).decide(
                refund(), NOON
            )
            assert verdict.allow is None
            assert verdict.ruling.matches[0] == Match(rule="rule 1", effect=effect, failed=True)  # type: ignore[arg-type] # one of two
        assert policy({"when": fails, "then": "allow"}).decide(refund(), NOON).ruling.matches == ()

    def test_one_that_fails_does_not_disturb_another(self) -> None:
        rules = [{"when": f"args.amount == {number}", "then": "allow"} for number in range(60)]
        rules[30] = {"when": "args.missing > 1", "then": "allow"}
        verdict = policy(*rules).decide(refund(50), NOON)
        assert [each.rule for each in verdict.ruling.matches] == ["rule 51"]

    @pytest.mark.parametrize("when", SLOW)
    @pytest.mark.parametrize("elements", [400, 2_000], ids=["too long", "too many elements"])
    def test_one_that_runs_for_too_long_fails(self, when: str, elements: int) -> None:
        draft = refund({"texts": ["aab"] * elements, "body": "a" * 50_000})
        assert policy({"when": when, "then": "allow"}).decide(draft, NOON).allow is None
        assert policy({"when": when, "then": {"deny": "no"}}).decide(draft, NOON).deny is not None

    def test_one_that_needs_no_arguments_is_not_disturbed_by_them(self) -> None:
        draft = refund({"texts": ["aab"] * 400, "body": "a" * 50_000})
        rules = [
            {"when": when, "then": {"deny": "no"}}
            for when in (f"tool == 'refund' && {SLOW[0]}", "tool == ''")
        ]
        verdict = policy({"when": f"kind == 'choice' && {SLOW[0]}", "then": {"deny": "no"}}, *rules).decide(
            draft, NOON
        )
        assert [each.rule for each in verdict.ruling.matches] == ["rule 2"]

    def test_the_next_one_after_one_that_ran_for_too_long_is_evaluated(self) -> None:
        compiled = policy({"when": SLOW[0], "then": {"deny": "no"}})
        compiled.decide(refund({"texts": ["aab"] * 400, "body": "a" * 50_000}), NOON)
        assert compiled.decide(refund({"texts": ["aab"], "body": "a"}), NOON).deny is None


class TestObserve:
    @pytest.mark.parametrize("then", [{"deny": "no"}, {"allow": {}}, {"require": {"quorum": 5}}])
    def test_it_is_recorded_and_changes_nothing(self, then: dict[str, Any]) -> None:
        draft = refund(recipients=["ann"])
        changed = applied(draft, {"then": then, "mode": "observe"})
        assert changed.ruling is not None
        assert [each.mode for each in changed.ruling.matches] == ["observe"]
        assert redrafted(changed, ruling=None) == draft


def test_a_question_is_restored_as_its_asker_asked_it() -> None:
    timeline = Timeline(
        remind="10m", escalate=Escalation(after="1h", to=["friend"]), expire=timedelta(hours=2)
    )
    draft = refund(
        recipients=["ann"], timeline=timeline, form_editable=["amount"], form_scopes=("once", "always")
    )
    rules = [
        require(people=["bo", "cy"], quorum=2, veto=True, valid_for=60, editable=False, risk="high"),
        require(stages=[["group:a"], ["group:b"]], evidence="session"),
    ]
    changed = applied(draft, *rules)
    assert changed.needs
    assert changed.ruling is not None
    assert set(changed.ruling.asked) == {"form", "quorum", "recipients", "steps", "veto"}
    assert as_asked(changed) == draft
    assert as_asked(draft) is draft


def test_what_closes_orphans_is_recorded_and_allows_and_requires_nothing() -> None:
    for rules in ([], [ALLOW], [require(risk="high")]):
        plain = policy(*rules).apply(refund(), NOON, lambda: 1.0)
        closing = policy(*rules, close_orphans="1h").apply(refund(), NOON, lambda: 1.0)
        assert closing.ruling is not None
        assert plain.ruling is not None
        assert (closing.ruling.close_orphans, plain.ruling.close_orphans) == (3600.0, None)
        assert closing.ruling.ending == plain.ruling.ending
        assert redrafted(closing, ruling=None) == redrafted(plain, ruling=None)


def test_the_text_of_a_ruling_is_its_json() -> None:
    drafts = [
        applied(
            refund(), require(veto=True, quorum=2), {"when": "args.missing > 1", "then": {"require": {}}}
        ),
        applied(refund(), require(risk="high")),
        policy({"name": 'a "b"', "then": {"allow": {"check": 1}}}).apply(refund(), NOON, lambda: 0.0),
        policy(require(risk="high"), close_orphans="90s").apply(refund(), NOON, lambda: 0.0),
    ]
    for draft in drafts:
        assert draft.ruling is not None
        assert draft.ruling.text == json.dumps(draft.ruling.to_json())
