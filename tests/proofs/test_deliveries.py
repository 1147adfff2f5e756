"""Deliveries under faults: dispatchers that are killed at the worst moment, and receivers that are slow or dead.

The sizes here are for every day. HANDRAISE_PROOF_KILLS=500 and HANDRAISE_PROOF_DELIVERIES=10000 are the full ones.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import os
import random
import signal
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from chaos.process_pool import open_process_pool
from chaos.webhook_dispatcher import LIFE
from handraise import AlreadySettled
from handraise.channels.inbound_replies import Replies
from handraise.channels.safe_http import open_safe_client
from handraise.channels.webhook import Webhook
from handraise.desk.dispatcher import run_dispatcher
from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk_factory import open_backend
from handraise.events import EventKind
from handraise.model.deliveries import Address, Delivery
from handraise.model.drafting import Limits
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.ports import Backend
from handraise.questions import Ref
from handraise.testing import promise
from support.webhook_receiver import Got, Receiver, Says, receiving
from tests.conftest import own_database

pytestmark = [pytest.mark.proof, pytest.mark.timeout(3_600)]

KILLS = int(os.environ.get("HANDRAISE_PROOF_KILLS", "20"))
DELIVERIES = int(os.environ.get("HANDRAISE_PROOF_DELIVERIES", "500"))
AT_ONCE = 4
WITHIN = 60.0
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


@pytest.fixture
def database() -> Iterator[str]:
    with own_database() as address:
        yield address


@pytest.fixture
def other_database() -> Iterator[str]:
    with own_database() as address:
        yield address


@asynccontextmanager
async def desk_on(ports: Backend) -> AsyncIterator[LocalDesk]:
    engine = Engine(ports.store, ports.bus, poll_interval=0.5)
    yield LocalDesk(engine, workspace="w", asker="bot", new_id=uuid7_ids(), limits=Limits())
    await engine.close()


async def put(ports: Backend, recipient: str, receiver: Receiver) -> None:
    to: Json = {"url": receiver.url, "secret": SECRET}
    place = Address(workspace="w", recipient=recipient, channel="webhook", id="1", to=to)
    await ports.directory.put_person("w", recipient, name=recipient, email=None, role=Role.MEMBER)
    await ports.outbox.put_address(place)


@dataclass
class Killed:
    """What receivers got over many lives of a dispatcher, and whom they killed after which request of its life."""

    chance: random.Random
    copies: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    alive: int = 0
    kill_at: int = 0
    got: int = 0
    kills: int = 0
    patient: bool = True
    """Whether some people think about it until nobody is killed any more."""
    thinking: list[tuple[str, str]] = field(default_factory=list)
    asked: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)

    async def __call__(self, got: Got) -> Says:
        """Keep a request, and end whoever sent it before it has an answer, where it is its turn."""
        self.copies[got.headers["webhook-id"]].append(got.body)
        event = json.loads(got.body)
        if event["type"].endswith(".asked"):
            self.asked.put_nowait((event["subject"], event["data"]["recipient"]))
        self.got += 1
        if self.alive and self.got >= self.kill_at:
            os.kill(self.alive, signal.SIGKILL)
            self.alive, self.kills = 0, self.kills + 1
        return Says()

    def decide(self) -> None:
        """Let those answer who have thought about it."""
        self.patient = False
        for each in self.thinking:
            self.asked.put_nowait(each)


@pytest.mark.slow(
    "the gate kills dispatchers in test_kills.py, and stops one that holds a delivery in test_faults.py"
)
@promise("P2", "P5")
async def test_a_dispatcher_killed_between_sending_and_recording_loses_and_changes_nothing(
    database: str,
) -> None:
    killed = Killed(random.Random(7))
    began = time.monotonic()
    async with (
        open_backend(database) as ports,
        desk_on(ports) as desk,
        receiving(killed) as receiver,
        open_process_pool() as pool,
        ending_leases(database),
        answering(desk, killed) as late,
    ):
        for number in range(5):
            await put(ports, f"p{number}", receiver)
        ids: list[str] = []
        while killed.kills < KILLS:
            for _ in range(AT_ONCE):
                question = await desk.post("Go?", recipients=[f"p{len(ids) % 5}"])
                ids.append(question.id)
            killed.kill_at = killed.got + killed.chance.randint(1, AT_ONCE)
            life = await pool.begin(f"life-{len(ids)}", LIFE, database)
            killed.alive = life.pid.result()
            assert (await asyncio.wait_for(life.death, WITHIN)).killed
        killed.alive = 0
        killed.decide()
        await pool.begin("last", LIFE, database)
        deliveries = await settled(ports, desk, ids)
        answers = [await desk.history(each) for each in ids]
    doubled = sum(len(each) > 1 for each in killed.copies.values())
    print(
        f"\n  {killed.kills} kills, {len(ids)} questions, {killed.got} requests, {doubled} of {len(killed.copies)} "
        f"messages sent again, {late[0]} answers too late, {time.monotonic() - began:.0f} s"
    )
    assert doubled >= 0.4 * KILLS
    assert late[0] > 0
    for name, copies in killed.copies.items():
        assert set(copies) == {copies[0]}, f"{name} was not the same each time"
    told = {each.id for each in deliveries}
    assert {name.removesuffix("-settled") for name in killed.copies} == told
    assert {f"{each.id}-settled" for each in deliveries} <= set(killed.copies)
    for events in answers:
        kinds = Counter(event.kind for event in events)
        assert (kinds[EventKind.ASKED], kinds[EventKind.ANSWERED]) == (1, 1)


async def settled(ports: Backend, desk: LocalDesk, ids: list[str]) -> list[Delivery]:
    """All deliveries, once each of them has been told how its question ended."""
    async with asyncio.timeout(WITHIN + KILLS):
        while True:
            found = [each for one in ids for each in await ports.outbox.deliveries((await desk.get(one)).ref)]
            left = Counter(each.status.value for each in found if each.status.value != "updated")
            if len(found) == len(ids) and not left:
                return found
            await asyncio.sleep(0.2)


@asynccontextmanager
async def ending_leases(address: str) -> AsyncIterator[None]:
    """Nobody waits here for a minute and a half until what a dead dispatcher had taken is due again."""
    connection = await asyncpg.connect(address)

    async def end() -> None:
        while True:
            await connection.execute(
                "update handraise.deliveries set due_at = now() where due_at > now() + interval '1 second' and tries > 0"
            )
            await asyncio.sleep(0.3)

    task = asyncio.create_task(end())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await connection.close()


@asynccontextmanager
async def answering(desk: LocalDesk, killed: Killed) -> AsyncIterator[list[int]]:
    """Every copy of a message is answered, as a system would that does not look at ids; counts what came too late."""
    late = [0]

    async def answer() -> None:
        while True:
            question_id, person = await killed.asked.get()
            if killed.patient and person in ("p0", "p1", "p2"):
                killed.thinking.append((question_id, person))
                continue
            try:
                await desk.answer(question_id, f"yes {killed.chance.random()}", by=person)
            except AlreadySettled:
                late[0] += 1

    task = asyncio.create_task(answer())
    try:
        yield late
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


RECEIVERS = 50
BAD = {0: "hangs", 1: "says 500", 2: "says 429"}
ENDS = {"hangs": "unknown", "says 500": "failed", "says 429": "failed", "is well": "updated"}
PER_SECOND = 25.0


@dataclass
class Arrivals:
    """When each question was asked, and when its message came."""

    asked: dict[str, float] = field(default_factory=dict)
    came: dict[str, float] = field(default_factory=dict)

    def delays(self) -> list[float]:
        """How long those took that came."""
        return [came - self.asked[each] for each, came in self.came.items()]


@pytest.mark.slow("compares the times that deliveries take")
async def test_slow_and_dead_receivers_do_not_delay_the_others(database: str, other_database: str) -> None:
    """Two servers side by side, on the same machine at the same time: one has three bad receivers, one has none."""
    numbers = range(RECEIVERS)
    well = [each for each in numbers if each not in BAD]
    (with_bad, deliveries), (without, _) = await asyncio.gather(
        run(database, numbers, DELIVERIES), run(other_database, well, DELIVERIES * len(well) // RECEIVERS)
    )
    median, usual = statistics.median(with_bad.delays()), statistics.median(without.delays())
    last, usual_last = (statistics.quantiles(each.delays(), n=100)[98] for each in (with_bad, without))
    print(
        f"\n  {DELIVERIES} questions to {RECEIVERS} receivers, {PER_SECOND:g} a second: median {median * 1_000:.0f} ms "
        f"with three bad ones, {usual * 1_000:.0f} ms without, ratio {median / usual:.2f}; "
        f"99%: {last * 1_000:.0f} ms and {usual_last * 1_000:.0f} ms"
    )
    assert median <= 1.25 * usual + 0.01
    for number in numbers:
        own = [each for each in deliveries if each.recipient == f"p{number}"]
        assert {each.status.value for each in own} == {ENDS[BAD.get(number, "is well")]}
    problems = {each.problem for each in deliveries if each.recipient in ("p0", "p1", "p2")}
    assert problems == {"it gave no answer", "it answered 500", "it answered 429"}


async def run(database: str, numbers: Sequence[int], total: int) -> tuple[Arrivals, list[Delivery]]:
    """Ask evenly, and see when it comes. Everything is brought to its end."""
    arrivals, asked = Arrivals(), dict[str, int]()
    async with contextlib.AsyncExitStack() as stack:
        ports = await stack.enter_async_context(open_backend(database))
        desk = await stack.enter_async_context(desk_on(ports))
        for number in numbers:
            answer = behaviour(BAD.get(number), arrivals)
            await put(ports, f"p{number}", await stack.enter_async_context(receiving(answer)))
        outward = await stack.enter_async_context(open_safe_client(LOOPBACK, within=0.5))
        channel = Webhook(Replies(desk, ports.directory, ports.outbox), outward, LOOPBACK)
        channel.patience = timedelta(seconds=10)
        engine = Engine(ports.store, ports.bus, poll_interval=0.5)
        stack.push_async_callback(engine.close)
        await stack.enter_async_context(
            run_dispatcher(engine, ports.outbox, ports.directory, [channel], link_to=link_to)
        )
        begin = time.monotonic()
        for place in range(total):
            await asyncio.sleep(begin + place / PER_SECOND - time.monotonic())
            at, number = time.monotonic(), numbers[place % len(numbers)]
            question = await desk.post("Go?", recipients=[f"p{number}"])
            arrivals.asked[question.id], asked[question.id] = at, number
        async with asyncio.timeout(WITHIN + DELIVERIES / 10):
            return arrivals, await ended(ports, desk, arrivals, asked)


async def ended(ports: Backend, desk: LocalDesk, arrivals: Arrivals, asked: dict[str, int]) -> list[Delivery]:
    """All deliveries once nothing is left to do: what came is answered."""
    well = {each: number for each, number in asked.items() if number not in BAD}
    while arrivals.came.keys() < well.keys():
        await asyncio.sleep(0.05)
    for each, number in well.items():
        await desk.answer(each, "yes", by=f"p{number}")
    found: list[Delivery] = []
    for each in asked:
        while not (own := await ports.outbox.deliveries(Ref("w", each))) or any(one.due_at for one in own):
            await asyncio.sleep(0.1)
        found += own
    return found


def behaviour(bad: str | None, arrivals: Arrivals) -> Any:
    async def answer(got: Got) -> Says:
        match bad:
            case "hangs":
                await asyncio.Event().wait()
            case "says 500":
                return Says(500)
            case "says 429":
                return Says(429, {"retry-after": "3"})
        arrivals.came.setdefault(json.loads(got.body)["subject"], time.monotonic())
        return Says()

    return answer


async def link_to(delivery: Delivery) -> str:
    return f"http://desk.example/questions/{delivery.question_id}"
