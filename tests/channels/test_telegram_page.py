"""The page about Telegram shows what people see."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval
from handraise.channels.telegram.entities import compose, ours
from handraise.channels.telegram.messages import (
    Rendered,
    render_bundle,
    render_confirmation,
    render_outcome,
    render_question,
    render_reply_prompt,
)
from handraise.channels.telegram.references import QuestionReferences
from handraise.model.forms import AnyForm, Choice, Confirm, Field, Form, Open, Option
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.timelines import Step
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import a_question
from handraise.testing.contract.channel import settled as ended
from tests.channels.telegram_peer import BOT_TOKEN
from tests.channels.telegram_rules import as_text, check_message

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "reach-people-by-telegram.md"
AT = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
LINK = "https://handraise.example.com/questions/01a1de77"
PLACES = QuestionReferences(BOT_TOKEN)


def ask(form: AnyForm, prompt: str, **more: Any) -> Question:
    return a_question(form, prompt=prompt, asker="deployer", asked_at=AT, **more)


def notice(question: Question) -> Notice:
    return Notice(delivery_id="d", question=question, reason="asked", link=LINK)


STRATEGY = ask(
    Choice.of("Blue-green", Option(id="canary", label="Canary", description="a few at first")),
    "Which strategy for 1.2.3?",
    steps=(Step(timedelta(hours=8), "expire"),),
)
PAYMENT = Approval.of("pay", {"to": "Ada Ltd", "amount": 120, "currency": "EUR"})
REFUND = ask(PAYMENT, "The invoice of October is due.")
FIELDS = Form(
    fields=(
        Field(name="region", form=Choice.of("eu", "us"), title="Where?"),
        Field(name="machines", form=Open(type="integer", minimum=1, maximum=9)),
    )
)
SIZE = ask(FIELDS, "How large?")


def samples() -> dict[str, Rendered]:
    answered = Answered(value="canary", at=AT + timedelta(minutes=4), by="ann", channel="telegram")
    message = Message(
        id="d",
        workspace="w",
        channel="telegram",
        recipient="ann",
        to=None,
        at=AT,
        notices=[notice(STRATEGY), notice(REFUND)],
    )
    return {
        "a choice": render_question(notice(STRATEGY), PLACES, room=False),
        "answered": render_outcome(ended(STRATEGY, answered), LINK, PLACES),
        "an approval": render_question(notice(REFUND), PLACES, room=False),
        "once more": Rendered(
            compose([ours("[…]")]), {"inline_keyboard": render_confirmation(REFUND, PLACES, "a", 0)}
        ),
        "a form": render_question(notice(SIZE), PLACES, room=False),
        "in a room": render_reply_prompt(SIZE, LINK, PLACES, "w", user=7, name="Ann", problem=[]),
        "several": render_bundle(message),
    }


def as_shown(rendered: Rendered) -> str:
    """The message as somebody would write it down."""
    rows = (rendered.markup or {}).get("inline_keyboard", [])
    lines = [" ".join(f"[ {each['text']} ]" for each in row) for row in rows]
    return "\n".join((as_text(rendered.text.text, rendered.text.entities, edges=True), *lines))


@pytest.mark.parametrize("name", samples())
def test_the_page_shows_what_people_see(name: str) -> None:
    rendered = samples()[name]
    check_message(rendered.body)
    blocks = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    expected = as_shown(rendered)
    assert expected in blocks, expected


@pytest.mark.parametrize(
    ("question", "room"),
    [
        (question, room)
        for question in (STRATEGY, REFUND, SIZE, ask(Confirm(), "Go?"))
        for room in (False, True)
    ],
)
def test_a_message_is_the_same_wherever_it_is_made(question: Question, room: bool) -> None:  # noqa: FBT001 -- a table
    again = render_question(notice(question), QuestionReferences(BOT_TOKEN), room=room)
    assert render_question(notice(question), PLACES, room=room) == again


def test_what_is_missing_is_named() -> None:
    program = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'httpx2': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import handraise.channels.telegram\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'httpx2 is not installed. Run: pip install "handraise[telegram]"' in done.stderr
