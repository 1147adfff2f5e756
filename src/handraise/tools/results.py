"""The result for the model: one typed result for every way a tool call can end, and one rendering of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from handraise import (
    Answered,
    Approval,
    Choice,
    Confirm,
    Declined,
    Exhausted,
    Expired,
    Form,
    MultiChoice,
    Open,
    Problem,
    Question,
    Withdrawn,
)
from handraise.forms import File
from handraise.model.json_values import Json, canonical_json
from handraise.model.outcomes import Returned, Source
from handraise.model.thread_messages import ThreadMessage

ResultStatus = Literal[
    "answered",
    "declined",
    "expired",
    "withdrawn",
    "exhausted",
    "returned",
    "undelivered",
    "still_pending",
    "asked_back",
    "invalid",
]
"""How a tool call ended, in one word."""

REPLY_TO_PERSON = "reply_to_person"
"""The name of the tool with which a model replies to people."""
_ASKED_BACK = (
    f"A person wants to know something before they decide. Call {REPLY_TO_PERSON} with this question_id, the number of the "
    "last message, and your reply. The question stays open: do not ask it again. This is not an answer, and not consent."
)

_RETURNED = (
    "A person sent it back: this is not an answer, and not consent. Change what the reason says, then call the tool again, "
    "with replaces set to this question_id if the tool has that parameter."
)

UNDELIVERED = "undelivered"
"""Prefix of the reason with which a tool withdraws a question that it could not show to anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """How a tool call ended. `content` is what the model gets to read.

    `value` is the canonical answer and `text` the same as people read it: labels instead of ids. For a batch,
    `responses` has one result for each question, and `status` is `asked_back` if one has it, else the first that
    is not `answered`. `echo` is
    the id that the model gave to a question of a batch; nothing is looked up by it. `messages` are what people asked
    back and wait to read from the model. `note` says what the model should do about a question that was sent back.
    """

    status: ResultStatus
    question_id: str | None = None
    echo: str | int | None = None
    question: str | None = field(default=None, repr=False)
    value: Json = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    source: Source | None = None
    by: str | None = None
    reason: str | None = field(default=None, repr=False)
    note: str | None = field(default=None, repr=False)
    problems: tuple[Problem, ...] = ()
    messages: tuple[ThreadMessage, ...] = field(default=(), repr=False)
    responses: tuple[ToolResult, ...] = ()

    @property
    def content(self) -> str:
        """The result as compact JSON text, the same for every model API."""
        text = json.dumps(_parts(self), ensure_ascii=False, separators=(",", ":"))
        # A path can contain what a model sent, which may not be valid text.
        return text.encode("utf-8", "backslashreplace").decode()

    def for_openai_chat(self, call_id: str) -> dict[str, Json]:
        """The `role: tool` message of OpenAI chat completions."""
        return {"role": "tool", "tool_call_id": call_id, "content": self.content}

    def for_openai_responses(self, call_id: str) -> dict[str, Json]:
        """The `function_call_output` item of OpenAI Responses."""
        return {"type": "function_call_output", "call_id": call_id, "output": self.content}

    def for_anthropic(self, call_id: str) -> dict[str, Json]:
        """The `tool_result` block of Anthropic messages; an error if nothing was asked or shown."""
        block = {"type": "tool_result", "tool_use_id": call_id, "content": self.content}
        return {**block, "is_error": True} if self.status in ("invalid", "undelivered") else block


def to_tool_result(question: Question, *, messages: Sequence[ThreadMessage] = ()) -> ToolResult:
    """The result of a tool call that asked this question, as it is now.

    `messages` are those that the model has to reply to.
    """
    outcome = question.outcome
    match outcome:
        case None if messages:
            return ToolResult(
                status="asked_back",
                question_id=question.id,
                by=messages[-1].by,
                reason=_ASKED_BACK,
                messages=tuple(messages),
            )
        case None:
            return ToolResult(status="still_pending", question_id=question.id)
        case Answered():
            return ToolResult(
                status="answered",
                question_id=question.id,
                value=outcome.value,
                text=chosen_text(question, outcome),
                source=outcome.source,
                by=outcome.by,
            )
        case Declined():
            return ToolResult(
                status="declined", question_id=question.id, by=outcome.by, reason=outcome.reason
            )
        case Expired():
            return ToolResult(status="expired", question_id=question.id)
        case Withdrawn(reason=str(reason)) if reason.split(":")[0] == UNDELIVERED:
            return ToolResult(status="undelivered", question_id=question.id, reason=reason)
        case Withdrawn():
            return ToolResult(
                status="withdrawn", question_id=question.id, by=outcome.by, reason=outcome.reason
            )
        case Exhausted():
            return ToolResult(status="exhausted", question_id=question.id, by=outcome.by)
        case Returned():
            return ToolResult(
                status="returned",
                question_id=question.id,
                by=outcome.by,
                reason=outcome.reason,
                note=_RETURNED,
            )
        case _:
            assert_never(outcome)


def batch_result(responses: Sequence[ToolResult]) -> ToolResult:
    """One result for a call that asked several questions."""
    unanswered = [each.status for each in responses if each.status != "answered"]
    status: ResultStatus = "asked_back" if "asked_back" in unanswered else next(iter(unanswered), "answered")
    return ToolResult(status=status, responses=tuple(responses))


def invalid_result(tool: str, problems: Sequence[Problem], what: str = "Nobody was asked.") -> ToolResult:
    """The result of a call whose arguments cannot be asked: nothing was registered."""
    reason = f"{what} Correct these problems and call {tool} again."
    return ToolResult(status="invalid", reason=reason, problems=tuple(problems))


def chosen_text(question: Question, outcome: Answered) -> str:
    """An answer as people read it."""
    value = outcome.value
    form = question.form
    match form:
        case Choice():
            return _label(form, value)
        case MultiChoice():
            return ", ".join(_label(form, each) for each in value)
        case Open():
            return str(value)
        case Confirm():
            return "yes" if value else "no"
        case Form():
            return canonical_json(value)
        case File():
            return str(value["name"])
        case Approval():
            return str(value["decision"])
        case _:
            assert_never(form)


def _label(form: Choice | MultiChoice, value: Json) -> str:
    if isinstance(value, dict):
        return str(value["other"])
    return next((option.label for option in form.options if option.id == value), str(value))


def _parts(result: ToolResult) -> dict[str, Json]:
    parts = {
        "status": result.status,
        "question_id": result.question_id,
        "id": result.echo,
        "question": result.question,
        "value": result.value,
        "text": result.text,
        "source": result.source,
        "by": result.by,
        "reason": result.reason,
        "note": result.note,
        "messages": [{"number": each.number, "by": each.by, "text": each.text} for each in result.messages]
        or None,
        "problems": [{"path": each.path, "message": each.message} for each in result.problems] or None,
        "responses": [_parts(each) for each in result.responses] or None,
    }
    return {name: part for name, part in parts.items() if part is not None}
