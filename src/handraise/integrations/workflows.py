"""Workflows that ask: the common parts of all durable engines.

A workflow posts its question in a step, sleeps in the engine, and is woken by a waker
(`handraise.integrations.waker`). A wake-up is a hint: the outcome is read from the record, in a step, so a
forged, duplicated or lost one decides nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeVar, Unpack

import pydantic

from handraise import (
    Action,
    Answered,
    Approval,
    HandraiseError,
    InvalidQuestion,
    NotAnswered,
    NotApproved,
    Outcome,
    Question,
    StoreUnavailable,
)
from handraise.blocking import BlockingDesk
from handraise.errors import TooManyRequests
from handraise.model.answer_types import form_from
from handraise.model.durations import Span, seconds_of
from handraise.model.json_values import Json, digest
from handraise.model.type_problems import problems_of
from handraise.questions import QuestionOptions
from handraise.wire.records import OutcomeRecord, TimelineRecord
from handraise.wire.requests import PostQuestion

LOOK_AGAIN = timedelta(hours=1)
"""The longest that a workflow sleeps before it reads the record, in case a wake-up is lost."""

T = TypeVar("T")
Verb = Literal["post", "outcome", "consume"]

PASSING = (StoreUnavailable, TooManyRequests)
"""Errors that may not happen again if the step is retried. All others are final."""


class Run(Protocol):
    """A running workflow, as these functions see it."""

    async def step(self, verb: Verb, request: dict[str, Json]) -> Json:
        """Do this on a desk, with `perform`, and record the result: replayed code gets it without doing it again."""
        ...

    async def woken(self, question_id: str, *, within: float) -> None:
        """Sleep until this question's workflow is woken, or for this many seconds."""
        ...

    def failure(self, error: HandraiseError) -> Exception:
        """The error to raise so that the engine ends the workflow, and does not retry it."""
        ...


class Asker(Protocol):
    """The part of a desk that steps need."""

    def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Awaitable[Question]:
        """See `Desk.post`."""
        ...

    def apply_grant(self, question_id: str) -> Awaitable[Question | None]:
        """See `Desk.apply_grant`."""
        ...

    def get(self, question_id: str) -> Awaitable[Question]:
        """See `Desk.get`."""
        ...

    def consume_approval(self, question_id: str, *, request: str) -> Awaitable[Action]:
        """See `Desk.consume_approval`."""
        ...


class BlockingAsker:
    """The methods of a blocking desk that a step needs. They never suspend: `run_now` runs what calls them."""

    def __init__(self, desk: BlockingDesk) -> None:
        self._desk = desk

    async def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """See `Desk.post`."""
        return self._desk.post(prompt, **options)

    async def apply_grant(self, question_id: str) -> Question | None:
        """See `Desk.apply_grant`."""
        return self._desk.apply_grant(question_id)

    async def get(self, question_id: str) -> Question:
        """See `Desk.get`."""
        return self._desk.get(question_id)

    async def consume_approval(self, question_id: str, *, request: str) -> Action:
        """See `Desk.consume_approval`."""
        return self._desk.consume_approval(question_id, request=request)


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise RuntimeError("this must not suspend")


async def post(run: Run, prompt: str, options: QuestionOptions) -> str:
    """Post a question in a step and return its id."""
    try:
        request = _request(prompt, options)
    except InvalidQuestion as refusal:
        raise run.failure(refusal) from refusal
    return str(await run.step("post", request))


async def wait(run: Run, question_id: str, *, look_again: Span = LOOK_AGAIN) -> Outcome:
    """Wait for the outcome, however long it takes.

    It is also read before sleeping: a wake-up may have come earlier.
    """
    while True:
        found = await run.step("outcome", {"question_id": question_id})
        if found is not None:
            return OutcomeRecord.model_validate(found).outcome()
        await run.woken(question_id, within=seconds_of(look_again))


async def ask(run: Run, prompt: str, options: QuestionOptions) -> Json:
    """Post a question, wait, and return the canonical value. Any other ending than an answer is a failure."""
    question_id = await post(run, prompt, options)
    outcome = await wait(run, question_id)
    if not isinstance(outcome, Answered):
        raise run.failure(NotAnswered(question_id, outcome))
    return outcome.value


async def request_approval(
    run: Run, approval: Approval, prompt: str | None, options: QuestionOptions
) -> Action:
    """Ask for the approval of an action, wait, and return the action to be executed now; it is returned only once."""
    options["form"] = approval
    question_id = await post(run, prompt or f"May I run {approval.action.tool}?", options)
    outcome = await wait(run, question_id)
    if not isinstance(outcome, Answered):
        raise run.failure(NotApproved(question_id, outcome, str(outcome)))
    if outcome.value["decision"] != "approve":
        raise run.failure(
            NotApproved(question_id, outcome, outcome.value.get("reason") or "a person denied it")
        )
    return Action.model_validate(await run.step("consume", {"question_id": question_id}))


async def perform(desk: Asker, verb: Verb, request: dict[str, Json], *, place: Json, to: Json) -> Json:
    """Do a step on a desk. `place` identifies the step in its workflow permanently, `to` is whom a waker wakes."""
    if verb == "outcome":
        outcome = (await desk.get(request["question_id"])).outcome
        return (
            None if outcome is None else OutcomeRecord.of(outcome).model_dump(mode="json", exclude_none=True)
        )
    # A step that is retried because its result was lost asks for the same thing.
    key = f"{to['engine']}:{digest(place)}"
    if verb == "consume":
        return (await desk.consume_approval(request["question_id"], request=key)).model_dump(mode="json")
    body = PostQuestion.model_validate(request)
    options: QuestionOptions = {"key": key, **body.options(), "state": {"wake": to}}
    question = await desk.post(body.prompt, **options)
    if isinstance(question.form, Approval) and question.outcome is None:
        await desk.apply_grant(question.id)
    return question.id


def _request(prompt: str, options: QuestionOptions) -> dict[str, Json]:
    """A question as JSON, for a step that may run in another process."""
    said: dict[str, Any] = {**options}
    if "state" in said:
        raise TypeError("A workflow keeps its own state: leave state out")
    if "form" in said:
        said["form"] = form_from(said["form"])
    if "timeline" in said:
        said["timeline"] = TimelineRecord.of(said["timeline"])
    for name in ("expires_in", "undo_for", "heartbeat"):
        if name in said:
            said[name] = seconds_of(said[name])
    try:
        return PostQuestion(prompt=prompt, **said).model_dump(mode="json", include={"prompt", *said})
    except pydantic.ValidationError as error:
        problems = problems_of(error, PostQuestion)
        raise InvalidQuestion(problems) from None
