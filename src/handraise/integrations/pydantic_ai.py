"""Pydantic AI: people are asked about deferred tools and approvals, and the run continues with their answers.

`pip install "handraise[pydantic-ai]"`. `run` stops the agent while people think, stores its messages with the
first question of each pause, and continues in any process. `inline` asks within a run that is kept alive by
this process or by a durable engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, Unpack

import pydantic

from handraise import Desk, Open
from handraise.errors import MissingExtra
from handraise.integrations.pause_questions import (
    Askable,
    Pause,
    approving,
    asking,
    described,
    pause_in,
    replying,
)
from handraise.integrations.paused_run import Ending, PauseOptions, Run
from handraise.integrations.state_store import Folder, StateStore
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.tools import ApprovalOptions
from handraise.tools.automatic_reports import reported

try:
    from pydantic_ai import (
        Agent,
        AgentRunResult,
        ApprovalRequired,
        CallDeferred,
        DeferredToolRequests,
        DeferredToolResults,
        ModelMessage,
        RunContext,
        ToolApproved,
        ToolDefinition,
        ToolDenied,
    )
    from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import ToolCallPart, UserContent
except ImportError as error:
    raise MissingExtra(error.name or "pydantic-ai-slim", "pydantic-ai") from error

__all__ = ["Folder", "StateStore", "ask_human", "asks", "inline", "reply_to_person", "run"]

Deps = TypeVar("Deps")
Output = TypeVar("Output")


class _Paused(pydantic.BaseModel):
    """A run that waits for people, as it is stored."""

    messages: list[ModelMessage]
    requests: DeferredToolRequests


async def run(
    agent: Agent[Deps, Output],
    prompt: str | Sequence[UserContent],
    *,
    desk: Desk,
    key: str,
    deps: Deps = None,  # type: ignore[assignment]  # as in `Agent.run`
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    state_store: StateStore | None = None,
    runner: Mapping[str, Any] | None = None,
    **options: Unpack[PauseOptions],
) -> AgentRunResult[Output]:
    """Run an agent to its end, asking people whenever it defers to them; `key` identifies the run.

    The same call continues after a restart: if the run has paused before, it continues from there, and
    `prompt` is not used again. If `timeout` passes first, `StillPending` is raised; the run and its questions
    stay. `options` are for all questions, `approvals` for those about single tools, and `runner` holds other
    arguments of `Agent.run`. `state_store` is a place for messages that are too large to be stored with a
    question.
    """
    how: dict[str, Any] = {"output_type": _outputs(agent), **(runner or {}), "deps": deps}
    pausing = Run(desk, key, options, approvals, state_store)
    if (saved := await pausing.saved()) is not None:
        paused = _Paused.model_validate_json(saved)
    else:
        result: AgentRunResult[Any] = await agent.run(prompt, **how)
        if not isinstance(result.output, DeferredToolRequests):
            return result
        paused = _Paused(messages=result.all_messages(), requests=result.output)
    reporting: _Reporting[Deps] = _Reporting(desk)
    how["capabilities"] = [*(how.get("capabilities") or ()), reporting]
    while True:
        reporting.endings = await _endings(paused.requests, pausing, timeout, saved=paused.model_dump_json())
        results = _results(paused.requests, reporting.endings)
        result = await agent.run(message_history=paused.messages, deferred_tool_results=results, **how)
        if not isinstance(result.output, DeferredToolRequests):
            return result
        paused = _Paused(messages=result.all_messages(), requests=result.output)


def inline(
    desk: Desk,
    *,
    key: str | None = None,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    **options: Unpack[PauseOptions],
) -> HandleDeferredToolCalls[Any]:
    """A capability that asks people within the run, which waits for them.

    Without a `key` the run's own id is used: it is the same if a durable engine runs the agent again, but not
    if the agent is started again.
    """

    async def handle(context: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
        name = key or context.run_id
        if name is None:
            raise ValueError("This run has no id: give inline() a key.")
        endings = await _endings(requests, Run(desk, name, options, approvals), timeout)
        reporting.endings.update(endings)
        return _results(requests, endings)

    reporting = _Inline(handler=handle, desk=desk)
    return reporting


async def ask_human(question: str, choices: list[str] | None = None, replaces: str | None = None) -> str:
    """Ask a person when you cannot go on without knowing.

    Put what can be chosen into choices, never into the text of the question. If a person sent your question back, change it
    and set replaces to its question_id. This is not an approval: do not use it before a dangerous action.
    """
    del question, choices, replaces
    raise CallDeferred(metadata={"ask_human": True})


async def reply_to_person(question_id: str, message: int, text: str) -> str:
    """Reply to a person who asked you something about your question, if a result has the status asked_back.

    Reply only what you know. The same question goes on, and you get the answer to it, or the next message.

    Args:
        question_id: The question_id of the result.
        message: The number of the last message in the result.
        text: Your reply, for the person who asked.
    """
    del question_id, message, text
    raise CallDeferred(metadata={"reply_to_person": True})


def asks(
    prompt: str,
    *,
    choices: Sequence[str] | None = None,
    form: Askable | Mapping[str, Json] | None = None,
    context: Json = None,
) -> CallDeferred:
    """Raise this in a tool to ask a person; their answer becomes the tool's result.

    `form` is a form or a flat JSON Schema. Any other ending than an answer is a failure of the tool, in words.
    """
    return CallDeferred(metadata=described(prompt, choices=choices, form=form, context=context))


@dataclass
class _Reporting(AbstractCapability[Deps]):
    """Reports what came of each call that was executed because a person approved it; `endings` are by call id."""

    desk: Desk
    endings: dict[str, Ending] = field(default_factory=dict)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Deps],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Execute a tool, and report its result or its error."""
        del ctx, tool_def
        return await _reported(self.desk, self.endings.get(call.tool_call_id), handler(args))


