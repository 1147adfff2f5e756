"""Calls that ask a person and block their thread, for frameworks that cannot pause a run.

The question outlives the process, but the run does not: started again with the same key, it finds its earlier questions. Such a
framework gives a call no permanent id, so the content of a call is what makes it the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

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
from handraise.errors import AlreadyConsumed
from handraise.forms import coerce_choices
from handraise.integrations.paused_run import PauseOptions, why_not_executed
from handraise.model.durations import Span
from handraise.model.json_values import Json, digest
from handraise.questions import QuestionOptions
from handraise.tools import ToolResult, to_tool_result
from handraise.tools.approvals import BlockingReply
from handraise.tools.automatic_reports import error_report, result_report, send_report_blocking
from handraise.tools.tool_arguments import UNKNOWN_REPLACED


class BlockingCalls:
    """The calls of one run. `framework` is the beginning of their keys."""

    def __init__(
        self,
        desk: BlockingDesk,
        key: str,
        framework: str,
        options: PauseOptions,
        *,
        timeout: Span | None,
        reply_with: BlockingReply | None,
    ) -> None:
        self._desk = desk
        self._key = key
        self._prefix = f"{framework}:"
        self._options = options
        self._timeout = timeout
        self._reply_with = reply_with

    def ask(self, tool: str, question: str, choices: list[str] | None, replaces: str | None) -> str:
        """Ask, wait, and say how it ended."""
        options = coerce_choices(choices)
        about = self._about()
        if replaces:
            if not self._has_asked(replaces):
                return _invalid(InvalidQuestion([UNKNOWN_REPLACED])).content
            about["replaces"] = replaces
        about["form"] = Choice(options=options, allow_other=True) if options else Open()
        about["key"] = self._name(tool, question, choices)
        return self._ended(question, about)[1].content

    def run_approved(
        self, tool: str, arguments: Mapping[str, Json], function: Callable[..., Any], editable: Sequence[str]
    ) -> Any:
        """Wait for the approval of a call, and call the function with the approved arguments; once.

        Its result or error is reported, shortened. Without an approval, return why it was not executed.
        """
        about = self._about()
        about.pop("topic", None)  # each approval is asked by itself
        about["key"] = self._name(tool, dict(arguments))
        try:
            about["form"] = Approval.of(tool, arguments, editable=editable)
        except InvalidQuestion as refusal:
            return _invalid(refusal).content
        question, result = self._ended(f"May I run {tool}?", about)
        if question is None or question.outcome is None:
            return result.content
        try:
            action = self._desk.consume_approval(question.id)
        except (NotApproved, AlreadyConsumed) as refused:
            again = " Change it as they say, and call the tool again."
            return why_not_executed(refused) + (again if question.status == "returned" else "")
        try:
            output = function(**action.arguments)
        except Exception as error:
            send_report_blocking(self._desk, question.id, error_report(error))
            raise
        send_report_blocking(self._desk, question.id, result_report(output))
        return output

    def _ended(self, prompt: str, about: QuestionOptions) -> tuple[Question | None, ToolResult]:
        """The question once it is settled or the time is over, and the text for the model."""
        if about.pop("replies", None) == "model":
            raise TypeError(
                "The model is blocked while it waits: give reply_with instead of replies='model'."
            )
        if self._reply_with is not None:
            about["replies"] = "program"
        try:
            question = self._desk.post(prompt, **about)
            if isinstance(question.form, Approval):
                question = self._desk.apply_grant(question.id) or question
        except InvalidQuestion as refusal:
            return None, _invalid(refusal)
        with suppress(StillPending):
            self._desk.wait(question.id, timeout=self._timeout, reply_with=self._reply_with)
        question = self._desk.get(question.id)
        return question, to_tool_result(question)

    def _about(self) -> QuestionOptions:
        about: Any = {"conversation": self._key, **self._options}
        said: QuestionOptions = about
        return said

    def _has_asked(self, question_id: str) -> bool:
        """Whether a model asked this question in this run."""
        try:
            found = self._desk.get(question_id)
        except QuestionNotFound:
            return False
        is_asked_so = (found.key or "").startswith(self._prefix) and not isinstance(found.form, Approval)
        conversation = self._options.get("conversation", self._key)
        return is_asked_so and (found.asker, found.conversation) == (self._desk.asker, conversation)

    def _name(self, tool: str, *content: Json) -> str:
        return self._prefix + digest([self._key, tool, *content])


def _invalid(refusal: InvalidQuestion) -> ToolResult:
    reason = "Nobody was asked, and nothing was executed. Correct these problems and call it again."
    return ToolResult(status="invalid", reason=reason, problems=refusal.problems)
