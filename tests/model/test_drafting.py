from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from handraise import (
    Approval,
    Choice,
    Confirm,
    Escalation,
    Field,
    Form,
    InvalidQuestion,
    MultiChoice,
    Open,
    Option,
    Timeline,
)
from handraise.model.drafting import compose
from handraise.questions import Draft, Limits, QuestionOptions

HOUR = timedelta(hours=1)
ZOE = Escalation(after=HOUR, to=("zoe",))


def composed(prompt: Any = "Which?", *, limits: Limits = Limits(), **options: Any) -> Draft:  # noqa: B008 -- Limits is frozen
    return compose(
        prompt, cast("QuestionOptions", options), new_id="q-1", workspace="w", asker="agent", limits=limits
    )


def problem_paths(*args: Any, **options: Any) -> list[str]:
    with pytest.raises(InvalidQuestion) as refused:
        composed(*args, **options)
    return [problem.path for problem in refused.value.problems]


def test_without_choices_and_form_it_is_free_text() -> None:
    assert composed().form == Open()
    assert composed(choices=["a", Option(id="b", label="B")]).form == Choice.of(
        "a", Option(id="b", label="B")
    )
    assert composed(form=Confirm()).form == Confirm()


def test_what_was_said_is_in_the_draft() -> None:
    draft = composed(
        "What?",
        context={"a": 1},
        state=[2],
        key="k",
        conversation="c",
        tool_call="t",
        recipients=["ana", "group:ops", "ana"],
        quorum=2,
        veto=True,
        max_attempts=3,
        expires_in=90,
    )
    assert (draft.id, draft.workspace, draft.asker, draft.prompt) == ("q-1", "w", "agent", "What?")
    assert (draft.context, draft.state, draft.key) == ({"a": 1}, [2], "k")
    assert (draft.conversation, draft.tool_call) == ("c", "t")
    assert (draft.recipients, draft.quorum, draft.veto, draft.max_attempts) == (
        ("ana", "group:ops"),
        2,
        True,
        3,
    )
    assert draft.timeline == Timeline(expire=timedelta(seconds=90))


def test_an_unknown_option_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError, match=r"do not take .choicse.: did you mean .choices."):
        composed(choicse=["a"], recipient="ana")


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ({"choices": "abc"}, ["choices"]),
        ({"choices": b"abc"}, ["choices"]),
        ({"choices": {"a": "b"}}, ["choices"]),
        ({"choices": {"a"}}, ["choices"]),
        ({"choices": None}, ["choices"]),
        ({"recipients": "ana"}, ["recipients"]),
        ({"recipients": None}, ["recipients"]),
        ({"recipients": ["ana", 3]}, ["recipients[1]"]),
        ({"recipients": [["ana"]]}, ["recipients[0]"]),
        ({"quorum": "2"}, ["quorum"]),
        ({"quorum": 1.5}, ["quorum"]),
        ({"quorum": True}, ["quorum"]),
        ({"quorum": None}, ["quorum"]),
        ({"veto": "no"}, ["veto"]),
        ({"veto": 1}, ["veto"]),
        ({"max_attempts": "3"}, ["max_attempts"]),
        ({"max_attempts": 2.0}, ["max_attempts"]),
        ({"expires_in": "an hour"}, ["expires_in"]),
        ({"expires_in": None}, ["expires_in"]),
        ({"expires_in": True}, ["expires_in"]),
        ({"expires_in": float("nan")}, ["expires_in"]),
        ({"expires_in": float("inf")}, ["expires_in"]),
        ({"expires_in": 10**30}, ["expires_in"]),
        ({"timeline": "tomorrow"}, ["timeline"]),
        ({"timeline": {"expire": HOUR}}, ["timeline"]),
        ({"form": "confirm"}, ["form"]),
        ({"key": 3}, ["key"]),
        ({"conversation": ["c"]}, ["conversation"]),
        ({"tool_call": b"t"}, ["tool_call"]),
    ],
    ids=str,
)
def test_what_has_the_wrong_type_is_refused_not_guessed_at(options: dict[str, Any], paths: list[str]) -> None:
    assert problem_paths(**options) == paths


@pytest.mark.parametrize("prompt", [None, 3, b"What?", ["What?"]])
def test_a_prompt_that_is_no_text_is_refused(prompt: Any) -> None:
    assert problem_paths(prompt) == ["prompt"]


def test_an_escalation_to_one_name_is_not_taken_for_its_letters() -> None:
    assert composed(recipients=["ana"], timeline=Timeline(escalate=(ZOE,))).steps[0].to == ("zoe",)


