from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from handraise import Approval, Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.forms import AnyForm, NotAnAnswer, Reply, Understood, read_reply
from handraise.model.typed_replies import SendsBack, SetsAside, read_deed
from handraise.questions import Draft, Question

STRATEGY = Choice.of(Option(id="bg", label="Blue-green"), Option(id="can", label="Canary  release"))
REPLICAS = Choice.of("1", "2", "4", "8")
OWN = Choice.of("Red", "Blue", allow_other=True)
TOPPINGS = MultiChoice.of("Cheese", "Ham", "Salt, pepper", at_most=2)
PAY = Approval.of("pay", {"amount": 10})
ORDER = Form(
    fields=(
        Field(name="count", title="How many", form=Open(type="integer", minimum=1)),
        Field(name="express", form=Confirm()),
        Field(name="size", form=Choice.of("Small", "Large")),
        Field(name="note", form=Open(), required=False),
    )
)

ANSWERS: list[tuple[str, AnyForm, str, Any]] = [
    ("the number of an option", STRATEGY, "2", "can"),
    ("a number with a sign", STRATEGY, " #1 ", "bg"),
    ("a number as in a list", STRATEGY, "2.", "can"),
    ("a number with a bracket", STRATEGY, "2)", "can"),
    ("the id of an option", STRATEGY, "can", "can"),
    ("a label", STRATEGY, "Blue-green", "bg"),
    ("a label in another case", STRATEGY, "BLUE-green", "bg"),
    ("a label with other white space", STRATEGY, "\tcanary \n RELEASE ", "can"),
    ("a label that is a number, before a position", REPLICAS, "2", "2"),
    ("a position where no label is that number", REPLICAS, "3", "4"),
    ("a position that is another option's label, as one", Choice.of("3", "1", "2"), "#1", "3"),
    ("other text where it is allowed", OWN, "Other:  a dark green ", {"other": "a dark green"}),
    ("other text in German", OWN, "Andere: dunkelgrün", {"other": "dunkelgrün"}),
    ("an option where other text is allowed too", OWN, "red", "Red"),
    ("one of several options", TOPPINGS, "ham", ["Ham"]),
    ("a comma list of labels", TOPPINGS, "Ham, cheese", ["Cheese", "Ham"]),
    ("a comma list of numbers", TOPPINGS, "1,2", ["Cheese", "Ham"]),
    ("a comma list of both", TOPPINGS, "1, ham", ["Cheese", "Ham"]),
    ("a list that ends with a comma", TOPPINGS, "1, ham,", ["Cheese", "Ham"]),
    ("a label with a comma in it", TOPPINGS, "salt,  pepper", ["Salt, pepper"]),
    ("none where none is allowed", MultiChoice.of("a", "b", at_least=0), "None", []),
    ("none in German", MultiChoice.of("a", "b", at_least=0), "Keine", []),
    ("an option called none", MultiChoice.of("None", "b", at_least=0), "none", ["None"]),
    (
        "other text among options",
        MultiChoice.of("a", "b", allow_other=True),
        "b, other: c",
        ["b", {"other": "c"}],
    ),
    ("free text as it was typed", Open(), "  Yes, but not in prod.\n", "  Yes, but not in prod.\n"),
    ("no, as free text", Open(), "no", "no"),
    ("42, as free text", Open(), "42", "42"),
    ("42, as a whole number", Open(type="integer"), " 42\n", 42),
    ("a fraction", Open(type="number"), "2.5", 2.5),
    ("a date", Open(type="date"), "2026-11-15 ", "2026-11-15"),
    ("an e-mail address", Open(type="email"), " ana@example.com", "ana@example.com"),
    ("yes", Confirm(), "Yes", True),
    ("yes with a full stop", Confirm(), " yes. ", True),
    ("ok", Confirm(), "OK!", True),
    ("no", Confirm(), "no", False),
    ("n", Confirm(), "N", False),
    ("yes in German", Confirm(), "Ja!", True),
    ("no in German", Confirm(), "nein, danke", False),
    ("approve", PAY, "Approve", {"decision": "approve", "digest": PAY.digest}),
    ("yes, to an action", PAY, "yes!", {"decision": "approve", "digest": PAY.digest}),
    ("approve in German", PAY, "Genehmigen", {"decision": "approve", "digest": PAY.digest}),
    ("approved in German", PAY, "genehmigt.", {"decision": "approve", "digest": PAY.digest}),
    ("yes in German, to an action", PAY, "ja", {"decision": "approve", "digest": PAY.digest}),
    ("deny in German", PAY, "ablehnen", {"decision": "deny", "digest": PAY.digest}),
    ("no in German, to an action", PAY, "Nein", {"decision": "deny", "digest": PAY.digest}),
    (
        "a denial in German with its reason",
        PAY,
        "Abgelehnt: zu viel",
        {"decision": "deny", "digest": PAY.digest, "reason": "zu viel"},
    ),
    ("deny", PAY, "deny", {"decision": "deny", "digest": PAY.digest}),
    ("no, to an action", PAY, "no.", {"decision": "deny", "digest": PAY.digest}),
    (
        "a denial with its reason",
        PAY,
        "Deny: too much, ask again: later",
        {"decision": "deny", "digest": PAY.digest, "reason": "too much, ask again: later"},
    ),
    ("a form, a line for each field", ORDER, "count: 3\nexpress: no\nsize: 2", None),
    ("a form in any order", ORDER, "SIZE: large\n\n  Express : n\ncount: 3", None),
    ("a form by its titles", ORDER, "how MANY: 3\nexpress: no\nsize: Large", None),
    (
        "the value that a form of one field asks for",
        Form(fields=(Field(name="count", form=Open(type="integer")),)),
        "7",
        {"count": 7},
    ),
]

