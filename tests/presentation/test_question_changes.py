"""What changed between a question and the one that replaces it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from handraise import Approval, Choice, Confirm, Field, Form, Open, Option
from handraise.model.briefs import Brief
from handraise.model.questions import Draft
from handraise.model.timelines import Step
from handraise.presentation.question_changes import Change, changes_between


def draft(prompt: str = "Refund?", **parts: Any) -> Draft:
    return Draft(id="a", workspace="w", asker="bot", prompt=prompt, **({"form": Open()} | parts))


def told(*pair: Draft) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(each.part, each.name, each.before, each.after) for each in changes_between(*pair)]


def approval(tool: str = "refund", **arguments: Any) -> Draft:
    return draft(form=Approval.of(tool, arguments))


def test_two_equal_questions_have_no_changes() -> None:
    assert told(draft(context={"a": 1}), replace(draft(context={"a": 1}), id="b", replaces="a")) == []


def test_arguments_change_are_added_and_are_removed() -> None:
    before, after = approval(amount=300, note="x", to="Ann"), approval(amount=30, to="Ann", when="now")
    assert told(before, after) == [
        ("Argument", "amount", "300", "30"),
        ("Argument", "note", "x", None),
        ("Argument", "when", None, "now"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (30, "30", ("30", '"30"')),
        (1, True, ("1", "yes")),
        (None, "nothing", ("null", '"nothing"')),
        ("", [], ("an empty text", "[]")),
        ([1, "a\nb"], {"c": [2]}, ("1\na‹U+000A›b", "c: [2]")),
        ("a\u202eb", "ab", ("a‹U+202E›b", "ab")),
    ],
)
def test_values_that_differ_never_read_the_same(before: Any, after: Any, shown: tuple[str, str]) -> None:
    assert told(approval(it=before), approval(it=after)) == [("Argument", "it", *shown)]


def test_names_and_texts_show_what_is_invisible() -> None:
    [change] = changes_between(approval(), approval(**{"a\u200bmount\n": "\x1b[2J"}))
    assert (change.name, change.after) == ("a‹U+200B›mount‹U+000A›", "‹U+001B›[2J")


def test_prompt_tool_and_risk() -> None:
    after = draft("Refund\nall?", form=Approval.of("void", {}, risk="high"))
    assert told(approval(), after) == [
        ("Question", None, "Refund?", "Refund\nall?"),
        ("Tool", None, "refund", "void"),
        ("Risk", None, "medium", "high"),
    ]


def test_options_are_compared_by_their_ids() -> None:
    before = Choice(options=(Option(id="a", label="A"), Option(id="b", label="B"), Option(id="c", label="C")))
    after = Choice(options=(Option(id="c", label="C"), Option(id="b", label="Bee", description="buzz")))
    assert told(draft(form=before), draft(form=after)) == [
        ("Option", None, "A", None),
        ("Option", None, "B", "Bee\nbuzz"),
    ]


def test_what_the_agent_says_of_an_action_and_of_an_option() -> None:
    brief = Approval.of("refund", {}, brief=Brief(why="They asked."))
    assert told(approval(), draft(form=brief)) == [("What the agent says", "why", None, "They asked.")]
    plain, praised = (
        Choice(options=(Option(id="a", label="A", recommended=each, preview="p" if each else None),))
        for each in (False, True)
    )
    assert told(draft(form=plain), draft(form=praised)) == [
        ("Option", None, "A", "A\npreview: p\nrecommended: yes")
    ]


def test_another_kind_of_answer() -> None:
    assert told(draft(form=Confirm()), draft(form=Choice.of("a", allow_other=True))) == [
        ("Kind of answer", None, "yes or no", "one option"),
        ("Option", None, None, "a"),
        ("Other", "allow_other", None, "yes"),
    ]


def test_fields_of_a_form() -> None:
    before = Form(fields=(Field(name="who", form=Open()), Field(name="why", form=Open(type="integer"))))
    after = Form(fields=(Field(name="who", form=Confirm(), title="Who"),))
    assert told(draft(form=before), draft(form=after)) == [
        ("Field", "who", "a written answer", "yes or no\ntitle: Who"),
        ("Field", "why", "integer", None),
    ]


def test_what_people_may_change() -> None:
    before = draft(form=Approval.of("refund", {"amount": 3}, editable=["amount"]))
    assert told(before, approval(amount=4)) == [
        ("Argument", "amount", "3", "4"),
        ("Can be changed", "amount", "integer", None),
    ]
    assert told(before, draft(form=Approval.of("refund", {"amount": 4}, editable=["amount"]))) == [
        ("Argument", "amount", "3", "4")
    ]


def test_other_parts() -> None:
    after = draft(
        context={"b": [1]},
        recipients=("ana", "group:ops"),
        quorum=2,
        veto=True,
        conversation="c",
        steps=(Step(timedelta(hours=1), "escalate", ("di",)), Step(timedelta(hours=2), "expire")),
    )
    assert told(draft(context="text"), after) == [
        ("Context", None, "text", None),
        ("Context", "b", None, "1"),
        ("For", None, None, "ana and the group ops"),
        ("People who must agree", None, None, "2"),
        ("One refusal ends it", None, None, "yes"),
        ("Conversation", None, None, "c"),
        ("If nobody answers", None, None, "escalated after 1 hour to di\nit expires after 2 hours"),
    ]


def test_a_short_change_fits_on_a_line() -> None:
    assert Change(part="Tool", name=None, before=None, after="refund").is_short
    assert not Change(part="Tool", name=None, before="a\nb", after="c").is_short
    assert not Change(part="Tool", name=None, before="a" * 61, after=None).is_short
