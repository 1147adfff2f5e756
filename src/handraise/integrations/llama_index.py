"""LlamaIndex workflows: a step asks a person and gets the answer, even if the workflow was restarted in between.

`pip install "handraise[llama-index]"`. Inside a step or a tool, `ask` and `request_approval` wait as the framework waits; around the
workflow, `run` turns that into questions. The workflow's context is kept with each question.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Unpack

from handraise import Answered, Desk, Question
from handraise.errors import MissingExtra
from handraise.integrations.pause_questions import Askable, Pause, approving, described, pause_in
from handraise.integrations.paused_run import PauseOptions, Run
from handraise.integrations.state_store import StateStore
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.tools import ApprovalOptions, to_tool_result
from handraise.tools.automatic_reports import reported

try:
    from workflows import Context, Workflow
    from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent
    from workflows.handler import WorkflowHandler
except ImportError as error:
    raise MissingExtra(error.name or "workflows", "llama-index") from error

__all__ = ["QuestionAsked", "QuestionSettled", "ask", "request_approval", "run", "run_approved"]


class QuestionAsked(InputRequiredEvent):
    """A request of a workflow: a question, or an action to be approved, with a name that is unique in the run."""

    name: str
    question: dict[str, Any]


class QuestionSettled(HumanResponseEvent):
    """How it ended. `value` is the canonical answer, or None if there is none; `words` describe it in either case."""

    name: str
    question_id: str
    answered: bool
    value: Any = None
    words: str


async def ask(
    ctx: Context[Any],
    name: str,
    prompt: str,
    *,
    choices: Sequence[str] | None = None,
    form: Askable | Mapping[str, Json] | None = None,
    context: Json = None,
) -> QuestionSettled:
    """Ask a person from inside a step, and return how it ended. The step then runs again from its start."""
    return await _wait(ctx, name, described(prompt, choices=choices, form=form, context=context))


async def request_approval(
    ctx: Context[Any],
    name: str,
    tool: str,
    arguments: Mapping[str, Json],
    *,
    prompt: str | None = None,
    editable: Sequence[str] = (),
) -> dict[str, Json]:
    """Ask for approval from inside a step, and return the approved arguments; raises `NotApproved`.

    They are returned only once: a step that waits again after its approval runs again from its start, and
    gets `AlreadyConsumed` here. So a step should wait for nothing more after an approval.
    """
    action = {"tool": tool, "arguments": dict(arguments), "prompt": prompt, "editable": list(editable)}
    settled = await _wait(ctx, name, {"approve": action})
    return (await _active_run.get().desk.consume_approval(settled.question_id)).arguments


async def run_approved(
    ctx: Context[Any],
    name: str,
    function: Callable[..., Any],
    arguments: Mapping[str, Json],
    *,
    prompt: str | None = None,
    editable: Sequence[str] = (),
) -> Any:
    """Ask for approval as `request_approval` does, call the function with the approved arguments, and return its result.

    Its result or error is reported, shortened, to the people who see the question.
    """
    tool = function.__name__
    approved = await request_approval(ctx, name, tool, arguments, prompt=prompt, editable=editable)
    active = _active_run.get()
    settled = await active.settled(name)
    running = _called(function, approved)
    return await (running if settled is None else reported(active.desk, settled.question_id, running))


async def _called(function: Callable[..., Any], arguments: Mapping[str, Json]) -> Any:
    """The result of a function, sync or async, which does not block the event loop."""
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    return await asyncio.to_thread(function, **arguments)


async def run(
    workflow: Workflow,
    start: StartEvent | None = None,
    *,
    desk: Desk,
    key: str,
    timeout: Span | None = None,
    approvals: Mapping[str, ApprovalOptions] | None = None,
    state_store: StateStore | None = None,
    **options: Unpack[PauseOptions],
) -> Any:
    """Run a workflow to its end, asking people for its steps; returns its result. `key` identifies the run.

    The same call continues after a restart, from the last question that was asked; `start` is not used again.
    If `timeout` passes before an answer, `StillPending` is raised; the questions stay.
    """
    about: PauseOptions = {"conversation": key, **options}

    def pausing(number: int) -> Run:
        return Run(desk, f"{key} {number}", about, approvals, state_store)

    active = _ActiveRun(desk, pausing, timeout)
    _active_run.set(active)
    saved = await active.saved()
    if saved is None:
        handler = workflow.run(start_event=start or StartEvent())
    else:
        handler = workflow.run(ctx=Context.from_dict(workflow, saved["context"]))
        active.asked = {name: _AskedQuestion(*each) for name, each in saved["asked"].items()}
    try:
        async with asyncio.TaskGroup() as group:
            deliveries = [group.create_task(active.deliver(handler, name)) for name in active.asked]
            async for event in handler.stream_events():
                if isinstance(event, QuestionAsked) and await active.post(handler, event):
                    deliveries += [group.create_task(active.deliver(handler, event.name))]
            for task in deliveries:
                task.cancel()
    except BaseExceptionGroup as failed:  # the error that ended it, not its consequences
        await handler.cancel_run()
        raise failed.exceptions[0] from None
    return await handler


_AGAIN = 0.5


@dataclass(frozen=True, slots=True)
class _AskedQuestion:
    """A question of the workflow: which one it is in the run, and what it asks."""

    number: int
    question: dict[str, Json]


class _ActiveRun:
    """A run in progress. Each question is a separate pause, with the context from when it was asked."""

    def __init__(self, desk: Desk, pausing: Callable[[int], Run], timeout: Span | None) -> None:
        self.asked: dict[str, _AskedQuestion] = {}
        self.desk = desk
        self._taken: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._turn = asyncio.Lock()
        self._pausing = pausing
        self._timeout = timeout
        self._next = 0

    async def saved(self) -> dict[str, Json] | None:
        """What the last question of this run stored, or None if none was asked."""
        last = None
        while (found := await self._pausing(self._next).saved()) is not None:
            last, self._next = found, self._next + 1
        return None if last is None else json.loads(last)

    async def post(self, handler: WorkflowHandler, event: QuestionAsked) -> bool:
        """Post a step's question, with everything that is needed to continue; False if it is already posted."""
        if event.name in self.asked:
            return False
        self.asked[event.name] = _AskedQuestion(self._next, event.question)
        self._next += 1
        kept = {
            "context": handler.ctx.to_dict(),
            "asked": {name: [each.number, each.question] for name, each in self.asked.items()},
        }
        await self._question(event.name, json.dumps(kept))
        return True

    async def deliver(self, handler: WorkflowHandler, name: str) -> None:
        """Wake the step that waits for this answer, until it has taken it.

        A restored context does not know which event its steps wait for, and may give this one to another
        step. So an event is only a hint, and a step reads its answer from the desk.
        """
        posted = await self._question(name, await self._saved(name))
        await self.desk.wait(posted.id, timeout=self._timeout)
        settled = await self.settled(name)
        while settled is not None and not self._taken[name].is_set():
            # One at a time: a step that gets two events runs twice at once.
            async with self._turn:
                handler.ctx.send_event(settled)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._taken[name].wait(), _AGAIN)

    async def take(self, name: str) -> QuestionSettled | None:
        """How a question ended, for the step that asked it; None if it is still pending."""
        settled = await self.settled(name)
        if settled is not None:
            self._taken[name].set()
        return settled

    async def settled(self, name: str) -> QuestionSettled | None:
        """How a question ended, or None."""
        if name not in self.asked:
            return None
        question = await self.desk.get((await self._question(name, await self._saved(name))).id)
        outcome = question.outcome
        if outcome is None:
            return None
        return QuestionSettled(
            name=name,
            question_id=question.id,
            answered=isinstance(outcome, Answered),
            value=outcome.value if isinstance(outcome, Answered) else None,
            words=to_tool_result(question).content,
        )

    async def _saved(self, name: str) -> str:
        return await self._pausing(self.asked[name].number).saved() or "{}"

    async def _question(self, name: str, saved: str) -> Question:
        each = self.asked[name]
        run = self._pausing(each.number)
        posted = (await run.ask_all([_pause(name, each.question, run)], saved=saved))[name]
        if not isinstance(posted, Question):
            raise TypeError(f"{name} cannot be asked: {posted.words}")
        return posted


_active_run: ContextVar[_ActiveRun] = ContextVar("the run that goes on here")


async def _wait(ctx: Context[Any], name: str, question: dict[str, Json]) -> QuestionSettled:
    for attempt in count():
        # Wait even if the answer is there: otherwise the step would continue and its event would run it once more.
        await ctx.wait_for_event(
            QuestionSettled,
            waiter_event=QuestionAsked(name=name, question=question),
            waiter_id=f"handraise {name} {attempt}",
            requirements={"name": name},
            timeout=None,
        )
        if (settled := await _active_run.get().take(name)) is not None:
            return settled
    raise AssertionError("there is always another attempt")


def _pause(name: str, question: dict[str, Json], run: Run) -> Pause:
    match question:
        case {"approve": {"tool": str(tool), "arguments": dict(arguments), **rest}}:
            more: dict[str, Any] = {each: rest.get(each) for each in ("prompt", "editable")}
            # If it cannot be asked, the mistake is the workflow's, not a model's.
            return replace(approving(name, tool, arguments, run.said(tool), **more), by_model=False)
        case _:
            pause = pause_in(name, question)
            if pause is None:
                raise TypeError(
                    f"{name} asks nothing that a person could be shown: use ask or request_approval"
                )
            return pause
