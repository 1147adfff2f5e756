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

APART = 0.004


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
                await asyncio.sleep(work["start"] + n * APART - time.time())
                refused += not await act(desk, role, question_id)
            print(refused, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