NO_ANSWERS: list[tuple[str, AnyForm, str]] = [
    ("nothing, to a choice", STRATEGY, ""),
    ("a number that is too large", STRATEGY, "3"),
    ("zero", STRATEGY, "0"),
    ("a negative number", STRATEGY, "-1"),
    ("prose aimed at a choice", STRATEGY, "I think Canary is the safer one"),
    ("prose that starts with a label", STRATEGY, "Blue-green, I guess"),
    ("a part of a label", STRATEGY, "Blue"),
    ("an id in another case", Choice.of(Option(id="bg", label="Blue-green")), "BG"),
    ("two options where one is asked for", STRATEGY, "1, 2"),
    ("a question back", STRATEGY, "What is a canary?"),
    ("other text where it is not allowed", STRATEGY, "other: rolling"),
    ("other text that is empty", OWN, "other: "),
    ("own words without saying so", OWN, "green"),
    ("nothing, to several options", TOPPINGS, " , "),
    ("one bad part in a list", TOPPINGS, "Ham, pineapple"),
    ("one number too large in a list", TOPPINGS, "1, 9"),
    ("a list with prose around it", TOPPINGS, "Ham and cheese please"),
    ("too many options", TOPPINGS, "1, 2, 3"),
    ("the same option twice", TOPPINGS, "ham, 2"),
    ("none where one is needed", TOPPINGS, "none"),
    ("nothing, where nothing could be chosen", MultiChoice.of("a", at_least=0), ""),
    ("an empty text", Open(), " "),
    ("prose for a number", Open(type="integer"), "about 42"),
    ("a number out of bounds", Open(type="integer", maximum=41), "42"),
    ("a date in words", Open(type="date"), "tomorrow"),
    ("a conditional yes", Confirm(), "yes, but not in prod"),
    ("a yes with a question", Confirm(), "yes?"),
    ("a hesitation", Confirm(), "not sure"),
    ("a conditional yes in German", Confirm(), "ja, aber nicht heute"),
    ("a number for yes", Confirm(), "1"),
    ("a conditional approval", PAY, "yes, but not in prod"),
    ("a conditional approval behind a colon", PAY, "approve: but only half"),
    ("an approval in a sentence", PAY, "I approve"),
    ("a negated approval", PAY, "do not approve"),
    ("a negated approval in German", PAY, "nicht genehmigen"),
    ("a conditional approval in German", PAY, "ja, aber nur die Hälfte"),
    ("a conditional approval in German behind a colon", PAY, "genehmigt: aber nur die Hälfte"),
    ("a hesitation in German", PAY, "jein"),
    ("a denial in German with its reason missing", PAY, "ablehnen:"),
    ("ok, which is too little for an action", PAY, "ok"),
    ("a denial in a sentence", PAY, "no way"),
    ("a denial with its reason missing", PAY, "deny:"),
    ("silence", PAY, ""),
    ("a form with a field missing", ORDER, "count: 3\nexpress: no"),
    ("a form with an unknown field", ORDER, "count: 3\nexpress: no\nsize: 1\ncolor: red"),
    ("a form with a line of prose", ORDER, "Here you go\ncount: 3\nexpress: no\nsize: 1"),
    ("a form with a bad value", ORDER, "count: 3\nexpress: yes, but later\nsize: 1"),
    ("a form with a value out of bounds", ORDER, "count: 0\nexpress: no\nsize: 1"),
    ("a form as bare values", ORDER, "3, no, Small"),
]


def replied(form: AnyForm, text: str) -> Reply:
    return read_reply(Draft(id="q", workspace="w", asker="agent", prompt="What?", form=form), text)


@pytest.mark.parametrize(
    ("form", "text", "value"), [case[1:] for case in ANSWERS], ids=[c[0] for c in ANSWERS]
)
def test_a_plain_reply_is_an_answer_in_canonical_form(form: AnyForm, text: str, value: Any) -> None:
    wanted = {"count": 3, "express": False, "size": "Large"} if value is None else value
    assert replied(form, text) == Understood(wanted)


@pytest.mark.parametrize(("form", "text"), [case[1:] for case in NO_ANSWERS], ids=[c[0] for c in NO_ANSWERS])
def test_what_is_not_plainly_an_answer_is_none_and_says_what_to_do(form: AnyForm, text: str) -> None:
    reply = replied(form, text)
    assert isinstance(reply, NotAnAnswer)
    assert reply.reason.strip()


