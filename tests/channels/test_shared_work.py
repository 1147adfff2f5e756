"""Messages say what pages say: who is on a question, that it replaces another, and what the options would give."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from handraise import Approval, Choice, Option, Question
from handraise.channels.chat import question_text
from handraise.channels.discord import messages as discord_messages
from handraise.channels.email import mail_body
from handraise.channels.plain_messages import lines_of
from handraise.channels.slack import messages as slack_messages
from handraise.channels.teams import cards
from handraise.channels.telegram import messages as telegram_messages
from handraise.channels.telegram.references import QuestionReferences
from handraise.forms import AnyForm
from handraise.model.sharing_rules import with_taker_at, with_taker_now
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import AT, a_question, link_to
from tests.channels import slack_rules, teams_rules

PREVIEW = "Then wait **an hour** <!channel> </p><script>x</script> \u202ereversed"
OPTIONS = Choice(options=(Option(id="a", label="Canary", preview=PREVIEW), Option(id="b", label="All")))
REPLACES = "This replaces an earlier question: the page shows what has changed."
FORMS = [
    OPTIONS,
    Approval.of("refund", {"amount": 30}),
    Approval.of("refund", {"amount": 30}, risk="high"),
    Approval.of("refund", {"text": "x" * 9_000}),
]


def notice(question: Question) -> Notice:
    return Notice(delivery_id="d", question=question, reason="reminded", link=link_to(question))


def mail(question: Question) -> mail_body.Rendered:
    given = notice(question)
    message = Message(
        id="m", workspace="w", channel="email", recipient="ann", to="a@b.example", at=AT, notices=[given]
    )
    return mail_body.render_question(message, given, how=None, server="desk.example")


RENDERERS: dict[str, Any] = {
    "slack": lambda each: slack_rules.as_text(slack_messages.render_question(notice(each)).blocks),
    "discord": lambda each: discord_messages.render_question(notice(each)).content.replace("\\", ""),
    "telegram": lambda each: telegram_messages.render_question(
        notice(each), QuestionReferences("1:x"), room=False
    ).body["text"],
    "teams": lambda each: teams_rules.as_text(cards.render_question(each, link_to(each))),
    "mail": lambda each: mail(each).text,
    "mail in HTML": lambda each: mail(each).html,
    "notification": lambda each: "\n".join(lines_of(notice(each))),
    "chat": lambda each: question_text(notice(each)),
}
everywhere = pytest.mark.parametrize("render", list(RENDERERS.values()), ids=list(RENDERERS))


@everywhere
@pytest.mark.parametrize("form", FORMS, ids=["choice", "approval", "high risk", "too large"])
def test_a_message_says_who_is_on_it_and_that_it_replaces_another(render: Any, form: AnyForm) -> None:
    question = a_question(form=form)
    assert "is on this" not in render(question)
    assert REPLACES not in render(question)
    until = AT + timedelta(minutes=10)
    shared = render(replace(question, taken_by="bob\u202e", taken_until=until, replaces="q-0"))
    assert "bob‹U+202E› is on this." in shared
    assert REPLACES in shared


@pytest.mark.parametrize("minutes", [-1, 10, 60])
def test_nobody_is_on_it_before_they_take_it_and_after_their_time(minutes: float) -> None:
    question = a_question(form=OPTIONS, taken_by="bob", taken_until=AT + timedelta(minutes=10))
    assert with_taker_at(question, AT + timedelta(minutes=minutes)).taken_by is None
    assert with_taker_at(question, AT + timedelta(minutes=9)) is question
    later = replace(question, taken_until=AT + timedelta(minutes=70))
    assert with_taker_now(later, AT).taken_by == "bob"
    assert with_taker_now(question, AT + timedelta(minutes=10)).taken_by is None


@pytest.mark.parametrize("service", ["slack", "teams", "mail", "mail in HTML"])
def test_short_previews_are_shown_as_the_agents_own_words(service: str) -> None:
    shown = RENDERERS[service](a_question(form=OPTIONS))
    assert "What you would get, as the agent shows it:" in shown
    assert "an hour" in shown
    assert "\u202e" not in shown
    assert "that is on the page" not in shown
    if service == "mail in HTML":
        assert "<script>" not in shown
    if service == "slack":
        assert '"mrkdwn"' not in json.dumps(
            slack_messages.render_question(notice(a_question(form=OPTIONS))).blocks
        )


@everywhere
def test_a_long_preview_is_left_to_the_page(render: Any) -> None:
    long = OPTIONS.model_copy(update={"options": (Option(id="a", label="A", preview="x " * 3_000),)})
    shown = render(a_question(form=long))
    assert "x x x" not in shown
    assert "that is on the page" in shown or "There is more about it there" in shown


def test_choices_in_plain_text_have_the_numbers_that_people_reply_with() -> None:
    assert "│ 1. Canary\n│ 2. All" in question_text(notice(a_question(form=OPTIONS)))
