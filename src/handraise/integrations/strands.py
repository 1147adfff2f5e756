"""Strands Agents: `run` continues an agent with people's answers, also after a restart.

`pip install "handraise[strands]"`. Tools that `RequireApproval` names become approvals; calls of `ask_human` and interrupts of
your own tools and hooks become questions. The agent's snapshot is kept with the first question of each pause, so that any
process can continue it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Unpack

from handraise import Desk, NotAnswered, Open
from handraise.errors import MissingExtra
from handraise.integrations.pause_questions import (
    ASK_HUMAN,
    REPLY_TO_PERSON,
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
from handraise.tools.automatic_reports import ToolReport, result_report, send_report

try:
    from strands import Agent, Snapshot, ToolContext, tool
    from strands.agent import AgentResult
    from strands.hooks import (
        AfterToolCallEvent,
        AgentInitializedEvent,
        BeforeToolCallEvent,
        HookProvider,
        HookRegistry,
    )
    from strands.interrupt import Interrupt
    from strands.types.content import ContentBlock, Messages
    from strands.types.interrupt import InterruptResponseContent
except ImportError as error:
    raise MissingExtra(error.name or "strands-agents", "strands") from error

__all__ = ["Folder", "RequireApproval", "StateStore", "ask", "ask_human", "reply_to_person", "run"]

MARK = "handraise"

_run: ContextVar[tuple[Desk, Mapping[str, Ending]] | None] = ContextVar("handraise endings", default=None)
"""The desk of the current run, and how its pauses ended, by the id of the interrupt; read from the desk each time."""


async def run(
    agent: Agent,
    prompt: str | list[ContentBlock] | Messages,
    *,
    desk: Desk,
    key: str,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    state_store: StateStore | None = None,
    invocation: Mapping[str, Any] | None = None,
    **options: Unpack[PauseOptions],
) -> AgentResult:
    """Run an agent to its end, asking people whenever it is interrupted; `key` identifies the run.

    The same call continues after a restart: if the run has paused before, the agent gets its snapshot of that time, and
    `prompt` is not used again. If `timeout` passes first, `StillPending` is raised; the run and its questions stay.
    `approvals` has options for single tools, above all which of their arguments are `editable`. `invocation` holds other
    arguments of `Agent.invoke_async`. A snapshot that is too large to be stored with a question is kept in `state_store`.

    An interrupt of your own code is a text, or is made with `ask`. A text that ends without an answer raises `NotAnswered`.
    """
    how = dict(invocation or {})
    pausing = Run(desk, key, options, approvals, state_store)
    if (saved := await pausing.saved()) is not None:
        kept = json.loads(saved)
        agent.load_snapshot(Snapshot.from_dict(kept["snapshot"]))
        waiting = [Interrupt(**each) for each in kept["interrupts"]]
    else:
        result = await agent.invoke_async(prompt, **how)
        waiting = list(result.interrupts or ())
        if not waiting:
            return result
    while True:
        kept = {
            "snapshot": agent.take_snapshot(preset="session").to_dict(),
            "interrupts": [each.to_dict() for each in waiting],
        }
        pauses = [_pause(each, pausing) for each in waiting]
        asked = await pausing.ask_all(pauses, saved=json.dumps(kept))
        endings = await pausing.collect(asked, timeout=timeout)
        responses = [_response(each, endings[each.id]) for each in waiting]
        mark = _run.set((desk, endings))
        try:
            result = await agent.invoke_async(responses, **how)
        finally:
            _run.reset(mark)
        waiting = list(result.interrupts or ())
        if not waiting:
            return result


@tool(context=True, name="ask_human", description=ASK_HUMAN)
async def ask_human(
    question: str,
    tool_context: ToolContext,
    choices: list[str] | None = None,
    replaces: str | None = None,
) -> str:
    """The tool with which a model asks a person; the model reads how that ended."""
    given = {"question": question, "choices": choices, "replaces": replaces}
    ending = _ending(tool_context, "ask_human", {"ask_human": given})
    return ending.words if ending is not None else "Nobody was asked."


@tool(context=True, name="reply_to_person", description=REPLY_TO_PERSON)
async def reply_to_person(question_id: str, message: int, text: str, tool_context: ToolContext) -> str:
    """The tool with which a model replies to a person who asks back; give `run` the option `replies="model"` too."""
    given = {"question_id": question_id, "message": message, "text": text}
    ending = _ending(tool_context, "reply_to_person", {"reply_to_person": given})
    return ending.words if ending is not None else "Nobody has read it."


def ask(
    context: ToolContext | BeforeToolCallEvent,
    name: str,
    prompt: str,
    *,
    choices: Sequence[str] | None = None,
    form: Askable | Mapping[str, Json] | None = None,
    background: Json = None,
) -> Json:
    """Ask a person from a tool or a hook, and return the canonical answer; the tool then runs again from its start.

    `name` is unique within the call. `form` is a form or a flat JSON Schema, and `background` is what the person should
    know. Any other ending than an answer raises `NotAnswered`, which the model reads as an error of the tool.
    """
    question = described(prompt, choices=choices, form=form, context=background)
    ending = _ending(context, name, {"ask": question})
    if ending is None or ending.question is None or ending.question.outcome is None:
        raise RuntimeError("Nobody was asked: run the agent with handraise.integrations.strands.run.")
    if not ending.answered:
        raise NotAnswered(ending.question.id, ending.question.outcome)
    return ending.value


class RequireApproval(HookProvider):
    """A hook: calls of these tools wait for an approval, and run with the approved arguments, once.

    Their result or error is reported, shortened, to the people who see the question. An agent that has no such tool is
    refused.
    """

    def __init__(self, *tools: str) -> None:
        if not tools:
            raise TypeError("RequireApproval needs the names of tools: without any, nothing would wait")
        self._tools = frozenset(tools)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Called by an agent that gets this hook."""
        del kwargs
        registry.add_callback(AgentInitializedEvent, self._check)
        registry.add_callback(BeforeToolCallEvent, self._wait)
        registry.add_callback(AfterToolCallEvent, self._report)

    def _check(self, event: AgentInitializedEvent) -> None:
        unknown = self._tools - set(event.agent.tool_names)
        if unknown:
            raise ValueError(f"The agent has no tool {', '.join(sorted(unknown))} that could be approved.")

    async def _wait(self, event: BeforeToolCallEvent) -> None:
        call = event.tool_use
        if call["name"] not in self._tools:
            return
        # If this fails, the call must not run.
        event.cancel_tool = "Not approved at the desk, and not executed."
        given = {"tool": call["name"], "arguments": call["input"]}
        ending = _ending(event, "approval", {"approve": given})
        if ending is not None and ending.action is not None:
            event.tool_use = {**call, "input": ending.action.arguments}
            event.invocation_state.setdefault(MARK, {})[call["toolUseId"]] = ending
            event.cancel_tool = False
        elif ending is not None:
            event.cancel_tool = ending.words

    async def _report(self, event: AfterToolCallEvent) -> None:
        ending = event.invocation_state.get(MARK, {}).pop(event.tool_use["toolUseId"], None)
        current = _run.get()
        if ending is not None and ending.question is not None and current is not None:
            await send_report(current[0], ending.question.id, _tool_report(event))


