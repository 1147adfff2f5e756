"""Microsoft Agent Framework: agents and workflows continue with people's answers, also after a restart.

`pip install "handraise[agent-framework]"`. Tools that require approval become approvals, calls of `ask_human` and requests
of a workflow become questions. The session, or the name of the checkpoint, is kept with the first question of each pause.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

from handraise import Desk, NotAnswered, Open, Problem
from handraise.errors import MissingExtra
from handraise.integrations.pause_questions import (
    ASK_HUMAN,
    REPLY_TO_PERSON,
    Pause,
    approving,
    asking,
    described,
    pause_in,
    replying,
)
from handraise.integrations.paused_run import Ending, PauseOptions, Run
from handraise.integrations.state_store import StateStore
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.tools import ApprovalOptions

try:
    from agent_framework import (
        Agent,
        AgentResponse,
        AgentSession,
        CheckpointStorage,
        Content,
        FunctionInvocationContext,
        FunctionMiddleware,
        Message,
        Workflow,
        WorkflowEvent,
        WorkflowRunResult,
        tool,
    )
except ImportError as error:
    raise MissingExtra(error.name or "agent_framework", "agent-framework") from error

__all__ = ["ask_human", "described", "reply_to_person", "run", "run_workflow"]


async def run(
    agent: Agent[Any],
    message: str,
    *,
    desk: Desk,
    key: str,
    session: AgentSession | None = None,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    state_store: StateStore | None = None,
    **options: Unpack[PauseOptions],
) -> AgentResponse[Any]:
    """Run an agent to its end, asking people whenever it waits for them; `key` identifies the run.

    The same call continues after a restart: if the run has paused before, it continues from there with the
    session of that time, and `message` is not sent again. `approvals` has options for single tools, above all
    which of their arguments are `editable`. If `timeout` passes first, `StillPending` is raised; the run and
    its questions stay. A session that is too large to be stored with a question is kept in `state_store`.
    """
    pausing = Run(desk, key, options, approvals, state_store)
    if (saved := await pausing.saved()) is not None:
        kept = json.loads(saved)
        session = AgentSession.from_dict(kept["session"])
        requests = [Content.from_dict(each) for each in kept["requests"]]
    else:
        session = session or agent.create_session()
        response = await agent.run(message, session=session)
        requests = list(response.user_input_requests)
        if not requests:
            return response
    while True:
        kept = {"session": session.to_dict(), "requests": [each.to_dict() for each in requests]}
        waiting = {_call_id(each): each for each in requests}
        pauses = [_pause(name, each, pausing) for name, each in waiting.items()]
        endings = await pausing.collect(
            await pausing.ask_all(pauses, saved=json.dumps(kept)), timeout=timeout
        )
        response = await agent.run(
            Message("user", _decided(waiting, endings)), session=session, middleware=[_AsDecided(endings)]
        )
        requests = list(response.user_input_requests)
        if not requests:
            return response


@tool(approval_mode="always_require", description=ASK_HUMAN)
def ask_human(question: str, choices: list[str] | None = None, replaces: str | None = None) -> str:
    """The tool with which a model asks a person; the model reads how that ended."""
    del question, choices, replaces
    return "Nobody was asked."  # the middleware of `run` answers instead


@tool(approval_mode="always_require", description=REPLY_TO_PERSON)
def reply_to_person(question_id: str, message: int, text: str) -> str:
    """The tool with which a model replies to a person who asks back; give `run` the option `replies="model"` too."""
    del question_id, message, text
    return "Nobody has read it."  # the middleware of `run` answers instead


_SPEAKING = (ask_human.name, reply_to_person.name)
"""Tools whose results are what people say."""


async def run_workflow(
    workflow: Workflow,
    message: Any,
    *,
    desk: Desk,
    key: str,
    storage: CheckpointStorage,
    timeout: Span | None = None,
    **options: Unpack[PauseOptions],
) -> WorkflowRunResult:
    """Run a workflow to its end, asking people for what it requests; `key` identifies the run.

    A request is a text, or a question made with `described`. Its handler gets the canonical answer; any other
    ending raises `NotAnswered`. The same call continues after a restart, from the checkpoint of the pause.
    """
    pausing = Run(desk, key, options)
    noting = _Noting(storage)
    saved = await pausing.saved()
    if saved is not None:
        kept = json.loads(saved)
    else:
        result = await workflow.run(message, checkpoint_storage=noting)
        if not result.get_request_info_events():
            return result
        kept = noting.kept(result)
    while True:
        pauses = [_requested(name, data) for name, data in kept["requests"].items()]
        endings = await pausing.collect(
            await pausing.ask_all(pauses, saved=json.dumps(kept)), timeout=timeout
        )
        result = await workflow.run(
            responses={name: _answer(ending) for name, ending in endings.items()},
            checkpoint_id=kept["checkpoint"] if saved is not None else None,
            checkpoint_storage=noting,
        )
        saved = None
        if not result.get_request_info_events():
            return result
        kept = noting.kept(result)


class _AsDecided(FunctionMiddleware):
    """Runs approved calls exactly as approved, and gives the model the answers to its questions."""

    def __init__(self, endings: Mapping[str, Ending]) -> None:
        self._endings = endings

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        ending = self._endings.get(str(context.metadata.get("call_id")))
        if context.function.name in _SPEAKING:
            context.result = ending.words if ending is not None else "Nobody was asked."
            return
        if ending is not None:
            if ending.action is None:
                context.result = ending.words
                return
            if ending.edited:
                # The framework would ask for approval of changed arguments again: these are already approved.
                as_edited = FunctionInvocationContext(
                    context.function,
                    ending.action.arguments,
                    session=context.session,
                    metadata={"call_id": context.metadata["call_id"]},
                    kwargs=context.kwargs,
                )
                context.result = await context.function.invoke(
                    arguments=ending.action.arguments, context=as_edited
                )
                return
        await call_next()


class _Noting:
    """A checkpoint storage that knows the last checkpoint of this run."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self._storage = storage
        self._last: str | None = None

    async def save(self, checkpoint: Any) -> Any:
        self._last = await self._storage.save(checkpoint)
        return self._last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def kept(self, result: WorkflowRunResult) -> dict[str, Json]:
        """What is needed to continue from here."""
        requests = {event.request_id: _data(event) for event in result.get_request_info_events()}
        return {"checkpoint": self._last, "requests": requests}


