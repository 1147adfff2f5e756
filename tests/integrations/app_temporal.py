"""Temporal workflows that ask, and a worker for the tests to start and kill: `app_temporal.py target log die`.

Activities say in the log what they did. With `die` the worker kills itself right behind posting, before Temporal has the
activity's result.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Unpack

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from handraise import Answered, Approval, Outcome, Question, open_desk
from handraise.desks import LocalDesk
from handraise.integrations.temporal import HandraisePlugin, ask, post, request_approval, wait
from handraise.questions import QuestionOptions

QUEUE = "app"


@workflow.defn
class Asks:
    @workflow.run
    async def run(self) -> Any:
        return await ask("How?", choices=["Canary", "Rolling"])


@workflow.defn
class AsksForAWhile:
    @workflow.run
    async def run(self) -> Any:
        return await ask("Now?", expires_in=timedelta(seconds=0.3))


@workflow.defn
class AsksBadly:
    @workflow.run
    async def run(self, where: str) -> Any:
        quorum: Any = "many" if where == "workflow" else 0
        return await ask("How?", quorum=quorum)


@workflow.defn
class AsksTwo:
    @workflow.run
    async def run(self) -> list[Any]:
        first = await post("First?", choices=["a", "b"])
        second = await post("Second?", choices=["a", "b"])
        return [value_of(outcome) for outcome in await asyncio.gather(wait(first), wait(second))]


@workflow.defn
class LooksAgain:
    @workflow.run
    async def run(self) -> Any:
        return value_of(await wait(await post("How?"), look_again=0.2))


@workflow.defn
class Refunds:
    @workflow.run
    async def run(self) -> dict[str, Any]:
        refund = Approval.of("send_refund", {"order": "A-17", "amount": 40}, editable=["amount"])
        return (await request_approval(refund, replies="program")).arguments


@workflow.defn
class RefundsAsTold:
    """Asks again with the amount that a person gives as the reason to send it back."""

    @workflow.run
    async def run(self) -> dict[str, Any]:
        amount, options = 300, QuestionOptions()
        while True:
            try:
                return (
                    await request_approval(Approval.of("refund", {"amount": amount}), **options)
                ).arguments
            except ApplicationError as refused:
                about = refused.details[0]
                if about["status"] != "returned":
                    raise
                amount, options["replaces"] = int(about["reason"]), about["question_id"]


@workflow.defn
class Deploys:
    @workflow.run
    async def run(self) -> Any:
        await workflow.execute_activity("write", "prepared", start_to_close_timeout=timedelta(seconds=30))
        strategy = await ask("How?", choices=["Canary", "Rolling"])
        said = f"goes on with {strategy}"
        await workflow.execute_activity("write", said, start_to_close_timeout=timedelta(seconds=30))
        return strategy


WORKFLOWS = [Asks, AsksForAWhile, AsksBadly, AsksTwo, LooksAgain, Refunds, RefundsAsTold, Deploys]


def value_of(outcome: Outcome) -> Any:
    if not isinstance(outcome, Answered):
        raise TypeError(str(outcome))
    return outcome.value


async def post_and_die(self: LocalDesk, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
    posted = await _post(self, prompt, **options)
    os.kill(os.getpid(), signal.SIGKILL)
    return posted


_post = LocalDesk.post


def append(log: Path, line: str) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


async def main(target: str, log: str, *rest: str) -> None:
    @activity.defn
    async def write(line: str) -> None:
        append(Path(log), line)

    if "die" in rest:
        setattr(LocalDesk, "post", post_and_die)  # noqa: B010 -- a type checker minds the plain form
    client = await Client.connect(target)
    async with open_desk() as desk:
        plugins = [HandraisePlugin(desk)]
        worker = Worker(client, task_queue=QUEUE, workflows=WORKFLOWS, activities=[write], plugins=plugins)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
