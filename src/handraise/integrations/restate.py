"""Restate: a handler asks a person and is woken by an awakeable. Needs `pip install "handraise[restate]"`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Unpack
from urllib.parse import quote

from handraise import Action, Approval, Desk, HandraiseError, Outcome
from handraise.errors import MissingExtra
from handraise.integrations import workflows
from handraise.integrations.waker import NobodyWaits, run_waker
from handraise.integrations.workflows import LOOK_AGAIN, PASSING, Verb
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.questions import QuestionOptions

try:
    import httpx2
    from restate import Context, RestateDurableFuture, RunOptions, TerminalError, select
except ModuleNotFoundError as error:
    if error.name not in ("restate", "httpx2"):
        raise
    raise MissingExtra(error.name, "restate") from error

__all__ = ["Posted", "RestateEngine", "ask", "post", "request_approval", "wait"]

_GONE = (400, 404)


@dataclass(frozen=True, slots=True)
class Posted:
    """A question that a handler has posted, and the awakeable that wakes it. Replayed code gets an equal one."""

    question_id: str
    woken: RestateDurableFuture[Any] = field(repr=False)


async def post(ctx: Context, desk: Desk, prompt: str, **options: Unpack[QuestionOptions]) -> Posted:
    """Post a question, to wait for it later; a retried handler gets the same one."""
    run = _Run(ctx, desk)
    return Posted(await workflows.post(run, prompt, options), run.woken_by)


async def wait(ctx: Context, desk: Desk, posted: Posted, *, look_again: Span = LOOK_AGAIN) -> Outcome:
    """Wait for the outcome, however long it takes."""
    return await workflows.wait(_Run(ctx, desk, posted.woken), posted.question_id, look_again=look_again)


async def ask(ctx: Context, desk: Desk, prompt: str, **options: Unpack[QuestionOptions]) -> Json:
    """Post a question, wait, and return the canonical value.

    Any other ending is a `TerminalError` with the code `not_answered` in its metadata.
    """
    return await workflows.ask(_Run(ctx, desk), prompt, options)


async def request_approval(
    ctx: Context,
    desk: Desk,
    approval: Approval,
    *,
    prompt: str | None = None,
    **options: Unpack[QuestionOptions],
) -> Action:
    """Ask for an approval, wait, and return the action, which is returned only once.

    Any other ending is a `TerminalError` with the code `not_approved` in its metadata.
    """
    return await workflows.request_approval(_Run(ctx, desk), approval, prompt, options)


class RestateEngine:
    """Wakes handlers through one Restate ingress; `headers` are sent with every request, such as a bearer token."""

    name = "restate"

    def __init__(self, ingress: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._ingress = ingress.rstrip("/")
        self._headers = dict(headers or {})

    async def wake(self, question_id: str, to: Mapping[str, Any]) -> None:
        """Resolve the awakeable; Restate ignores this if it is already resolved."""
        awakeable = quote(str(to["awakeable"]), safe="")
        async with httpx2.AsyncClient(headers=self._headers, timeout=10.0) as client:
            response = await client.post(
                f"{self._ingress}/restate/awakeables/{awakeable}/resolve", json=question_id
            )
        if response.status_code in _GONE:
            raise NobodyWaits(awakeable)
        response.raise_for_status()


class _Run:
    """The calling handler, and the awakeable of its question."""

    def __init__(self, ctx: Context, desk: Desk, woken_by: RestateDurableFuture[Any] | None = None) -> None:
        self._ctx = ctx
        self._desk = desk
        self._awakeable = ""
        if woken_by is None:
            self._awakeable, woken_by = ctx.awakeable()
        self.woken_by = woken_by
        self._spent = False
        self._pause = 1.0

    async def step(self, verb: Verb, request: dict[str, Json]) -> Json:
        async def perform() -> Any:
            to = {"engine": RestateEngine.name, "awakeable": self._awakeable}
            try:
                return await workflows.perform(self._desk, verb, request, place=[self._awakeable], to=to)
            except PASSING:
                raise
            except HandraiseError as error:
                raise _final(error) from error

        return await self._ctx.run_typed(f"handraise {verb}", perform, RunOptions())

    async def woken(self, question_id: str, *, within: float) -> None:
        del question_id
        if self._spent:  # an awakeable wakes once, and it was used too early: poll with growing pauses
            await self._ctx.sleep(timedelta(seconds=min(self._pause, within)))
            self._pause *= 2
            return
        later = self._ctx.sleep(timedelta(seconds=within))
        who, _ = await select(woken=self.woken_by, later=later)
        self._spent = who == "woken"

    def failure(self, error: HandraiseError) -> Exception:
        return _final(error)


def _final(error: HandraiseError) -> TerminalError:
    """The error with which Restate ends an invocation; other exceptions would be retried forever."""
    about = {
        "code": error.code,
        "question_id": getattr(error, "question_id", None),
        "status": getattr(getattr(error, "outcome", None), "status", None),
        "reason": getattr(getattr(error, "outcome", None), "reason", None),
    }
    known = {name: str(value) for name, value in about.items() if value is not None}
    return TerminalError(str(error), status_code=422, metadata=known)


def _main() -> None:
    """The waker as a separate program."""
    parser = argparse.ArgumentParser(description="Wake Restate handlers whose questions are settled.")
    parser.add_argument("ingress", help="the address of Restate's ingress, such as http://localhost:8080")
    run_waker(parser, lambda given: RestateEngine(given.ingress))


if __name__ == "__main__":
    _main()
