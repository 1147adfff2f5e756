"""An AG-UI front end answers a desk's questions: pending questions of a thread become interrupts, `resume[]` answers.

The person who answers is the one whom the host application has signed in; the request's own claims are ignored.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pydantic
from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    CustomEvent,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
)
from ag_ui.encoder import EventEncoder
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from handraise import (
    AlreadySettled,
    Approval,
    Choice,
    Confirm,
    Desk,
    InvalidAnswer,
    MultiChoice,
    PermissionDenied,
    Problem,
    Question,
    QuestionNotFound,
    Responder,
)
from handraise.errors import CannotAskBack, InvalidMessage, ThreadMoved
from handraise.forms import form_to_schema
from handraise.model.json_values import Json, text_problem
from handraise.model.provenance import Provenance
from handraise.model.thread_messages import ThreadMessage
from handraise.model.visible import visible
from handraise.tools.sent_back import SEND_BACK, is_sent_back

_log = logging.getLogger(__name__)

Agent = Callable[[RunAgentInput, Responder], AsyncGenerator[BaseEvent, None]]
"""The host's agent: its events between RUN_STARTED and RUN_FINISHED. To ask, it posts and returns."""

Person = Callable[[Request], Awaitable[Responder | str | None] | Responder | str | None]
"""The sender of this request, by the host's own session; None if nobody is signed in."""

IGNORED = "handraise:ignored"
"""The name of the CUSTOM event that says which entries of `resume[]` were ignored, and why."""

WAITING_FOR_OTHERS = "handraise:waiting_for_others"
"""The reason of an interrupt that this person cannot answer: others were asked."""

_CLIENT_ASSERTED = "client-asserted"
_LONGEST_THREAD = 200
_LARGEST_BODY = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RejectedEntry:
    """An entry of `resume[]` that was ignored: its interrupt is unchanged."""

    interrupt_id: str
    why: str
    problems: tuple[Problem, ...] = ()


def agui_route(
    path: str, desk: Desk, agent: Agent, *, person: Person, evidence: str = _CLIENT_ASSERTED
) -> Route:
    """A route that speaks AG-UI: it accepts answers, runs the agent, and returns what must still be answered.

    The thread is the conversation. While something in it is pending, the agent is not run, except to reply to people who
    asked back. `evidence` says how the host identified the person; the default is too weak for an approval of high risk.
    """

    async def endpoint(request: Request) -> Response:
        by = person(request)
        if inspect.isawaitable(by):
            by = await by
        if by is None:
            return _problem(401, "Sign in first.")
        body = await _body(request)
        if body is None:
            return _problem(413, f"The request is larger than {_LARGEST_BODY} bytes.")
        try:
            run = RunAgentInput.model_validate_json(body)
        except pydantic.ValidationError as error:
            wrong = [".".join(map(str, each["loc"])) or "body" for each in error.errors(include_input=False)]
            return _problem(422, f"This is not a RunAgentInput: {', '.join(wrong[:10])}")
        if why := _contradiction(run):
            return _problem(422, why)
        responder = Responder(by) if isinstance(by, str) else by
        events = _run(desk, agent, run, by=responder, evidence=evidence)
        encoder = EventEncoder()
        return StreamingResponse(
            (encoder.encode(event) async for event in events),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )

    return Route(path, endpoint, methods=["POST"])


async def open_interrupts(
    desk: Desk, thread: str, *, by: str | Responder, refused: Sequence[RejectedEntry] = ()
) -> list[Interrupt]:
    """The pending questions of a thread, oldest first; those to other people are listed without their content."""
    mine = [each async for each in _pending(desk, conversation=thread, recipient=by)]
    why = {each.interrupt_id: each.problems for each in refused}
    interrupts = [
        interrupt_of(each, why.get(each.id, ()), thread=await desk.thread(each.id) if each.thread else ())
        for each in mine
    ]
    known = {each.id for each in mine}
    others = [each async for each in _pending(desk, conversation=thread) if each.id not in known]
    return interrupts + [
        Interrupt(id=each.id, reason=WAITING_FOR_OTHERS, message="Somebody else has been asked.")
        for each in others
    ]


