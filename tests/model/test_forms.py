from __future__ import annotations

import copy
from datetime import date
from typing import Any, Literal

import pydantic
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handraise import Action, Approval, Choice, Confirm, Field, InvalidQuestion, MultiChoice, Open, Option
from handraise.model.forms import form_from_json, form_to_json
from handraise.model.json_values import MAX_INTEGER

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(TEXT, JSON, min_size=1, max_size=4)


def alike(one: Any, other: Any) -> bool:
    """Equal as JSON, where true is not 1, and 1 is 1.0."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case int() | float(), int() | float():
            return one == other
        case dict(), dict():
            return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(alike, one, other))
        case _:
            return type(one) is type(other) and one == other


@given(arguments=ARGUMENTS, value=JSON, data=st.data())
def test_any_changed_argument_changes_the_digest(
    arguments: dict[str, Any], value: Any, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(arguments)))
    assume(not alike(arguments[name], value))
    approval = Approval.of("pay", arguments)
    assert Approval.of("pay", {**arguments, name: value}).digest != approval.digest


@given(arguments=ARGUMENTS, name=TEXT)
def test_a_missing_or_added_argument_or_another_tool_changes_the_digest(
    arguments: dict[str, Any], name: str
) -> None:
    action = Action(tool="pay", arguments=arguments)
    others = [Action(tool="pay!", arguments=arguments)]
    others += [
        Action(tool="pay", arguments={key: arguments[key] for key in arguments if key != left_out})
        for left_out in arguments
    ]
    if name not in arguments:
        others.append(Action(tool="pay", arguments={**arguments, name: None}))
    assert action.digest not in {other.digest for other in others}


@given(arguments=ARGUMENTS)
def test_the_order_of_arguments_does_not_change_the_digest(arguments: dict[str, Any]) -> None:
    turned = dict(reversed(arguments.items()))
    assert Approval.of("pay", turned).digest == Approval.of("pay", arguments).digest


@given(arguments=ARGUMENTS)
def test_an_action_is_stored_and_read_back_with_the_same_digest(arguments: dict[str, Any]) -> None:
    approval = Approval.of("pay", arguments)
    read = form_from_json(form_to_json(approval))
    assert isinstance(read, Approval)
    assert alike(read.action.arguments, approval.action.arguments)
    assert read.action.digest == read.digest == approval.digest


def test_what_was_stored_before_there_was_a_risk_is_the_same_text_and_reads_as_medium() -> None:
    before = (
        '{"kind":"approval","action":{"tool":"pay","arguments":{"amount":1}},'
        '"digest":"c235b41b3d33c131d6a96bae55005b8af892d009c4f7ff9716f1b00396d1a121",'
        '"editable":[],"scopes":["once"],"remember_for":2592000.0}'
    )
    approval = Approval.of("pay", {"amount": 1})
    assert form_to_json(approval) == form_to_json(Approval.of("pay", {"amount": 1}, risk="medium")) == before
    assert form_from_json(before) == approval
    assert approval.risk == "medium"


@pytest.mark.parametrize("risk", ["low", "medium", "high"])
def test_a_risk_is_stored_and_read_back_and_is_no_part_of_the_action(
    risk: Literal["low", "medium", "high"],
) -> None:
    approval = Approval.of("pay", {"amount": 1}, risk=risk)
    read = form_from_json(form_to_json(approval))
    assert read == approval
    assert isinstance(read, Approval)
    assert (read.risk, read.digest) == (risk, Approval.of("pay", {"amount": 1}).digest)


def test_an_action_of_high_risk_cannot_be_remembered() -> None:
    for scopes in (("once", "session"), ("once", "always"), ("always",)):
        with pytest.raises(InvalidQuestion, match="every time") as refused:
            Approval.of("pay", risk="high", scopes=scopes)
        assert [problem.path for problem in refused.value.problems] == ["scopes"]
    assert Approval.of("pay", risk="high", scopes=("once",)).risk == "high"


def test_an_action_does_not_follow_what_happens_to_its_arguments_later() -> None:
    arguments: dict[str, Any] = {"to": {"names": ["ana"]}}
    before = copy.deepcopy(arguments)
    approval = Approval.of("pay", arguments)
    arguments["to"]["names"].append("eve")
    assert approval.action.arguments == before
    assert approval.action.digest == approval.digest


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"when": date(2026, 11, 15)}, "arguments.when"),
        ({"a": [float("nan")]}, "arguments.a[0]"),
        ({"a": "\ud800"}, "arguments.a"),
        ({"a": {1: 2}}, "arguments.a"),
    ],
    ids=["a date", "not a number", "half a surrogate", "a key that is a number"],
)
def test_an_action_that_is_not_json_cannot_be_frozen(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidQuestion) as refused:
        Approval.of("pay", arguments)
    assert [problem.path for problem in refused.value.problems] == [path]


def test_an_editable_argument_takes_its_form_from_its_present_value() -> None:
    own = Field(name="to", form=Choice.of("ana", "bob"))
    approval = Approval.of(
        "pay",
        {"n": 1, "x": 1.5, "now": True, "note": "a", "to": "ana"},
        editable=["n", "x", "now", "note", own],
    )
    assert [field.form for field in approval.editable] == [
        Open(type="integer"),
        Open(type="number"),
        Confirm(),
        Open(min_length=0),
        own.form,
    ]
    assert [field.default for field in approval.editable] == [1, 1.5, True, "a", None]


def test_plain_texts_become_options() -> None:
    assert Choice.of(" a ", Option(id="b", label="B")).options == (
        Option(id="a", label="a"),
        Option(id="b", label="B"),
    )


@pytest.mark.parametrize(
    "form",
    [Choice.of("a"), MultiChoice.of("a"), Open(), Confirm(), Approval.of("pay")],
    ids=lambda form: form.kind,
)
def test_a_form_is_frozen_and_says_its_kind(form: pydantic.BaseModel) -> None:
    with pytest.raises(pydantic.ValidationError):
        setattr(form, "kind", "other")  # noqa: B010 -- a type checker would refuse the assignment


def test_a_choice_of_a_list_is_a_choice_between_its_parts() -> None:
    listed: Any = ["a", "b"]
    assert Choice.of(listed) == Choice.of("a", "b")
