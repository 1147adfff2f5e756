"""A form is filled in part by part: every place has the same parts, says the same of them, and reads the same answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from handraise import Approval, Choice, Confirm, Field, Form, InvalidAnswer, MultiChoice, Open
from handraise.channels.discord import modals
from handraise.channels.slack.modals import answer_view
from handraise.channels.slack.modals import read_answer as read_slack
from handraise.channels.teams.cards import render_question
from handraise.channels.teams.inputs import read_answer as read_teams
from handraise.model.forms import AnyForm, SimpleForm
from handraise.model.problems import Problem
from handraise.presentation.form_parts import Entered, Part, Reading, initial, is_about, parts_of, read_parts
from handraise.presentation.form_text import hint_of, typed_hint
from handraise.server.web.inbox import form_controls
from handraise.testing.contract.channel import a_question

LINK = "https://desk.example/questions/q-1"
CHATS: list[Callable[[AnyForm, Any], Any]] = [read_slack, modals.read_answer, read_teams]


def read(form: AnyForm, *entered: Entered) -> Reading:
    return read_parts(zip(parts_of(form), entered, strict=True))


@pytest.mark.parametrize(
    ("form", "hint"),
    [
        (MultiChoice.of("a", "b"), "Choose one or more"),
        (MultiChoice.of("a", "b", at_least=0), "Choose as many as you like, or none"),
        (MultiChoice.of("a", "b", at_least=0, at_most=1), "Choose up to 1, or none"),
        (MultiChoice.of("a", "b", "c", at_least=2), "Choose at least 2"),
        (MultiChoice.of("a", "b", "c", at_least=2, at_most=2), "Choose exactly 2"),
        (MultiChoice.of("a", "b", "c", at_most=2), "Choose between 1 and 2"),
        (Open(type="integer"), "A whole number"),
        (Open(type="integer", minimum=1), "A whole number of at least 1"),
        (Open(type="integer", maximum=9), "A whole number of at most 9"),
        (Open(type="number", minimum=1.5, maximum=9), "A number between 1.5 and 9"),
        (Open(type="email"), "An e-mail address"),
        (Open(type="uri"), "An address such as https://example.com"),
        (Open(min_length=3), "At least 3 characters"),
        (Open(min_length=3, max_length=9), "Between 3 and 9 characters"),
    ],
)
def test_every_place_says_the_same_of_an_answer(form: SimpleForm, hint: str) -> None:
    question = a_question(form)
    assert hint_of(form) == typed_hint(form) == hint
    assert [control.hint for control in form_controls.controls_of(form)] == [hint]
    for place in (answer_view(question), modals.answer_modal(question), render_question(question, LINK)):
        assert json.dumps(hint) in json.dumps(place)


def test_a_pattern_is_the_agents_word_and_not_among_ours_in_a_chat() -> None:
    form = Open(max_length=9, pattern="^a")
    [control] = form_controls.controls_of(form)
    assert control.hint == "At most 9 characters. Must match ^a"
    question = a_question(form)
    for place in (answer_view(question), modals.answer_modal(question), render_question(question, LINK)):
        assert "^a" not in json.dumps(place)


def test_a_day_is_explained_only_where_it_is_typed() -> None:
    for form in (Open(type="date"), Open(type="datetime")):
        assert hint_of(form) == ""
        assert "2026-05-31" in typed_hint(form)
        assert "2026-05-31" not in json.dumps(answer_view(a_question(form)))
        assert "2026-05-31" in json.dumps(modals.answer_modal(a_question(form)))


def fields_of(**values: Any) -> list[dict[str, Any]]:
    return [{"component": {"custom_id": name} | value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (Choice.of("a", "b"), "choose one of the options"),
        (Choice.of("a", "b", allow_other=True), "choose one of the options, or write your own answer"),
        (MultiChoice.of("a", "b", "c", at_least=2), "choose at least 2"),
        (MultiChoice.of("a", "b"), "choose one or more"),
        (MultiChoice.of("a", "b", "c", at_most=2), "choose between 1 and 2"),
        (MultiChoice.of("a", "b", "c", at_least=2, at_most=2), "choose exactly 2"),
        (Confirm(), "choose yes or no"),
        (Open(), "write an answer first"),
        (Open(type="date"), "fill this in first"),
    ],
)
def test_every_place_says_what_is_missing_without_the_desk(form: SimpleForm, why: str) -> None:
    whole = Form(fields=(Field(name="x", form=form),))
    assert form_controls.read_answer(whole, {}).problems == (Problem("x", why),)
    for read_empty in CHATS:
        with pytest.raises(InvalidAnswer) as missing:
            read_empty(whole, {})
        assert list(missing.value.problems) == [Problem("x", why)]


def test_every_place_takes_one_option_or_a_text_but_not_both() -> None:
    form = Choice.of("a", "b", allow_other=True)
    both = [Problem("", "choose one, or write your own answer, but not both")]
    slack = {"f0": {"v": {"selected_option": {"value": "1"}}}, "f0o": {"v": {"value": "mine"}}}
    discord = fields_of(f0={"values": ["1"]}, f0o={"value": "mine"})
    teams = {"f0": "1", "f0o": "mine"}
    inbox = {"v": ["1"], "v.other": ["mine"]}
    assert list(form_controls.read_answer(form, inbox).problems) == both
    for read_chat, sent in zip(CHATS, (slack, discord, teams), strict=True):
        with pytest.raises(InvalidAnswer) as refused:
            read_chat(form, sent)
        assert list(refused.value.problems) == both
    assert read_slack(form, {"f0o": {"v": {"value": " mine "}}}) == {"other": "mine"}
    assert modals.read_answer(form, fields_of(f0o={"value": " mine "})) == {"other": "mine"}
    assert read_teams(form, {"f0o": " mine "}) == {"other": "mine"}
    assert form_controls.read_answer(form, {"v.other": [" mine "]}).value == {"other": "mine"}


@pytest.mark.parametrize(
    ("form", "entered", "value"),
    [
        (Confirm(), Entered(frozenset({0})), True),
        (Confirm(), Entered(frozenset({1})), False),
        (Choice.of("a", "b"), Entered(frozenset({1})), "b"),
        (MultiChoice.of("a", "b", "c"), Entered(frozenset({2, 0})), ["a", "c"]),
        (MultiChoice.of("a", at_least=0), Entered(), []),
        (MultiChoice.of("a", allow_other=True), Entered(frozenset({0}), other="x "), ["a", {"other": "x"}]),
        (Open(), Entered(text=" x\ny "), " x\ny "),
        (Open(min_length=0), Entered(), ""),
        (Open(type="integer"), Entered(text=" 7 "), "7"),
    ],
)
def test_what_was_entered_is_the_answer(form: SimpleForm, entered: Entered, value: Any) -> None:
    assert read(form, entered) == Reading(value)
    whole = Form(fields=(Field(name="x", form=form),))
    assert read(whole, entered) == Reading({"x": value})


@pytest.mark.parametrize(
    "form", [Confirm(), Choice.of("a"), MultiChoice.of("a", at_least=0), Open(min_length=0)]
)
def test_an_optional_field_that_is_left_empty_is_left_out(form: SimpleForm) -> None:
    assert read(Form(fields=(Field(name="x", form=form, required=False),)), Entered()) == Reading({})


@pytest.mark.parametrize("form", [Confirm(), Choice.of("a", "b"), MultiChoice.of("a", "b")])
def test_a_place_that_no_option_has_is_a_problem(form: SimpleForm) -> None:
    assert read(form, Entered(frozenset({2}))).problems
    if not isinstance(form, MultiChoice):
        assert read(form, Entered(frozenset({0, 1}))).problems


def test_another_answer_must_be_written() -> None:
    form = Choice.of("a", allow_other=True)
    assert read(form, Entered(other=" ")).problems == (Problem("", "write what the other answer is"),)


class TestArguments:
    form = Approval.of(
        "pay",
        {"to": "bob\r\neve", "n": 3, "at": "2026-11-15T14:10:00Z", "odd": "a\u200bb", "urgent": True},
        editable=[
            "to",
            "n",
            Field(name="at", form=Open(type="datetime")),
            "odd",
            "urgent",
            Field(name="note", form=Open(), default="never said"),
        ],
    )

    def parts(self) -> dict[str, Part]:
        return {part.key: part for part in parts_of(self.form)}

    def test_one_with_something_unseen_in_it_is_not_among_them(self) -> None:
        assert [(part.name, part.path) for part in parts_of(self.form)] == [
            ("f0", "arguments.to"),
            ("f1", "arguments.n"),
            ("f2", "arguments.at"),
            ("f4", "arguments.urgent"),
            ("f5", "arguments.note"),
        ]

    def test_what_an_action_does_not_have_is_not_shown_as_if_it_had_it(self) -> None:
        assert initial(self.parts()["note"]) == Entered()

    def test_what_is_left_as_it_is_is_no_edit(self) -> None:
        unchanged = [(part, initial(part)) for part in parts_of(self.form)]
        assert read_parts(unchanged) == Reading({})
        again = Entered(text="2026-11-15T14:10:00+00:00")
        assert read_parts([(self.parts()["at"], again)]) == Reading({})

    def test_what_is_changed_or_emptied_is_one(self) -> None:
        parts = self.parts()
        edits = [
            (parts["to"], Entered()),
            (parts["n"], Entered(text="4")),
            (parts["urgent"], Entered(frozenset({1}))),
        ]
        assert read_parts(edits) == Reading({"to": "", "n": "4", "urgent": False})
        [problem] = read_parts([(parts["n"], Entered())]).problems
        assert problem == Problem("arguments.n", "fill this in first")


def test_a_problem_belongs_to_the_part_that_it_is_about() -> None:
    several = Part(form=Open(), path="a")
    assert [is_about(several, Problem(path, "")) for path in ("a", "a[1]", "a.b", "ab", "")] == [
        *(True, True, True, False, False)
    ]
    alone = Part(form=Open())
    assert [is_about(alone, Problem(path, "")) for path in ("", "[1]", "a")] == [True, True, False]


def test_what_is_entered_is_not_in_the_representation() -> None:
    assert "secret" not in repr(Entered(text="secret", other="secret"))
    assert "secret" not in repr(Reading({"x": "secret"}))
