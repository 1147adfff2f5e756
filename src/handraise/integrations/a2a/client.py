"""People at a desk answer a remote A2A agent: if its task needs input, they are asked, and it gets the answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Unpack

from a2a.client import Client
from a2a.helpers import get_message_text
from a2a.types import GetTaskRequest, Message, Role, SendMessageRequest, Task, TaskState
from google.protobuf.json_format import MessageToDict, ParseDict

from handraise import Answered, Approval, Desk, Form, Open
from handraise.integrations.a2a.wire import answer_parts, marked, schema_in
from handraise.integrations.pause_questions import Pause, form_of
from handraise.integrations.paused_run import Ending, PauseOptions, Run
from handraise.model.durations import Span
from handraise.model.json_values import Json, digest
from handraise.outcomes import Returned
from handraise.questions import QuestionOptions
from handraise.tools.sent_back import SEND_BACK

_UNDER_WAY = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
_WHOLE = "answer"


class RemoteAgent:
    """A remote A2A agent, reached by its client. When it needs input, a question is posted on a desk."""

    def __init__(self, client: Client, desk: Desk, *, poll: float = 1.0) -> None:
        self._client = client
        self._desk = desk
        self._poll = poll

    async def run(
        self, message: Message, *, key: str, timeout: Span | None = None, **options: Unpack[PauseOptions]
    ) -> Task | Message:
        """Send a message and run the task until no more input is needed; `key` identifies the run.

        The same call continues after a restart: questions are not asked again, and if the task has needed
        input before, `message` is not sent again. `timeout` raises `StillPending` and changes nothing.
        """
        run = Run(self._desk, key, options)
        saved = await run.saved()
        asks: dict[str, Json] | None = None
        if saved is None:
            task = await self._send(message)
        else:
            asks = json.loads(saved)
            task = await self._client.get_task(GetTaskRequest(id=asks["taskId"]))
        while isinstance(task, Task):
            if asks is None:
                task = await self._settle(task)
                if task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED:
                    return task
                asks = MessageToDict(task.status.message) | {"taskId": task.id, "contextId": task.context_id}
            needed = ParseDict(asks, Message())
            pauses = _pauses(needed)
            asked = await run.ask_all(list(pauses.values()), saved=json.dumps(asks))
            endings = await run.collect(asked, timeout=timeout)
            # An answer that it got before a crash is not sent twice.
            if _still_needs(task, needed):
                task = await self._send(_reply(needed, pauses, endings))
            asks = None
        return task

    async def _send(self, message: Message) -> Task | Message:
        task_id = ""
        async for event in self._client.send_message(SendMessageRequest(message=message)):
            match event.WhichOneof("payload"):
                case "message":
                    return event.message
                case "task":
                    task_id = event.task.id
                case "status_update":
                    task_id = event.status_update.task_id
                case _:
                    pass
        return await self._client.get_task(GetTaskRequest(id=task_id))

    async def _settle(self, task: Task) -> Task:
        """The task once the agent has stopped working on it."""
        while task.status.state in _UNDER_WAY:
            await asyncio.sleep(self._poll)
            task = await self._client.get_task(GetTaskRequest(id=task.id))
        return task


def _still_needs(task: Task, needed: Message) -> bool:
    return (
        task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        and task.status.message.message_id == needed.message_id
    )


def _pauses(needed: Message) -> dict[str, Pause]:
    """What the agent needs: the questions of an agent that uses Handraise, else one question with its text."""
    questions = [each for each in marked(needed, "questions", list) if isinstance(each, dict)]
    if not questions:
        schema = schema_in(needed)
        text = get_message_text(needed).strip() or "The agent needs input."
        form = form_of(schema) if schema else Open()
        return {_WHOLE: Pause(id=_WHOLE, prompt=text, options={"form": form}, by_model=False)}
    pauses = {}
    for each in questions:
        about: QuestionOptions = {"form": _form(each)}
        name = str(each.get("id"))
        pauses[name] = Pause(id=name, prompt=str(each.get("prompt")), options=about, by_model=False)
    return pauses


def _form(question: dict[str, Any]) -> Any:
    if question.get("kind") == "approval" and isinstance(question.get("arguments"), dict):
        editable = question.get("editable")
        return Approval.of(
            str(question.get("tool")),
            _whole_numbers(question["arguments"]),
            editable=[each for each in editable or [] if isinstance(each, str)],
        )
    schema = question.get("schema")
    return form_of(_whole_numbers(schema)) if isinstance(schema, dict) and schema else Open()


def _reply(needed: Message, pauses: dict[str, Pause], endings: dict[str, Ending]) -> Message:
    """The message with the answers; it is always the same, including its id."""
    if set(pauses) == {_WHOLE}:
        ending = endings[_WHOLE]
        structured = ending.question is not None and isinstance(ending.question.form, Form)
        words = [str(ending.value) if ending.answered and not structured else _words(ending)]
        answers: dict[str, Json] = {_WHOLE: ending.value} if structured and ending.answered else {}
    else:
        answers = {name: _answer(ending) for name, ending in endings.items()}
        words = [f"{pauses[name].prompt}\n{_words(ending)}" for name, ending in endings.items()]
    message = Message(
        role=Role.ROLE_USER,
        message_id=digest([needed.task_id, needed.message_id, "reply"])[:32],
        task_id=needed.task_id,
        context_id=needed.context_id,
    )
    message.parts.extend(answer_parts(answers, words)[: None if answers else 1])
    return message


def _answer(ending: Ending) -> Json:
    question = ending.question
    if question is not None and isinstance(question.form, Approval) and ending.answered:
        if ending.action is None:
            return {"decision": "deny", "reason": ending.words}
        edits = {"arguments": ending.action.arguments} if ending.edited else {}
        return {"decision": "approve", **edits}
    if question is not None and isinstance(question.outcome, Returned):
        return {SEND_BACK: question.outcome.reason}
    return ending.value if ending.answered else {"declined": True, "reason": ending.words}


def _words(ending: Ending) -> str:
    outcome = ending.question.outcome if ending.question else None
    return ending.words if isinstance(outcome, Answered) else f"No answer: {outcome or ending.words}."


def _whole_numbers(value: Json) -> Json:
    """The value with whole numbers as such: A2A carries every number as a double."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _whole_numbers(each) for name, each in value.items()}
        case list():
            return [_whole_numbers(each) for each in value]
        case _:
            return value
