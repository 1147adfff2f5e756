"""Whatever an agent or a person writes stays text: no mention, link, format or button comes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from slack_sdk.models.blocks import Block as TheirBlock
from slack_sdk.models.views import View

from handraise import Approval
from handraise.channels.slack.block_texts import difference
from handraise.channels.slack.messages import Rendered, render_bundle, render_outcome, render_question
from handraise.channels.slack.modals import (
    answer_view,
    change_view,
    decline_view,
    deny_view,
    difference_view,
    message_view,
    shown_parts,
)
from handraise.model.forms import AnyForm, Choice, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered, Declined, Returned, Withdrawn
from handraise.model.questions import Question
from handraise.model.visible import visible
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import ANSWERS, AT, FORMS, a_question
from handraise.testing.contract.channel import settled as ended
from tests.channels.slack_rules import as_text, check_message, check_view, elements_in
from tests.samples import OTHER_LETTERS, hostile, with_slow
from tests.server.inbox.hostile import NAMES, TEXTS

LINK = "https://desk.example/questions/q-1"


OURS = {
    "option 0",
    "option 1",
    "select",
    "answer",
    "decline",
    "send_back",
    "aside",
    "approve",
    "deny",
    "reason",
    "change",
}


def notice(question: Question) -> Notice:
    return Notice(delivery_id="d", question=question, reason="asked", link=LINK)


def message(*questions: Question) -> Message:
    return Message(
        id="d",
        workspace="w",
        channel="slack",
        recipient="ann",
        to=None,
        at=AT,
        notices=list(map(notice, questions)),
    )


def safe(rendered: Rendered) -> str:
    """What people see of a message; fails where something in it is more than text."""
    body = {"text": rendered.text, "blocks": list(rendered.blocks)}
    assert check_message(body) is None
    assert not re.search(r"[<>]|&(?!(amp|lt|gt);)", rendered.text)
    return plain(list(rendered.blocks), rendered.text)


def plain(blocks: list[dict[str, Any]], more: str = "") -> str:
    text = f"{more}\n{as_text(blocks)}"
    # The one link is ours; all else that looks like markup was escaped, because it is text.
    assert set(re.findall(r"<([^|>]*)", text)) <= {LINK}
    for each in nodes(blocks):
        assert each.get("type") not in (
            "mrkdwn",
            "user",
            "usergroup",
            "broadcast",
            "channel",
            "emoji",
            "color",
        )
    assert text == visible(text)
    return text


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    match value:
        case dict():
            yield value
            for each in value.values():
                yield from nodes(each)
        case list():
            for each in value:
                yield from nodes(each)


def forms(text: str, name: str) -> Iterator[AnyForm]:
    """Every place where an agent can write something."""
    option = Option(id=name, label=name, description=text[:500])
    yield Choice(options=(option, Option(id="b", label="b")), allow_other=True)
    yield Form(
        fields=(
            Field(name=name, form=Open(), title=name, description=text[:500], default=text),
            Field(name="mail", form=Open(type="email"), default=text),
            Field(name="page", form=Open(type="uri"), default=text),
            Field(name="day", form=Open(type="date"), default=text),
            Field(name="at", form=Open(type="datetime"), default=text),
            Field(name="one", form=Choice(options=(option,)), default=name),
            Field(name="some", form=MultiChoice(options=(option,)), default=[name]),
        )
    )
    yield Approval.of(name, {name: text, "list": [text, {"deep": text}], "e": text}, editable=["e"])


@pytest.mark.parametrize("shard", range(4))
def test_nothing_that_an_agent_writes_is_more_than_text(shard: int) -> None:
    for place in hostile(TEXTS, range(shard, len(TEXTS), 4), 8):
        text, name = TEXTS[place], NAMES[place]
        for form in forms(text, name or "x"):
            question = a_question(form, prompt=text, asker=name or "x", context={"x": text})
            asked = render_question(notice(question))
            assert {each["action_id"] for _, each in elements_in(asked.blocks)} <= OURS
            seen = safe(asked)
            assert "zqxj" in seen or "zqxj" not in text
            for view in views(question, form, text):
                check_view(view)
                plain(view["blocks"])
        several = a_question(prompt=text, asker=name or "x")
        safe(render_bundle(message(several, several)))


def views(question: Question, form: AnyForm, text: str) -> Iterator[dict[str, Any]]:
    """Every view that could be opened."""
    if isinstance(form, Approval):
        yield deny_view(question, "x")
        if shown_parts(form):
            yield change_view(question, form)
        shown = difference({"e": text}, {"e": text + "!"})
        yield difference_view(question, form, {"arguments": {"e": text}}, shown) or message_view(text)
    else:
        yield answer_view(question)
        yield decline_view(question)


@pytest.mark.parametrize("shard", range(4))
def test_nothing_that_a_person_answers_is_more_than_text(shard: int) -> None:
    for place in hostile(TEXTS, range(shard, len(TEXTS), 4), 8):
        text, name = TEXTS[place], NAMES[place]
        for form, value in ((Open(), text), (Choice.of("a", allow_other=True), {"other": text})):
            safe(render_outcome(ended(a_question(form), Answered(value=value, at=AT, by=name or "x"))))
        denied = {"decision": "deny", "reason": text}
        approval = Approval.of("pay", {"e": "x"}, editable=["e"])
        for outcome in (
            Answered(value=denied, at=AT, by="ann"),
            Answered(value={"decision": "approve", "arguments": {"e": text}}, at=AT, by="ann"),
            Declined(at=AT, by=name or "x", reason=text),
            Returned(at=AT, by=name or "x", reason=text),
            Withdrawn(at=AT, by=name or "x", reason=text),
        ):
            safe(render_outcome(ended(a_question(approval, prompt=text), outcome)))


LETTERS = with_slow(
    ["x", "字", "🙂", "&", "<", "\u202e", "\n", '"', "\\", "\x1b"],
    "🙂",
    "&",
    "\u202e",
    "\\",
    reason=OTHER_LETTERS,
)


@pytest.mark.parametrize("letter", LETTERS)
def test_whatever_the_letters_are_it_is_not_too_long(letter: str) -> None:
    long = letter * 10_000
    label = f"{letter * 480}."
    for form in (
        Choice(options=tuple(Option(id=str(n), label=f"{label}{n}", description=label) for n in range(20))),
        Choice(options=tuple(Option(id=str(n), label=f"{label}{n}") for n in range(100))),
        MultiChoice(options=tuple(Option(id=str(n), label=f"{label}{n}") for n in range(100))),
        Form(fields=tuple(Field(name=f"{label}{n}", form=Open(), description=label) for n in range(50))),
        Approval.of(letter * 200, {"x": letter * 2_500}),
        Approval.of(letter * 200, {"x": long}),
    ):
        question = a_question(form, prompt=long, asker=letter * 200)
        safe(render_question(notice(question)))
        safe(render_bundle(message(*[question] * 60)))
        check_view(decline_view(question))
        for outcome in (Answered(value=long, at=AT, by="ann"), Declined(at=AT, by="ann", reason=long)):
            safe(render_outcome(ended(question, outcome)))


@pytest.mark.parametrize("kind", FORMS)
def test_slacks_own_models_take_our_blocks(kind: str) -> None:
    question = a_question(FORMS[kind])
    rendered = [render_question(notice(question)), render_bundle(message(question, question))]
    rendered.append(render_outcome(ended(question, Answered(value=ANSWERS[kind], at=AT, by="ann"))))
    for each in rendered:
        for block in TheirBlock.parse_all(list(each.blocks)):
            block.validate_json()
            assert type(block).__name__ in ("RichTextBlock", "ContextBlock", "ActionsBlock")
    if kind != "large approval":
        View(**answer_view(question)).validate_json()
