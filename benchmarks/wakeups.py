"""How long from an answer in one process to the woken wait in another, against the bare engine between two processes.

From the call of `answer` to the woken wait, through desks: if the answering process has read the question before, as
people do before they answer, and if it has never read it (`unseen`), which costs one more read. Measured beside it, in
turns: the bare way to do the same, which is the statement by which the desk settles, then a NOTIFY, then the woken
waiter's read of the outcome. Also a NOTIFY alone, which records nothing and so does not wait for the disk. That one is
also compared with the rest of the desk's time, once the answer is recorded and `answer` has returned.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple
from itertools import chain
from typing import Any

from benchmarks import bare
from benchmarks.database import fill
from benchmarks.harness import Run, latencies, main
from benchmarks.other_process import CHANNEL
from handraise import open_desk
from support.database import own_database

RATIOS = {
    "ratio_of_wake_p50": ("desk_p50_ms", "bare_answer_p50_ms"),
    "ratio_of_wake_p99": ("desk_p99_ms", "bare_answer_p99_ms"),
    "ratio_of_wake_unseen_p50": ("unseen_p50_ms", "bare_answer_p50_ms"),
    "ratio_of_wake_unseen_p99": ("unseen_p99_ms", "bare_answer_p99_ms"),
    "ratio_to_notify_alone_p50": ("desk_p50_ms", "bare_notify_p50_ms"),
    "ratio_to_notify_alone_p99": ("desk_p99_ms", "bare_notify_p99_ms"),
    "ratio_once_recorded_p50": ("desk_recorded_p50_ms", "bare_notify_p50_ms"),
    "ratio_once_recorded_p99": ("desk_recorded_p99_ms", "bare_notify_p99_ms"),
}
OUTCOME = "select status, outcome from handraise.questions where workspace = 'wake' and id = $1"
PAUSE = 0.004
FIRST = 5
"""How many of each kind are left out: they open connections."""


async def wakes(address: str, pair: bare.Pair, count: int) -> dict[str, float]:
    """Answer a number of questions in each way from another process, in turns; note when each is woken in this one."""
    kinds = {kind: await fill(address, pair.ask, count) for kind in ("seen", "desk", "answer", "notify")}
    turns = [
        *chain.from_iterable(
            zip(*([(kind, each) for each in ids] for kind, ids in kinds.items()), strict=True)
        )
    ]
    woken: dict[str, float] = {}
    to_read = set(kinds["answer"])
    async with (
        open_desk(address, workspace="wake") as desk,
        bare.connected(address, 1) as (reader,),
        listening(address) as heard,
    ):

        async def wait(question_id: str) -> None:
            await desk.wait(question_id)
            woken[question_id] = time.monotonic()

        async def wait_bare() -> None:
            for _ in range(2 * count):
                question_id = await heard.get()
                if question_id in to_read:
                    await reader.fetch(OUTCOME, question_id)
                woken[question_id] = time.monotonic()

        waits = [
            asyncio.create_task(each) for each in (wait_bare(), *map(wait, kinds["seen"] + kinds["desk"]))
        ]
        await asyncio.sleep(0.3)  # until it listens, and has read for the first time
        called = await other_process(address, {"ids": turns, "answer": astuple(pair.answer)})
        await asyncio.wait_for(asyncio.gather(*waits), 60)
    began = {each: at for each, (at, _) in called.items()}
    done = {each: at for each, (_, at) in called.items()}
    return {
        **_spans("desk_", kinds["seen"], woken, began),
        **_spans("desk_recorded_", kinds["seen"], woken, done),
        **_spans("unseen_", kinds["desk"], woken, began),
        **_spans("bare_answer_", kinds["answer"], woken, began),
        **_spans("bare_notify_", kinds["notify"], woken, began),
    }


def _spans(
    name: str, ids: Sequence[str], woken: Mapping[str, float], since: Mapping[str, float]
) -> dict[str, float]:
    # A hint that comes before its sender's own reply counts as immediate.
    spans = [max(1e-6, woken[each] - since[each]) for each in ids[FIRST:]]
    return {name + end: value for end, value in latencies(spans).items()}


async def other_process(address: str, work: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """When the other process called for each, and when that returned."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.other_process", address, str(PAUSE)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    printed, _ = await process.communicate(json.dumps(work).encode() + b"\n")
    called: dict[str, tuple[float, float]] = json.loads(printed)
    return called


@asynccontextmanager
async def listening(address: str) -> AsyncIterator[asyncio.Queue[str]]:
    """What a bare connection hears."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with bare.connected(address, 1) as (connection,):
        await connection.add_listener(CHANNEL, lambda *said: heard.put_nowait(str(said[-1])))
        yield heard


async def measure(run: Run) -> None:
    """New questions in each round."""
    async with own_database() as address:
        pair = await bare.desk_pair(address, workspace="wake")
        for _ in run.each_round():
            for name, value in (await wakes(address, pair, run.options["count"])).items():
                run.note(name, value)


if __name__ == "__main__":
    main(measure, RATIOS, rounds=7, quick_rounds=5, count=(400, 150))
