"""LangChain: `ApprovalMiddleware` lets tools run only after a person has approved the call, and each call at most once.

It takes the place of LangChain's own `HumanInTheLoopMiddleware`, of which it is a kind. That one only asks: LangGraph repeats
a node in which a process was killed, also the node that runs the tools, so the tool would run again. This one uses up
the approval in that node, just before the tool runs. Give the agent to `handraise.integrations.langgraph.run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeVar

from handraise import Desk, NotApproved
from handraise.errors import AlreadyConsumed
from handraise.integrations.langchain_reviews import call_name, marked
from handraise.integrations.paused_run import pause_key, unused
from handraise.tools.automatic_reports import ToolReport, error_report, result_report, send_report

try:
    from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.errors import GraphInterrupt
    from langgraph.types import Command
except ImportError as error:
    raise ImportError(
        f'{error.name} is not installed. Run: pip install "handraise[langchain]"', name=error.name
    ) from error

__all__ = ["ApprovalMiddleware"]

Result = ToolMessage | Command[Any]
T = TypeVar("T")

_NOBODY = (
    "Not executed. Nobody has approved this call on the desk: the graph was resumed by something else than `run` or "
    "`resume_command` of handraise.integrations.langgraph, or with another key than the id of the thread."
)
_INTERRUPTS = (
    "waits for an approval and then interrupts the graph. LangGraph would run it again from its start, with an approval that "
    "is used. Ask in another tool, before this one"
)


class ApprovalMiddleware(HumanInTheLoopMiddleware[Any, Any, Any]):
    """Lets the named tools run only after a person has approved the call on the desk, and each call at most once.

    `interrupt_on` and the other options are as in `HumanInTheLoopMiddleware`; its default mode here is `per_call`. What runs
    comes from the record, edits included. The result or the error is reported, shortened, to the people who see the
    question. If a process was killed in the tool, the model reads that it is unknown whether the call was executed.
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
        self.interrupt_on = {
            tool: InterruptOnConfig(**{**config, "description": self._describing(config.get("description"))})
            for tool, config in self.interrupt_on.items()
        }

    @property
    def name(self) -> str:
        """The name of what it replaces: threads that wait there go on here, and LangChain refuses both in one agent."""
        return HumanInTheLoopMiddleware.__name__

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """Ask about the call, and run it in a thread beside the event loop of the desk."""

        def once(approved: ToolCallRequest) -> Result:
            if not self._is_guarded(request):
                return handler(approved)
            begun = self._wait_for(self._begin(approved))
            if isinstance(begun, ToolMessage):
                return begun
            question_id, call = begun
            try:
                result = handler(call)
            except Exception as error:
                self._wait_for(send_report(self._desk, question_id, _report_of_error(error, call)))
                raise
            self._wait_for(send_report(self._desk, question_id, _report_of(result)))
            return result

        return super().wrap_tool_call(request, once)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Ask about the call, and run it."""

        async def once(approved: ToolCallRequest) -> Result:
            if not self._is_guarded(request):
                return await handler(approved)
            begun = await self._begin(approved)
            if isinstance(begun, ToolMessage):
                return begun
            question_id, call = begun
            try:
                result = await handler(call)
            except Exception as error:
                await send_report(self._desk, question_id, _report_of_error(error, call))
                raise
            await send_report(self._desk, question_id, _report_of(result))
            return result

        return await super().awrap_tool_call(request, once)

    def _is_guarded(self, request: ToolCallRequest) -> bool:
        """Whether the call needs an approval; LangChain asks `when` again too, whenever a call begins."""
        config = self.interrupt_on.get(request.tool_call["name"])
        if config is None:
            return False
        when = config.get("when")
        return when is None or when(request)

    async def _begin(self, request: ToolCallRequest) -> tuple[str, ToolCallRequest] | ToolMessage:
        """Use up the approval: the question's id and what to run now, or what the model reads instead."""
        call = request.tool_call
        thread = str(request.runtime.config["configurable"]["thread_id"])
        name = call_name(_last_said(request.state), call["id"])
        question = await self._desk.find_by_key(pause_key(self._desk, thread, name))
        if question is None:
            return _not_run(request, _NOBODY)
        try:
            action = await self._desk.consume_approval(question.id)
        except (NotApproved, AlreadyConsumed) as refused:
            return _not_run(request, unused(refused))
        if action.tool != call["name"]:
            return _not_run(request, f"Not executed. {action.tool} was approved, and not {call['name']}.")
        return question.id, request.override(tool_call={**call, "args": dict(action.arguments)})

    def _describing(self, description: Any) -> Callable[..., str]:
        """A factory of descriptions that ends each with the name of its call."""

        def described(call: Any, state: Any, runtime: Any) -> str:
            text = description(call, state, runtime) if callable(description) else description
            if text is None:
                text = f"{self.description_prefix}\n\nTool: {call['name']}\nArgs: {call['args']}"
            return marked(text, call_name(_last_said(state), call["id"]))

        return described

    def _wait_for(self, working: Coroutine[Any, Any, T]) -> T:
        """What the desk says, waited for in a thread beside its event loop."""
        if self._loop is None or _is_in_event_loop():
            working.close()
            raise RuntimeError(
                "The desk needs its event loop: make ApprovalMiddleware in the async function that opens the desk, and "
                "give the agent to handraise.integrations.langgraph.run, or call its `ainvoke` or `astream`."
            )
        return asyncio.run_coroutine_threadsafe(working, self._loop).result()


def _last_said(state: Any) -> str | None:
    """The id of the model's last message, which has the calls that run now."""
    return next(each.id for each in reversed(state["messages"]) if isinstance(each, AIMessage))


def _not_run(request: ToolCallRequest, words: str) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(words, name=call["name"], tool_call_id=call["id"], status="error")


def _report_of(result: Result) -> ToolReport:
    if not isinstance(result, ToolMessage):
        return result_report(result.update)
    return result_report(result.content)._replace(ok=result.status != "error")


def _report_of_error(error: Exception, request: ToolCallRequest) -> ToolReport:
    if isinstance(error, GraphInterrupt):
        raise TypeError(f"{request.tool_call['name']} {_INTERRUPTS}.") from error
    return error_report(error)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
