"""LangChain: `ApprovalMiddleware` lets tools run only after a person has approved the call, and each call at most once.

It takes the place of LangChain's own `HumanInTheLoopMiddleware`, of which it is a kind. That one only asks: LangGraph repeats
a node in which a process was killed, also the node that runs the tools, so the tool would run again. This one uses up
the approval in that node, just before the tool runs. Give the agent to `handraise.integrations.langgraph.run`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar

from handraise import Answered, Approval, Desk, NotApproved, Question
from handraise.errors import AlreadyConsumed, MissingExtra
from handraise.integrations.langchain_reviews import call_name, marked
from handraise.integrations.paused_run import pause_key, why_not_executed
from handraise.tools import to_tool_result
from handraise.tools.automatic_reports import ToolReport, error_report, send_report

try:
    from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import StructuredTool, Tool
    from langgraph.errors import GraphInterrupt
    from langgraph.types import Command

    from handraise.integrations.langchain_results import report_of, with_edit_notice
except ImportError as error:
    raise MissingExtra(error.name or "langchain", "langchain") from error

__all__ = ["ApprovalMiddleware"]

Result = ToolMessage | Command[Any]
T = TypeVar("T")

LOOP_TIMEOUT = 10.0
"""After how many seconds without an answer the desk's event loop counts as blocked."""

_log = logging.getLogger(__name__)

_NOBODY = (
    "Not executed. Nobody has approved this call on the desk: the graph was resumed by something else than `run` or "
    "`resume_command` of handraise.integrations.langgraph, or with another key than the id of the thread, or "
    "ApprovalMiddleware has another desk or asker than `run`, or `when` has changed its answer."
)
_INTERRUPTS = (
    "waits for an approval and then interrupts the graph. LangGraph would run it again from its start, with an approval that "
    "is used. Ask in another tool, before this one"
)
_IS_ASYNC = (
    "is async and does not support sync invocation. It was not executed, and no approval was used: call the agent with "
    "`ainvoke` or `astream`."
)
_NO_LOOP = (
    "The desk needs its event loop: make ApprovalMiddleware in the async function that opens the desk, and "
    "give the agent to handraise.integrations.langgraph.run, or call its `ainvoke` or `astream`."
)
_BLOCKED = (
    "The event loop of the desk is blocked, so the tool was not executed and no approval was used. Do not call `invoke` or "
    "`stream` of the agent in the thread of that event loop: give the agent to handraise.integrations.langgraph.run, or call its "
    "`ainvoke` or `astream`."
)


