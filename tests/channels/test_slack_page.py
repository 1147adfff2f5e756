"""The page about Slack shows what people see."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval
from handraise.channels.slack.block_texts import difference
from handraise.channels.slack.messages import render_bundle, render_outcome, render_question
from handraise.channels.slack.modals import answer_view, difference_view
from handraise.model.forms import AnyForm, Choice, Field, Form, Open, Option
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.timelines import Step
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import a_question
from handraise.testing.contract.channel import settled as ended
from tests.channels.slack_rules import as_text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "reach-people-by-slack.md"
AT = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
LINK = "https://handraise.example.com/questions/01a1de77"


def ask(form: AnyForm, prompt: str, **more: Any) -> Question:
    return a_question(form, prompt=prompt, asker="deployer", asked_at=AT, **more)


def notice(question: Question) -> Notice:
    return Notice(delivery_id="d", question=question, reason="asked", link=LINK)


STRATEGY = ask(
    Choice.of("Blue-green", Option(id="canary", label="Canary", description="a few at first")),
    "Which strategy for 1.2.3?",
    steps=(Step(timedelta(hours=8), "expire"),),
)
PAYMENT = Approval.of("pay", {"to": "Ada Ltd", "amount": 120, "currency": "EUR"}, editable=["amount"])
REFUND = ask(PAYMENT, "The invoice of October is due.")
FIELDS = Form(
    fields=(
        Field(name="region", form=Choice.of("eu", "us"), title="Where?"),
        Field(name="machines", form=Open(type="integer", minimum=1, maximum=9), default=3),
    )
)


def message(*questions: Question) -> Message:
    notices = [notice(each) for each in questions]
    return Message(id="d", workspace="w", channel="slack", recipient="ann", to=None, at=AT, notices=notices)


def samples() -> dict[str, Sequence[dict[str, Any]]]:
    shown = difference({"amount": 120}, {"amount": 100})
    changed = difference_view(REFUND, PAYMENT, {}, shown)
    assert changed is not None
    answered = ended(
        STRATEGY, Answered(value="canary", at=AT + timedelta(minutes=4), by="ann", channel="slack")
    )
    return {
        "a choice": render_question(notice(STRATEGY)).blocks,
        "answered": render_outcome(answered).blocks,
        "an approval": render_question(notice(REFUND)).blocks,
        "a form": answer_view(ask(FIELDS, "How large?"))["blocks"],
        "changed arguments": changed["blocks"],
        "several": render_bundle(message(STRATEGY, REFUND)).blocks,
    }


def as_shown(blocks: Sequence[dict[str, Any]]) -> str:
    """The blocks as somebody would write them down."""
    text = re.sub(r"<[^|>]*\|([^>]*)>", r"\1", as_text(blocks))
    text = re.sub(r"^&gt; $\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^&gt; ", "│ ", text, flags=re.MULTILINE)
    text = re.sub(r"^```\n?", "", text, flags=re.MULTILINE)
    return html.unescape(re.sub(r"\n{2,}", "\n", text)).strip()


@pytest.mark.parametrize("name", samples())
def test_the_page_shows_what_people_see(name: str) -> None:
    blocks = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    expected = as_shown(samples()[name])
    assert expected in blocks, expected


def test_what_is_missing_is_named() -> None:
    program = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'websockets': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import handraise.channels.slack\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'websockets is not installed. Run: pip install "handraise[slack]"' in done.stderr
