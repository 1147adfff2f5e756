"""A small load of questions that several people try to settle at once, in one process.

Everybody repeats a call until its result is known. The worker also runs this on the previous release: only
public names here.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from chaos.clients import Client
from chaos.history import Entry, Pen
from handraise import Desk, Question, StoreUnavailable

T = TypeVar("T")


@dataclass
class Load:
    """Asks, lets people race for each question, waits, looks, and writes down what everybody was told."""

    name: str = "caller"
    seed: int = 7
    patience: float = 60.0
    """How many seconds a call is repeated, and a wait lasts, before it counts as failed."""
    meddles: bool = False
    """Whether it also tries to settle what others have asked."""
    entries: list[Entry] = field(default_factory=list)
    done: int = 0

    async def run(self, desks: Sequence[Desk], over: asyncio.Event, *, callers: int = 8) -> None:
        """Continue until it is over; each caller finishes its current question."""
        async with asyncio.TaskGroup() as group:
            for number in range(callers):
                chance = random.Random(f"{self.seed} {self.name} {number}")
                group.create_task(self._call(f"{self.name}-{number}", desks, chance, over))

    async def busy(self, more: int = 20) -> None:
        """Wait until this many more questions have ended."""
        enough = self.done + more
        async with asyncio.timeout(60):
            while self.done < enough:
                await asyncio.sleep(0.01)

    async def refused(self, more: int = 3) -> None:
        """Wait until this many more calls have met a fault."""
        begun = len(self.entries)
        async with asyncio.timeout(60):
            while sum(entry.type == "unknown" for entry in self.entries[begun:]) < more:
                await asyncio.sleep(0.02)

    async def _call(
        self, process: str, desks: Sequence[Desk], chance: random.Random, over: asyncio.Event
    ) -> None:
        place = 0
        while not over.is_set():
            place += 1
            asking, *others = chance.sample(list(desks), len(desks))
            question = await self.ask(process, asking, f"{process}/{place}")
            moves = chance.sample(["ann", "ben", "decline", "withdraw"], 2)
            async with asyncio.TaskGroup() as group:
                group.create_task(self.wait(process, chance.choice(desks), question))
                for what in moves:
                    group.create_task(self.move(process, chance.choice(others or [asking]), question, what))
            for desk in chance.choices(desks, k=2):
                await self.read(process, desk, question)
            if self.meddles:
                await self._meddle(process, asking, chance)
            self.done += 1

    async def _meddle(self, process: str, desk: Desk, chance: random.Random) -> None:
        try:
            page = (await desk.list_pending(limit=20)).items
        except StoreUnavailable:
            return
        for question in chance.sample(list(page), min(1, len(page))):
            await self.move(process, desk, question, chance.choice(["ann", "ben", "decline"]))

    async def ask(self, process: str, desk: Desk, key: str) -> Question:
        """Post, again and again under the same key, until it is acknowledged."""
        client = self._client(process, desk)
        question = await self._known(client, lambda: client.ask(key))
        if question is None:
            raise RuntimeError(f"{key} was refused") from client.error
        return question

    async def move(self, process: str, desk: Desk, question: Question, what: str) -> None:
        """Try to settle a question, again and again, until it is known who did."""
        asking = desk.scoped(asker=question.asker) if what == "withdraw" else desk
        client = self._client(f"{process} as {what}", asking)
        calls: dict[str, Callable[[], Awaitable[bool]]] = {
            "decline": lambda: client.decline(question, f"dan at {process}"),
            "withdraw": lambda: client.withdraw(question),
        }
        await self._known(
            client, calls.get(what, lambda: client.answer(question, f"{what} at {process}", what))
        )

    async def wait(self, process: str, desk: Desk, question: Question) -> None:
        """Wait until it is settled."""
        client, until = self._client(process, desk), time.monotonic() + self.patience
        await self._known(client, lambda: client.wait(question, max(0.1, until - time.monotonic())))

    async def read(self, process: str, desk: Desk, question: Question) -> None:
        """Look at a question that is settled."""
        client = self._client(process, desk)
        await self._known(client, lambda: client.read(question))

    def _client(self, process: str, desk: Desk) -> Client:
        return Client(desk, Pen(self.entries, process))

    async def _known(self, client: Client, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until its result is known; only a missing store is a reason to repeat it."""
        until, pause = time.monotonic() + self.patience, 0.02
        while True:
            came = await call()
            if client.is_final:
                return came
            if client.error and (not isinstance(client.error, StoreUnavailable) or time.monotonic() > until):
                raise client.error
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(0.5, pause * 2)
