"""Somebody who is brought in reads by whom and why, with no markup in it that counts."""

from __future__ import annotations

import json

import pytest

from handraise.channels.discord import messages as discord_messages
from handraise.channels.email import mail_body
from handraise.channels.message_texts import brought_of
from handraise.channels.plain_messages import lines_of
from handraise.channels.slack import messages as slack_messages
from handraise.model.events import Event, EventKind
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import AT, a_question, link_to

WHY = "You <!channel> @everyone **know**\n<script>alert(1)</script> \u202eit"


def notice(kind: EventKind = EventKind.BROUGHT_IN, reason: str | None = WHY) -> Notice:
    question = a_question()
    event = Event(
        cursor="1",
        workspace="w",
        question_id=question.id,
        kind=kind,
        at=AT,
        by="ann",
        data={"to": ["bob"], **({} if reason is None else {"reason": reason})},
    )
    return Notice(
        delivery_id="d", question=question, reason="brought_in", link=link_to(question), brought=event
    )


def test_a_mail_says_who_and_why() -> None:
    given = notice()
    message = Message(
        id="m", workspace="w", channel="email", recipient="bob", to="bob@example.org", at=AT, notices=[given]
    )
    mail = mail_body.render_question(message, given, how=None, server="desk.example")
    assert "ann has brought you in:\n│ You <!channel> @everyone **know**\n│ <script>" in mail.text
    assert "ann has brought you in" in mail.html
    assert "<script>" not in mail.html
    assert "\u202e" not in mail.text + mail.html


def test_a_notification_and_the_chats_say_it_too() -> None:
    lines = list(lines_of(notice()))
    assert lines[1:3] == ["ann has brought you in:", "│ You <!channel> @everyone **know**"]
    content = discord_messages.render_question(notice()).content
    assert "ann has brought you in:\n> You " in content
    assert "**know**" not in content
    blocks = json.dumps(slack_messages.render_question(notice()).blocks)
    assert "ann has brought you in:" in blocks
    assert '"mrkdwn"' not in blocks


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (EventKind.BROUGHT_IN, "ann has brought you in"),
        (EventKind.HANDED_OVER, "ann has handed it over"),
    ],
)
def test_a_reason_may_be_missing(kind: EventKind, told: str) -> None:
    assert brought_of(notice(kind, None)) == (told, None)
    assert f"{told}." in list(lines_of(notice(kind, None)))
    assert f"{told}." in discord_messages.render_question(notice(kind, None)).content
