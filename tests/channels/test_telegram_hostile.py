"""Whatever an agent or a person writes stays text in Telegram: no link, mention, command or button comes of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest

from handraise import Approval
from handraise.channels.telegram.messages import Rendered, render_bundle, render_outcome, render_question
from handraise.channels.telegram.references import QuestionReferences
from handraise.model.forms import AnyForm, Choice, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered, Declined, Returned, Withdrawn
from handraise.model.questions import Question
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import AT, a_question, link_to
from handraise.testing.contract.channel import settled as ended
from tests.channels.telegram_rules import as_text, check_message
from tests.samples import hostile
from tests.server.inbox.hostile import MARK, NAMES, TEXTS

UNSEEN = ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
PLACES = QuestionReferences("123:token")


def forms(text: str, name: str) -> Iterator[AnyForm]:
    """Every place where an agent can write something."""
    option = Option(id=name, label=name, description=text[:500])
    yield Choice(options=(option, Option(id="b", label="b")), allow_other=True)
    yield MultiChoice(options=(option, Option(id="b", label="b")))
    yield Form(fields=(Field(name=name, form=Open(), title=name, description=text[:500], default=text),))
    yield Approval.of(name, {name: text, "list": [text, {"deep": text}], "e": text}, editable=["e"])


def messages(question: Question, text: str, name: str) -> Iterator[Rendered]:
    """Every message that there can be about a question."""
    notice = Notice(delivery_id="d", question=question, reason="escalated", link=link_to(question))
    for room in (False, True):
        yield render_question(notice, PLACES, room=room)
    yield render_bundle(
        Message(
            id="d",
            workspace="w",
            channel="telegram",
            recipient="ann",
            to=1,
            at=AT,
            notices=[notice, notice],
        )
    )
    for outcome in (
        Answered(value={"other": text}, at=AT, by=name, channel=name),
        Declined(at=AT, by=name, reason=text),
        Returned(at=AT, by=name, reason=text),
        Withdrawn(at=AT, by=name, reason=text),
    ):
        yield render_outcome(ended(question, outcome), link_to(question), PLACES)


def check(body: dict[str, Any]) -> None:
    """Fail where something that was not ours is more than a text."""
    check_message({"link_preview_options": {"is_disabled": True}, **body})
    entities = body.get("entities", [])
    shown = as_text(body["text"], entities)
    assert "⟦" not in shown
    for each in entities:
        assert each["type"] != "text_mention"
        if each["type"] == "text_link":
            assert each["url"].startswith("https://desk.example/questions/")
    unseen = {each for each in shown if unicodedata.category(each) in UNSEEN}
    assert unseen <= {"\n", "\u200d"}


@pytest.mark.parametrize("shard", range(2))
def test_a_hostile_text_stays_a_text_in_telegram(shard: int) -> None:
    assert len(set(TEXTS)) >= 500
    for place in hostile(TEXTS, range(shard, len(TEXTS), 2), 30):
        # What this stand-in draws around what Telegram would make a link of.
        text, name = (each.replace("⟦", "[").replace("⟧", "]") for each in (TEXTS[place], NAMES[place]))
        form = list(forms(text, name))[place // 2 % 4]
        question = a_question(form, prompt=text, asker=name, context={name: text}, conversation=name)
        for rendered in messages(question, text, name):
            check(dict(rendered.body))


def test_the_check_finds_what_is_more_than_text() -> None:
    check({"text": "fine"})
    for body in (
        {"text": f"see https://evil.example/{MARK}"},
        {"text": "now /approve it"},
        {"text": "a\u202eb"},
        {
            "text": "here",
            "entities": [{"type": "text_link", "offset": 0, "length": 4, "url": "https://e.example"}],
        },
    ):
        with pytest.raises(AssertionError):
            check(body)
