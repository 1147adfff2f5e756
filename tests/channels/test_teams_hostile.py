"""Whatever an agent or a person writes stays text: no format, link, mention, date or button comes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from handraise import Approval
from handraise.channels.teams.card_elements import CARD, is_plain
from handraise.channels.teams.cards import (
    approve_card,
    change_card,
    confirmation_card,
    difference_card,
    reason_card,
    render_bundle,
    render_outcome,
    render_question,
    summary_of,
)
from handraise.model.forms import AnyForm, Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered, Declined, Returned, Withdrawn
from handraise.model.questions import Question
from handraise.model.visible import visible
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import AT, a_question
from handraise.testing.contract.channel import settled as ended
from tests.channels.teams_rules import as_text, buttons_in, check_activity, check_card
from tests.samples import OTHER_LETTERS, hostile, with_slow
from tests.server.inbox.hostile import NAMES, TEXTS

LINK = "https://desk.example/questions/q-1"
OURS = {"yes", "no", "option", "send", "decline", "send_back", "aside", "approve", "deny", "reason", "change"}
MARKDOWN = [
    "[Approve](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "**b** _i_ ~~s~~ `c`",
    "# head",
    "- item",
    "1. item",
    "> quote",
    "{{DATE(2017-02-14T06:08:39Z,LONG)}}",
    "{{ TIME(2017-02-14T06:08:39Z) }}",
    "{{{DATE(2017-02-14T06:08:39Z)}}",
    "<at>Everyone</at>",
    "&lt;b&gt;",
    "https://evil.example",
    "${data}",
]


def message(*questions: Question) -> Message:
    notices = [Notice(delivery_id="d", question=each, reason="asked", link=LINK) for each in questions]
    return Message(id="d", workspace="w", channel="teams", recipient="ann", to=None, at=AT, notices=notices)


def safe(card: dict[str, Any], about: Message | None = None) -> str:
    """What people see of a card; fails where something in it is more than text."""
    check_card(card)
    if about is not None:
        attachment = {"contentType": CARD, "content": card}
        check_activity({"type": "message", "summary": summary_of(about), "attachments": [attachment]})
    text = as_text(card)
    # A tab in what a control is filled with is sent back as it is.
    # A card has spaces that do not break where Teams would show several as one.
    text = text.replace("\u00a0", " ")
    assert text.replace("\t", "    ") == visible(text)
    assert set(re.findall(r"\[ Open in the inbox \]\((.*)\)", text)) <= {LINK}
    return text


def forms(text: str, name: str) -> Iterator[AnyForm]:
    """Every place where an agent can write something."""
    option = Option(id=name, label=name, description=text[:500])
    yield Choice(options=(option, Option(id="b", label="b")), allow_other=True)
    yield Choice(options=(option, Option(id="b", label="b")))
    yield Form(
        fields=(
            Field(name=name, form=Open(), title=name, description=text[:500], default=text),
            Field(name="mail", form=Open(type="email"), default=text),
            Field(name="day", form=Open(type="date"), default=text),
            Field(name="at", form=Open(type="datetime"), default=text),
            Field(name="much", form=Open(type="number"), default=text),
            Field(name="sure", form=Confirm(), default=text),
            Field(name="one", form=Choice(options=(option,)), default=name),
            Field(name="some", form=MultiChoice(options=(option,)), default=[name]),
        )
    )
    yield Approval.of(name, {name: text, "list": [text, {"deep": text}], "e": text}, editable=["e"])


def pairs(shard: int) -> Iterator[tuple[str, str]]:
    """A quarter of all texts, each with a name."""
    for place in hostile(TEXTS, range(shard, len(TEXTS), 4), 6):
        yield TEXTS[place], NAMES[place]
    for text in MARKDOWN[shard::4]:
        yield text, text


@pytest.mark.parametrize("shard", range(4))
def test_nothing_that_an_agent_writes_is_more_than_text(shard: int) -> None:
    for text, name in pairs(shard):
        for form in forms(text, name or "x"):
            question = a_question(form, prompt=text, asker=name or "x", context={"x": text})
            asked = render_question(question, LINK)
            assert {each["verb"] for each in buttons_in(asked)} <= OURS
            seen = safe(asked, message(question))
            assert "zqxj" in seen or "zqxj" not in text
            safe(reason_card(question, LINK, "Decline", "declined"))
            safe(confirmation_card(question, LINK, "Sure?", "Send", "yes"))
            if isinstance(form, Approval):
                safe(approve_card(question, form, LINK))
                safe(change_card(question, form, LINK))
                safe(difference_card(question, form, LINK, {"digest": "x"}, {"e": text + "!"}))
        several = a_question(prompt=text, asker=name or "x")
        about = message(several, several)
        safe(render_bundle(about.notices), about)


@pytest.mark.parametrize("shard", range(4))
def test_nothing_that_a_person_answers_is_more_than_text(shard: int) -> None:
    for text, name in pairs(shard):
        for form, value in ((Open(), text), (Choice.of("a", allow_other=True), {"other": text})):
            safe(render_outcome(ended(a_question(form), Answered(value=value, at=AT, by=name or "x"))))
        approval = Approval.of("pay", {"e": "x"}, editable=["e"])
        for outcome in (
            Answered(value={"decision": "deny", "reason": text}, at=AT, by="ann"),
            Answered(value={"decision": "approve", "arguments": {"e": text}}, at=AT, by="ann"),
            Declined(at=AT, by=name or "x", reason=text),
            Returned(at=AT, by=name or "x", reason=text),
            Withdrawn(at=AT, by=name or "x", reason=text),
        ):
            question = ended(a_question(approval, prompt=text), outcome)
            safe(render_outcome(question, text), message(question))


@pytest.mark.parametrize("text", MARKDOWN[:-1])
def test_markup_has_no_place_in_a_label(text: str) -> None:
    assert not is_plain(text) or "{{" in text
    question = a_question(Choice.of(text, "b"))
    [first, *_] = buttons_in(render_question(question, LINK))
    assert first["title"] in ("Number 1", text)


@pytest.mark.parametrize(
    "text", ["Blue-green", "replica_count", "R&D", "a+b", "Yes!", "名", "v1.2.3 (eu)", "50%"]
)
def test_ordinary_words_stand_where_they_belong(text: str) -> None:
    assert is_plain(text)
    [first, *_] = buttons_in(render_question(a_question(Choice.of(text, "b")), LINK))
    assert first["title"] == text


LETTERS = with_slow(
    ["x", "字", "🙂", "&", "<", "\u202e", "\n", '"', "\\", "\x1b", "{{DATE(", " "],
    "🙂",
    '"',
    "\u202e",
    reason=OTHER_LETTERS,
)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.only_proof_of("that a card is short enough whatever the letters are")
def test_whatever_the_letters_are_it_is_not_too_long(letter: str) -> None:
    long = letter * 10_000
    label = f"{letter * 480}."[-481:]
    for form in (
        Choice(options=tuple(Option(id=str(n), label=f"{label}{n}", description=label) for n in range(20))),
        MultiChoice(options=tuple(Option(id=str(n), label=f"{label}{n}") for n in range(100))),
        Form(fields=tuple(Field(name=f"{label}{n}", form=Open(), description=label) for n in range(50))),
        Approval.of(letter * 200, {"x": letter * 2_500, "e": letter * 1_900}, editable=["e"]),
        Approval.of(letter * 200, {"x": letter * 1_000}),
        Approval.of(letter * 200, {"x": long}),
        Approval.of(letter * 200, {"x": long}, risk="high"),
    ):
        question = a_question(form, prompt=long, asker=letter * 200)
        safe(render_question(question, LINK, "escalated"), message(question))
        about = message(*[question] * 60)
        safe(render_bundle(about.notices), about)
        safe(reason_card(question, LINK, "Decline", "declined"))
        if isinstance(form, Approval):
            safe(approve_card(question, form, LINK))
            safe(change_card(question, form, LINK))
            safe(difference_card(question, form, LINK, {"arguments": {"x": long}}, {"x": long + "y"}))
        for outcome in (Answered(value=long, at=AT, by=letter * 200), Declined(at=AT, by="a", reason=long)):
            safe(render_outcome(ended(question, outcome), "Too late."), message(question))


def test_every_space_of_an_action_is_seen() -> None:
    form = Approval.of("run", {"command": "rm  -rf   /", "nested": {"a": [1]}})
    card = json.dumps(render_question(a_question(form), LINK), ensure_ascii=False)
    assert "rm \u00a0-rf \u00a0\u00a0/" in card
    assert "\\n\u00a0\u00a0\u00a0\u00a01\\n" in card
