"""The process at the other end of a wake-up: says when it called, and when the call came back.

    python -m benchmarks.other_process ADDRESS PAUSE

One line of JSON comes in: ids, and the statement that settles a question. For each id in turn, `desk` answers through
a desk. `seen` does so after it has read the question, as a person does. `answer` makes the desk's own statement and
then a NOTIFY. `notify` only sends a NOTIFY. At the end it prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks import bare
from benchmarks.harness import loop_factory
from handraise import open_desk

CHANNEL = "bare"
NOTIFY = "select pg_notify($1, $2)"


async def main(address: str, pause: str) -> None:
    """Answer with pauses, one after another, each of them in another way."""
    told = json.loads(sys.stdin.readline())
    sent = bare.Sent(*map(_as_it_was, told["answer"]))
    called: dict[str, tuple[float, float]] = {}
    async with open_desk(address, workspace="wake") as desk, bare.connected(address, 1) as (connection,):

        async def settle(question_id: str) -> None:
            await connection.fetch(sent.sql, *sent.arguments([sent.row(question_id)]))
            await connection.execute(NOTIFY, CHANNEL, question_id)

        ways: dict[str, Callable[[str], Awaitable[object]]] = {
            "desk": lambda question_id: desk.answer(question_id, "Canary", by="ana"),
            "seen": lambda question_id: desk.answer(question_id, "Canary", by="ana"),
            "answer": settle,
            "notify": lambda question_id: connection.execute(NOTIFY, CHANNEL, question_id),
        }
        for way, question_id in told["ids"]:
            if way == "seen":
                await desk.get(question_id)
            await asyncio.sleep(float(pause))
            began = time.monotonic()
            await ways[way](question_id)
            called[question_id] = (began, time.monotonic())
        await asyncio.sleep(0.1)
    print(json.dumps(called))


def _as_it_was(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main(*sys.argv[1:]))
