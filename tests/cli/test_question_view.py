"""A question on a terminal says of an action what is true of it now."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handraise import Approval
from handraise.cli.question_commands import summary_lines
from handraise.cli.question_view import question_lines
from handraise.model.outcomes import Answered, Expired, Outcome
from handraise.questions import Report
from handraise.testing.contract.channel import AT, a_question, settled

FORM = Approval.of("pay", {"to": "bob", "amount": 10}, editable=["amount"], risk="high")


def shown(outcome: Outcome | None) -> str:
    question = a_question(FORM)
    if outcome is not None:
        question = settled(question, outcome)
    return "\n".join("".join(text for _, text in line) for line in question_lines(question, 80))


def answered(**value: Any) -> Answered:
    return Answered(value={"digest": FORM.digest, **value}, at=AT, by="ann")


def test_while_it_is_pending_it_says_what_would_run() -> None:
    text = shown(None)
    assert "If approved, exactly this runs" in text
    assert "High risk. The agent's author says" in text
    assert "You may change: amount" in text


@pytest.mark.parametrize(
    ("outcome", "heading"),
    [
        (answered(decision="approve"), "What was approved"),
        (answered(decision="deny"), "What was asked for"),
        (Expired(at=AT), "What was asked for"),
        (answered(decision="approve", arguments={"to": "bob", "amount": 7}), "What was asked for"),
    ],
)
def test_once_it_is_settled_it_says_what_it_was(outcome: Outcome, heading: str) -> None:
    text = shown(outcome)
    assert heading in text
    assert "amount" in text
    for pending in ("exactly this runs", "You may change", "Read every argument"):
        assert pending not in text


def test_what_was_changed_is_below_what_was_asked_for() -> None:
    text = shown(answered(decision="approve", arguments={"to": "bob", "amount": 7}))
    _, changes = text.split("What was changed before it was approved")
    assert "- 10" in changes
    assert "+ 7" in changes


def test_what_came_of_it_is_behind_the_bar_of_the_agents_words() -> None:
    report = Report(
        ok=False, text="no\nmoney\x1b[2J", link="https://a.example/7", details={"code": 51}, at=AT
    )
    question = replace(settled(a_question(FORM), answered(decision="approve")), report=report)
    lines = ["".join(text for _, text in line) for line in question_lines(question, 80)]
    place = lines.index("Failed")
    assert lines[place : place + 6] == [
        "Failed",
        "│ no",
        "│ money‹U+001B›[2J",
        "│ https://a.example/7",
        "│ code  51",
        "This is what the agent says. Nobody has checked it.",
    ]


def test_it_says_if_nobody_waits_any_more() -> None:
    heard = datetime.now(UTC) - timedelta(minutes=12, seconds=30)
    question = replace(a_question(FORM), heartbeat=300.0, heard_at=heard)
    for width, now, said in ((200, question, True), (200, replace(question, heartbeat=3_600.0), False)):
        text = "".join(text for line in question_lines(now, width) for _, text in line)
        sentence = f"Nobody is waiting for this answer any more: {question.asker} was last heard from 12 minutes ago."
        assert (f"{sentence} You can still answer it." in text) == said
        row = "".join(text for line in summary_lines(now, width, "ann") for _, text in line)
        assert ("nobody is waiting any more" in row) == said
