"""OpenAI Agents SDK: `run` continues an agent with people's answers, also after a restart.

`pip install "handraise[openai-agents]"`. Tools that need approval become approvals, calls of `ask_human`
become questions. The run's state is stored with the first question of each pause, so that any process can
continue it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from handraise import Approval, Desk, Problem
from handraise.errors import MissingExtra
from handraise.integrations.pause_questions import (
    ASK_HUMAN,
    REPLY_TO_PERSON,
    Pause,
    approving,
    asking,
    replying,
)
from handraise.integrations.paused_run import Ending, PauseOptions, Run
from handraise.integrations.state_store import Folder, StateStore
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.tools import ApprovalOptions
from handraise.tools.automatic_reports import result_report, send_report

try:
    from agents import Agent, FunctionTool, RunHooks, Runner, RunResult, RunState, function_tool
    from agents.items import ToolApprovalItem, TResponseInputItem
    from agents.run_context import RunContextWrapper
    from agents.tool_context import ToolContext
except ImportError as error:
    raise MissingExtra(error.name or "agents", "openai-agents") from error

__all__ = ["Folder", "StateStore", "ask_human", "editable", "reply_to_person", "run"]

Context = TypeVar("Context")

_endings: ContextVar[Mapping[str, Ending]] = ContextVar("handraise endings")
"""How the pauses of the current run ended, by call id; read from the desk each time."""

_FAILED = "An error occurred while running the tool"
"""How the SDK begins the result of a tool that raised an error, unless the tool has an error function of its own."""


async def run(
    agent: Agent[Context],
    input: str | list[TResponseInputItem],  # noqa: A002 -- the SDK's own name for it
    *,
    desk: Desk,
    key: str,
    context: Context | None = None,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    state_store: StateStore | None = None,
    runner: Mapping[str, Any] | None = None,
    **options: Unpack[PauseOptions],
) -> RunResult:
    """Run an agent to its end, asking people whenever it waits for them; `key` identifies the run.

    The same call continues after a restart: if the run has paused before, it continues from there, and
    `input` is not used again. If `timeout` passes first, `StillPending` is raised; the run and its questions
    stay. `options` are for all questions, `approvals` for those about single tools, and `runner` holds other
    arguments of `Runner.run`. The `context` is not stored: give it each time. `state_store` is a place for a
    state that is too large to be stored with a question.
    """
    how = dict(runner or {})
    how["hooks"] = _Reporting(desk, how.get("hooks"))
    pausing = Run(desk, key, options, approvals, state_store)
    if (saved := await pausing.saved()) is not None:
        state: RunState[Any] = await RunState.from_string(
            agent, saved, context_override=RunContextWrapper(context=context)
        )
    else:
        result = await Runner.run(agent, input, context=context, **how)
        if not result.interruptions:
            return result
        state = result.to_state()
    while True:
        endings = await _decided(state, pausing, timeout)
        mark = _endings.set(endings)
        try:
            result = await Runner.run(agent, state, **how)
        finally:
            _endings.reset(mark)
        if not result.interruptions:
            return result
        state = result.to_state()


class _Reporting(RunHooks[Any]):
    """Reports what came of each call that was executed because a person approved it; calls the program's hooks too."""

    def __init__(self, desk: Desk, hooks: RunHooks[Any] | None) -> None:
        self._desk = desk
        self._after_tool = super().on_tool_end if hooks is None else hooks.on_tool_end
        for name in dir(RunHooks):
            if hooks is not None and name.startswith("on_") and name != "on_tool_end":
                setattr(self, name, getattr(hooks, name))

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Any, tool: Any, result: object
    ) -> None:
        """Report the result. An error that the tool turned into a text for the model is a result too."""
        ending = _endings.get({}).get(getattr(context, "tool_call_id", ""))
        if ending is not None and ending.action is not None and ending.question is not None:
            failed = isinstance(result, str) and result.startswith(_FAILED)
            report = result_report(result)._replace(ok=not failed)
            await send_report(self._desk, ending.question.id, report)
        await self._after_tool(context, agent, tool, result)


@function_tool(needs_approval=True, name_override="ask_human", description_override=ASK_HUMAN)
def _ask_human(question: str, choices: list[str] | None = None, replaces: str | None = None) -> str:
    """Only used for its schema."""
    raise NotImplementedError(question, choices, replaces)


