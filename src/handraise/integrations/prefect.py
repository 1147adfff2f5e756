"""Prefect: a flow asks a person and ends its process until the answer is there. Needs `pip install "handraise[prefect]"`.

The flow run is suspended, and a waker (`python -m handraise.integrations.prefect`) resumes it: a worker starts the flow from its
beginning, the same questions are found again, and the answers are there. Tasks with persisted results do not run twice.

Every verb exists twice: `ask` in flows written without `async`, `ask_async` in the others.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from uuid import UUID, uuid4
from weakref import finalize

from handraise import Action, Approval, HandraiseError, Outcome
from handraise.blocking import BlockingDesk
from handraise.errors import MissingExtra
from handraise.integrations import workflows
from handraise.integrations.waker import NobodyWaits, run_waker
from handraise.integrations.workflows import BlockingAsker, Verb, run_now
from handraise.model.json_values import Json
from handraise.questions import QuestionOptions

try:
    from prefect import suspend_flow_run
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext
    from prefect.exceptions import ObjectNotFound, Pause
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "prefect":
        raise
    raise MissingExtra("prefect", "prefect") from error

__all__ = [
    "PrefectEngine",
    "ask",
    "ask_async",
    "post",
    "post_async",
    "request_approval",
    "request_approval_async",
    "wait",
    "wait_async",
]

_PAUSES = (0.5, 1.0, 2.0)
"""Seconds. A run that was killed just after it was suspended has not looked whether the answer had come."""


def post(desk: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> str:
    """Post a question and return its id; a flow run that is resumed gets the same one."""
    return run_now(workflows.post(_Blocking(desk), prompt, options))


def wait(desk: BlockingDesk, question_id: str) -> Outcome:
    """Return the outcome. If there is none yet, suspend the flow run: this call does not return, and the process ends."""
    return run_now(workflows.wait(_Blocking(desk), question_id))


def ask(desk: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> Json:
    """Post a question, wait as `wait` does, and return the canonical value; raises `NotAnswered`."""
    return run_now(workflows.ask(_Blocking(desk), prompt, options))


def request_approval(
    desk: BlockingDesk, approval: Approval, *, prompt: str | None = None, **options: Unpack[QuestionOptions]
) -> Action:
    """Ask for an approval, wait as `wait` does, and return the action to this flow run; raises `NotApproved`."""
    return run_now(workflows.request_approval(_Blocking(desk), approval, prompt, options))


async def post_async(desk: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> str:
    """`post` for flows written with `async`."""
    return await workflows.post(_Async(desk), prompt, options)


async def wait_async(desk: BlockingDesk, question_id: str) -> Outcome:
    """`wait` for flows written with `async`."""
    return await workflows.wait(_Async(desk), question_id)


async def ask_async(desk: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> Json:
    """`ask` for flows written with `async`."""
    return await workflows.ask(_Async(desk), prompt, options)


async def request_approval_async(
    desk: BlockingDesk, approval: Approval, *, prompt: str | None = None, **options: Unpack[QuestionOptions]
) -> Action:
    """`request_approval` for flows written with `async`."""
    return await workflows.request_approval(_Async(desk), approval, prompt, options)


class PrefectEngine:
    """Resumes flow runs at the Prefect API of the settings, such as `PREFECT_API_URL`."""

    name = "prefect"

    async def wake(self, question_id: str, to: Mapping[str, Any]) -> None:
        """Resume the flow run if it is suspended, or is soon. One that still runs reads the record before and after that."""
        del question_id
        flow_run = UUID(str(to["flow_run"]))
        try:
            await _resume(flow_run, pauses=_PAUSES)
        except ObjectNotFound as error:
            raise NobodyWaits(str(flow_run)) from error


async def _resume(flow_run: UUID, *, pauses: Sequence[float] = ()) -> None:
    """Resume a flow run, if it is suspended now or after one of these pauses. Any other stays as it is."""
    async with get_client() as client:
        for pause in (0.0, *pauses):
            await asyncio.sleep(pause)
            state = (await client.read_flow_run(flow_run)).state
            if state is None or state.is_final():
                return
            if state.is_paused():
                await client.resume_flow_run(flow_run)
                return


class _Blocking:
    """A flow written without `async`. Its methods never suspend a coroutine: `run_now` runs them."""

    def __init__(self, desk: BlockingDesk) -> None:
        self._desk = BlockingAsker(desk)
        self._flow_run, self._context = _running()

    async def step(self, verb: Verb, request: dict[str, Json]) -> Json:
        place = _place(self._flow_run, self._context, verb, request)
        return _perform(self._desk, verb, request, place, self._flow_run)

    async def woken(self, question_id: str, *, within: float) -> None:
        del within  # nothing of this process is left to look again
        try:
            suspend_flow_run(timeout=None, key=_suspension(question_id))
        except Pause:
            # The answer may have come before the run was suspended: then nobody else resumes it.
            if await self.step("outcome", {"question_id": question_id}) is not None:
                asyncio.run(_resume(self._flow_run))
            raise

    def failure(self, error: HandraiseError) -> Exception:
        return error


class _Async:
    """A flow written with `async`."""

    def __init__(self, desk: BlockingDesk) -> None:
        self._desk = BlockingAsker(desk)
        self._flow_run, self._context = _running()

    async def step(self, verb: Verb, request: dict[str, Json]) -> Json:
        place = _place(self._flow_run, self._context, verb, request)
        return await asyncio.to_thread(_perform, self._desk, verb, request, place, self._flow_run)

    async def woken(self, question_id: str, *, within: float) -> None:
        del within
        try:
            await suspend_flow_run(timeout=None, key=_suspension(question_id))
        except Pause:
            if await self.step("outcome", {"question_id": question_id}) is not None:
                await _resume(self._flow_run)
            raise

    def failure(self, error: HandraiseError) -> Exception:
        return error


def _running() -> tuple[UUID, FlowRunContext]:
    """The flow run that runs here; only that can be suspended."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        raise RuntimeError("Ask in a flow, and not in a task of it: only a flow run can be suspended.")
    return context.flow_run.id, context


_posted: dict[int, int] = {}
"""How many questions each flow run has posted since it was started here."""


def _place(flow_run: UUID, context: FlowRunContext, verb: Verb, request: dict[str, Json]) -> Json:
    """What identifies a step in its flow run permanently: which question it posts, or whose approval it uses."""
    if verb != "post":
        return [str(flow_run), verb, request["question_id"]]
    if id(context) not in _posted:
        finalize(context, _posted.pop, id(context), None)
    _posted[id(context)] = number = _posted.get(id(context), 0) + 1
    return [str(flow_run), number]


def _perform(desk: BlockingAsker, verb: Verb, request: dict[str, Json], place: Json, flow_run: UUID) -> Json:
    to = {"engine": PrefectEngine.name, "flow_run": str(flow_run)}
    return run_now(workflows.perform(desk, verb, request, place=place, to=to))


def _suspension(question_id: str) -> str:
    """A new name each time: Prefect does not suspend a run twice under one name, and somebody may resume it too early."""
    return f"handraise:{question_id}:{uuid4()}"


def _main() -> None:
    """The waker as a separate program."""
    parser = argparse.ArgumentParser(description="Resume Prefect flow runs whose questions are settled.")
    run_waker(parser, lambda _: PrefectEngine())


if __name__ == "__main__":
    _main()