def interrupt_of(
    question: Question, problems: Sequence[Problem] = (), *, thread: Sequence[ThreadMessage] = ()
) -> Interrupt:
    """A pending question as an interrupt; `problems` are what was wrong with the last answer to it.

    Its metadata has the `thread`, who `replies` if this person asks back, and the id of the question that it `replaces`.
    """
    form = question.form
    about: dict[str, Json] = {"asker": question.asker, "context": question.context, "kind": form.kind}
    if question.replies is not None:
        about["replies"] = question.replies
    if question.replaces is not None:
        about["replaces"] = question.replaces
    if thread:
        about["thread"] = [
            {"number": each.number, "kind": each.kind, "by": each.by, "text": visible(each.text)}
            for each in thread
        ]
    match form:
        case Approval():
            reason = "tool_call" if question.tool_call else "confirmation"
            about |= {"tool": form.action.tool, "arguments": form.action.arguments, "digest": form.digest}
            about |= {"risk": form.risk, "editable": [entry.name for entry in form.editable]}
            if form.brief is not None:
                about["brief"] = form.brief.record()
        case Confirm():
            reason = "confirmation"
        case Choice() | MultiChoice():
            reason = "input_required"
            if any(each.preview or each.recommended for each in form.options):
                about["options"] = [each.model_dump(mode="json", exclude_none=True) for each in form.options]
        case _:
            reason = "input_required"
    message = visible(question.prompt)
    if problems:
        about["problems"] = [{"path": each.path, "message": each.message} for each in problems]
        message += "\n\nThat answer does not fit: " + "; ".join(visible(str(each)) for each in problems)
    return Interrupt(
        id=question.id,
        reason=reason,
        message=message,
        tool_call_id=question.tool_call,
        response_schema=_seen(_schema(question)),
        expires_at=question.expires_at.isoformat() if question.expires_at else None,
        metadata={"handraise": about},
    )


async def take_resume(
    desk: Desk,
    entries: Sequence[ResumeEntry],
    *,
    thread: str,
    by: str | Responder,
    evidence: str = _CLIENT_ASSERTED,
) -> list[RejectedEntry]:
    """Take a front end's response as this person's answers; return the entries that were ignored, with reasons.

    An abandoned interrupt is a declined question. A payload `{"askBack": text}` asks the agent something instead, and
    `{"sendBack": reason}` sends the question back to be changed. The same answer a second time changes nothing.
    """
    refused: list[RejectedEntry] = []
    for entry in entries:
        try:
            question = await _in_thread(desk, entry.interrupt_id, thread)
            await _take(desk, question, entry, by=by, evidence=evidence)
        except QuestionNotFound:
            refused.append(RejectedEntry(entry.interrupt_id, "there is no such interrupt in this thread"))
        except PermissionDenied as error:
            refused.append(RejectedEntry(entry.interrupt_id, error.reason))
        except (InvalidAnswer, InvalidMessage) as error:
            refused.append(RejectedEntry(entry.interrupt_id, "the answer does not fit", error.problems))
        except (ThreadMoved, CannotAskBack) as error:
            refused.append(RejectedEntry(entry.interrupt_id, str(error)))
        except AlreadySettled as error:
            refused.append(
                RejectedEntry(entry.interrupt_id, f"it was settled before: {error.outcome.status}")
            )
    return refused


async def _in_thread(desk: Desk, question_id: str, thread: str) -> Question:
    question = await desk.get(question_id)
    if question.conversation != thread:
        raise QuestionNotFound(question_id, desk.workspace)
    return question


async def _take(
    desk: Desk, question: Question, entry: ResumeEntry, *, by: str | Responder, evidence: str
) -> None:
    seen = entry.payload.get("seen") if isinstance(entry.payload, dict) else None
    is_count = isinstance(seen, int) and not isinstance(seen, bool)
    provenance = Provenance(channel="ag-ui", evidence=evidence, seen=seen if is_count else None)
    if entry.status == "cancelled":
        reason = entry.payload.get("reason") if isinstance(entry.payload, dict) else None
        await desk.decline(
            question.id, by=by, reason=reason if isinstance(reason, str) else None, provenance=provenance
        )
        return
    if (
        question.replies is not None
        and isinstance(entry.payload, dict)
        and entry.payload.keys() == {"askBack"}
    ):
        await desk.ask_back(question.id, entry.payload["askBack"], by=by, provenance=provenance)
        return
    if is_sent_back(entry.payload, question):
        await desk.send_back(question.id, by=by, reason=entry.payload[SEND_BACK], provenance=provenance)
        return
    if not isinstance(question.form, Approval):
        await desk.answer(question.id, entry.payload, by=by, provenance=provenance)
        return
    value, problems = _decision(question.form, entry.payload)
    if problems:
        after = await desk.reject_answer(question.id, value, problems, by=by, provenance=provenance)
        raise InvalidAnswer(problems, outcome=after.outcome)
    await desk.answer(question.id, value, by=by, provenance=provenance)


