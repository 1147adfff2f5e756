"""Every form goes onto a page and comes back as the answer that stood there, whatever kind it is."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handraise import Approval, Choice, Confirm, Field, Form, InvalidAnswer, MultiChoice, Open, Option
from handraise.model.forms import AnyForm, SimpleForm
from handraise.model.json_values import Json
from handraise.model.validation import check_answer
from handraise.presentation.form_parts import is_seen
from handraise.server.web.inbox.form_controls import ZONES, controls_of, read_answer
from handraise.server.web.pages import TEMPLATES
from tests.server.inbox.browser import Page, Sheet
from tests.tiers import sized

EXAMPLES = sized(gate=30, nightly=200)

OPTIONS = [Option(id=f"o{n}", label=label) for n, label in enumerate(["Canary", "Blue\ngreen", "<b>", "no"])]
LINES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=40).filter(
    is_seen
)
TEXTS = st.lists(LINES, min_size=1, max_size=4).map("\n".join)


def sheet_of(form: AnyForm, **more: Any) -> Sheet:
    """The form as a browser finds it on a page."""
    macros = TEMPLATES.get_template("inbox/controls.html").module
    controls = controls_of(form, **more)
    html = "".join(str(macros.field(each, ZONES, False)) for each in controls)  # type: ignore[attr-defined]  # a macro
    return Page(f"<form method='post'>{html}</form>").sheets[0]


def come_back(form: AnyForm, sheet: Sheet) -> Json:
    reading = read_answer(form, sheet.sent())
    assert reading.problems == ()
    return check_answer(form, reading.value)


def in_a_form(form: SimpleForm, value: Json, *, required: bool = True) -> Form:
    """A form that has this value in it at first."""
    return Form(fields=(Field(name="the field", form=form, default=value, required=required),))


@st.composite
def instants(draw: st.DrawFn) -> str:
    zone = draw(st.sampled_from(ZONES))
    hours, minutes = int(zone[1:3]), int(zone[4:])
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    day, hour = draw(st.dates(min_value=date(1000, 1, 1), max_value=date(9000, 1, 1))), draw(st.times())
    return datetime.combine(day, hour.replace(microsecond=0), timezone(offset)).isoformat()


VALUES: dict[str, tuple[SimpleForm, st.SearchStrategy[Json]]] = {
    "choice": (Choice.of(*OPTIONS), st.sampled_from([each.id for each in OPTIONS])),
    "choice or other": (
        Choice.of(*OPTIONS, allow_other=True),
        st.sampled_from([each.id for each in OPTIONS])
        | LINES.filter(str.strip).map(lambda text: {"other": text.strip()}),
    ),
    "several": (
        MultiChoice.of(*OPTIONS, at_least=0),
        st.lists(st.sampled_from([each.id for each in OPTIONS]), unique=True).map(sorted),
    ),
    "text": (Open(min_length=0), TEXTS),
    "line": (Open(min_length=0, max_length=120), LINES),
    "integer": (Open(type="integer"), st.integers(-(2**53) + 1, 2**53 - 1)),
    "number": (Open(type="number"), st.floats(allow_nan=False, allow_infinity=False)),
    "email": (Open(type="email"), st.just("ann@example.com")),
    "uri": (Open(type="uri"), st.just("https://example.com/?a=1&b=<2>")),
    "date": (Open(type="date"), st.dates(min_value=date(1000, 1, 1)).map(date.isoformat)),
    "datetime": (Open(type="datetime"), instants()),
    "confirm": (Confirm(), st.booleans()),
}


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_what_stands_on_a_page_comes_back_as_it_was(kind: str, data: st.DataObject) -> None:
    form, values = VALUES[kind]
    value = data.draw(values)
    whole = in_a_form(form, value)
    canonical = check_answer(whole, {"the field": value})
    assert come_back(whole, sheet_of(whole)) == canonical


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_what_was_typed_stands_there_again_after_a_refusal(kind: str, data: st.DataObject) -> None:
    form, values = VALUES[kind]
    whole = in_a_form(form, data.draw(values))
    typed = sheet_of(whole).sent()
    assert sheet_of(whole, typed=typed).sent() == typed


@pytest.mark.parametrize("kind", sorted(set(VALUES) - {"several"}))
def test_an_optional_field_left_blank_is_left_out(kind: str) -> None:
    form, _ = VALUES[kind]
    whole = in_a_form(form, None, required=False)
    assert come_back(whole, sheet_of(whole)) == {}


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (Choice.of("a", "b"), "choose one of the options"),
        (MultiChoice.of("a", "b", "c", at_least=2, at_most=3), "choose between 2 and 3"),
        (Open(), "write an answer first"),
        (Open(type="integer"), "fill this in first"),
        (Confirm(), "choose yes or no"),
    ],
)
def test_what_is_blank_is_told_without_troubling_the_desk(form: SimpleForm, why: str) -> None:
    assert [each.message for each in read_answer(form, {}).problems] == [why]
    whole = in_a_form(form, None)
    [problem] = read_answer(whole, {}).problems
    assert (problem.path, problem.message) == ("the field", why)


def test_other_needs_its_text_and_never_hides_behind_an_option() -> None:
    form = Choice.of("a", "b", allow_other=True)
    assert read_answer(form, {"v": ["other"], "v.other": ["  "]}).problems
    assert read_answer(form, {"v": ["0"], "v.other": ["mine"]}).problems
    assert read_answer(form, {"v.other": ["mine"]}).value == {"other": "mine"}
    assert read_answer(Choice.of("a"), {"v": ["7"]}).problems
    several = MultiChoice.of("a", "b", allow_other=True)
    assert read_answer(several, {"v": ["1", "other"], "v.other": ["mine"]}).value == ["b", {"other": "mine"}]


@settings(max_examples=EXAMPLES, deadline=None)
@given(values=st.dictionaries(st.sampled_from(["v", "v.other", "v.zone", "v0", "v1"]), st.lists(TEXTS)))
def test_whatever_a_browser_sends_is_read_without_a_failure(values: dict[str, list[str]]) -> None:
    forms: list[AnyForm] = [form for form, _ in VALUES.values()]
    forms.append(
        Form(fields=tuple(Field(name=f"f{n}", form=form) for n, (form, _) in enumerate(VALUES.values())))
    )
    forms.append(Approval.of("pay", {"a": 1, "b": "x"}, editable=["a", "b"]))
    for form in forms:
        read_answer(form, values)
        controls_of(form, typed=values)


def test_a_suggestion_with_something_unseen_in_it_is_shown_and_not_put_in() -> None:
    form = in_a_form(Open(), "safe\u202eevil")
    [control] = controls_of(form)
    assert (control.text, control.suggestion) == ("", "safe‹U+202E›evil")


class TestApproval:
    form = Approval.of(
        "send_mail",
        {"to": "bob", "body": "one\r\ntwo", "count": 3, "urgent": False, "odd": "a\u200bb"},
        editable=["to", "body", "count", "urgent", "odd"],
        scopes=["once", "session"],
    )

    def decided(self, sheet: Sheet, **more: str) -> Json:
        reading = read_answer(self.form, sheet.sent() | {name: [text] for name, text in more.items()})
        assert reading.problems == ()
        return check_answer(self.form, reading.value)

    def test_unchanged_arguments_are_no_edit_however_a_browser_ends_lines(self) -> None:
        canonical = self.decided(sheet_of(self.form), decision="approve", digest=self.form.digest)
        assert canonical == {"decision": "approve", "digest": self.form.digest}

    def test_what_was_changed_is_in_the_decision_and_nothing_else(self) -> None:
        sheet = sheet_of(self.form)
        sheet.fill("v2", "4")
        sheet.tick("v3", "yes")
        canonical = self.decided(sheet, decision="approve", digest=self.form.digest, reason="  ok ")
        assert canonical["arguments"] == self.form.action.arguments | {"count": 4, "urgent": True}
        assert canonical["reason"] == "ok"

    def test_a_denial_takes_no_edits_and_no_scope_along(self) -> None:
        sheet = sheet_of(self.form)
        sheet.fill("v0", "eve")
        canonical = self.decided(sheet, decision="deny", digest=self.form.digest, scope="session")
        assert canonical == {"decision": "deny", "digest": self.form.digest}

    def test_an_argument_with_something_unseen_in_it_cannot_be_edited(self) -> None:
        assert [each.label for each in controls_of(self.form)] == ["to", "body", "count", "urgent"]

    def test_no_decision_is_none(self) -> None:
        assert read_answer(self.form, {}).problems
        assert read_answer(self.form, {"decision": ["maybe"]}).problems

    def test_a_digest_of_something_else_does_not_fit(self) -> None:
        reading = read_answer(self.form, {"decision": ["approve"], "digest": ["0" * 64]})
        with pytest.raises(InvalidAnswer):
            check_answer(self.form, reading.value)


def test_all_instants_that_are_offered_are_offsets() -> None:
    for zone in ZONES:
        assert datetime.fromisoformat(f"2026-11-15T09:30{zone}").utcoffset() is not None


def test_a_text_gets_as_many_lines_as_it_has() -> None:
    def rows(text: str) -> int:
        [control] = controls_of(Approval.of("mail", {"body": text}, editable=["body"]))
        return control.rows

    assert rows("one") == 4
    assert rows("line\n" * 8 + "end") == 10
    assert rows("x" * 700) == 12
    assert rows("line\n" * 500) == 24