async def _words(context: ToolContext[Any], arguments: str) -> str:
    del arguments  # they were read when the question was asked
    return _endings.get()[context.tool_call_id].words


ask_human = replace(_ask_human, on_invoke_tool=_words)
"""The tool with which a model asks a person; the model reads how that ended."""


@function_tool(needs_approval=True, name_override="reply_to_person", description_override=REPLY_TO_PERSON)
def _reply_to_person(question_id: str, message: int, text: str) -> str:
    """Only used for its schema."""
    raise NotImplementedError(question_id, message, text)


reply_to_person = replace(_reply_to_person, on_invoke_tool=_words)
"""The tool with which a model replies to a person who asks back; give `run` the option `replies="model"` too."""


def editable(tool: FunctionTool, *names: str) -> FunctionTool:
    """The same tool; a person who approves a call may change these arguments."""
    return replace(tool, on_invoke_tool=_Edited(tool, names))


class _Edited:
    """Calls a tool with the arguments that were approved, instead of those that the model sent."""

    def __init__(self, tool: FunctionTool, names: tuple[str, ...]) -> None:
        unknown = [name for name in names if name not in tool.params_json_schema.get("properties", {})]
        if unknown:
            raise TypeError(f"{tool.name}() has no parameter {', '.join(unknown)}")
        self.names = names
        self._invoke = tool.on_invoke_tool

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        ending = _endings.get({}).get(context.tool_call_id)
        if ending is not None and ending.action is not None:
            arguments = json.dumps(ending.action.arguments)
        return await self._invoke(context, arguments)


async def _decided(state: RunState[Any], run: Run, timeout: Span | None) -> Mapping[str, Ending]:
    """Apply people's decisions to everything that a state waits for; return how each ended, by call id."""
    waiting = state.get_interruptions()
    saved = state.to_string(context_serializer=lambda _: {})
    pauses = [replace(_pause(item, run), call=_id(item)) for item in waiting]
    asked = await run.ask_all(pauses, saved=saved)
    endings = await run.collect(asked, timeout=timeout)
    for item in waiting:
        ending = endings[_id(item)]
        if _speaks(item) or (ending.action is not None and _runs_as_approved(item, ending)):
            state.approve(item)
        else:
            state.reject(item, rejection_message=ending.words)
    return endings


def _pause(item: ToolApprovalItem, run: Run) -> Pause:
    name, tool = _id(item), _tool(item)
    try:
        arguments: Json = json.loads(item.arguments or "{}")
    except ValueError:
        return Pause(id=name, problems=(Problem("arguments", "is not JSON"),))
    if tool is ask_human:
        return asking(name, arguments)
    if tool is reply_to_person:
        return replying(name, arguments)
    if not isinstance(arguments, dict):
        arguments = {"input": arguments}
    edits = tool.on_invoke_tool if tool is not None else None
    called = item.qualified_name or item.name or "tool"
    pause = approving(
        name,
        called,
        arguments,
        run.said(called),
        editable=edits.names if isinstance(edits, _Edited) else (),
        schema=tool.params_json_schema if tool is not None else None,
    )
    form = pause.options.get("form")
    if isinstance(form, Approval) and form.editable and not isinstance(edits, _Edited):
        raise TypeError(
            f"{item.name} cannot be edited: give the agent editable({item.name}, …) instead of it"
        )
    return pause


def _runs_as_approved(item: ToolApprovalItem, ending: Ending) -> bool:
    """Whether the call to be executed is the approved one."""
    tool = _tool(item)
    return not ending.edited or (tool is not None and isinstance(tool.on_invoke_tool, _Edited))


def _speaks(item: ToolApprovalItem) -> bool:
    """Whether a model speaks to people with this call: its result is what they say."""
    tool = _tool(item)
    return tool is ask_human or tool is reply_to_person


def _tool(item: ToolApprovalItem) -> FunctionTool | None:
    tools = getattr(item.agent, "tools", ())
    return next((each for each in tools if isinstance(each, FunctionTool) and each.name == item.name), None)


def _id(item: ToolApprovalItem) -> str:
    if not item.call_id:
        raise ValueError(f"A call of {item.name} has no id, so nobody can be asked about it.")
    return item.call_id
