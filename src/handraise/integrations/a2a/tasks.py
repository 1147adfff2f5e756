"""An A2A agent asks through a desk: its task needs input, and continues when a person has answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Unpack
from weakref import WeakValueDictionary

from a2a.auth.user import User
from a2a.helpers import new_data_part, new_task_from_user_message
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import RequestHandler
from a2a.server.tasks import TaskUpdater
from a2a.types import GetTaskRequest, Message, Role, SendMessageRequest, TaskState
from a2a.utils.errors import TaskNotFoundError

from handraise import AlreadySettled, Desk, HandraiseError, InvalidAnswer, KeyConflict, Question, Responder
from handraise.forms import NotAnAnswer, read_reply
from handraise.integrations.a2a.wire import MARK, marked, question_parts
from handraise.integrations.waker import NobodyWaits
from handraise.model.json_values import Json, digest
from handraise.model.provenance import Provenance
from handraise.questions import QuestionOptions
from handraise.tools.sent_back import SEND_BACK, is_sent_back

_ENGINE = "a2a"
_EVIDENCE = "client-asserted"
_AT_WORK = 5.0
_LOOK_AGAIN = 0.05
_TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)

Person = Callable[[RequestContext], Responder | str | None]
"""The sender of this message, as verified by the host; None if nobody is signed in."""


def signed_in(context: RequestContext) -> str | None:
    """The user that the host's `ServerCallContextBuilder` has put into the call."""
    user = context.call_context.user
    return user.user_name if user.is_authenticated else None


