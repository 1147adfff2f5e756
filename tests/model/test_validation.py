from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from handraise import (
    Action,
    Approval,
    Choice,
    Confirm,
    Field,
    Form,
    InvalidAnswer,
    InvalidQuestion,
    MultiChoice,
    Open,
    Option,
)
from handraise.forms import AnyForm
from handraise.model.decisions import decision_of
from handraise.model.drafting import compose
from handraise.model.validation import MAX_TEXT, check_answer, pattern_problem
from handraise.questions import Limits

PAY = Approval.of(
    "pay", {"amount": 10, "to": {"name": "ana"}, "urgent": False}, editable=["amount", "urgent"]
)

AGAIN: list[tuple[str, AnyForm, Any]] = [
    ("a very large number", Open(type="number"), 1e300),
    ("a large whole number", Open(type="integer"), 9e15),
    ("a number that is large and whole", Open(type="number"), 1e22),
    ("a padded address", Open(type="email", min_length=8), "a@b.example   "),
    ("a date without dashes", Open(type="date"), "20261115"),
    ("an instant in another notation", Open(type="datetime"), " 2026-11-15 09:30:00,5+01:00"),
    ("an edited approval", PAY, {"decision": "approve", "arguments": {"amount": 7}}),
    (
        "all arguments, one edited",
        PAY,
        {"decision": "approve", "arguments": {**PAY.action.arguments, "amount": 7}},
    ),
    ("an edit that changes nothing", PAY, {"decision": "approve", "arguments": {"amount": "10"}}),
    (
        "an edit beside deep arguments",
        Approval.of("deploy", {"count": 1, "spec": {"a": {"b": {"c": {"d": [1]}}}}}, editable=["count"]),
        {"decision": "approve", "arguments": {"count": 2}},
    ),
    ("options and other text", MultiChoice.of("a", "b", allow_other=True), [{"other": " x "}, "B", "a"]),
]


def problems_of(form: AnyForm, value: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidAnswer) as misfit:
        check_answer(form, value)
    return [(problem.path, problem.message) for problem in misfit.value.problems]


@pytest.mark.parametrize(("form", "value"), [case[1:] for case in AGAIN], ids=[case[0] for case in AGAIN])
def test_a_canonical_answer_fits_again_unchanged(form: AnyForm, value: Any) -> None:
    canonical = check_answer(form, value)
    assert check_answer(form, canonical) == canonical


@pytest.mark.parametrize(
    ("form", "padded"),
    [
        (Open(type="email", min_length=10), "a@b.example".replace("example", "ex") + " " * 10),
        (Open(type="uri", pattern=r"\s"), "https://example.com "),
        (Open(type="date", max_length=8), "20261115"),
    ],
    ids=["length", "pattern", "longer when written out"],
)
def test_bounds_hold_for_the_canonical_text_not_for_the_typed_one(form: Open, padded: str) -> None:
    assert problems_of(form, padded)


def test_every_problem_of_a_form_is_told_with_its_path() -> None:
    form = Form(
        fields=(
            Field(name="count", form=Open(type="integer", minimum=1)),
            Field(name="sizes", form=MultiChoice.of("S", "M", at_most=2)),
            Field(name="ok", form=Confirm()),
            Field(name="note", form=Open(max_length=3), required=False),
        )
    )
    found = problems_of(form, {"count": 0, "sizes": ["S", "XL", "S"], "note": "long", "more": 1})
    assert [path for path, _ in found] == ["more", "count", "sizes[1]", "sizes[2]", "sizes", "ok", "note"]


def test_nothing_given_for_an_optional_field_is_left_out() -> None:
    form = Form(fields=(Field(name="a", form=Open()), Field(name="b", form=Open(), required=False)))
    assert check_answer(form, {"a": "x", "b": None}) == {"a": "x"}


@pytest.mark.parametrize("value", [0, 1, 0.0, "1", "y", "ok", [], {}, None, [True], "yes, but not in prod"])
def test_only_yes_or_no_confirms(value: Any) -> None:
    assert problems_of(Confirm(), value) == [("", "expected yes or no")]


@pytest.mark.parametrize(
    "value", [1, "yes", "ok", "Approve", "approved", None, [], ["approve"], {}, {"decision": 1}]
)
def test_only_the_word_or_a_boolean_approves(value: Any) -> None:
    assert problems_of(PAY, value)


def test_a_decision_may_name_the_digest_of_what_it_leads_to_and_of_nothing_else() -> None:
    edit = {"decision": "approve", "arguments": {"amount": 7}}
    canonical = check_answer(PAY, edit)
    edited = Action(tool="pay", arguments={**PAY.action.arguments, "amount": 7})
    assert canonical["digest"] == edited.digest
    for known in (PAY.digest, edited.digest):
        assert check_answer(PAY, {**edit, "digest": known}) == canonical
    assert problems_of(PAY, {**edit, "digest": "0" * 64}) == [
        ("digest", "the decision is about another action")
    ]
    assert problems_of(PAY, {"decision": "approve", "digest": edited.digest})