def _ending(context: ToolContext | BeforeToolCallEvent, name: str, request: dict[str, Json]) -> Ending | None:
    """Interrupt the agent, and once it goes on, say how that ended at the desk; None if it did not go through it."""
    response = context.interrupt(f"{MARK} {name}", reason={MARK: request})
    current = _run.get()
    match response:
        case {"handraise": str(interrupt_id)} if current is not None:
            return current[1].get(interrupt_id)
        case _:
            return None


def _pause(interrupt: Interrupt, run: Run) -> Pause:
    name = interrupt.id
    match interrupt.reason:
        case {"handraise": {"ask_human": dict(arguments)}}:
            given = {each: value for each, value in arguments.items() if value is not None}
            return asking(name, given)
        case {"handraise": {"reply_to_person": dict(arguments)}}:
            return replying(name, arguments)
        case {"handraise": {"approve": {"tool": str(called), "arguments": arguments}}}:
            if not isinstance(arguments, dict):
                arguments = {"input": arguments}
            return approving(name, called, arguments, run.said(called))
        case {"handraise": {"ask": question}} if (pause := pause_in(name, question)) is not None:
            return pause
        case str(prompt):
            return Pause(id=name, prompt=prompt, options={"form": Open()}, by_model=False)
        case _:
            raise TypeError(
                f"The interrupt {interrupt.name} cannot be shown to a person: its reason must be a text, or use ask(…)"
            )


def _response(interrupt: Interrupt, ending: Ending) -> InterruptResponseContent:
    """What the agent is given for an interrupt: for our own a reference, which is worth nothing outside of this run."""
    if not isinstance(interrupt.reason, str):
        return {"interruptResponse": {"interruptId": interrupt.id, "response": {MARK: interrupt.id}}}
    if not ending.answered and ending.question is not None and ending.question.outcome is not None:
        raise NotAnswered(ending.question.id, ending.question.outcome)
    return {"interruptResponse": {"interruptId": interrupt.id, "response": ending.value}}


def _tool_report(event: AfterToolCallEvent) -> ToolReport:
    texts = [str(each.get("text", each)) for each in event.result["content"]]
    return result_report("\n".join(texts))._replace(ok=event.result["status"] == "success")
