"""smolagents: tools that ask a person and wait. `pip install "handraise[smolagents]"`.

smolagents can neither pause a run nor store it. So these tools block their thread until somebody has
answered. The question outlives the process, but the run does not: started again with the same key, it finds
its earlier questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Unpack

from handraise import (
    Approval,
    Choice,
    InvalidQuestion,
    NotApproved,
    Open,
    Question,
    QuestionNotFound,
    StillPending,
)
from handraise.blocking import BlockingDesk
from handraise.errors import AlreadyConsumed, MissingExtra
from handraise.forms import coerce_choices
from handraise.integrations.pause_questions import ASK_HUMAN
from handraise.integrations.paused_run import PauseOptions
from handraise.model.durations import Span
from handraise.model.json_values import Json, digest
from handraise.questions import QuestionOptions
from handraise.tools import ToolResult, to_tool_result
from handraise.tools.approvals import BlockingReply
from handraise.tools.automatic_reports import error_report, result_report, send_report_blocking
from handraise.tools.tool_arguments import UNKNOWN_REPLACED

try:
    from smolagents import Tool, tool  # type: ignore[import-untyped]  # it has no types
except ImportError as error:
    raise MissingExtra(error.name or "smolagents", "smolagents") from error

__all__ = ["AskHuman", "approved"]

_KEYS = "smolagents:"


class AskHuman(Tool):  # type: ignore[misc]  # smolagents has no types
    """The tool with which a model asks a person.

    It blocks until the question is settled, and returns the result as text.

    `key` names the run: the same question of the same run is asked once, also after a restart. If `timeout`
    passes first, the model reads that the question is still open. With `reply_with` people may ask back: the function
    replies, because the model is blocked.
    """

    name = "ask_human"
    description = ASK_HUMAN
    inputs = {  # noqa: RUF012 -- smolagents wants it so
        "question": {"type": "string", "description": "What you ask the person."},
        "choices": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What the person can choose from. Leave it out for an open question.",
            "nullable": True,
        },
        "replaces": {
            "type": "string",
            "description": "If a person sent your question back: its question_id. You ask it again, changed.",
            "nullable": True,
        },
    }
    output_type = "string"

    def __init__(
        self,
        desk: BlockingDesk,
        *,
        key: str,
        timeout: Span | None = None,
        reply_with: BlockingReply | None = None,
        **options: Unpack[PauseOptions],
    ) -> None:
        super().__init__()
        self._desk = desk
        self._key = key
        self._timeout = timeout
        self._reply_with = reply_with
        self._options = options

    def forward(self, question: str, choices: list[str] | None = None, replaces: str | None = None) -> str:
        """Ask, wait, and say how it ended."""
        options = coerce_choices(choices)
        about = _about(self._key, self._options)
        if replaces:
            if not self._has_asked(replaces):
                return _invalid(InvalidQuestion([UNKNOWN_REPLACED])).content
            about["replaces"] = replaces
        about["form"] = Choice(options=options, allow_other=True) if options else Open()
        about["key"] = _name(self._key, self.name, question, choices)
        return _ended(self._desk, question, about, self._timeout, self._reply_with)[1].content

    def _has_asked(self, question_id: str) -> bool:
        """Whether the model asked this question with this tool, in this run."""
        try:
            found = self._desk.get(question_id)
        except QuestionNotFound:
            return False
        is_asked_so = (found.key or "").startswith(_KEYS) and not isinstance(found.form, Approval)
        conversation = self._options.get("conversation", self._key)
        return is_asked_so and (found.asker, found.conversation) == (self._desk.asker, conversation)


def approved(
    function: Callable[..., Any],
    desk: BlockingDesk,
    *,
    key: str,
    editable: Sequence[str] = (),
    timeout: Span | None = None,
    reply_with: BlockingReply | None = None,
    **options: Unpack[PauseOptions],
) -> Tool:
    """A tool that runs once, after a person has approved the call, with the approved arguments.

    The function needs annotations and a docstring with its arguments, as smolagents requires. The same call
    of the same run is the same approval: an executed call is not executed again. Its result or error is reported,
    shortened. With `reply_with` people may ask back, as in `AskHuman`.
    """
    made = tool(function)
    run = made.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        arguments = dict(zip(made.inputs, args, strict=False)) | kwargs
        about = _about(key, options)
        about.pop("topic", None)  # each approval is asked by itself
        about["key"] = _name(key, made.name, arguments)
        try:
            about["form"] = Approval.of(made.name, arguments, editable=editable)
        except InvalidQuestion as refusal:
            return _invalid(refusal).content
        question, result = _ended(desk, f"May I run {made.name}?", about, timeout, reply_with)
        if question is None or question.outcome is None:
            return result.content
        try:
            action = desk.consume_approval(question.id)
        except (NotApproved, AlreadyConsumed) as refused:
            again = " Change it as they say, and call the tool again."
            return f"Not executed. {refused}" + (again if question.status == "returned" else "")
        try:
            output = run(**action.arguments)
        except Exception as error:
            send_report_blocking(desk, question.id, error_report(error))
            raise
        send_report_blocking(desk, question.id, result_report(output))
        return output

    made.forward = forward
    return made


def _ended(
    desk: BlockingDesk,
    prompt: str,
    about: QuestionOptions,
    timeout: Span | None,
    reply_with: BlockingReply | None,
) -> tuple[Question | None, ToolResult]:
    """The question once it is settled or the time is over, and the text for the model."""
    if about.pop("replies", None) == "model":
        raise TypeError("The model is blocked while it waits: give reply_with instead of replies='model'.")
    if reply_with is not None:
        about["replies"] = "program"
    try:
        question = desk.post(prompt, **about)
        if isinstance(question.form, Approval):
            question = desk.apply_grant(question.id) or question
    except InvalidQuestion as refusal:
        return None, _invalid(refusal)
    with suppress(StillPending):
        desk.wait(question.id, timeout=timeout, reply_with=reply_with)
    question = desk.get(question.id)
    return question, to_tool_result(question)


def _about(key: str, options: PauseOptions) -> QuestionOptions:
    about: Any = {"conversation": key, **options}
    said: QuestionOptions = about
    return said


def _invalid(refusal: InvalidQuestion) -> ToolResult:
    reason = "Nobody was asked, and nothing was executed. Correct these problems and call it again."
    return ToolResult(status="invalid", reason=reason, problems=refusal.problems)


def _name(key: str, tool_name: str, *content: Json) -> str:
    """A key for a call: smolagents gives a call no id, so its content is used."""
    return _KEYS + digest([key, tool_name, *content])
