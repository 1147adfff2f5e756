"""One rendering for the model, whatever the ending, and each API's wrapping of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from handraise import (
    Answered,
    Approval,
    Choice,
    Confirm,
    Declined,
    Exhausted,
    Expired,
    Field,
    Form,
    MultiChoice,
    Open,
    Option,
    Outcome,
    Problem,
    Question,
    Status,
    Withdrawn,
)
from handraise.forms import AnyForm
from handraise.outcomes import Returned
from handraise.tools import ToolResult, to_tool_result

NOW = datetime(2026, 11, 15, tzinfo=UTC)
QUESTION = Question(
    id="q-1", workspace="w", asker="agent", prompt="Which?", form=Choice.of("a", "b"), asked_at=NOW
)


def ended(outcome: Outcome, form: AnyForm = QUESTION.form) -> Question:
    return replace(QUESTION, form=form, status=Status(outcome.status), outcome=outcome)


@pytest.mark.parametrize(
    ("question", "content"),
    [
        (QUESTION, {"status": "still_pending", "question_id": "q-1"}),
        (
            ended(Answered(value="a", at=NOW, by="ana")),
            {
                "status": "answered",
                "question_id": "q-1",
                "value": "a",
                "text": "a",
                "source": "person",
                "by": "ana",
            },
        ),
        (
            ended(Answered(value="a", at=NOW, source="default")),
            {"status": "answered", "question_id": "q-1", "value": "a", "text": "a", "source": "default"},
        ),
        (
            ended(Declined(at=NOW, by="ana", reason="no idea")),
            {"status": "declined", "question_id": "q-1", "by": "ana", "reason": "no idea"},
        ),
        (ended(Expired(at=NOW)), {"status": "expired", "question_id": "q-1"}),
        (
            ended(Withdrawn(at=NOW, by="agent")),
            {"status": "withdrawn", "question_id": "q-1", "by": "agent"},
        ),
        (
            ended(Withdrawn(at=NOW, by="agent", reason="undelivered: OSError")),
            {"status": "undelivered", "question_id": "q-1", "reason": "undelivered: OSError"},
        ),
        (
            ended(Withdrawn(at=NOW, by="agent", reason="undelivered goods")),
            {"status": "withdrawn", "question_id": "q-1", "by": "agent", "reason": "undelivered goods"},
        ),
        (
            ended(Exhausted(at=NOW, by="ana")),
            {"status": "exhausted", "question_id": "q-1", "by": "ana"},
        ),
        (
            ended(Returned(at=NOW, by="ana", reason="Only 30.")),
            {
                "status": "returned",
                "question_id": "q-1",
                "by": "ana",
                "reason": "Only 30.",
                "note": "A person sent it back: this is not an answer, and not consent. Change what the reason says, then call "
                "the tool again, with replaces set to this question_id if the tool has that parameter.",
            },
        ),
    ],
)
def test_every_ending_is_typed_and_none_is_prose(question: Question, content: dict[str, Any]) -> None:
    assert json.loads(to_tool_result(question).content) == content


OPTIONS = (Option(id="1", label="Red"), Option(id="2", label="Blue"))


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (Choice(options=OPTIONS), "2", "Blue"),
        (Choice(options=OPTIONS, allow_other=True), {"other": "Green"}, "Green"),
        (MultiChoice(options=OPTIONS, allow_other=True), ["1", "2", {"other": "Green"}], "Red, Blue, Green"),
        (Open(), "as it is", "as it is"),
        (Open(type="integer"), 3, "3"),
        (Confirm(), True, "yes"),
        (Confirm(), False, "no"),
        (Form(fields=(Field(name="n", form=Open()),)), {"n": "x"}, '{"n":"x"}'),
        (Approval.of("pay"), {"decision": "deny", "digest": ""}, "deny"),
    ],
)
def test_the_text_is_what_people_read(form: AnyForm, value: Any, text: str) -> None:
    result = to_tool_result(ended(Answered(value=value, at=NOW, by="ana"), form))
    assert (result.value, result.text) == (value, text)


def test_the_content_is_compact_and_keeps_every_letter() -> None:
    assert ToolResult(status="answered", value="blå").content == '{"status":"answered","value":"blå"}'


def test_the_content_can_always_be_sent() -> None:
    result = ToolResult(status="invalid", problems=(Problem("\ud800", "is odd"),))
    assert json.loads(result.content.encode())["status"] == "invalid"


def test_each_api_gets_the_result_under_the_models_own_call_id() -> None:
    result = ToolResult(status="expired", question_id="q-1")
    content = '{"status":"expired","question_id":"q-1"}'
    assert result.for_openai_chat("call_1") == {"role": "tool", "tool_call_id": "call_1", "content": content}
    assert result.for_openai_responses("call_1") == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": content,
    }
    assert result.for_anthropic("toolu_1") == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": content,
    }


@pytest.mark.parametrize(("status", "error"), [("invalid", True), ("undelivered", True), ("declined", False)])
def test_anthropic_is_told_what_went_wrong_as_an_error(status: Any, error: bool) -> None:  # noqa: FBT001 -- a column of the table above
    assert ToolResult(status=status).for_anthropic("toolu_1").get("is_error", False) is error


def test_answers_stay_out_of_logs() -> None:
    result = ToolResult(status="answered", value="secret", text="secret", reason="secret", question="secret")
    assert "secret" not in repr(result)
