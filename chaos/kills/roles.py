"""The clients of a workload: what each process does until somebody kills it, or it is told to finish.

An asker continues where its previous life was killed: it asks the same questions under the same keys.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.clients import Client, Ledger, link_to
from chaos.history import Pen
from handraise import Approval, Desk, HandraiseError, Open, Question, Responder, open_desk
from handraise.desk.dispatcher import run_dispatcher
from handraise.desk.engine import Engine
from handraise.desk_factory import open_backend
from handraise.questions import QuestionOptions
from handraise.server import ServerSettings
from handraise.server.process import serve

PEOPLE = ("ana", "bob", "cleo", "dan", "eve")
AT_ONCE = 4
PATIENCE = 20.0
KINDS = ("open", "choice", "approval", "votes", "expiring", "withdrawn", "told", "told")


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a process knows when it begins."""

    name: str
    slot: str
    address: str
    servers: str
    tokens: dict[str, str]
    workspace: str
    journal: str
    stop: str
    """A file that exists once nothing new may be begun."""
    seed: str
    next: int = 0
    """The first question that no earlier life has asked."""
    unfinished: tuple[int, ...] = ()
    port: int = 0

    @property
    def stopping(self) -> bool:
        """Whether it is time to finish."""
        return Path(self.stop).exists()

    @property
    def is_remote(self) -> bool:
        """Whether it goes through a server."""
        return self.slot.startswith("remote")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The credentials of everybody, made before the run."""

    known: dict[str, str]

    async def agent(self, workspace: str, asker: str) -> str:
        """The key of an asker."""
        del workspace
        return self.known[asker]

    async def person(self, workspace: str, responder: str | Responder) -> str:
        """The session of a person."""
        del workspace
        return self.known[responder if isinstance(responder, str) else responder.id]

    async def reader(self, workspace: str, asker: str) -> str:
        """The session of somebody who may see everything."""
        del workspace, asker
        return self.known["reader"]


def kind_of(slot: str, number: int) -> str:
    """What kind of question this one is: the same in every life."""
    return random.Random(f"{slot} {number}").choice(KINDS)


def options_of(slot: str, number: int) -> QuestionOptions:
    """How it is asked."""
    match kind_of(slot, number):
        case "choice":
            return {"choices": ["left", "right"]}
        case "approval":
            return {"form": Approval.of("deploy", {"number": number})}
        case "votes":
            return {"form": Open(), "quorum": 2}
        case "expiring":
            return {"expires_in": 0.1 + random.Random(number).random()}
        case "told":
            return {"recipients": list(PEOPLE)}
        case _:
            return {}


async def asker(told: dict[str, Any]) -> None:
    """Ask, wait, withdraw, consume; a few questions at a time."""
    me, numbers = _told(told), asyncio.Queue[int]()
    for number in me.unfinished:
        numbers.put_nowait(number)
    last = me.next

    async def work(client: Client) -> None:
        nonlocal last
        while not (numbers.empty() and me.stopping):
            if numbers.empty():
                number, last = last, last + 1
            else:
                number = numbers.get_nowait()
            await _see_through(me, client, number)

    async with _client(me) as client, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work(client))


async def _see_through(me: Assignment, client: Client, number: int) -> None:
    """One question from beginning to end; a last look at it says that it is finished."""
    key, kind = f"{me.slot}-{number}", kind_of(me.slot, number)
    while (question := await client.ask(key, **options_of(me.slot, number))) is None:
        await asyncio.sleep(0.05)
    if kind == "withdrawn" and question.outcome is None:
        await _until(lambda: client.withdraw(question))
    while not await client.wait(question, PATIENCE):
        await asyncio.sleep(0.01)
    if kind == "approval":
        request = uuid.uuid4().hex  # of this life: nobody knows whether the previous one got a reply
        await _until(lambda: _consume(client, question, request))
    await client.read(question)


async def _consume(client: Client, question: Question, request: str) -> bool:
    with suppress(HandraiseError):
        decision = (await client.desk.get(question.id)).decision
        if decision is None or not decision.approved:
            return True
        return await client.consume(question, request)
    return False


async def answerer(told: dict[str, Any]) -> None:
    """Answer, vote, decline, and look; mostly at their own share, so that not everybody is too late."""
    me = _told(told)
    # Each person is one client: a server that repeats a request takes a person's same answer for that request's.
    number = int(me.slot.rpartition("-")[2]) + (len(PEOPLE) - 1 if me.is_remote else 0)
    person = PEOPLE[number]
    chance = random.Random(f"{me.seed} {me.name}")
    voted: set[str] = set()
    recent: list[Question] = []
    async with _client(me) as client:
        while True:
            questions: Iterable[Question] = ()
            with suppress(HandraiseError):
                questions = (await client.desk.list_pending(limit=200)).items
            for question in questions:
                mine = hash_of(question.id) % len(PEOPLE) == number
                if me.stopping or mine or question.quorum > 1 or chance.random() < 0.05:
                    await _decide(client, question, person, chance, voted, plainly=me.stopping)
                    recent.append(question)
            for question in chance.sample(recent, min(1, len(recent))):
                await client.read(question)
            del recent[:-50]
            await asyncio.sleep(0.03)


async def _decide(
    client: Client, question: Question, person: str, chance: random.Random, voted: set[str], *, plainly: bool
) -> None:
    if question.quorum > 1:
        if question.id not in voted or plainly:
            voted.add(question.id)
            await client.answer(question, "yes", person)
        return
    draw = 1.0 if plainly else chance.random()
    if draw < 0.1:
        await client.decline(question, person)
    elif question.form.kind == "approval":
        await client.answer(question, "deny" if draw < 0.3 else "approve", person)
    elif question.form.kind == "choice":
        await client.answer(question, "neither" if draw < 0.2 else chance.choice(["left", "right"]), person)
    else:
        await client.answer(question, f"{person} {chance.random()}", person)


async def sweeper(told: dict[str, Any]) -> None:
    """Do what is due, again and again."""
    me = _told(told)
    async with _client(me) as client:
        while True:
            await client.expire(client.desk.run_due)
            await asyncio.sleep(0.05)


async def dispatcher(told: dict[str, Any]) -> None:
    """Notify people, and record what they are told."""
    me = _told(told)
    pen = Pen(Path(me.journal), me.name)
    async with open_backend(me.address, connections=3) as backend:
        engine = Engine(backend.store, backend.bus, poll_interval=0.2)
        channels = [Ledger(pen)]
        async with run_dispatcher(engine, backend.outbox, backend.directory, channels, link_to=link_to):
            await asyncio.Event().wait()


async def server(told: dict[str, Any]) -> None:
    """Serve at a port that stays the same from life to life."""
    me = _told(told)
    settings = ServerSettings(
        url=me.address,
        port=me.port,
        workspace=me.workspace,
        poll_interval=0.5,
        connections=3,
        rate_limit="100000/second",
        pending_quota=0,
    )
    await serve(settings, lambda _: None)


@asynccontextmanager
async def _client(me: Assignment) -> AsyncIterator[Client]:
    pen = Pen(Path(me.journal), me.name)
    desk: Any
    if me.is_remote:
        desk = open_desk(
            me.servers,
            workspace=me.workspace,
            asker=me.slot,
            credentials=Tokens(me.tokens),
            poll_interval=1.0,
        )
    else:
        desk = open_desk(me.address, workspace=me.workspace, asker=me.slot, connections=3, poll_interval=0.5)
    async with desk as opened:
        found: Desk = opened
        yield Client(found, pen)


async def _until(call: Callable[[], Awaitable[bool]]) -> None:
    """Repeat until it is done or refused."""
    while not await call():
        await asyncio.sleep(0.02)


def hash_of(text: str) -> int:
    """The same in every process."""
    return sum(text.encode())


def _told(told: dict[str, Any]) -> Assignment:
    logging.disable()  # a server that was killed is expected here
    return Assignment(**{**told, "unfinished": tuple(told.get("unfinished", ()))})
