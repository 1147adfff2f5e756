"""Processes whose clocks are an hour off: only the store's clock says when a question expires."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from chaos.faults.harness import Survived, desks_on
from chaos.faults.worker import Worker, working
from chaos.history import seen

SKEWS = {"on-time": None, "ahead": "+3600s", "behind": "-3600s"}


@asynccontextmanager
async def skewed(address: str, name: str, skew: str | None) -> AsyncIterator[Worker]:
    """A worker whose clock is wrong by this much."""
    program = shutil.which("faketime")
    if program is None:
        raise RuntimeError("A wrong clock needs faketime. Run: apt-get install faketime")
    under = [] if skew is None else [program, "-f", skew]
    async with working(address, name, workspace="skewed", under=under) as worker:
        yield worker


async def expiries(address: str, number: int, *, seed: int = 7) -> Survived:
    """Post questions that expire soon, and let everybody answer each of them at about that time."""
    endings, problems, chance = Counter[str](), list[str](), random.Random(seed)
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(skewed(address, *each)) for each in SKEWS.items()]
        (desk,) = await stack.enter_async_context(desks_on(address, 1, workspace="skewed"))
        for place in range(number):
            # For every asker, the span is counted from the store's current time.
            spans = [chance.uniform(0.2, 0.5), 1_800.0]
            for short, span in enumerate(spans):
                posted = await workers[(place + short) % len(workers)].do("post", expires_in=span)
                if short == 0:
                    await asyncio.sleep(span - 0.05 + 0.1 * chance.random())
                told = await _all_answer(workers, posted["id"])
                question = await desk.get(posted["id"])
                ended, status = seen(question.outcome), question.status.value
                endings[status] += 1
                problems += [f"{place}: told {each}, recorded {ended}" for each in told if each != ended]
                if question.outcome is None or question.expires_at is None:
                    problems.append(f"{place}: it has no end")
                elif (status == "expired") != (question.outcome.at >= question.expires_at):
                    problems.append(f"{place}: {status} at the wrong side of {question.expires_at}")
                if short and status == "expired":
                    problems.append(f"{place}: expired half an hour early")
    if missing := {"answered", "expired"} - endings.keys():
        problems.append(f"none was {' or '.join(missing)}")
    return Survived(", ".join(f"{count} {name}" for name, count in endings.most_common()), problems)


async def _all_answer(workers: Sequence[Worker], question_id: str) -> list[Any]:
    for worker in workers:
        worker.tell("answer", id=question_id, value=f"by {worker.name}")
    answers = [await worker.heard() for worker in workers]
    for worker in workers:
        worker.tell("sweep")
    for worker in workers:
        await worker.heard()
    return [each["outcome"] for each in answers]
