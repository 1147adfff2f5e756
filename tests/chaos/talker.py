"""One of the processes that race in a thread, question by question at agreed instants: the asker, or a person.

Standard input: lines of JSON, each with ids and the instant of the first. How many were refused is printed after each
line, so that nobody begins the next before both are there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from handraise import AlreadySettled, Desk, open_desk
from handraise.errors import ThreadMoved
from handraise.model.provenance import Provenance

APART = 0.02
# How much earlier the person begins, in turn: an answer takes longer than a reply, and how much longer depends on the machine.
HEAD_STARTS = [step * 0.002 for step in range(10)]


async def act(desk: Desk, role: str, question_id: str) -> bool:
    try:
        if role == "asker":
            await desk.reply(question_id, "And I have changed the account.")
        else:
            await desk.answer(question_id, "approve", by="ana", provenance=Provenance(seen=1))
    except (AlreadySettled, ThreadMoved):
        return False
    return True


async def main(address: str, role: str) -> None:
    async with open_desk(address, workspace="talk", connections=2) as desk:
        await desk.find_by_key("warm up")
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            work = json.loads(line)
            refused = 0
            for n, question_id in enumerate(work["ids"]):
                early = HEAD_STARTS[n % len(HEAD_STARTS)] if role == "person" else 0.0
                await asyncio.sleep(work["start"] + n * APART - early - time.time())
                refused += not await act(desk, role, question_id)
            print(refused, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