def test_arguments_that_may_not_be_changed_may_be_repeated() -> None:
    same = {"decision": "approve", "arguments": PAY.action.arguments}
    assert check_answer(PAY, same) == {"decision": "approve", "digest": PAY.digest}
    assert problems_of(PAY, {"decision": "approve", "arguments": {"to": {"name": "eve"}}}) == [
        ("arguments.to", "this argument may not be changed")
    ]


def test_a_decision_carries_the_action_that_was_approved() -> None:
    plain = decision_of(PAY, check_answer(PAY, "approve"))
    assert (bool(plain), plain.edited, plain.action) == (True, False, PAY.action)
    edited = decision_of(PAY, check_answer(PAY, {"decision": True, "arguments": {"amount": 7}}))
    assert (bool(edited), edited.edited) == (True, True)
    assert edited.action.arguments == {**PAY.action.arguments, "amount": 7}
    denied = decision_of(PAY, check_answer(PAY, {"decision": "deny", "reason": "too much"}))
    assert (bool(denied), denied.reason) == (False, "too much")


def test_an_unknown_option_is_told_the_labels() -> None:
    form = Choice.of(Option(id="bg", label="Blue-green"), Option(id="can", label="Canary"))
    told = "“Yolo” is not one of the options: Blue-green, Canary"
    assert problems_of(form, "Yolo") == [("", told)]
    own = form.model_copy(update={"allow_other": True})
    assert problems_of(own, "Yolo") == [
        ("", f'{told}. An answer in your own words must be marked as "other"')
    ]


@pytest.mark.parametrize("value", [10**5_000, float("nan"), [[[[[]]]]], "x" * (MAX_TEXT + 1)], ids="hnds")
@pytest.mark.parametrize(
    "form", [Open(type="integer"), Open(type="number"), Open(), PAY, Choice.of("a")], ids=str
)
def test_what_is_too_large_for_any_answer_does_not_fit(form: AnyForm, value: Any) -> None:
    assert problems_of(form, value)


EVIL = [
    r"(a+)+$",
    r"(x+x+)+y",
    r"(a|aa)+$",
    r"^(a?){50}a{50}$",
    r"(.*a){20}b",
    r"(.*)*b",
    r"(a{0,300}){0,300}b",
    r"(a{0,300})?{0,300}b",
    r"a{0,300}{0,300}b",
    r"(?x)(a{0,300}) {0,300}b",
    r"(?i-s)((a{0,30}){0,30}){0,30}b",
    "a{1,1000}" * 50 + "b",
    r".{0,100000}!",
    r"(\w{0,50}){0,50}!",
    r"(a)\1",
    r"(?=a)a",
    r"(?<!b)a",
    r"(",
    r"[",
    r"*",
    r"\p{Nonsense}",
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", EVIL)
def test_an_evil_pattern_is_refused_at_ask_time_or_finishes(pattern: str) -> None:
    form = Open(pattern=pattern)
    with suppress(InvalidQuestion):
        compose("What?", {"form": form}, new_id="q", workspace="w", asker="agent", limits=Limits())
        for text in ("a" * MAX_TEXT, "é" * MAX_TEXT):
            with suppress(InvalidAnswer):
                assert check_answer(form, text) == text


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\d{4}-\d{2}-\d{2}$",
        r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        r"^([a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}$",
        r"^(\d{1,3}\.){3}\d{1,3}$",
        r"^\(?x{2}\)?$",
        r"^.{1,500}$",
        r"\p{Lu}\w*",
        r"^\x{1F600}$",
        r"(?i)^yes$",
        r"(?P<x>a)",
    ],
)
def test_an_ordinary_pattern_can_be_used(pattern: str) -> None:
    assert pattern_problem(pattern) is None


def test_a_pattern_is_searched_for_unless_it_is_anchored() -> None:
    assert check_answer(Open(pattern=r"\d{3}"), "abc 123 def") == "abc 123 def"
    assert problems_of(Open(pattern=r"^\d{3}$"), "abc 123 def")
    assert problems_of(Open(pattern=r"^\d{3}$"), "123\n")


def test_an_answer_of_many_parts_is_refused_at_once_and_in_few_words() -> None:
    form = MultiChoice.of(*(f"{n} {'x' * 400}" for n in range(20)), allow_other=True)
    for junk in ([{"other": str(n)} for n in range(50_000)], ["no"] * 3_000, [f"no {n}" for n in range(39)]):
        with pytest.raises(InvalidAnswer) as misfit:
            check_answer(form, junk)
        assert len(misfit.value.problems) <= 51
        assert len(str(misfit.value)) < 100_000
    fields = Form(fields=(Field(name="n", form=Open()),))
    with pytest.raises(InvalidAnswer) as misfit:
        check_answer(fields, {f"{n}{'y' * 1_000}": 1 for n in range(500)})
    assert len(str(misfit.value)) < 100_000
