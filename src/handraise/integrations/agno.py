"""Agno: `run` continues an agent with people's answers, also after a restart.

`pip install "handraise[agno]"`. Tools that require confirmation become approvals; calls of `ask_human` and tools that require
input from the user become questions. The paused run is kept with the first question of each pause, so that any process can
continue it, also without a database of Agno's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from handraise import Desk, Open
from handraise.errors import MissingExtra
from handraise.forms import form_from_schema
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
from handraise.questions import QuestionOptions
from handraise.tools import ApprovalOptions

try:
    from agno.agent import Agent
    from agno.models.response import ToolExecution
    from agno.run.agent import RunOutput
    from agno.tools import tool
    from agno.tools.function import UserInputField
except ImportError as error:
    raise MissingExtra(error.name or "agno", "agno") from error

__all__ = ["Folder", "StateStore", "ask_human", "reply_to_person", "run"]


async def run(
    agent: Agent,
    message: Any,
    *,
    desk: Desk,
    key: str,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    state_store: StateStore | None = None,
    runner: Mapping[str, Any] | None = None,
    **options: Unpack[PauseOptions],
) -> RunOutput:
    """Run an agent to its end, asking people whenever it pauses; `key` identifies the run.

    The same call continues after a restart: if the run has paused before, it continues from there, and `message` is not
    used again. If `timeout` passes first, `StillPending` is raised; the run and its questions stay. `approvals` has
    options for single tools, above all which of their arguments are `editable`. `runner` holds other arguments of
    `Agent.arun`, such as `session_id` and `user_id`. A run that is too large to be stored with a question is kept in
    `state_store`.
    """
    how = dict(runner or {})
    pausing = Run(desk, key, options, approvals, state_store)
    if (saved := await pausing.saved()) is not None:
        output = RunOutput.from_dict(json.loads(saved))
    else:
        output = await agent.arun(message, **how)
    while output.is_paused:
        waiting = _waiting(output)
        pauses = [_pause(name, each, pausing) for name, each in waiting.items()]
        asked = await pausing.ask_all(pauses, saved=output.to_json())
        endings = await pausing.collect(asked, timeout=timeout)
        for name, each in waiting.items():
            _decide(each, endings[name])
        output = await agent.acontinue_run(run_response=output, **how)
    return output


@tool(name="ask_human", description=ASK_HUMAN, external_execution=True)
def ask_human(question: str, choices: list[str] | None = None, replaces: str | None = None) -> str:
    """The tool with which a model asks a person; the model reads how that ended."""
    raise NotImplementedError(question, choices, replaces)  # it is never executed


@tool(name="reply_to_person", description=REPLY_TO_PERSON, external_execution=True)
def reply_to_person(question_id: str, message: int, text: str) -> str:
    """The tool with which a model replies to a person who asks back; give `run` the option `replies="model"` too."""
    raise NotImplementedError(question_id, message, text)  # it is never executed


def _waiting(output: RunOutput) -> dict[str, ToolExecution]:
    """The calls that wait for people, by their ids."""
    calls: dict[str, ToolExecution] = {}
    for each in output.tools or ():
        if each.is_paused:
            if not each.tool_call_id or each.tool_call_id in calls:
                raise ValueError(
                    f"A call of {each.tool_name} has no id of its own, so nobody can be asked about it."
                )
            calls[each.tool_call_id] = each
    if not calls:
        raise ValueError("The run is paused, and none of its calls waits for a person.")
    return calls


def _pause(name: str, call: ToolExecution, run: Run) -> Pause:
    called, arguments = call.tool_name or "tool", call.tool_args or {}
    if call.requires_confirmation:
        return approving(name, called, arguments, run.said(called))
    if call.user_feedback_schema:
        raise ValueError(
            f"The questions of {called} cannot be asked at a desk: give the agent ask_human instead."
        )
    if call.requires_user_input:
        return _input(name, called, arguments, call.user_input_schema or [])
    if called == ask_human.name:
        return asking(name, arguments)
    if called == reply_to_person.name:
        return replying(name, arguments)
    prompt = f"What is the result of {called}?"
    return Pause(id=name, prompt=prompt, options={"form": Open(), "context": arguments})


_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def _input(name: str, called: str, arguments: Mapping[str, Json], fields: Sequence[UserInputField]) -> Pause:
    """A form for the arguments that a person gives; those that the model has given are shown beside it."""
    properties = {each.name: _property(each) for each in fields if each.name not in arguments}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    about: QuestionOptions = {"form": form_from_schema(schema), "context": dict(arguments) or None}
    return Pause(id=name, prompt=f"{called} needs something from you.", options=about)


def _property(field: UserInputField) -> dict[str, Json]:
    kind = getattr(field.field_type, "__name__", str(field.field_type))
    described = {"description": field.description} if field.description else {}
    return {"type": _TYPES.get(kind, "string"), **described}


def _decide(call: ToolExecution, ending: Ending) -> None:
    """Write into a call what people have decided about it."""
    if call.external_execution_required:
        call.result = ending.words
        return
    if call.requires_user_input and ending.answered:
        # Two calls of a tool share Agno's fields, so the values in them may be those of the other call.
        values = {**(call.tool_args or {}), **ending.value}
        fields = call.user_input_schema or ()
        call.user_input_schema = [replace(each, value=values.get(each.name)) for each in fields]
        call.answered = True
        return
    # Also for input that nobody gave: a call that is not confirmed is not executed, and the model reads why.
    call.requires_user_input, call.requires_confirmation = False, True
    call.confirmed = ending.action is not None
    if ending.action is not None:
        call.tool_args = dict(ending.action.arguments)
    else:
        call.confirmation_note = ending.words
