"""Airflow: a task asks a person and frees its worker slot until the answer is there. Needs `pip install "handraise[airflow]"`.

The task posts its question and defers itself. A trigger in the triggerer waits for the end of the question, together with
all others. Then the task is scheduled again and reads the outcome from the record: a trigger event is only a hint.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypedDict

from handraise import Answered, Approval, Desk, NotAnswered, NotApproved, Outcome, open_desk
from handraise.blocking import BlockingDesk
from handraise.blocking import open_desk as open_blocking
from handraise.errors import AlreadyConsumed, MissingExtra
from handraise.integrations.workflows import PASSING
from handraise.model.answer_types import form_from
from handraise.model.json_values import Json, digest
from handraise.questions import QuestionOptions
from handraise.wire.records import OutcomeRecord

try:
    from airflow.sdk import BaseOperator
    from airflow.sdk.exceptions import AirflowFailException
    from airflow.triggers.base import BaseTrigger, TriggerEvent
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "airflow":
        raise
    raise MissingExtra("apache-airflow", "airflow") from error

__all__ = ["AskOperator", "QuestionTrigger", "RequestApprovalOperator"]

_PAUSE = 5.0
"""Seconds before a trigger looks again if the desk cannot be reached."""
_EARLIEST = 10.0
"""Seconds before a trigger fires. Airflow fails a task that goes on before its executor has reported that it was deferred."""


class _Opened(TypedDict, total=False):
    asker: str
    workspace: str


class AskOperator(BaseOperator):
    """Asks a person, and returns the canonical value as the task's XCom. Any other ending fails the task.

    `options` are those of `Desk.post`, without `state` and `callback`; strings in them are templates, as the prompt is. The
    desk is the one at `HANDRAISE_URL`, on workers and on the triggerer. The XCom `question` is the question's id, and `outcome` says how
    it ended, whichever way that was.

    A task that is tried again or cleared finds the question of the same DAG run, and its answer.
    """

    template_fields: Sequence[str] = ("prompt", "options")
    ui_color = "#fdf3d8"

    def __init__(
        self,
        *,
        prompt: str,
        options: QuestionOptions | None = None,
        asker: str | None = None,
        workspace: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.prompt = prompt
        self.options = options
        self.asker = asker
        self.workspace = workspace

    def execute(self, context: Any) -> Json:
        """Post the question, and leave the worker until it has ended."""
        with self._open() as desk:
            question = desk.post(self.prompt, **self._question(context))
            if isinstance(question.form, Approval) and question.outcome is None:
                desk.apply_grant(question.id)
        context["ti"].xcom_push(key="question", value=question.id)
        return self._finish(context, question.id)

    def resume(self, context: Any, event: Any = None, *, question_id: str) -> Json:
        """Go on in a new process, once the trigger has fired. What the event says counts for nothing."""
        del event
        return self._finish(context, question_id)

    def _finish(self, context: Any, question_id: str) -> Json:
        with self._open() as desk:
            outcome = desk.get(question_id).outcome
            if outcome is not None:
                record = OutcomeRecord.of(outcome).model_dump(mode="json", exclude_none=True)
                context["ti"].xcom_push(key="outcome", value=record)
                try:
                    return self._result(desk, question_id, outcome, context)
                except (AlreadyConsumed, NotAnswered, NotApproved) as refused:
                    # Trying again would find the same outcome.
                    raise AirflowFailException(str(refused)) from refused
        self.defer(
            trigger=QuestionTrigger(question_id=question_id, asker=self.asker, workspace=self.workspace),
            method_name="resume",
            kwargs={"question_id": question_id},
        )
        return None

    def _result(self, desk: BlockingDesk, question_id: str, outcome: Outcome, context: Any) -> Json:
        del desk, context
        if not isinstance(outcome, Answered):
            raise NotAnswered(question_id, outcome)
        return outcome.value

    def _question(self, context: Any) -> QuestionOptions:
        options: QuestionOptions = {**(self.options or {})}
        if taken := {"state", "callback"} & options.keys():
            raise TypeError(f"Airflow keeps its own state: leave {', '.join(sorted(taken))} out")
        if "form" in options:
            options["form"] = form_from(options["form"])
        # A template may render differently the second time: the first question stands.
        return {"key": _key(context), "if_exists": "keep", **options}

    def _open(self) -> Any:
        return open_blocking(**_opened(self.asker, self.workspace))


class RequestApprovalOperator(AskOperator):
    """Asks for the approval of an action, and returns its arguments as the person approved them, once. A denial fails the task.

    `arguments` are templates. `editable` names those that the person may change.
    """

    template_fields: Sequence[str] = ("prompt", "options", "arguments")

    def __init__(
        self,
        *,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        editable: Sequence[str] = (),
        prompt: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(prompt=prompt or f"May I run {tool}?", **kwargs)
        self.tool = tool
        self.arguments = arguments
        self.editable = editable

    def _question(self, context: Any) -> QuestionOptions:
        approval = Approval.of(self.tool, self.arguments, editable=self.editable)
        return {**super()._question(context), "form": approval}

    def _result(self, desk: BlockingDesk, question_id: str, outcome: Outcome, context: Any) -> Json:
        if not isinstance(outcome, Answered):
            raise NotApproved(question_id, outcome, str(outcome))
        if outcome.value["decision"] != "approve":
            raise NotApproved(question_id, outcome, outcome.value.get("reason") or "a person denied it")
        # For this try only: a task that somebody clears later must not use the approval once more.
        action = desk.consume_approval(question_id, request=f"{_key(context)}:{context['ti'].try_number}")
        return dict(action.arguments)


class QuestionTrigger(BaseTrigger):
    """Fires once a question has ended. All triggers of a triggerer wait at one desk."""

    def __init__(self, *, question_id: str, asker: str | None = None, workspace: str | None = None) -> None:
        super().__init__()
        self.question_id = question_id
        self.asker = asker
        self.workspace = workspace

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How another triggerer makes the same trigger. The address of the desk and its key are in no database."""
        kept = {"question_id": self.question_id, "asker": self.asker, "workspace": self.workspace}
        return f"{type(self).__module__}.{type(self).__qualname__}", kept

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, however long it takes. A desk that cannot be reached is tried again."""
        earliest = time.monotonic() + _EARLIEST
        while True:
            try:
                async with _shared_desk(_opened(self.asker, self.workspace)) as desk:
                    await desk.wait(self.question_id)
            except PASSING as error:
                self.log.warning("The desk cannot be reached: %s", error)
                await asyncio.sleep(_PAUSE)
            else:
                break
        await asyncio.sleep(max(0.0, earliest - time.monotonic()))
        yield TriggerEvent({"question_id": self.question_id})


def _opened(asker: str | None, workspace: str | None) -> _Opened:
    given: _Opened = {}
    if asker is not None:
        given["asker"] = asker
    if workspace is not None:
        given["workspace"] = workspace
    return given


def _key(context: Any) -> str:
    """What the question of a task is named: the same for each of its tries, in each process."""
    ti = context["ti"]
    return f"airflow:{digest([ti.dag_id, ti.run_id, ti.task_id, ti.map_index])}"


class _Shared:
    """A desk that several triggers use, and how many do."""

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.stack = AsyncExitStack()
        self.desk: Desk | None = None
        self.users = 0


_shared: dict[tuple[Any, ...], _Shared] = {}
"""The desks of the triggers that run in this process, by event loop, asker and workspace."""


@asynccontextmanager
async def _shared_desk(opened: _Opened) -> AsyncIterator[Desk]:
    """A desk for all triggers of one event loop; the last one closes it."""
    place = (id(asyncio.get_running_loop()), *sorted(opened.items()))
    shared = _shared.setdefault(place, _Shared())
    shared.users += 1
    try:
        async with shared.opening:
            if shared.desk is None:
                shared.desk = await shared.stack.enter_async_context(open_desk(**opened))
        yield shared.desk
    finally:
        shared.users -= 1
        if not shared.users:
            _shared.pop(place, None)
            await shared.stack.aclose()
