"""A dispatcher that is stopped while it holds a delivery, and continues after another has taken it over."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

import asyncpg

from chaos.faults.harness import Survived
from chaos.process_pool import open_process_pool
from chaos.webhook_dispatcher import LIFE
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from support.webhook_receiver import Got, Says, receiving

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
WITHIN = 30.0


async def pauses(address: str, rounds: int) -> Survived:
    """Stop the dispatcher that sends, let the other take over, and let the first continue: this many times, in turn."""
    copies, problems = defaultdict[str, list[bytes]](list), list[str]()
    arrived: asyncio.Queue[str] = asyncio.Queue()
    victim: list[int] = []

    async def answer(got: Got) -> Says:
        copies[got.headers["webhook-id"]].append(got.body)
        arrived.put_nowait(json.loads(got.body)["subject"])
        if victim:
            # The stopped one gets a failure when it continues, and the other gets a success meanwhile.
            os.kill(victim.pop(), signal.SIGSTOP)
            return Says(500)
        return Says()

    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(open_backend(address))
        desk = await stack.enter_async_context(
            desk_from_store(backend.store, backend.bus, workspace="paused")
        )
        receiver = await stack.enter_async_context(receiving(answer))
        place: Any = {"url": receiver.url, "secret": SECRET}
        await backend.directory.put_person("paused", "pat", name="Pat", email=None, role=Role.MEMBER)
        await backend.outbox.put_address(
            Address(workspace="paused", recipient="pat", channel="webhook", id="1", to=place)
        )
        database = await asyncpg.connect(address)
        stack.push_async_callback(database.close)
        pool = await stack.enter_async_context(open_process_pool())
        holder, other = [(await pool.begin(name, LIFE, address)).pid.result() for name in ("one", "two")]
        os.kill(other, signal.SIGSTOP)
        for _ in range(rounds):
            victim.append(holder)
            question = await desk.post("Go?", recipients=["pat"])
            await _came(arrived, question.id)
            # The holder is stopped between sending and recording; its lease ends, and the other continues.
            await database.execute("update handraise.deliveries set due_at = now() where due_at is not null")
            os.kill(other, signal.SIGCONT)
            await _came(arrived, question.id)
            taken_over = await _recorded(database, question.id)
            os.kill(other, signal.SIGSTOP)
            os.kill(holder, signal.SIGCONT)
            # It has finished what it held when it has also sent the next one.
            marker = await desk.post("And now?", recipients=["pat"])
            await _came(arrived, marker.id)
            await _recorded(database, marker.id)
            if (now := await _recorded(database, question.id)) != taken_over:
                problems.append(f"{question.id}: recorded as {taken_over}, then as {now}")
            holder, other = other, holder
            os.kill(holder, signal.SIGCONT)
            os.kill(other, signal.SIGSTOP)
    problems += [
        f"{name} was not the same each time" for name, bodies in copies.items() if len(set(bodies)) > 1
    ]
    doubled = sum(len(each) > 1 for each in copies.values())
    if doubled != rounds:
        problems.append(f"{doubled} messages were sent again")
    return Survived(f"stopped {rounds} holders, {doubled} messages sent again", problems)


async def _came(arrived: asyncio.Queue[str], question_id: str) -> None:
    async with asyncio.timeout(WITHIN):
        while await arrived.get() != question_id:
            pass


async def _recorded(database: asyncpg.Connection[asyncpg.Record], question_id: str) -> list[Any]:
    """What is recorded of a question's delivery, once it was sent."""
    async with asyncio.timeout(WITHIN):
        while True:
            rows = await database.fetch(
                "select status, turn, tries, sent_at, receipt::text, problem, due_at from handraise.deliveries"
                " where question_id = $1",
                question_id,
            )
            if len(rows) == 1 and rows[0]["status"] == "sent":
                return list(rows[0].values())
            await asyncio.sleep(0.05)
