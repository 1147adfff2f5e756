"""One of two processes that race, question by question at agreed instants. Its arguments: the address, the workspace, what it
does, and perhaps a file.

Standard input: lines of JSON, each with ids, the instant of the first, how far they are apart, and how much later than
agreed this process begins each of them. After each line it prints as JSON for which of them it was first, so that nobody
begins the next line before both are there.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

from handraise import AlreadySettled, Desk, open_desk
from handraise.errors import AlreadyConsumed, ApprovalTakenBack, ThreadMoved
from handraise.model.provenance import Provenance

LATE = (AlreadySettled, ThreadMoved, AlreadyConsumed, ApprovalTakenBack)


async def reply(desk: Desk, question_id: str, _: str) -> None:
    await desk.reply(question_id, "And I have changed the account.")


async def approve(desk: Desk, question_id: str, _: str) -> None:
    await desk.answer(question_id, "approve", by="ana", provenance=Provenance(seen=1))


async def execute(desk: Desk, question_id: str, done: str) -> None:
    """Use an approval, and execute its action: one line in a file."""
    action = await desk.consume_approval(question_id)
    executed = os.open(done, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(executed, f"{action.arguments['n']}\n".encode())
    os.close(executed)


async def take_back(desk: Desk, question_id: str, _: str) -> None:
    await desk.take_back(question_id, by="ana")


CALLS: dict[str, Callable[[Desk, str, str], Awaitable[None]]] = {
    "reply": reply,
    "approve": approve,
    "execute": execute,
    "take back": take_back,
}


async def main(address: str, workspace: str, call: str, done: str = "") -> None:
    async with open_desk(address, workspace=workspace, connections=2) as desk:
        await desk.find_by_key("warm up")
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            work = json.loads(line)
            first = []
            for n, (question_id, later) in enumerate(zip(work["ids"], work["later"], strict=True)):
                await asyncio.sleep(work["start"] + n * work["apart"] + later - time.time())
                try:
                    await CALLS[call](desk, question_id, done)
                except LATE:
                    first.append(False)
                else:
                    first.append(True)
            print(json.dumps(first), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
