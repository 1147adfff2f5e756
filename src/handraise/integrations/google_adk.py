"""Google ADK: `run` continues an agent with people's answers, also after a restart.

`pip install "handraise[google-adk]"`. Confirmations become approvals, calls of `ask_human` and requests for
input become questions. The pauses of a run are stored in ADK's own session, so the session service must be
durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Unpack

from handraise import Desk, NotAnswered, Open
from handraise.errors import MissingExtra
from handraise.integrations.pause_questions import (
    ASK_HUMAN,
    REPLY_TO_PERSON,
    Pause,
    approving,
    asking,
    form_of,
    replying,
)
from handraise.integrations.paused_run import Ending, PauseOptions, Run
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.tools import ApprovalOptions
from handraise.tools.automatic_reports import reported

try:
    from google.adk.events import Event
    from google.adk.runners import Runner
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.long_running_tool import LongRunningFunctionTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai.types import Content, FunctionCall, FunctionResponse, Part
except ImportError as error:
    raise MissingExtra(error.name or "google-adk", "google-adk") from error

__all__ = ["approved", "ask_human", "reply_to_person", "run"]


MARK = "handraise"
_CONFIRMATION = "adk_request_confirmation"
_INPUT = "adk_request_input"
_ADKS_OWN_WORDS = "Please approve or reject the tool call"

_desk: ContextVar[Desk | None] = ContextVar("the desk of the run that goes on here", default=None)


async def run(
    runner: Runner,
    message: str | Content,
    *,
    user_id: str,
    session_id: str,
    desk: Desk,
    key: str,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    **options: Unpack[PauseOptions],
) -> list[Event]:
    """Send a message and run the agent until it waits for nobody; yields its events. `key` identifies the message.

    The same call continues after a restart: a message that is already in the session is not sent again. If
    `timeout` passes first, `StillPending` is raised; the session and its questions stay. A workflow's own
    request for input that ends without an answer raises `NotAnswered`.
    """
    _desk.set(desk)
    pausing = Run(desk, key, options, approvals)
    session = (runner, user_id, session_id)
    sent = f"{MARK}:{key}"
    before = await runner.session_service.get_session(
        app_name=runner.app_name, user_id=user_id, session_id=session_id
    )
    if before is None or sent not in before.state:
        content = Content(role="user", parts=[Part(text=message)]) if isinstance(message, str) else message
        # The mark is stored in the session together with the message: both are there, or neither.
        await _send(session, content, {sent: True})
    while True:
        events = await _events(session)
        waiting = _waiting(events)
        pauses = [pause for call in waiting.values() if (pause := _pause(call, pausing)) is not None]
        if not pauses:
            return events
        endings = await pausing.collect(await pausing.ask_all(pauses), timeout=timeout)
        answers = {name: _response(waiting[name], ending) for name, ending in endings.items()}
        # A message with both would lose the answers: the model would never read them.
        for mine in (True, False):
            parts = [
                Part(function_response=FunctionResponse(id=name, name=waiting[name].name, response=each))
                for name, each in answers.items()
                if (waiting[name].name == _CONFIRMATION) is mine
            ]
            if parts:
                await _send(session, Content(role="user", parts=parts), None)


def _ask_human(question: str, choices: list[str] | None = None, replaces: str | None = None) -> None:
    del question, choices, replaces


_ask_human.__name__ = "ask_human"
_ask_human.__doc__ = ASK_HUMAN
ask_human = LongRunningFunctionTool(_ask_human)
"""The tool with which a model asks a person; the model reads how that ended."""


def _reply_to_person(question_id: str, message: int, text: str) -> None:
    del question_id, message, text


_reply_to_person.__name__ = "reply_to_person"
_reply_to_person.__doc__ = REPLY_TO_PERSON
reply_to_person = LongRunningFunctionTool(_reply_to_person)
"""The tool with which a model replies to a person who asks back; give `run` the option `replies="model"` too."""


def approved(function: Callable[..., Any], *, editable: Sequence[str] = ()) -> FunctionTool:
    """A tool that runs after a person has approved the call, with the approved arguments.

    Its result or error is reported, shortened, to the people who see the question.
    """
    return _Approved(function, tuple(editable))


class _Approved(FunctionTool):
    def __init__(self, function: Callable[..., Any], names: tuple[str, ...]) -> None:
        super().__init__(function)
        self._names = names

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        del args  # only the approved arguments are used
        confirmation = tool_context.tool_confirmation
        if confirmation is None:
            tool_context.request_confirmation(payload={MARK: {"editable": list(self._names)}})
            tool_context.actions.skip_summarization = True
            return {"error": "This call waits for its approval."}
        match confirmation.payload:
            case {"handraise": {"arguments": dict(arguments), **about}} if confirmation.confirmed:
                running = super().run_async(args=arguments, tool_context=tool_context)
                desk, question_id = _desk.get(), about.get("question")
                if desk is None or not isinstance(question_id, str):
                    return await running
                return await reported(desk, question_id, running)
            case {"handraise": {"words": str(words)}}:
                return {"error": words}
            case _:
                return {"error": "Not approved at the desk, and not executed."}


Session = tuple[Runner, str, str]


async def _send(session: Session, content: Content, state: dict[str, Json] | None) -> None:
    runner, user_id, session_id = session
    async for _ in runner.run_async(
        user_id=user_id, session_id=session_id, new_message=content, state_delta=state
    ):
        pass


async def _events(session: Session) -> list[Event]:
    runner, user_id, session_id = session
    found = await runner.session_service.get_session(
        app_name=runner.app_name, user_id=user_id, session_id=session_id
    )
    return list(found.events) if found is not None else []


def _waiting(events: Sequence[Event]) -> dict[str, FunctionCall]:
    """The calls that wait for an external response, by their ids: the user has not responded to them."""
    calls: dict[str, FunctionCall] = {}
    for event in events:
        for call in event.get_function_calls():
            if call.id is not None and call.id in (event.long_running_tool_ids or ()):
                calls[call.id] = call
        if event.author == "user":
            for response in event.get_function_responses():
                calls.pop(response.id or "", None)
    return calls


def _pause(call: FunctionCall, run: Run) -> Pause | None:
    """What a call waits for; None if no person can help: a credential, or a job of the program itself."""
    name, arguments = call.id or "", call.args or {}
    if call.name == ask_human.name:
        return asking(name, arguments)
    if call.name == reply_to_person.name:
        return replying(name, arguments)
    if call.name == _INPUT:
        schema = arguments.get("response_schema")
        form = form_of(schema) if isinstance(schema, dict) else Open()
        prompt = str(arguments.get("message") or "The workflow needs input.")
        return Pause(id=name, prompt=prompt, options={"form": form}, by_model=False)
    if call.name != _CONFIRMATION:
        return None
    original, asked = arguments.get("originalFunctionCall") or {}, arguments.get("toolConfirmation") or {}
    match asked.get("payload"):
        case {"handraise": {"editable": list(editable)}}:
            pass
        case _:
            editable = []
    hint = asked.get("hint") or ""
    tool = str(original.get("name"))
    return approving(
        name,
        tool,
        original.get("args") or {},
        run.said(tool),
        prompt=None if hint.startswith(_ADKS_OWN_WORDS) else hint,
        editable=editable,
    )


def _response(call: FunctionCall, ending: Ending) -> dict[str, Json]:
    if call.name == _CONFIRMATION:
        if ending.action is None:
            return {"confirmed": False, "payload": {MARK: {"words": ending.words}}}
        about = {"question": ending.question.id} if ending.question is not None else {}
        return {"confirmed": True, "payload": {MARK: {"arguments": ending.action.arguments, **about}}}
    if call.name == _INPUT:
        if ending.answered:
            return {"result": ending.value}
        if ending.question is not None and ending.question.outcome is not None and _by_workflow(call):
            raise NotAnswered(ending.question.id, ending.question.outcome)
    return {"result": ending.words}


def _by_workflow(call: FunctionCall) -> bool:
    """Whether a workflow asks, not a model: a workflow would take any text as the answer."""
    return bool({"interruptId", "interrupt_id"} & set(call.args or {}))