def _call_id(request: Content) -> str:
    call = request.function_call
    if request.type != "function_approval_request" or call is None or not call.call_id:
        raise ValueError(f"The agent waits for a {request.type}, which cannot be asked of a person.")
    return call.call_id


def _pause(name: str, request: Content, run: Run) -> Pause:
    call: Any = request.function_call
    try:
        arguments = call.parse_arguments() or {}
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return Pause(id=name, problems=(Problem("arguments", "is not a JSON object"),))
    if call.name == ask_human.name:
        return asking(name, arguments)
    if call.name == reply_to_person.name:
        return replying(name, arguments)
    return approving(name, call.name, arguments, run.said(call.name))


def _decided(waiting: Mapping[str, Content], endings: Mapping[str, Ending]) -> list[Content]:
    """The framework's responses, and in words why something was not approved."""
    contents = []
    for name, request in waiting.items():
        call: Any = request.function_call
        ending = endings[name]
        goes_on = call.name in _SPEAKING or ending.action is not None
        contents.append(request.to_function_approval_response(approved=goes_on))
        if not goes_on:
            contents.append(Content.from_text(f"{call.name}: {ending.words}"))
    return contents


def _data(event: WorkflowEvent[Any]) -> Json:
    if not isinstance(event.data, (str, dict)):
        raise TypeError(
            f"A request of type {type(event.data).__name__} cannot be shown to a person: give a text, or described(…)"
        )
    return event.data


def _requested(name: str, data: Json) -> Pause:
    if isinstance(data, str):
        return Pause(id=name, prompt=data, options={"form": Open()}, by_model=False)
    pause = pause_in(name, data)
    if pause is None:
        raise TypeError("A request cannot be shown to a person: give a text, or described(…)")
    return pause


def _answer(ending: Ending) -> Json:
    question = ending.question
    if not ending.answered and question is not None and question.outcome is not None:
        raise NotAnswered(question.id, question.outcome)
    return ending.value
