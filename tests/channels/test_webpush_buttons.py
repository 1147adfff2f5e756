"""Which push messages have buttons that answer: only if the server wants them, and one press is enough."""

from __future__ import annotations

import json
from typing import Any

import pytest

from handraise import Approval, Choice, Confirm, MultiChoice, Open, Option
from handraise.channels.webpush import payload_of
from handraise.model.forms import AnyForm
from handraise.model.questions import Question
from handraise.ports.channel import Message, Notice
from handraise.presentation.one_press import notification_digest
from handraise.testing.contract.channel import AT, a_question

LOW = Approval.of("restart", {"host": "a", "force": False}, risk="low")


def a_short_question(form: AnyForm, **changes: Any) -> Question:
    return a_question(form, **({"prompt": "Ship it?"} | changes))


def payload(*questions: Question, recipient: str = "ann", answers: bool = True) -> dict[str, Any]:
    notices = [
        Notice(delivery_id="d", question=each, reason="asked", link="https://example.com/")
        for each in questions
    ]
    message = Message(
        id="m", workspace="w", channel="webpush", recipient=recipient, to={}, at=AT, notices=notices
    )
    found: dict[str, Any] = json.loads(payload_of(message, answers=answers))
    return found


@pytest.mark.parametrize(
    ("form", "labels", "body"),
    [
        (Confirm(), ["Yes", "No"], "Ship it?"),
        (LOW, ["Approve", "Deny"], "Ship it?\nrestart\nforce: no\nhost: a"),
    ],
)
def test_what_one_press_can_answer_is_shown_whole_with_its_buttons(
    form: AnyForm, labels: list[str], body: str
) -> None:
    question = a_short_question(form)
    found = payload(question)
    answers = found["answers"]
    assert found["body"] == body
    assert [each["label"] for each in answers["buttons"]] == labels
    assert answers["account"] == "w/ann"
    assert answers["fields"]["shown"] == notification_digest(question)
    assert answers["fields"]["seen"] == "0"
    assert answers["fields"].get("digest") == (form.digest if isinstance(form, Approval) else None)


@pytest.mark.parametrize(
    "question",
    [
        a_short_question(Approval.of("pay", {"amount": 1}, risk="medium")),
        a_short_question(Approval.of("pay", {"amount": 1}, risk="high")),
        a_short_question(Approval.of("pay", {"text": "x" * 41}, risk="low")),
        a_short_question(Choice.of("now", "later")),
        a_short_question(Choice.of("a", "b", "c")),
        a_short_question(Choice.of("a", "b", allow_other=True)),
        a_short_question(Choice.of(Option(id="a", label="a", description="secret"), "b")),
        a_short_question(Choice.of("x" * 25, "b")),
        a_short_question(MultiChoice.of("a", "b")),
        a_short_question(Open()),
        a_short_question(Confirm(), prompt="x" * 161),
        a_short_question(Confirm(), prompt="\U0001f642" * 81),  # browsers count each twice
        a_short_question(Confirm(), prompt="one\ntwo"),
        a_short_question(Confirm(), prompt="hid\u202eden"),
        a_short_question(Confirm(), context={"a": 1}),
        a_short_question(Confirm(), thread=1),
        a_short_question(Confirm(), evidence="session"),
        a_short_question(Confirm(), evidence="passkey"),
        a_short_question(Confirm(), replaces="q0"),
    ],
)
def test_anything_else_must_be_opened_and_is_not_shown(question: Question) -> None:
    found = payload(question)
    assert found.keys() == {"title", "body", "url", "tag"}
    assert found["body"] == "It waits for you in your inbox."


def test_not_unless_the_server_wants_it_nor_for_several_nor_for_a_shared_address() -> None:
    question = a_short_question(Confirm())
    assert "answers" in payload(question)
    for found in (
        payload(question, answers=False),
        payload(question, question),
        payload(question, recipient="group:ops"),
    ):
        assert "answers" not in found
        assert "Ship it?" not in json.dumps(found)
