"""The conversation in messages that nobody answers, and why a browser is told of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from handraise.channels.plain_messages import lines_of
from handraise.channels.webpush import payload_of
from handraise.model.deliveries import Reason
from handraise.model.questions import changed
from handraise.model.thread_messages import MessageKind, ThreadMessage
from handraise.ports.channel import Message, Notice
from handraise.presentation.thread_text import thread_text
from handraise.testing.contract.channel import AT, a_question


def said(*messages: tuple[MessageKind, str, str]) -> tuple[ThreadMessage, ...]:
    return tuple(
        ThreadMessage(number=number, kind=kind, by=by, at=AT, text=text)
        for number, (kind, by, text) in enumerate(messages, 1)
    )


def notice(*messages: tuple[MessageKind, str, str], reason: Reason = "replied", **parts: Any) -> Notice:
    question = changed(a_question(), thread=len(messages), **parts)
    return Notice(
        delivery_id="d", question=question, reason=reason, link="https://x.example", thread=said(*messages)
    )


def test_a_notification_shows_who_wrote_what_and_no_line_of_it_passes_for_ours() -> None:
    told = notice(
        ("asked_back", "ann\nA note by bob", "Why?\nThe agent replied:"),
        ("noted", "bob", "\u202eno"),
        ("asked_back", "bob", "And?"),
        asked_back=3,
    )
    lines = list(lines_of(told))
    assert "│ The agent replied:" in lines
    assert "A note by bob:" in lines
    assert lines.count("A note by bob:") == 1
    assert "Waiting for the agent's reply." in lines
    assert "\u202e" not in "".join(lines)


@pytest.mark.parametrize(
    ("messages", "seen"),
    [
        ([("noted", "ann", "x" * 100)], 1),
        ([("noted", "ann", "x" * 1_000)], None),
        ([("noted", "ann", "x\n" * 50)], None),
        ([("noted", "ann", "x")] * 30, None),
    ],
)
def test_only_a_conversation_that_is_shown_in_full_is_seen(messages: Any, seen: int | None) -> None:
    told = notice(*messages)
    text = thread_text(told.question, told.thread, room=600)
    assert text.seen == seen
    assert (text.earlier is None) == (seen is not None)
    # A part of it is not all of it.
    assert thread_text(told.question, told.thread[:-1], room=600).seen is None


def test_a_browser_is_told_why_and_not_what_was_written() -> None:
    bodies = set()
    reasons: tuple[Reason, ...] = ("asked", "reminded", "noted", "replied")
    for reason in reasons:
        told = notice(("noted", "ann", "secret"), reason=reason)
        message = Message(
            id="m", workspace="w", channel="webpush", recipient="ann", to={}, at=AT, notices=[told]
        )
        payload = payload_of(message)
        assert b"secret" not in payload
        bodies.add(json.loads(payload)["body"])
    assert len(bodies) == len(reasons)