LIMITS: list[tuple[str, Limits, dict[str, Any], dict[str, Any]]] = [
    ("prompt", Limits(prompt=5), {"prompt": "12345"}, {"prompt": "123456"}),
    ("form.options", Limits(options=2), {"choices": ["a", "b"]}, {"choices": ["a", "b", "c"]}),
    ("form.options[0].id", Limits(label=3), {"choices": ["abc"]}, {"choices": ["abcd"]}),
    (
        "form.fields",
        Limits(fields=1),
        {"form": Form(fields=(Field(name="a", form=Open()),))},
        {"form": Form(fields=(Field(name="a", form=Open()), Field(name="b", form=Open())))},
    ),
    ("form.pattern", Limits(pattern=3), {"form": Open(pattern="abc")}, {"form": Open(pattern="abcd")}),
    ("key", Limits(name=5), {"key": "12345"}, {"key": "123456"}),
    ("recipients[0]", Limits(name=5), {"recipients": ["group:12345"]}, {"recipients": ["group:123456"]}),
    ("recipients", Limits(recipients=1), {"recipients": ["ana"]}, {"recipients": ["ana", "bob"]}),
    ("context", Limits(json_bytes=6), {"context": "1234"}, {"context": "123ü"}),
    ("state[0][0]", Limits(json_depth=2), {"state": [[1]]}, {"state": [[[1]]]}),
    (
        "timeline",
        Limits(steps=1),
        {"timeline": Timeline(remind=(HOUR,))},
        {"timeline": Timeline(remind=(HOUR,), expire=2 * HOUR)},
    ),
    ("quorum", Limits(recipients=5), {"quorum": 5}, {"quorum": 6}),
    (
        "timeline.escalate",
        Limits(recipients=1),
        {"timeline": Timeline(escalate=(ZOE,))},
        {"timeline": Timeline(escalate=(Escalation(after=HOUR, to=("zoe", "bob")),))},
    ),
]


@pytest.mark.parametrize(
    ("path", "limits", "fits", "exceeds"), LIMITS, ids=[f"{case[0]} {case[1]}"[:40] for case in LIMITS]
)
def test_the_limit_itself_is_possible_and_one_more_is_refused(
    path: str, limits: Limits, fits: dict[str, Any], exceeds: dict[str, Any]
) -> None:
    composed(limits=limits, **fits)
    assert path in problem_paths(limits=limits, **exceeds)


def test_a_form_is_measured_in_bytes() -> None:
    def form(title: str) -> Form:
        return Form(fields=(Field(name="a", form=Confirm(), title=title),))

    room = len(form("x" * 50).model_dump_json(exclude_none=True))
    composed(form=form("x" * 50), limits=Limits(json_bytes=room))
    assert problem_paths(form=form("ü" * 50), limits=Limits(json_bytes=room)) == ["form"]


UNASKABLE: list[tuple[str, dict[str, Any], str]] = [
    ("an infinite bound", {"form": Open(type="number", minimum=float("inf"))}, "form.minimum"),
    ("a bound that is no number", {"form": Open(type="number", maximum=float("nan"))}, "form.maximum"),
    ("bounds that cross", {"form": Open(type="number", minimum=2, maximum=1)}, "form.maximum"),
    ("a bound too large to write", {"form": Open(type="integer", maximum=10**5_000)}, "form.maximum"),
    ("a text longer than any answer", {"form": Open(min_length=100_001)}, "form.max_length"),
    ("lengths that cross", {"form": Open(min_length=3, max_length=2)}, "form.max_length"),
    ("more choices than options", {"form": MultiChoice.of("a", at_least=2)}, "form.at_least"),
    ("at most none", {"form": MultiChoice.of("a", at_least=0, at_most=0)}, "form.at_least"),
    ("a count too large to write", {"form": MultiChoice.of("a", at_most=10**5_000)}, "form.at_most"),
    ("labels that read alike", {"choices": ["a b", "A  B"]}, "form.options[1].label"),
    (
        "a label that is the id of another option",
        {"form": Choice.of(Option(id="No", label="Yes, delete everything"), Option(id="keep", label="no"))},
        "form.options[1].label",
    ),
    (
        "two fields with one name",
        {"form": Form(fields=(Field(name="a", form=Open()), Field(name="a", form=Confirm())))},
        "form.fields.a",
    ),
    (
        "a field's default that is not JSON",
        {"form": Form(fields=(Field(name="a", form=Open(), default=object()),))},
        "form.fields.a.default",
    ),
    (
        "a field's option that is empty",
        {"form": Form(fields=(Field(name="a", form=Choice(options=())),))},
        "form.fields.a.options",
    ),
    ("context too large to write", {"context": {"n": 10**5_000}}, "context.n"),
    ("an expiry beyond all calendars", {"expires_in": timedelta(days=3_000_000)}, "expires_in"),
    ("the longest expiry there is", {"expires_in": timedelta.max}, "expires_in"),
    (
        "a reminder beyond all calendars",
        {"timeline": Timeline(remind=(timedelta(days=3_000_000),))},
        "timeline",
    ),
    ("more agreement than the asker leaves", {"recipients": ["ana", "agent"], "quorum": 2}, "quorum"),
    ("more attempts than can be counted", {"max_attempts": 2**40}, "max_attempts"),
    (
        "a default that is not in canonical form",
        {"choices": ["a"], "timeline": Timeline(expire=HOUR, default="A")},
        "timeline.default",
    ),
    (
        "a default that only equals the canonical one",
        {"form": Open(type="integer"), "timeline": Timeline(expire=HOUR, default=3.0)},
        "timeline.default",
    ),
]