def _decision(form: Approval, payload: Json) -> tuple[Json, list[Problem]]:
    """A decision from `{"approved", "editedArgs"?, "reason"?, "digest"?, "seen"?}`; the desk refuses anything else."""
    if not isinstance(payload, dict):
        return payload, []
    value = {name: part for name, part in payload.items() if name not in ("approved", "editedArgs", "seen")}
    approved = payload.get("approved")
    # Only these two values: 1 is not a yes, and neither is a missing value.
    value["decision"] = "approve" if approved is True else "deny" if approved is False else None
    edited = payload.get("editedArgs")
    if edited is None:
        return value, []
    value["arguments"] = edited
    # They replace all arguments. A missing argument does not mean unchanged: nobody has seen the action without it.
    missing = set(form.action.arguments) - set(edited) if isinstance(edited, dict) else set()
    return value, [
        Problem(f"editedArgs.{name}", "is missing; send all arguments") for name in sorted(missing)
    ]


def _schema(question: Question) -> dict[str, Json]:
    form = question.form
    match form:
        case Approval():
            properties: dict[str, Json] = {"approved": {"type": "boolean"}, "reason": {"type": "string"}}
            properties["digest"] = {"const": form.digest}
            if question.thread:  # an approval covers the conversation that its giver has seen
                properties["seen"] = {"const": question.thread}
            if form.editable:
                edits = form_to_schema(form)["properties"]["arguments"]["properties"]
                fixed = {name: {"const": value} for name, value in form.action.arguments.items()}
                properties["editedArgs"] = {
                    "type": "object",
                    "description": "Full replacement of the tool args. Not merged.",
                    "properties": fixed | edits,
                    "required": list(form.action.arguments),
                    "additionalProperties": False,
                }
            return {"type": "object", "properties": properties, "required": ["approved"]}
        case Choice(allow_other=True):
            return {"anyOf": [form_to_schema(form), _OTHER]}
        case MultiChoice(allow_other=True):
            schema = form_to_schema(form)
            return {**schema, "items": {"anyOf": [*schema["items"]["anyOf"], _OTHER]}}
        case _:
            return form_to_schema(form)


_OTHER = {
    "type": "object",
    "properties": {"other": {"type": "string"}},
    "required": ["other"],
    "additionalProperties": False,
}


def _seen(schema: Json, *, named: bool = False) -> Json:
    """The schema with its texts for people made visible; `named` if the keys are names of properties."""
    if isinstance(schema, list):
        return [_seen(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: visible(part)
        if isinstance(part, str) and not named and name in ("title", "description")
        else part
        if not named and name in ("const", "default")
        else _seen(part, named=not named and name == "properties")
        for name, part in schema.items()
    }


async def _run(
    desk: Desk, agent: Agent, run: RunAgentInput, *, by: Responder, evidence: str
) -> AsyncIterator[BaseEvent]:
    yield RunStartedEvent(thread_id=run.thread_id, run_id=run.run_id, protocol_version=PROTOCOL_VERSION)
    try:
        refused = await take_resume(desk, run.resume or [], thread=run.thread_id, by=by, evidence=evidence)
        if refused:
            told = [{"interruptId": each.interrupt_id, "why": each.why} for each in refused]
            yield CustomEvent(name=IGNORED, value=told)
        waiting = await open_interrupts(desk, run.thread_id, by=by, refused=refused)
        if all([each.is_askers_turn async for each in _pending(desk, conversation=run.thread_id)]):
            async with aclosing(agent(run, by)) as events:
                async for event in events:
                    yield event
            waiting = await open_interrupts(desk, run.thread_id, by=by)
    except Exception:  # noqa: BLE001 -- whatever an agent raises, its run ends as the protocol says
        _log.exception("an AG-UI run failed")
        yield RunErrorEvent(message="The agent failed. What is pending stays pending.", code="agent_failed")
        return
    yield RunFinishedEvent(
        thread_id=run.thread_id,
        run_id=run.run_id,
        outcome=RunFinishedInterruptOutcome(interrupts=waiting) if waiting else RunFinishedSuccessOutcome(),
    )


async def _pending(desk: Desk, **which: Any) -> AsyncIterator[Question]:
    after = None
    while True:
        page = await desk.list_pending(after=after, **which)
        for question in page.items:
            yield question
        if page.next is None:
            return
        after = page.next


async def _body(request: Request) -> bytes | None:
    """The body of a request, or None if it is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_BODY:
            return None
    return bytes(body)


def _contradiction(run: RunAgentInput) -> str | None:
    """Why this input cannot be run, or None."""
    if not run.thread_id.strip() or len(run.thread_id) > _LONGEST_THREAD or text_problem(run.thread_id):
        return "threadId is not a valid name of a conversation."
    answered = [entry.interrupt_id for entry in run.resume or []]
    return "resume[] answers an interrupt twice." if len(set(answered)) < len(answered) else None


def _problem(status: int, detail: str) -> Response:
    return JSONResponse(
        {"title": detail, "status": status}, status_code=status, media_type="application/problem+json"
    )