def test_a_number_out_of_range_is_told_the_range() -> None:
    assert replied(STRATEGY, "7") == NotAnAnswer("there is no option 7; choose from 1 to 2")


def test_a_person_is_told_about_other_text_only_where_it_is_allowed() -> None:
    allowed, refused = replied(OWN, "green"), replied(STRATEGY, "green")
    assert isinstance(allowed, NotAnAnswer)
    assert isinstance(refused, NotAnAnswer)
    assert "other:" in allowed.reason
    assert "other:" not in refused.reason


def test_the_reason_names_the_field_it_is_about() -> None:
    reply = replied(ORDER, "count: 3\nexpress: perhaps\nsize: 1")
    assert isinstance(reply, NotAnAnswer)
    assert reply.reason.startswith("express: ")


def test_a_number_that_is_one_options_id_and_anothers_position_is_not_guessed_at() -> None:
    counted_from_zero = Choice.of(
        *(Option(id=str(n), label=label) for n, label in enumerate(("Red", "Blue")))
    )
    assert isinstance(replied(counted_from_zero, "1"), NotAnAnswer)
    assert replied(counted_from_zero, "red") == Understood("0")
    assert replied(counted_from_zero, "2") == Understood("1")


@pytest.mark.parametrize("reply", ["1", "1.", "1)", " 1 "])
def test_a_number_that_is_one_options_label_and_anothers_position_is_not_guessed_at(reply: str) -> None:
    listed = Choice.of("0", "1", "2")
    said = replied(listed, reply)
    assert isinstance(said, NotAnAnswer)
    assert said.reason.endswith("could mean two options; reply with one of: #1 (“0”), #2 (“1”)")
    assert replied(listed, "#2") == Understood("1")
    assert replied(listed, "0") == Understood("0")


def test_a_label_that_is_another_options_id_is_not_guessed_at() -> None:
    crossed = Choice.of(Option(id="b", label="a"), Option(id="a", label="b"))
    assert isinstance(replied(crossed, "a"), NotAnAnswer)


def test_a_field_given_twice_is_not_guessed_at() -> None:
    reply = replied(ORDER, "count: 3\ncount: 30\nexpress: no\nsize: 1")
    assert isinstance(reply, NotAnAnswer)
    assert "count" in reply.reason


@pytest.mark.parametrize("titles", [("Amount", "amount "), ("b", None), (None, "a")])
def test_a_name_that_means_two_fields_is_not_guessed_at(titles: tuple[str | None, str | None]) -> None:
    fields = (
        Field(name=name, title=title, form=Open()) for name, title in zip(("a", "b"), titles, strict=True)
    )
    form = Form(fields=tuple(fields))
    for name in {*filter(None, titles)}:
        assert isinstance(replied(form, f"{name}: x\na: y\nb: z"), NotAnAnswer)


def test_an_empty_reply_is_no_answer_even_where_every_field_is_optional() -> None:
    optional = Form(
        fields=tuple(Field(name=name, form=Open(), required=False) for name in ("summary", "details"))
    )
    assert isinstance(replied(optional, " \n"), NotAnAnswer)
    assert replied(optional, "details: x") == Understood({"details": "x"})


def test_an_answer_hides_itself_from_logs() -> None:
    assert "hunter2" not in repr(replied(Open(), "hunter2"))


def _asked(form: AnyForm, *recipients: str) -> Question:
    return Question(
        id="q",
        workspace="w",
        asker="bot",
        prompt="?",
        form=form,
        recipients=recipients,
        asked_at=datetime.now(UTC),
    )


@pytest.mark.parametrize(
    "form", [STRATEGY, TOPPINGS, OWN, PAY, ORDER, Confirm(), Open(), Open(type="integer")]
)
def test_a_reply_sends_back_or_leaves_it_to_others_whatever_the_form(form: AnyForm) -> None:
    question = _asked(form, "ann", "bob")
    for text in ("send back: only 30", " Send Back :\n only 30 ", "zurückgeben: only 30"):
        assert read_deed(question, text) == SendsBack("only 30")
    assert read_deed(question, "send back:") == SendsBack("")
    for text in ("not for me", " Not for me. ", "Nichts für mich!"):
        assert read_deed(question, text) == SetsAside()
    for text in ("send it back: x", "please send back: x", "this is not for me", "send back", "approve", "1"):
        assert read_deed(question, text) is None


def test_the_name_of_an_option_is_an_answer_and_nothing_else() -> None:
    options = _asked(Choice.of("Not for me", "send back: all of it"), "ann", "bob")
    assert read_deed(options, "not for me") is read_deed(options, "Send back: all of it") is None
    field = _asked(Form(fields=(Field(name="send back", form=Open()), Field(name="n", form=Open()))), "ann")
    assert read_deed(field, "send back: two") == SendsBack("two")
    assert read_deed(field, "send back: two\nn: 3") is None


def test_one_who_is_asked_alone_has_nobody_to_leave_it_to() -> None:
    assert read_deed(_asked(Open(), "ann"), "not for me") is None
    assert read_deed(_asked(Open()), "not for me") == SetsAside()
    assert read_deed(_asked(Open(), "group:ops"), "not for me") == SetsAside()