class DeskTask:
    """One call of an agent's `execute`, for a task whose questions are at a desk.

    `person` says who may answer by sending a message; what the message says about that is never read.
    """

    def __init__(
        self, desk: Desk, context: RequestContext, queue: EventQueue, *, person: Person = signed_in
    ) -> None:
        if context.task_id is None or context.context_id is None or context.message is None:
            raise ValueError("There is no message to work on.")
        self.is_new = context.current_task is None
        self.updater = TaskUpdater(queue, context.task_id, context.context_id)
        self._desk = desk
        self._context = context
        self._message: Message = context.message
        self._queue = queue
        self._person = person
        self._asked: dict[str, str] = {}
        self._said: list[str] = []

    async def begin(self) -> None:
        """Open the task if it is new; otherwise take the message as an answer."""
        if self.is_new:
            await self._queue.enqueue_event(new_task_from_user_message(self._message))
        elif MARK not in self._context.call_context.state:  # not only woken: somebody has sent a message
            await self._take_reply()
        await self.updater.start_work()

    async def ask(self, name: str, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """The question with this name in this task, as it is now; it is posted the first time."""
        user = self._context.call_context.user
        about: QuestionOptions = {
            "conversation": self.updater.context_id,
            **options,
            "key": "a2a:" + digest([self._desk.asker, self.updater.task_id, name]),
            "state": {
                "wake": {
                    "engine": _ENGINE,
                    "task": self.updater.task_id,
                    "context": self.updater.context_id,
                    "user": user.user_name if user.is_authenticated else None,
                    "tenant": self._context.call_context.tenant,
                }
            },
        }
        try:
            question = await self._desk.post(prompt, **about)
        except KeyConflict as conflict:
            # Asked by an earlier release of the agent, perhaps with another expiry: it stays as it was asked.
            if conflict.existing is None:
                raise
            question = conflict.existing
        self._asked[name] = question.id
        return question

    async def paused(self) -> bool:
        """Whether people must answer first. If so, the task needs input now: return from `execute`."""
        asked = [await self._desk.get(each) for each in self._asked.values()]
        pending = [each for each in asked if each.outcome is None]
        if pending:
            await self.updater.requires_input(
                self.updater.new_agent_message(question_parts(pending, self._said))
            )
        return bool(pending)

    async def _take_reply(self) -> None:
        """Take the client's message as answers of the person who is signed in."""
        pending = {
            each.id: each
            for each in await _pending(self._desk, self.updater.context_id, self.updater.task_id)
        }
        by = self._person(self._context)
        if not pending:
            return
        if by is None:
            self._said.append("Sign in to answer.")
            return
        answers: dict[str, Json] = marked(self._message, "answers", dict)
        if not answers and len(pending) == 1:
            (question,) = pending.values()
            answers = {question.id: self._context.get_user_input()}
            read = read_reply(question, answers[question.id])
            if isinstance(read, NotAnAnswer):
                self._said.append(read.reason)
                return
            answers = {question.id: read.value}
        for question_id, value in answers.items():
            if question_id in pending:
                await self._answer(pending[question_id], value, by)
            else:
                self._said.append(f"There is no open question {question_id!r} in this task.")

    async def _answer(self, question: Question, value: Json, by: Responder | str) -> None:
        question_id, seen = question.id, None
        match value:
            case {"decision": decision, "seen": int() | float() as count, **rest}:
                # A2A carries every number as a double.
                seen, value = int(count), {"decision": decision, **rest}
        provenance = Provenance(channel="a2a", evidence=_EVIDENCE, seen=seen)
        try:
            match value:
                case {"declined": True, **rest}:
                    reason = rest.get("reason")
                    await self._desk.decline(
                        question_id,
                        by=by,
                        reason=reason if isinstance(reason, str) else None,
                        provenance=provenance,
                    )
                case _ if is_sent_back(value, question):
                    await self._desk.send_back(
                        question_id, by=by, reason=value[SEND_BACK], provenance=provenance
                    )
                case _:
                    await self._desk.answer(question_id, value, by=by, provenance=provenance)
        except (InvalidAnswer, AlreadySettled) as error:
            self._said.append(str(error))
        except HandraiseError as error:
            self._said.append(f"That was not taken: {error}")


class TaskWaker:
    """Continues a task when its last question is settled elsewhere: `keep_waking(desk, TaskWaker(…), …)`.

    `context` makes the call context for loading a task, from the `user` and the `tenant` that created it.
    """

    name = _ENGINE

    def __init__(
        self,
        desk: Desk,
        handler: RequestHandler,
        *,
        context: Callable[[str | None, str], ServerCallContext] | None = None,
    ) -> None:
        self._desk = desk
        self._handler = handler
        self._context = context or _call
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def wake(self, question_id: str, to: Mapping[str, Any]) -> None:
        """Run the task's agent once more. One at a time: an agent is not run twice for the same answers."""
        if await _pending(self._desk, to["context"], to["task"]):
            return
        call = self._context(to["user"], to["tenant"])
        call.state[MARK] = question_id
        async with self._locks.setdefault(to["task"], asyncio.Lock()):
            if await self._state_of(to["task"], call) in _TERMINAL:
                raise NobodyWaits(to["task"])
            message = Message(
                role=Role.ROLE_USER,
                message_id=f"settled-{question_id}",
                task_id=to["task"],
                context_id=to["context"],
                parts=[new_data_part({MARK: {"settled": question_id}})],
            )
            await self._handler.on_message_send(SendMessageRequest(message=message), call)

    async def _state_of(self, task_id: str, call: ServerCallContext) -> TaskState:
        """The state of a task. A task that is still working gets some time to see the answer itself, and to end.

        But not forever: its process may have been killed while it worked.
        """
        until = time.monotonic() + _AT_WORK
        while True:
            try:
                task = await self._handler.on_get_task(GetTaskRequest(id=task_id), call)
            except TaskNotFoundError:
                task = None
            if task is None:
                raise NobodyWaits(task_id)
            if task.status.state != TaskState.TASK_STATE_WORKING or time.monotonic() > until:
                return task.status.state
            await asyncio.sleep(_LOOK_AGAIN)


class _Owner(User):
    """The owner of the task."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        """A task with an owner was made by a signed-in user."""
        return True

    @property
    def user_name(self) -> str:
        """Their name."""
        return self._name


def _call(user: str | None, tenant: str) -> ServerCallContext:
    if user is None:
        return ServerCallContext(tenant=tenant)
    return ServerCallContext(user=_Owner(user), tenant=tenant)


async def _pending(desk: Desk, conversation: str, task_id: str) -> list[Question]:
    """The questions that a task still waits for."""
    found: list[Question] = []
    after = None
    while True:
        page = await desk.list_pending(conversation=conversation, asker=desk.asker, after=after)
        found += page.items
        if page.next is None:
            return [each for each in found if _wake_of(each).get("task") == task_id]
        after = page.next


def _wake_of(question: Question) -> dict[str, Json]:
    wake = question.state.get("wake") if isinstance(question.state, dict) else None
    return wake if isinstance(wake, dict) else {}