@dataclass
class _Inline(HandleDeferredToolCalls[Any]):
    """The same for calls that are deferred and executed in one run."""

    desk: Desk
    endings: dict[str, Ending] = field(default_factory=dict)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Execute a tool, and report its result or its error."""
        del ctx, tool_def
        return await _reported(self.desk, self.endings.get(call.tool_call_id), handler(args))


async def _reported(desk: Desk, ending: Ending | None, running: Awaitable[Any]) -> Any:
    if ending is None or ending.action is None or ending.question is None:
        return await running
    return await reported(desk, ending.question.id, running, pauses=(ApprovalRequired, CallDeferred))


async def _endings(
    requests: DeferredToolRequests, run: Run, timeout: Span | None, *, saved: str | None = None
) -> dict[str, Ending]:
    """Ask about every deferred call, wait for all, and return how each ended, by call id."""
    about = requests.metadata
    pauses = [_question(call, about.get(call.tool_call_id)) for call in requests.calls]
    pauses += [_approval(call, about.get(call.tool_call_id), run) for call in requests.approvals]
    asked = await run.ask_all([replace(pause, call=pause.id) for pause in pauses], saved=saved)
    return await run.collect(asked, timeout=timeout)


def _results(requests: DeferredToolRequests, endings: Mapping[str, Ending]) -> DeferredToolResults:
    about = requests.metadata
    return DeferredToolResults(
        calls={
            call.tool_call_id: _result(endings[call.tool_call_id], about.get(call.tool_call_id))
            for call in requests.calls
        },
        approvals={call.tool_call_id: _decision(endings[call.tool_call_id]) for call in requests.approvals},
    )


def _question(call: ToolCallPart, metadata: dict[str, Json] | None) -> Pause:
    if metadata == {"ask_human": True}:
        return asking(call.tool_call_id, call.args_as_dict())
    if metadata == {"reply_to_person": True}:
        return replying(call.tool_call_id, call.args_as_dict())
    if pause := pause_in(call.tool_call_id, metadata):
        return pause
    prompt = f"What is the result of {call.tool_name}?"
    return Pause(
        id=call.tool_call_id, prompt=prompt, options={"form": Open(), "context": call.args_as_dict()}
    )


def _approval(call: ToolCallPart, metadata: dict[str, Json] | None, run: Run) -> Pause:
    pause = approving(call.tool_call_id, call.tool_name, call.args_as_dict(), run.said(call.tool_name))
    return pause if metadata is None else replace(pause, options={"context": metadata, **pause.options})


def _result(ending: Ending, metadata: dict[str, Json] | None) -> Any:
    if metadata in ({"ask_human": True}, {"reply_to_person": True}):
        return ending.words
    return ending.value if ending.answered else ToolFailed(ending.words)


def _decision(ending: Ending) -> ToolApproved | ToolDenied:
    if ending.action is None:
        return ToolDenied(ending.words)
    return ToolApproved(override_args=ending.action.arguments if ending.edited else None)


def _outputs(agent: Agent[Any, Any]) -> Any:
    """The agent's own output types, and the one for a run that waits."""
    own = agent.output_type
    listed = list(own) if isinstance(own, Sequence) and not isinstance(own, str) else [own]
    return None if DeferredToolRequests in listed else [*listed, DeferredToolRequests]
