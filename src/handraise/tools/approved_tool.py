"""A function as a model's tool that runs only after a person has approved the call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

from handraise import (
    AlreadySettled,
    Approval,
    Desk,
    InvalidQuestion,
    KeyConflict,
    NotApproved,
    Problem,
    Question,
    QuestionNotFound,
    StillPending,
)
from handraise.errors import AlreadyConsumed
from handraise.model.durations import Span
from handraise.model.json_values import Json, digest, json_problems
from handraise.model.questions import Replies
from handraise.ports.desk import ReplyWith
from handraise.questions import QuestionOptions
from handraise.tools.approvals import ApprovalOptions, FrozenCall
from handraise.tools.ask_specs import REPLACES
from handraise.tools.asked_back import messages_to_model, settled_or_asked_back
from handraise.tools.automatic_reports import error_report, result_report, send_report
from handraise.tools.results import UNDELIVERED, ToolResult, invalid_result, to_tool_result
from handraise.tools.tool_arguments import UNKNOWN_REPLACED, Arguments, json_object
from handraise.tools.tool_events import Emit, Interrupt, event_of
from handraise.tools.tool_spec import ToolSpec

_REPLACES = "replaces"


class ApprovedTool:
    """A tool whose calls need approval; an approved call is executed once.

    Its schema comes from the function's signature and docstring. A person sees the frozen action, and exactly
    that runs, whatever the model says about it. If a person sends the call back, the model calls the tool again with
    `replaces`, and that needs an approval of its own. A call id is unique within the `run`, as in `AskTool`. With `reply_with`
    the program replies to people who ask back; with `reply_to_person` the model does.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        desk: Desk,
        run: str | None = None,
        emit: Emit | None = None,
        reply_with: ReplyWith | None = None,
        **options: Unpack[ApprovalOptions],
    ) -> None:
        if "conversation" not in options:
            raise TypeError("A model's tool belongs to a conversation: give conversation=…")
        self.conversation = options["conversation"]
        self._desk = desk
        self._run = run
        self._emit = emit
        self._reply_with = reply_with
        self._replies: Replies | None = None if reply_with is None else "program"
        self._call = FrozenCall(function, options)
        schema = self._call.schema
        if _REPLACES in schema["properties"]:
            raise TypeError(
                f"{self._call.tool}() has a parameter {_REPLACES}, with which a model names the call that it changes: rename it"
            )
        description = inspect.getdoc(function) or f"Run {self._call.tool}."
        self.spec = ToolSpec(
            self._call.tool,
            f"{description}\nA person must approve it first.",
            {**schema, "properties": {**schema["properties"], _REPLACES: REPLACES}},
        )

    @property
    def desk(self) -> Desk:
        """The desk on which it asks."""
        return self._desk

    def let_people_ask_back(self) -> None:
        """Let people ask back about what it asks from now on; `reply_to_person` calls this."""
        if self._reply_with is not None:
            raise TypeError(
                f"The program replies about {self.spec.name}: leave out reply_with, or leave it out of reply_to_person."
            )
        self._replies = "model"

    def answers_to(self, name: str) -> bool:
        """Whether this is one of the tool's names."""
        return name == self.spec.name

    async def execute(self, arguments: Arguments, *, call_id: str | None = None) -> ToolResult:
        """Ask for approval, wait, run the function if it was approved, and return the result for the model.

        With a `call_id`, a call that is repeated after a restart finds its approval and does not run twice. If a person
        asks the model back, the call ends with the status `asked_back`, and nothing has run.
        """
        asked = await self._ask(arguments, call_id)
        return asked if isinstance(asked, ToolResult) else await self.resume([asked.id])

    async def start(self, arguments: Arguments, *, call_id: str | None = None) -> Interrupt | ToolResult:
        """Ask and do not wait: returns an interrupt to raise or return, or the result if nobody needs to be asked."""
        asked = await self._ask(arguments, call_id)
        if isinstance(asked, ToolResult):
            return asked
        if asked.outcome is not None or await messages_to_model(self._desk, asked):
            return await self.resume([asked.id], timeout=0)
        event = event_of(asked, tool=self.spec.name, conversation=self.conversation, call_id=call_id)
        return Interrupt(self.spec.name, self.conversation, call_id, (event,))

    async def resume(self, question_ids: Sequence[str], *, timeout: Span | None = None) -> ToolResult:
        """Run the approved call and return the result for the model, in this process or in another.

        What came of it is reported to the people who see the question: the result or the error, shortened.
        """
        (question_id,) = question_ids
        return await self.go_on(question_id, timeout=timeout)

    async def go_on(self, question_id: str, *, timeout: Span | None = None) -> ToolResult:
        """The same as `resume`, for the one question of a call."""
        await self.get_own(question_id)
        if self._reply_with is not None:
            with suppress(StillPending):
                await self._desk.wait(question_id, timeout=timeout, reply_with=self._reply_with)
            timeout = 0
        question, result = await settled_or_asked_back(self._desk, question_id, timeout=timeout)
        if question.outcome is None:
            return result
        try:
            action = await self._desk.consume_approval(question_id)
        except AlreadyConsumed as used:
            return _with(result, {"error": str(used)})
        except NotApproved as refused:
            # An approval that can no longer be used must not read like an approval.
            return _with(result, {"error": str(refused)}) if question.decision else result
        try:
            output = await self._call.run_async(action.arguments)
        except Exception as error:  # noqa: BLE001 -- the model must know whatever it raises
            await send_report(self._desk, question_id, error_report(error))
            return _with(result, {"error": f"{type(error).__name__}: {error}"})
        await send_report(self._desk, question_id, result_report(output))
        return _with(
            result, {"output": output if not any(json_problems(output, "", depth=64)) else str(output)}
        )

    async def get_own(self, question_id: str) -> Question:
        """The question with this id, if this tool asked it; else raises `QuestionNotFound`."""
        question = await self._desk.get(question_id)
        if not self._is_mine(question):
            raise QuestionNotFound(question_id, self._desk.workspace)
        return question

    async def _ask(self, arguments: Arguments, call_id: str | None) -> Question | ToolResult:
        """The stored question of a call, answered from a grant if one applies, else shown to people."""
        try:
            given = json_object(arguments)
            replaced = await self._replaced(given.get(_REPLACES))
            frozen = self._call.read({name: value for name, value in given.items() if name != _REPLACES})
        except InvalidQuestion as refusal:
            return invalid_result(self.spec.name, refusal.problems)
        about = self._about(frozen, call_id)
        if replaced is not None:
            about["replaces"] = replaced
        try:
            question = await self._desk.post(self._prompt(), **about)
        except InvalidQuestion as refusal:
            return invalid_result(self.spec.name, refusal.problems)
        except KeyConflict as conflict:
            # Asked by an earlier run with other options: it stays as it was asked, if it is the same call.
            if conflict.existing is None or not self._is_mine(conflict.existing, arguments=frozen):
                problem = Problem("call_id", "was used for a call with other arguments; use a new one")
                return invalid_result(self.spec.name, [problem])
            question = conflict.existing
        question = await self._desk.apply_grant(question.id) or question
        if self._emit is None or question.outcome is not None:
            return question
        event = event_of(question, tool=self.spec.name, conversation=self.conversation, call_id=call_id)
        try:
            shown = self._emit(event)
            if inspect.isawaitable(shown):
                await shown
        except Exception as error:  # noqa: BLE001 -- whatever an emitter raises, nobody was shown the action
            with suppress(AlreadySettled):  # somebody decided anyway
                await self._desk.withdraw(question.id, reason=f"{UNDELIVERED}: {type(error).__name__}")
            question = await self._desk.get(question.id)
            return question if question.decision else to_tool_result(question)
        return question

    async def _replaced(self, question_id: Json) -> str | None:
        """The id of the call that this one changes; models send empty values when they mean nothing."""
        if question_id is None or question_id == "":
            return None
        if isinstance(question_id, str):
            with suppress(QuestionNotFound):
                return (await self.get_own(question_id)).id
        raise InvalidQuestion([UNKNOWN_REPLACED])

    def _is_mine(self, question: Question, *, arguments: dict[str, Json] | None = None) -> bool:
        """Whether this tool asked the question, and with these arguments if they are given."""
        form = question.form
        return (
            isinstance(form, Approval)
            and form.action.tool == self.spec.name
            and (question.conversation, question.asker) == (self.conversation, self._desk.asker)
            and arguments in (None, form.action.arguments)
        )

    def _prompt(self) -> str:
        return self._call.prompt or f"May I run {self.spec.name}?"

    def _about(self, arguments: dict[str, Json], call_id: str | None) -> QuestionOptions:
        about: QuestionOptions = {
            **self._call.about(arguments),
            "form": self._call.freeze(arguments),
            "state": {"tool": self.spec.name, "call_id": call_id, "digest": digest(arguments)},
        }
        if self._replies is not None:
            about["replies"] = self._replies
        if call_id is not None:
            about["tool_call"] = call_id
            run = [] if self._run is None else [self._run]
            about["key"] = "approval:" + digest(
                [self.spec.name, self._desk.asker, self.conversation, call_id, *run]
            )
        return about


def _with(result: ToolResult, more: dict[str, Json]) -> ToolResult:
    """The result of an approval and of its execution."""
    value = {**(result.value or {}), **more}
    return replace(result, value=value, text=str(next(iter(more.values()))))
