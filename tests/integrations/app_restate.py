"""A Restate service that asks, for the tests to start and kill: `app_restate.py port log die`.

Handlers say in the log what they did. With `die` the service kills itself right behind posting, before Restate has the
step's result.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Unpack

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from handraise import Answered, Approval, Desk, Outcome, Question, open_desk
from handraise.desks import LocalDesk
from handraise.integrations.restate import ask, post, request_approval, wait
from handraise.questions import QuestionOptions


def services(desk: Desk, log: Path) -> restate.Service:
    service = restate.Service("app")

    @service.handler()
    async def asks(ctx: restate.Context) -> Any:
        return await ask(ctx, desk, "How?", choices=["Canary", "Rolling"])

    @service.handler()
    async def asks_for_a_while(ctx: restate.Context) -> Any:
        return await ask(ctx, desk, "Now?", expires_in=timedelta(seconds=0.3))

    @service.handler()
    async def asks_badly(ctx: restate.Context, quorum: Any) -> Any:
        return await ask(ctx, desk, "How?", quorum=quorum)

    @service.handler()
    async def asks_two(ctx: restate.Context) -> list[Any]:
        first = await post(ctx, desk, "First?", choices=["a", "b"])
        second = await post(ctx, desk, "Second?", choices=["a", "b"])
        return [value_of(await wait(ctx, desk, each)) for each in (first, second)]

    @service.handler()
    async def looks_again(ctx: restate.Context) -> Any:
        return value_of(await wait(ctx, desk, await post(ctx, desk, "How?"), look_again=0.2))

    @service.handler()
    async def refunds(ctx: restate.Context) -> dict[str, Any]:
        refund = Approval.of("send_refund", {"order": "A-17", "amount": 40}, editable=["amount"])
        return (await request_approval(ctx, desk, refund, replies="program")).arguments

    @service.handler()
    async def refunds_as_told(ctx: restate.Context) -> dict[str, Any]:
        amount, options = 300, QuestionOptions()
        while True:
            approval = Approval.of("refund", {"amount": amount})
            try:
                return (await request_approval(ctx, desk, approval, **options)).arguments
            except restate.TerminalError as refused:
                about = refused.metadata or {}
                if about.get("status") != "returned":
                    raise
                amount, options["replaces"] = int(about["reason"]), about["question_id"]

    @service.handler()
    async def deploys(ctx: restate.Context) -> Any:
        await ctx.run_typed("prepare", lambda: append(log, "prepared"))
        strategy = await ask(ctx, desk, "How?", choices=["Canary", "Rolling"])
        await ctx.run_typed("go on", lambda: append(log, f"goes on with {strategy}"))
        return strategy

    return service


def value_of(outcome: Outcome) -> Any:
    if not isinstance(outcome, Answered):
        raise restate.TerminalError(str(outcome))
    return outcome.value


def append(log: Path, line: str) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


async def post_and_die(self: LocalDesk, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
    posted = await _post(self, prompt, **options)
    os.kill(os.getpid(), signal.SIGKILL)
    return posted


_post = LocalDesk.post


def served_at(port: int) -> Config:
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.errorlog = config.accesslog = None
    return config


async def main(port: str, log: str, *rest: str) -> None:
    if "die" in rest:
        setattr(LocalDesk, "post", post_and_die)  # noqa: B010 -- a type checker minds the plain form
    async with open_desk(poll_interval=0.05) as desk:
        await serve(restate.app([services(desk, Path(log))]), served_at(int(port)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