@pytest.mark.parametrize(("options", "path"), [case[1:] for case in UNASKABLE], ids=[c[0] for c in UNASKABLE])
def test_what_could_never_be_stored_or_answered_is_refused(options: dict[str, Any], path: str) -> None:
    assert path in problem_paths(**options)


def test_half_a_surrogate_in_a_form_is_refused() -> None:
    assert "form.fields.\ud800" in problem_paths(form=Form(fields=(Field(name="\ud800", form=Open()),)))


@pytest.mark.parametrize(
    ("form", "default"),
    [
        (Confirm(), False),
        (Open(type="integer"), 0),
        (MultiChoice.of("a", "b", at_least=0), []),
        (Choice.of("a", allow_other=True), {"other": "x"}),
    ],
    ids=["no", "zero", "none of them", "other"],
)
def test_a_default_that_is_false_or_empty_is_still_one(form: Any, default: Any) -> None:
    draft = composed(form=form, timeline=Timeline(expire=HOUR, default=default))
    assert (draft.steps[-1].do, draft.steps[-1].record) == (
        "default",
        {"value": default, "source": "default"},
    )


def test_an_approval_expires_only_into_not_approved() -> None:
    approval = Approval.of("pay", {"amount": 1})
    assert composed(form=approval, expires_in=60).steps[-1].do == "expire"
    for default in ({"decision": "approve"}, {"decision": "deny"}, "approve"):
        timeline = Timeline(expire=HOUR, default=default)
        assert problem_paths(form=approval, timeline=timeline) == ["timeline.default"]


@pytest.mark.parametrize("recipients", [["group:ops"], ["ana", "group:ops"], []])
def test_groups_and_anyone_may_be_enough_people(recipients: Sequence[str]) -> None:
    assert composed(recipients=recipients, quorum=3).quorum == 3


def test_a_question_can_wait_a_lifetime() -> None:
    draft = composed(expires_in=timedelta(days=36_500))
    assert datetime.now(UTC) + draft.steps[-1].after > datetime.now(UTC)


def test_problems_of_different_parts_are_told_together() -> None:
    paths = problem_paths("", choices=["a", "a", ""], quorum=0, key="", context=object(), max_attempts=0)
    assert {
        "prompt",
        "form.options[1].id",
        "form.options[2].label",
        "quorum",
        "key",
        "context",
        "max_attempts",
    } <= set(paths)


def test_the_same_choices_are_the_same_form_and_other_limits_are_looked_at() -> None:
    first, again = composed(choices=["Blue", "Green"]), composed(choices=("Blue", "Green"))
    assert first.form == again.form == Choice.of("Blue", "Green")
    assert composed(choices=["Green", "Blue"]).form != first.form
    with pytest.raises(InvalidQuestion) as where:
        composed(limits=Limits(label=4), choices=["Blue", "Green"])
    assert [problem.path for problem in where.value.problems] == [
        "form.options[1].id",
        "form.options[1].label",
    ]


@pytest.mark.parametrize(
    "choices", [["a", "A"], [""] * 2_000, ["a" * 501], [], ["a", Option(id="a", label="b")]]
)
def test_choices_that_do_not_fit_are_refused_each_time(choices: list[str | Option]) -> None:
    for _ in range(2):
        with pytest.raises(InvalidQuestion):
            composed(choices=choices)


@pytest.mark.parametrize("way", ["editable", "remember_by"])
def test_a_whole_approval_is_bounded_and_not_only_its_arguments(way: str) -> None:
    names = [f"f{n}" for n in range(45)]
    arguments = dict.fromkeys(names, "x")

    def approval(size: int) -> Approval:
        if way == "remember_by":
            return Approval.of("t", arguments, remember_by=["f1"] * (size // 5))
        fields = [Field(name=name, form=Open(), description="d" * (size // 45)) for name in names]
        return Approval.of("t", arguments, editable=fields)

    composed(form=approval(40_000))
    assert "form" in problem_paths(form=approval(400_000))
