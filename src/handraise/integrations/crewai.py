"""CrewAI: flows that pause until a person has answered, and tools with which the agents of a crew ask and wait.

`pip install "handraise[crewai]"`. A flow can be paused: `run_flow` turns its requests for human feedback into questions, and
continues it in any process. A crew cannot: `AskHuman` and `approved` block their thread, and started again with the same key,
a crew begins again and finds its earlier questions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Unpack

import pydantic
import pydantic_core

from handraise import Choice, Desk, NotAnswered, NotApproved, Open
from handraise.blocking import BlockingDesk
from handraise.errors import MissingExtra
from handraise.integrations.blocking_calls import BlockingCalls
from handraise.integrations.pause_questions import ASK_HUMAN, Pause, approving, described, pause_in
from handraise.integrations.paused_run import Ending, PauseOptions, Run
from handraise.integrations.state_store import Folder, StateStore
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.questions import QuestionOptions
from handraise.tools import ApprovalOptions
from handraise.tools.approvals import BlockingReply

try:
    from crewai.flow.async_feedback import HumanFeedbackPending, PendingFeedbackContext
    from crewai.flow.flow import Flow
    from crewai.flow.human_feedback import HumanFeedbackResult
    from crewai.flow.persistence.base import FlowPersistence
    from crewai.tools import BaseTool, tool
except ImportError as error:
    raise MissingExtra(error.name or "crewai", "crewai") from error

__all__ = [
    "AskHuman",
    "Folder",
    "StateStore",
    "approval",
    "approved",
    "approved_arguments",
    "at_desk",
    "described",
    "run_flow",
]

MARK = "handraise"
_FRAMEWORK = "crewai"

_endings: ContextVar[Mapping[str, Ending]] = ContextVar("handraise endings")
"""How the pauses of the current flow ended, by the id of the question; read from the desk each time."""


async def run_flow(
    flow: type[Flow[Any]],
    inputs: Mapping[str, Any] | None = None,
    *,
    desk: Desk,
    key: str,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    state_store: StateStore | None = None,
    runner: Mapping[str, Any] | None = None,
    **options: Unpack[PauseOptions],
) -> Any:
    """Run a flow to its end, asking people for the feedback that it requests; returns its result. `key` identifies the run.

    Methods request it with `@human_feedback(…, provider=at_desk)`. What they return is shown to the person, unless it was
    made with `described`, which asks with a form, or with `approval`. The same call continues after a restart, from the
    last pause; `inputs` are not used again. Feedback that nobody gave raises `NotAnswered`: a flow would take any text
    for it. If `timeout` passes first, `StillPending` is raised; the questions stay. A state that is too large to be
    stored with a question is kept in `state_store`. `runner` holds other arguments for making the flow.
    """
    how = dict(runner or {})
    pausing = Run(desk, key, options, approvals, state_store)
    paused = _PausedFlow()
    if (saved := await pausing.saved()) is not None:
        paused.restore(saved)
    else:
        result = await flow(persistence=paused, **how).kickoff_async(inputs=dict(inputs or {}))
        if not isinstance(result, HumanFeedbackPending):
            return result
    while True:
        context = paused.context()
        pause = _pause(context, pausing)
        asked = await pausing.ask_all([pause], saved=paused.to_json())
        ending = (await pausing.collect(asked, timeout=timeout))[pause.id]
        feedback = _feedback(ending)
        if context.emit is not None:
            paused.choose(feedback)
            feedback = ""
        mark = _endings.set({ending.question.id: ending} if ending.question is not None else {})
        try:
            result = await flow.from_pending(context.flow_id, paused, **how).resume_async(feedback)
        finally:
            _endings.reset(mark)
        if not isinstance(result, HumanFeedbackPending):
            return result


class _AtDesk:
    """Pauses a flow; `run_flow` asks."""

    def request_feedback(self, context: PendingFeedbackContext, flow: Flow[Any]) -> str:
        del flow
        raise HumanFeedbackPending(context=context)


at_desk = _AtDesk()
"""The provider of human feedback for methods of a flow: the flow pauses, and `run_flow` asks."""


def approval(tool: str, arguments: Mapping[str, Json], *, editable: Sequence[str] = ()) -> dict[str, Json]:
    """What a method returns whose action waits for its approval; the next one calls `approved_arguments`."""
    action: dict[str, Json] = {"tool": tool, "arguments": dict(arguments), "editable": list(editable)}
    return {MARK: {"approve": action}}


def approved_arguments(result: HumanFeedbackResult) -> dict[str, Json]:
    """The arguments that a person has approved; raises `NotApproved`. They are given out only once."""
    try:
        ending = _endings.get({})[json.loads(result.feedback)[MARK]]
    except (ValueError, TypeError, LookupError):
        raise PermissionError("Not approved at the desk: run the flow with run_flow.") from None
    if ending.action is None:
        question: Any = ending.question
        raise NotApproved(question.id, question.outcome, ending.words.rpartition("not executed: ")[2])
    return dict(ending.action.arguments)


class _Question(pydantic.BaseModel):
    question: str = pydantic.Field(description="What you ask the person.")
    choices: list[str] | None = pydantic.Field(
        default=None, description="What the person can choose from. Leave it out for an open question."
    )
    replaces: str | None = pydantic.Field(
        default=None,
        description="If a person sent your question back: its question_id. You ask it again, changed.",
    )


class AskHuman(BaseTool):
    """The tool with which an agent of a crew asks a person.

    It blocks until the question is settled, and returns the result as text.

    `key` names the run: the same question of the same run is asked once, also after a restart. If `timeout` passes first,
    the agent reads that the question is still open. With `reply_with` people may ask back: the function replies, because
    the agent is blocked.
    """

    name: str = "ask_human"
    description: str = ASK_HUMAN
    args_schema: type[pydantic.BaseModel] = _Question
    _calls: BlockingCalls = pydantic.PrivateAttr()

    def __init__(
        self,
        desk: BlockingDesk,
        *,
        key: str,
        timeout: Span | None = None,
        reply_with: BlockingReply | None = None,
        **options: Unpack[PauseOptions],
    ) -> None:
        super().__init__(name="ask_human", description=ASK_HUMAN, cache_function=_never)
        self._calls = BlockingCalls(desk, key, _FRAMEWORK, options, timeout=timeout, reply_with=reply_with)

    def _run(self, question: str, choices: list[str] | None = None, replaces: str | None = None) -> str:
        return self._calls.ask(self.name, question, choices, replaces)


def approved(
    function: Callable[..., Any],
    desk: BlockingDesk,
    *,
    key: str,
    editable: Sequence[str] = (),
    timeout: Span | None = None,
    reply_with: BlockingReply | None = None,
    **options: Unpack[PauseOptions],
) -> BaseTool:
    """A tool that runs once, after a person has approved the call, with the approved arguments.

    The function needs annotations and a docstring, as CrewAI requires. The same call of the same run is the same approval:
    an executed call is not executed again. Its result or error is reported, shortened. With `reply_with` people may ask
    back, as in `AskHuman`.
    """
    plain = tool(function.__name__)(function)
    calls = BlockingCalls(desk, key, _FRAMEWORK, options, timeout=timeout, reply_with=reply_with)
    made = _Approved(
        name=plain.name,
        description=function.__doc__ or "",
        args_schema=plain.args_schema,
        cache_function=_never,
    )
    made.set(calls, function, editable)
    return made


class _Approved(BaseTool):
    _calls: BlockingCalls = pydantic.PrivateAttr()
    _function: Callable[..., Any] = pydantic.PrivateAttr()
    _editable: Sequence[str] = pydantic.PrivateAttr(default=())

    def set(self, calls: BlockingCalls, function: Callable[..., Any], editable: Sequence[str]) -> None:
        self._calls, self._function, self._editable = calls, function, editable

    def _run(self, **arguments: Any) -> Any:
        try:
            return self._calls.run_approved(self.name, arguments, self._function, self._editable)
        except Exception as error:  # noqa: BLE001 -- CrewAI would try again, and tell the agent only of the last try
            return f"It failed, and is not tried again: {type(error).__name__}: {error}"


def _never(*_: Any) -> bool:
    """CrewAI would otherwise keep a result for the next call with the same arguments."""
    return False


class _PausedFlow(FlowPersistence):
    """Holds the one pause of a flow, as CrewAI restores it; it is stored with the question."""

    pending: dict[str, Any] = pydantic.Field(default_factory=dict)

    def init_db(self) -> None:
        """There is nothing to prepare."""

    def save_state(self, flow_uuid: str, method_name: str, state_data: Any) -> None:
        """Only pauses are kept."""

    def load_state(self, flow_uuid: str) -> dict[str, Any] | None:
        """Only pauses are kept."""
        del flow_uuid
        return None

    def save_pending_feedback(self, flow_uuid: str, context: PendingFeedbackContext, state_data: Any) -> None:
        """Called by a flow that pauses."""
        state = pydantic_core.to_jsonable_python(state_data, fallback=str)
        self.pending = {"flow": flow_uuid, "context": context.to_dict(), "state": state}

    def load_pending_feedback(self, flow_uuid: str) -> tuple[dict[str, Any], PendingFeedbackContext] | None:
        """Called to restore a flow."""
        return (self.pending["state"], self.context()) if self.pending.get("flow") == flow_uuid else None

    def choose(self, outcome: str) -> None:
        """Let this be the outcome if there is no feedback: CrewAI would ask a model which one a text means."""
        self.pending = {**self.pending, "context": {**self.pending["context"], "default_outcome": outcome}}

    def context(self) -> PendingFeedbackContext:
        return PendingFeedbackContext.from_dict(self.pending["context"])

    def to_json(self) -> str:
        return json.dumps(self.pending)

    def restore(self, saved: str) -> None:
        self.pending = json.loads(saved)


def _pause(context: PendingFeedbackContext, run: Run) -> Pause:
    name = context.method_name
    if context.emit is not None:
        return _shown(context, Choice.of(*context.emit))
    match context.method_output:
        case {"handraise": {"approve": {"tool": str(called), "arguments": dict(arguments), **rest}}}:
            editable: Any = rest.get("editable", ())
            pause = approving(
                name, called, arguments, run.said(called), prompt=context.message, editable=editable
            )
            # If it cannot be asked, the mistake is the flow's, not a model's.
            return replace(pause, by_model=False)
        case output if (pause_asked := pause_in(name, output)) is not None:
            return pause_asked
        case _:
            return _shown(context, Open())


def _shown(context: PendingFeedbackContext, form: Choice | Open) -> Pause:
    """A question with the message of the method, which shows what the method returned."""
    options: QuestionOptions = {"form": form, "context": context.to_dict()["method_output"]}
    return Pause(id=context.method_name, prompt=context.message, options=options, by_model=False)


def _feedback(ending: Ending) -> str:
    """The text that a flow gets: CrewAI passes on nothing else."""
    question: Any = ending.question
    if question.form.kind == "approval":
        return json.dumps({MARK: question.id})
    if not ending.answered:
        raise NotAnswered(question.id, question.outcome)
    return ending.value if isinstance(ending.value, str) else json.dumps(ending.value)
