"""The page about Teams shows what people see, and what is missing is named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pydantic
import pytest

from handraise import Approval
from handraise.channels.teams.cards import difference_card, render_bundle, render_outcome, render_question
from handraise.channels.teams.references import Services, read_address
from handraise.model.forms import AnyForm, Choice, Confirm, Field, Form, Open, Option
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.timelines import Step
from handraise.ports.channel import Notice
from handraise.server import ServerSettings
from handraise.testing.contract.channel import a_question
from handraise.testing.contract.channel import settled as ended
from tests.channels.teams_peer import APP, TENANT
from tests.channels.teams_rules import as_text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "reach-people-by-teams.md"
AT = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
LINK = "https://handraise.example.com/questions/01a1de77"


def ask(form: AnyForm, prompt: str, **more: Any) -> Question:
    return a_question(form, prompt=prompt, asker="deployer", asked_at=AT, **more)


STRATEGY = ask(
    Choice.of("Blue-green", Option(id="canary", label="Canary", description="a few at first")),
    "Which strategy for 1.2.3?",
    steps=(Step(timedelta(hours=8), "expire"),),
)
PAYMENT = Approval.of("pay", {"to": "Ada Ltd", "amount": 120, "currency": "EUR"}, editable=["amount"])
INVOICE = ask(PAYMENT, "The invoice of October is due.")
FIELDS = Form(
    fields=(
        Field(name="region", form=Choice.of("eu", "us"), title="Where?"),
        Field(name="machines", form=Open(type="integer", minimum=1, maximum=9), default=3),
        Field(name="begin", form=Open(type="date")),
        Field(name="tell everybody", form=Confirm(), default=True),
    )
)


def samples() -> dict[str, dict[str, Any]]:
    answered = ended(
        STRATEGY, Answered(value="canary", at=AT + timedelta(minutes=4), by="ann", channel="teams")
    )
    changed = {**PAYMENT.action.arguments, "amount": 100}
    notices = [
        Notice(delivery_id="d", question=each, reason="asked", link=LINK) for each in (STRATEGY, INVOICE)
    ]
    return {
        "a choice": render_question(STRATEGY, LINK),
        "answered": render_outcome(answered),
        "an approval": render_question(INVOICE, LINK),
        "a form": render_question(ask(FIELDS, "How large?"), LINK),
        "changed arguments": difference_card(INVOICE, PAYMENT, LINK, {"digest": "x"}, changed),
        "several": render_bundle(notices),
    }


def as_shown(card: dict[str, Any]) -> str:
    """The card as somebody would write it down, its buttons side by side."""
    text = as_text(card).replace(f"({LINK})", "").replace("\u00a0", " ")
    return re.sub(r" \]\n(?=\[ )", " ] ", text).strip()


@pytest.mark.parametrize("name", samples())
def test_the_page_shows_what_people_see(name: str) -> None:
    blocks = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    expected = as_shown(samples()[name])
    assert expected in blocks, f"\n{expected}"


def test_the_addresses_of_the_page_make_sense() -> None:
    bodies = re.findall(r"--json '(\{.*?\})'$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(bodies) == 2
    for body in bodies:
        assert read_address(json.loads(body)["to"], Services(), TENANT) is not None


def test_what_is_missing_is_named() -> None:
    program = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'joserfc': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import handraise.server.settings\n"
        "import handraise.channels.teams.channel\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'joserfc is not installed. Run: pip install "handraise[teams]"' in done.stderr


WHOLE: dict[str, Any] = {
    "url": "memory:",
    "teams_app_id": APP,
    "teams_app_secret": "x",
    "teams_tenant": TENANT,
}


@pytest.mark.parametrize(
    "change",
    [
        {"teams_app_secret": None},
        {"teams_tenant": None},
        {"teams_tenant": "example.com"},
        {"teams_app_id": "my-bot"},
        {"teams_service_urls": ["http://smba.example.com"]},
        {"teams_service_urls": ["https://smba.example.com?x"]},
        {"teams_login_url": "http://login.example.com"},
        {"teams_metadata_url": "ftp://login.example.com"},
        {"teams_issuer": "api.botframework.com"},
    ],
)
def test_settings_that_cannot_work_are_named(change: dict[str, Any]) -> None:
    assert ServerSettings(**WHOLE).teams_app_id == APP
    with pytest.raises(pydantic.ValidationError) as failed:
        ServerSettings(**(WHOLE | change))
    assert [each["loc"][:1] for each in failed.value.errors()] == [tuple(change)]


def test_settings_hide_the_secret_and_take_ids_in_any_letters() -> None:
    given = ServerSettings(**(WHOLE | {"teams_app_id": APP.upper(), "teams_app_secret": "hush-hush"}))
    assert given.teams_app_id == APP
    assert "hush-hush" not in repr(given)
