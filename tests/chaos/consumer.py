"""One of the processes that race to execute approved actions, question by question at agreed instants.

Standard input: lines of JSON, each with ids and the instant of the first. Each execution is one line in a file; how many
were refused is printed after each line, so that nobody begins the next before both are there.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from handraise import open_desk
from handraise.errors import AlreadyConsumed

APART = 0.004


async def main(address: str, done: str) -> None:
    async with open_desk(address, workspace="consume", connections=2) as desk:
        await desk.find_by_key("warm up")
        print("ready", flush=True)
        executed = os.open(done, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        while line := await asyncio.to_thread(sys.stdin.readline):
            work = json.loads(line)
            refused = 0
            for n, question_id in enumerate(work["ids"]):
                await asyncio.sleep(work["start"] + n * APART - time.time())
                try:
                    action = await desk.consume_approval(question_id)
                except AlreadyConsumed:
                    refused += 1
                else:
                    os.write(executed, f"{action.arguments['n']}\n".encode())
            print(refused, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
