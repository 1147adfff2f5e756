"""Hints that get lost: NOTIFY dropped on its way, listeners and other sessions terminated."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from chaos.faults.harness import Survived, desks_on, judged, under_load
from chaos.faults.tcp_proxy import proxy_to
from handraise import Desk

LISTENERS = "handraise listener"
EVERYBODY = "handraise%"


@dataclass
class Terminated:
    """How many sessions were ended so far."""

    sessions: int = 0


@asynccontextmanager
async def terminating(address: str, whose: str, *, every: float = 0.05) -> AsyncIterator[Terminated]:
    """End a session with such an application name at intervals, even while it works."""
    terminated = Terminated()
    connection = await asyncpg.connect(address)

    async def terminate() -> None:
        while True:
            await asyncio.sleep(every)
            terminated.sessions += await terminate_one(connection, whose)

    task = asyncio.create_task(terminate())
    try:
        yield terminated
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await connection.close()


async def terminate_one(connection: asyncpg.Connection[asyncpg.Record], whose: str) -> int:
    """End one session of this database; how many that were."""
    ended = await connection.fetch(
        "select pg_terminate_backend(pid) from (select pid from pg_stat_activity where application_name like $1"
        " and datname = current_database() and pid <> pg_backend_pid() order by random() limit 1) as one",
        whose,
    )
    return len(ended)


async def terminations(address: str, seconds: float, *, seed: int = 7) -> Survived:
    """End a session at a time, listeners and others, under load."""
    began = time.monotonic()
    async with (
        desks_on(address) as desks,
        under_load(desks, seed=seed, callers=6) as load,
        terminating(address, EVERYBODY) as terminated,
    ):
        await asyncio.sleep(seconds)
    few = [f"{terminated.sessions} are few"] if terminated.sessions < 20 else []
    figures = f"terminated {terminated.sessions} sessions"
    return await judged(address, load.entries, figures, began=began, also=few)


async def woken_without_hints(address: str, number: int, *, poll: float = 0.5) -> Survived:
    """While every hint is dropped, this many waits still learn of answers: by polling."""
    async with (
        proxy_to(address) as proxy,
        desks_on(proxy.address, 1, poll=poll, workspace="deaf") as (waiting,),
        desks_on(address, 1, workspace="deaf") as (answering,),
    ):
        proxy.drops_hints = True
        last = max([await _delay(waiting, answering, random.Random(place)) for place in range(number)])
    dropped = proxy.hints_dropped
    late = [f"the last after {last:.2f} s"] if last > poll + 2 else []
    heard = [f"only {dropped} hints were dropped"] if dropped < number else []
    return Survived(
        f"dropped {dropped} hints: {number} waits woken, the last after {last:.2f} s", late + heard
    )


async def woken_after_termination(address: str, number: int, *, poll: float = 30.0) -> Survived:
    """This many waits whose listener is terminated just before the answer, while polls are rare."""
    async with (
        desks_on(address, 1, poll=poll, workspace="cut off") as (waiting,),
        desks_on(address, 1, workspace="cut off") as (answering,),
    ):
        connection = await asyncpg.connect(address)
        try:
            delays = [
                await _delay(waiting, answering, random.Random(place), before=connection)
                for place in range(number)
            ]
            # The new listener works: this one comes by NOTIFY again.
            last = max(*delays, await _delay(waiting, answering, random.Random(number)))
        finally:
            await connection.close()
    return Survived(
        f"{number + 1} waits woken, the last after {last:.2f} s of {poll:g}",
        [f"the last after {last:.2f} s"] if last > 6 else [],
    )


async def _delay(
    waiting: Desk,
    answering: Desk,
    chance: random.Random,
    *,
    before: asyncpg.Connection[asyncpg.Record] | None = None,
) -> float:
    question = await waiting.post("Ship it?")
    wait = asyncio.create_task(waiting.wait(question.id, timeout=60))
    await asyncio.sleep(0.1 + 0.3 * chance.random())
    if before is not None:
        await terminate_one(before, LISTENERS)
    began = time.monotonic()
    await answering.answer(question.id, "yes", by="ann")
    await wait
    return time.monotonic() - began