class ApprovalMiddleware(HumanInTheLoopMiddleware[Any, Any, Any]):
    """Lets the named tools run only after a person has approved the call on the desk, and each call at most once.

    `interrupt_on` and the other options are as in `HumanInTheLoopMiddleware`; its default mode here is `per_call`. A tool that
    may be edited may also be approved. What runs comes from the record, edits included. The result or the error is reported,
    shortened, to the people who see the question. A call that was asked about needs its approval even if `when` changes its
    answer. If a process was killed in the tool, the model reads that it is unknown whether the call was executed.

    Middleware that comes after this one is a part of the tool: `ToolRetryMiddleware` there executes an approved call several
    times.
    """

    def __init__(
        self,
        desk: Desk,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        *,
        interrupt_mode: Literal["batched", "per_call"] = "per_call",
        **options: Any,
    ) -> None:
        super().__init__(dict(interrupt_on), interrupt_mode=interrupt_mode, **options)
        self._desk = desk
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        # LangChain puts its notice before every result of an edited call, and so before "Not executed." too. It is put
        # there by this class, once the call was executed.
        self._edit_notice, self.edit_notice = self.edit_notice, None
        self.interrupt_on = {tool: self._asking(config) for tool, config in self.interrupt_on.items()}

    @property
    def name(self) -> str:
        """The name of what it replaces: threads that wait there go on here, and LangChain refuses both in one agent."""
        return HumanInTheLoopMiddleware.__name__

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """Ask about the call, and run it in a thread beside the event loop of the desk."""
        self._check_is_sync(request)

        def once(requested: ToolCallRequest) -> Result:
            if request.tool_call["name"] not in self.interrupt_on:
                return handler(requested)
            self._check_loop()
            question = self._wait_for(self._find_question(request))
            if question is None:
                return handler(requested) if self._needs_nobody(request) else _not_executed(request, _NOBODY)
            approved = self._wait_for(self._use_up(question, requested))
            if isinstance(approved, ToolMessage):
                return approved
            try:
                with _without_interrupts(approved):
                    result = handler(approved)
            except Exception as error:
                self._report(question, error_report(error))
                raise
            self._report(question, report_of(result, approved.tool_call))
            return self._noticed(result, question, approved)

        return super().wrap_tool_call(request, once)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Ask about the call, and run it."""

        async def once(requested: ToolCallRequest) -> Result:
            if request.tool_call["name"] not in self.interrupt_on:
                return await handler(requested)
            question = await self._find_question(request)
            if question is None:
                if self._needs_nobody(request):
                    return await handler(requested)
                return _not_executed(request, _NOBODY)
            approved = await self._use_up(question, requested)
            if isinstance(approved, ToolMessage):
                return approved
            try:
                with _without_interrupts(approved):
                    result = await handler(approved)
            except Exception as error:
                await send_report(self._desk, question.id, error_report(error))
                raise
            await send_report(self._desk, question.id, report_of(result, approved.tool_call))
            return self._noticed(result, question, approved)

        return await super().awrap_tool_call(request, once)

    async def _find_question(self, request: ToolCallRequest) -> Question | None:
        """The question that was asked about the call, whatever `when` says now."""
        thread = request.runtime.config.get("configurable", {}).get("thread_id")
        if thread is None:  # nothing can interrupt without one
            return None
        name = call_name(_last_said(request.state), request.tool_call["id"])
        return await self._desk.find_by_key(pause_key(self._desk, str(thread), name))

    def _needs_nobody(self, request: ToolCallRequest) -> bool:
        """Whether a call that nobody was asked about may run."""
        when = self.interrupt_on[request.tool_call["name"]].get("when")
        return when is not None and not when(request)

    async def _use_up(self, question: Question, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """Use up the approval: what to run now, or what the model reads instead."""
        call = request.tool_call
        if not isinstance(question.form, Approval):
            return _answered(question, request)
        if question.form.action.tool != call["name"]:
            return _not_executed(
                request, f"Not executed. {question.form.action.tool} was asked about, and not {call['name']}."
            )
        try:
            action = await self._desk.consume_approval(question.id)
        except NotApproved as refused:
            return _not_executed(request, why_not_executed(refused))
        except AlreadyConsumed as used:
            has_worked = used.report is not None and used.report.ok
            return _told(request, str(used), status="success" if has_worked else "error")
        return request.override(tool_call={**call, "args": dict(action.arguments)})

    def _noticed(self, result: Result, question: Question, executed: ToolCallRequest) -> Result:
        """The result, with the notice for the model if a person edited the call."""
        call = executed.tool_call
        is_edited = isinstance(question.form, Approval) and question.form.action.arguments != call["args"]
        if not is_edited or not self._edit_notice:
            return result
        noticed: Result = with_edit_notice(result, self._edit_notice, call)
        return noticed

    def _asking(self, config: InterruptOnConfig) -> InterruptOnConfig:
        """The same, with what `run` needs: the name of each call in its description, and `approve` for each that may run.

        The record has the edited arguments. If LangChain got them in an `edit` and they did not fit the tool, it would raise
        that in each later run of the thread.
        """
        allowed = list(config["allowed_decisions"])
        if "edit" in allowed and "approve" not in allowed:
            allowed.append("approve")
        description = self._describing(config.get("description"))
        return InterruptOnConfig(**{**config, "allowed_decisions": allowed, "description": description})

    def _describing(self, description: Any) -> Callable[..., str]:
        """A factory of descriptions that ends each with the name of its call."""

        def described(call: Any, state: Any, runtime: Any) -> str:
            text = description(call, state, runtime) if callable(description) else description
            if text is None:
                text = f"{self.description_prefix}\n\nTool: {call['name']}\nArgs: {call['args']}"
            return marked(text, call_name(_last_said(state), call["id"]))

        return described

    def _check_is_sync(self, request: ToolCallRequest) -> None:
        """Refuse a tool that could not run in this thread before anybody is asked, or an approval is used."""
        config = self.interrupt_on.get(request.tool_call["name"])
        if config is None or "approve" not in config["allowed_decisions"]:
            return
        tool = request.tool
        if isinstance(tool, StructuredTool | Tool) and tool.func is None and tool.coroutine is not None:
            raise NotImplementedError(f"{tool.name} {_IS_ASYNC}")

    def _check_loop(self) -> None:
        """Refuse to wait for an event loop that waits for this thread."""
        if self._loop is None or self._loop.is_closed():
            raise RuntimeError(_NO_LOOP)
        has_answered = threading.Event()
        self._loop.call_soon_threadsafe(has_answered.set)
        if not has_answered.wait(LOOP_TIMEOUT):
            raise RuntimeError(_BLOCKED)

    def _wait_for(self, working: Coroutine[Any, Any, T]) -> T:
        """What the desk says, waited for in a thread beside its event loop."""
        if self._loop is None:
            raise RuntimeError(_NO_LOOP)
        return asyncio.run_coroutine_threadsafe(working, self._loop).result()

    def _report(self, question: Question, report: ToolReport) -> None:
        sending = send_report(self._desk, question.id, report)
        try:
            self._wait_for(sending)
        except (RuntimeError, CancelledError) as error:  # the event loop has ended, but the tool has run
            sending.close()
            _log.warning(
                "what came of question %s could not be reported: %s", question.id, type(error).__name__
            )


@contextmanager
def _without_interrupts(request: ToolCallRequest) -> Iterator[None]:
    try:
        yield
    except GraphInterrupt as interrupt:
        raise TypeError(f"{request.tool_call['name']} {_INTERRUPTS}.") from interrupt


def _last_said(state: Any) -> str | None:
    """The id of the model's last message, which has the calls that run now."""
    return next(each.id for each in reversed(state["messages"]) if isinstance(each, AIMessage))


def _answered(question: Question, request: ToolCallRequest) -> ToolMessage:
    """What a person answered in the tool's place, or how the question ended."""
    value = question.outcome.value if isinstance(question.outcome, Answered) else None
    words = value if isinstance(value, str) else to_tool_result(question).content
    return _told(request, words, status="success")


def _not_executed(request: ToolCallRequest, words: str) -> ToolMessage:
    return _told(request, words, status="error")


def _told(request: ToolCallRequest, words: str, *, status: Literal["success", "error"]) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(words, name=call["name"], tool_call_id=call["id"], status=status)
