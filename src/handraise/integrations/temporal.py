"""Temporal: a workflow asks a person and is woken by a signal. Needs `pip install "handraise[temporal]"`.

The verbs are for workflow code and take no desk: the activities have the desk, and `HandraisePlugin` adds
them to the worker.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Unpack

from handraise import Action, Approval, Desk, HandraiseError, Outcome
from handraise.errors import MissingExtra
from handraise.integrations import workflows
from handraise.integrations.waker import NobodyWaits, run_waker
from handraise.integrations.workflows import LOOK_AGAIN, PASSING, Verb
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.questions import QuestionOptions

try:
    from temporalio import activity, workflow
    from temporalio.client import Client
    from temporalio.exceptions import ActivityError, ApplicationError
    from temporalio.plugin import SimplePlugin
    from temporalio.service import RPCError, RPCStatusCode
    from temporalio.worker import WorkflowRunner
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "temporalio":
        raise
    raise MissingExtra("temporalio", "temporal") from error

__all__ = ["HandraisePlugin", "TemporalEngine", "ask", "post", "request_approval", "wait"]

_STEP = timedelta(seconds=10)


async def post(prompt: str, **options: Unpack[QuestionOptions]) -> str:
    """Post a question and return its id; a retried activity gets the same one."""
    return await workflows.post(_Run(), prompt, options)


async def wait(question_id: str, *, look_again: Span = LOOK_AGAIN) -> Outcome:
    """Wait for the outcome, however long it takes."""
    return await workflows.wait(_Run(), question_id, look_again=look_again)


async def ask(prompt: str, **options: Unpack[QuestionOptions]) -> Json:
    """Post a question, wait, and return the canonical value.

    Any other ending is an `ApplicationError` of type `not_answered`, which ends the workflow unless it is caught.
    """
    return await workflows.ask(_Run(), prompt, options)


async def request_approval(
    approval: Approval, *, prompt: str | None = None, **options: Unpack[QuestionOptions]
) -> Action:
    """Ask for an approval, wait, and return the action, which is returned only once.

    Any other ending is an `ApplicationError` of type `not_approved`, which ends the workflow unless it is caught.
    """
    return await workflows.request_approval(_Run(), approval, prompt, options)


class HandraisePlugin(SimplePlugin):
    """Adds the activities that ask on this desk to a worker, and passes `handraise` through its sandbox."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(
            "handraise", activities=_activities(desk), workflow_runner=_passing_handraise_through
        )


class TemporalEngine:
    """Wakes workflows of one Temporal namespace."""

    name = "temporal"

    def __init__(self, client: Client) -> None:
        self._client = client

    async def wake(self, question_id: str, to: Mapping[str, Any]) -> None:
        """Signal the workflow's current run; a second signal has no effect."""
        if to["namespace"] != self._client.namespace:
            raise NobodyWaits(str(to["workflow"]))
        handle = self._client.get_workflow_handle(str(to["workflow"]))
        try:
            await handle.signal(_signal(question_id))
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            raise NobodyWaits(str(to["workflow"])) from error


class _Run:
    """The workflow that calls."""

    def __init__(self) -> None:
        self._rung: set[str] = set()

    async def step(self, verb: Verb, request: dict[str, Json]) -> Json:
        if verb == "outcome":
            # Before reading, so that no signal is missed between reading and sleeping.
            question_id = str(request["question_id"])
            workflow.set_signal_handler(_signal(question_id), lambda: self._rung.add(question_id))
        try:
            return await workflow.execute_activity(f"handraise_{verb}", request, start_to_close_timeout=_STEP)
        except ActivityError as failed:
            if isinstance(failed.cause, ApplicationError):
                raise failed.cause from failed
            raise

    async def woken(self, question_id: str, *, within: float) -> None:
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(lambda: question_id in self._rung, timeout=within)
        self._rung.discard(question_id)

    def failure(self, error: HandraiseError) -> Exception:
        return _final(error)


def _activities(desk: Desk) -> Sequence[Callable[..., Any]]:
    async def perform(verb: Verb, request: dict[str, Any]) -> Any:
        info = activity.info()
        to = {
            "engine": TemporalEngine.name,
            "namespace": info.workflow_namespace,
            "workflow": info.workflow_id,
        }
        place = [info.workflow_namespace, info.workflow_id, info.workflow_run_id, info.activity_id]
        try:
            return await workflows.perform(desk, verb, request, place=place, to=to)
        except PASSING:
            raise
        except HandraiseError as error:
            raise _final(error) from error

    @activity.defn
    async def handraise_post(request: dict[str, Any]) -> Any:
        return await perform("post", request)

    @activity.defn
    async def handraise_outcome(request: dict[str, Any]) -> Any:
        return await perform("outcome", request)

    @activity.defn
    async def handraise_consume(request: dict[str, Any]) -> Any:
        return await perform("consume", request)

    return [handraise_post, handraise_outcome, handraise_consume]


def _passing_handraise_through(runner: WorkflowRunner | None) -> WorkflowRunner:
    if isinstance(runner, SandboxedWorkflowRunner):
        passing = runner.restrictions.with_passthrough_modules("handraise", "pydantic", "pydantic_core")
        return replace(runner, restrictions=passing)
    if runner is None:
        raise ValueError("a worker always has a runner")
    return runner


def _final(error: HandraiseError) -> ApplicationError:
    """The error with which Temporal ends a workflow; other exceptions would suspend it until the code is fixed."""
    about = {
        "question_id": getattr(error, "question_id", None),
        "status": getattr(getattr(error, "outcome", None), "status", None),
        "reason": getattr(getattr(error, "outcome", None), "reason", None),
    }
    return ApplicationError(str(error), about, type=error.code, non_retryable=True)


def _signal(question_id: str) -> str:
    return f"handraise:{question_id}"


def _main() -> None:
    """The waker as a separate program."""
    parser = argparse.ArgumentParser(description="Wake Temporal workflows whose questions are settled.")
    parser.add_argument("target", help="the address of the Temporal server, as host:port")
    parser.add_argument("--namespace", default="default", help="the namespace of the workflows")

    async def engine(given: argparse.Namespace) -> TemporalEngine:
        return TemporalEngine(await Client.connect(given.target, namespace=given.namespace))

    run_waker(parser, engine)


if __name__ == "__main__":
    _main()
