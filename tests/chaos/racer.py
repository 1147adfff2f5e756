"""One of the processes of a race: a separate program that says it is ready, waits for work, and reports.

Lines on standard input: the first starts it and carries the work as JSON. One line of JSON comes out.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any

from handraise import AlreadySettled, Desk, Outcome, open_desk


async def main(address: str, name: str) -> None:
    async with open_desk(address, workspace="race", connections=2) as desk:
        await desk.find_by_key("warm up")
        print("ready", flush=True)
        work = json.loads(await asyncio.to_thread(sys.stdin.readline))
        roles = {"answer": answer_everything, "rush": rush_to_the_end, "sweep": sweep_until_done}
        print(json.dumps(await roles[work["role"]](desk, name, work)), flush=True)


async def answer_everything(desk: Desk, name: str, work: dict[str, Any]) -> dict[str, Any]:
    """Try to answer each question; report for each who won, as far as this process was told."""
    told: dict[str, Any] = {}
    for question_id in work["ids"]:
        try:
            question = await desk.answer(question_id, name, by=name)
        except AlreadySettled as late:
            told[question_id] = seen(late.outcome)
        else:
            told[question_id] = seen(question.outcome)
    return told


async def rush_to_the_end(desk: Desk, name: str, work: dict[str, Any]) -> dict[str, Any]:
    """Answer or withdraw some questions at about the moment at which each expires."""
    chance = random.Random(name)
    told: dict[str, Any] = {}
    for question_id, expires_at in work["ends"]:
        if chance.random() > work["share"]:
            continue
        await asyncio.sleep(expires_at + chance.uniform(-0.06, 0.03) - time.time())
        try:
            if chance.random() < 0.5:
                question = await desk.answer(question_id, name, by=name)
            else:
                question = await desk.withdraw(question_id)
        except AlreadySettled as late:
            told[question_id] = seen(late.outcome)
        else:
            told[question_id] = seen(question.outcome)
    return told


async def sweep_until_done(desk: Desk, name: str, work: dict[str, Any]) -> dict[str, Any]:
    """Sweep again and again until every question must have ended."""
    del name
    last = max(expires_at for _, expires_at in work["ends"])
    while time.time() < last + 0.2:
        await desk.run_due()
        await asyncio.sleep(0.005)
    return {}


def seen(outcome: Outcome | None) -> list[str | None]:
    if outcome is None:
        return ["pending", None]
    return [outcome.status.value, getattr(outcome, "by", None), outcome.at.isoformat()]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
