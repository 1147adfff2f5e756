"""DBOS: a workflow asks a person and is woken by a message. Needs `pip install "handraise[dbos]"`.

Every verb exists twice, as in DBOS itself: `ask` in workflows written without `async`, `ask_async` in the
others. Both take a blocking desk, because DBOS may run a recovered workflow on another event loop than the
one it began on.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any, Unpack

from handraise import Action, Approval, HandraiseError, Outcome
from handraise.blocking import BlockingDesk
from handraise.errors import MissingExtra
from handraise.integrations import workflows
from handraise.integrations.waker import NobodyWaits, run_waker
from handraise.integrations.workflows import LOOK_AGAIN, PASSING, BlockingAsker, Verb, run_now
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.questions import QuestionOptions

try:
    from dbos import DBOS, DBOSClient, StepOptions
    from dbos import error as dbos_error
except ModuleNotFoundError as error:
    if error.name != "dbos":
        raise
    raise MissingExtra("dbos", "dbos") from error

__all__ = [
    "DBOSEngine",
    "ask",
    "ask_async",
    "post",
    "post_async",
    "request_approval",
    "request_approval_async",
    "wait",
    "wait_async",
]


def post(desk: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> str:
    """Post a question and return its id; a workflow that runs again gets the same one."""
    return run_now(workflows.post(_Blocking(desk), prompt, options))


def wait(desk: BlockingDesk, question_id: str, *, look_again: Span = LOOK_AGAIN) -> Outcome:
    """Wait for the outcome, however long it takes."""
    return run_now(workflows.wait(_Blocking(desk), question_id, look_again=look_again))


def ask(desk: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> Json:
    """Post a question, wait, and return the canonical value; raises `NotAnswered`."""
    return run_now(workflows.ask(_Blocking(desk), prompt, options))


def request_approval(
    desk: BlockingDesk, approval: Approval, *, prompt: str | None = None, **options: Unpack[QuestionOptions]
) -> Action:
    """Ask for an approval, wait, and return the action, which is returned only once; raises `NotApproved`."""
    return run_now(workflows.request_approval(_Blocking(desk), approval, prompt, options))


async def post_async(desk: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> str:
    """`post` for workflows written with `async`."""
    return await workflows.post(_Async(desk), prompt, options)


async def wait_async(desk: BlockingDesk, question_id: str, *, look_again: Span = LOOK_AGAIN) -> Outcome:
    """`wait` for workflows written with `async`."""
    return await workflows.wait(_Async(desk), question_id, look_again=look_again)


async def ask_async(desk: BlockingDesk, prompt: str, **options: Unpack[QuestionOptions]) -> Json:
    """`ask` for workflows written with `async`."""
    return await workflows.ask(_Async(desk), prompt, options)


async def request_approval_async(
    desk: BlockingDesk, approval: Approval, *, prompt: str | None = None, **options: Unpack[QuestionOptions]
) -> Action:
    """`request_approval` for workflows written with `async`."""
    return await workflows.request_approval(_Async(desk), approval, prompt, options)


class DBOSEngine:
    """Wakes workflows of one DBOS system database. The client's serializer must be the application's."""

    name = "dbos"

    def __init__(self, client: DBOSClient) -> None:
        self._client = client

    async def wake(self, question_id: str, to: Mapping[str, Any]) -> None:
        """Send the message, also to forks of the workflow; DBOS drops the same message if it is sent again."""
        topic = _topic(question_id)
        try:
            await self._client.send_async(
                str(to["workflow"]), question_id, topic, idempotency_key=topic, send_to_forks=True
            )
        except dbos_error.DBOSNonExistentWorkflowError as error:
            raise NobodyWaits(str(to["workflow"])) from error


class _Blocking:
    """A workflow written without `async`. Its methods never suspend: `run_now` runs them."""

    def __init__(self, desk: BlockingDesk) -> None:
        self._desk = BlockingAsker(desk)

    async def step(self, verb: Verb, request: dict[str, Json]) -> Json:
        return DBOS.run_step(_options(verb), lambda: _perform(self._desk, verb, request))

    async def woken(self, question_id: str, *, within: float) -> None:
        DBOS.recv(_topic(question_id), timeout_seconds=within)

    def failure(self, error: HandraiseError) -> Exception:
        return error


class _Async:
    """A workflow written with `async`, on any event loop."""

    def __init__(self, desk: BlockingDesk) -> None:
        self._desk = BlockingAsker(desk)

    async def step(self, verb: Verb, request: dict[str, Json]) -> Json:
        async def elsewhere() -> Json:
            return await asyncio.to_thread(_perform, self._desk, verb, request)

        return await DBOS.run_step_async(_options(verb), elsewhere)

    async def woken(self, question_id: str, *, within: float) -> None:
        await DBOS.recv_async(_topic(question_id), timeout_seconds=within)

    def failure(self, error: HandraiseError) -> Exception:
        return error


def _perform(desk: BlockingAsker, verb: Verb, request: dict[str, Json]) -> Json:
    workflow = DBOS.workflow_id
    to = {"engine": DBOSEngine.name, "workflow": workflow}
    return run_now(workflows.perform(desk, verb, request, place=[workflow, DBOS.step_id], to=to))


def _topic(question_id: str) -> str:
    return f"handraise:{question_id}"


def _options(verb: Verb) -> StepOptions:
    return {
        "name": f"handraise.{verb}",
        "retries_allowed": True,
        "max_attempts": 12,  # more than an hour
        "should_retry": lambda error: isinstance(error, PASSING),
    }


def _main() -> None:
    """The waker as a separate program."""
    parser = argparse.ArgumentParser(description="Wake DBOS workflows whose questions are settled.")
    parser.add_argument("database", help="the address of the DBOS system database")
    run_waker(parser, lambda given: DBOSEngine(DBOSClient(system_database_url=given.database)))


if __name__ == "__main__":
    _main()
