"""The page about Discord shows what people see."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval
from handraise.channels.discord.messages import (
    Rendered,
    render_bundle,
    render_confirmation,
    render_outcome,
    render_question,
)
from handraise.channels.discord.modals import answer_modal
from handraise.model.forms import AnyForm, Choice, Field, Form, Open, Option
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.timelines import Step
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import a_question
from handraise.testing.contract.channel import settled as ended
from tests.channels.discord_rules import as_text, modal_text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "reach-people-by-discord.md"
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
PAYMENT = Approval.of("pay", {"to": "Ada Ltd", "amount": 120, "currency": "EUR"})
REFUND = ask(PAYMENT, "The invoice of October is due.")
FIELDS = Form(
    fields=(
        Field(name="region", form=Choice.of("eu", "us"), title="Where?"),
        Field(name="machines", form=Open(type="integer", minimum=1, maximum=9), default=3),
    )
)


def message(*questions: Question) -> Message:
    notices = [notice(each) for each in questions]
    return Message(id="d", workspace="w", channel="discord", recipient="ann", to=None, at=AT, notices=notices)


def text(rendered: Rendered) -> str:
    return as_text(rendered.content, rendered.rows)


def samples() -> dict[str, str]:
    answered = Answered(value="canary", at=AT + timedelta(minutes=4), by="ann", channel="discord")
    return {
        "a choice": text(render_question(notice(STRATEGY))),
        "answered": text(render_outcome(ended(STRATEGY, answered))),
        "an approval": text(render_question(notice(REFUND))),
        "sure": text(render_confirmation(REFUND, "approve")),
        "a form": modal_text(answer_modal(ask(FIELDS, "How large?"))),
        "several": text(render_bundle(message(STRATEGY, REFUND))),
    }


@pytest.mark.parametrize("name", samples())
def test_the_page_shows_what_people_see(name: str) -> None:
    blocks = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    expected = samples()[name]
    assert expected in blocks, expected


@pytest.mark.parametrize("library", ["httpx2", "cryptography"])
def test_what_is_missing_is_named(library: str) -> None:
    program = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {library!r}: raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import handraise.channels.discord\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f'{library} is not installed. Run: pip install "handraise[discord]"' in done.stderr
