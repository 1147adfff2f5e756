"""A workload: a group of clients in their own processes, killed at random and restarted, then checked.

async with workload(address, folder=folder, seed=7) as work:
    ...  # a fault, or `await work.kill(1_000)`
work.verdict
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

from chaos.history import KILLED, Entry, read, under_way
from chaos.history_checker import Stored, Verdict, check
from chaos.kills.roles import PEOPLE, Assignment
from chaos.process_pool import Life, ProcessExit, ProcessPool, open_process_pool
from chaos.stored_state import end_leases, left_to_tell, stored_questions
from handraise.desk_factory import open_backend
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.wire.credentials import TokenKind, digest_of, make_token
from support.free_port import free_port

CAST: Mapping[str, int] = MappingProxyType(
    {
        "asker": 3,
        "answerer": 4,
        "sweeper": 1,
        "dispatcher": 1,
        "server": 2,
        "remote_asker": 1,
        "remote_answerer": 1,
    }
)
"""How many there are of each. The remote ones go through the servers."""

KILLED_ROLES = ("asker", "answerer", "sweeper", "dispatcher", "server", "remote_asker")
_WEIGHTS = {"asker": 5, "answerer": 2, "sweeper": 3, "dispatcher": 3, "server": 1, "remote_asker": 2}
_OPENS_IN = {"server": 2.5, "dispatcher": 0.7}
_EARLY_KILL_CHANCE = 0.02
"""How often a process is killed that has not begun yet: mostly that would only kill connections."""
_DRAIN = 120.0
_FUNCTIONS = {"remote_asker": "asker", "remote_answerer": "answerer"}


@dataclass(slots=True)
class Slot:
    """One client of the group, over all its lives."""

    name: str
    role: str
    lives: int = 0
    life: Life | None = None
    journal: Path | None = None
    born: float = 0.0
    next: int = 0
    unfinished: set[int] = field(default_factory=set)
    port: int = 0


class Workload:
    """A group of clients that work on a store. `verdict` is set at the end."""

    def __init__(
        self,
        address: str,
        *,
        pool: ProcessPool,
        folder: Path,
        seed: int,
        cast: Mapping[str, int] = CAST,
        workspace: str = "chaos",
    ) -> None:
        self.address = address
        self.workspace = workspace
        self.seed = seed
        self.folder = folder
        self.kills: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        """The clients that ended by themselves."""
        self.entries: list[Entry] = []
        self.stored: list[Stored] = []
        self.verdict: Verdict | None = None
        self.drained = False
        self._pool = pool
        self._chance = random.Random(seed)
        self._slots = [Slot(f"{role}-{n}", role) for role, number in cast.items() for n in range(number)]
        self._tokens: dict[str, str] = {}
        self._servers = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = False

    @property
    def pids(self) -> dict[str, int]:
        """The running processes by client, for a fault that does something other than kill them."""
        living = {slot.name: slot.life for slot in self._slots if slot.life is not None}
        return {name: life.pid.result() for name, life in living.items() if not life.death.done()}

    async def begin(self) -> None:
        """Create the credentials, and begin."""
        await self._add_people()
        for slot in self._slots:
            if slot.role == "server":
                slot.port = free_port()
        self._servers = ",".join(f"http://127.0.0.1:{slot.port}" for slot in self._slots if slot.port)
        self._tasks = [asyncio.create_task(self._keep_alive(slot), name=slot.name) for slot in self._slots]

    async def kill(self, number: int, *, per_second: float = 12.0, within: float = 3_600.0) -> None:
        """Kill this many, one after the other at random."""
        until = time.monotonic() + within
        goal = self.kills.total() + number
        while self.kills.total() < goal and time.monotonic() < until:
            await asyncio.sleep(self._chance.expovariate(per_second))
            now = time.monotonic()
            ripe = [
                slot
                for slot in self._slots
                if slot.role in KILLED_ROLES
                and slot.life is not None
                and not slot.life.death.done()
                and (self._is_at_work(slot, now) or self._chance.random() < _EARLY_KILL_CHANCE)
            ]
            if ripe and self.kills.total() < goal:
                weights = [_WEIGHTS[slot.role] for slot in ripe]
                (slot,) = self._chance.choices(ripe, weights)
                assert slot.life is not None
                self._pool.kill(slot.life)
                await slot.life.death

    def _is_at_work(self, slot: Slot, now: float) -> bool:
        """Whether it has begun to do something; if that cannot be seen, whether it had the time to."""
        if slot.role in _OPENS_IN:
            return now - slot.born > _OPENS_IN[slot.role]
        return slot.journal is not None and slot.journal.stat().st_size > 0

    async def end(self) -> None:
        """Begin nothing new, finish everything, and check the store."""
        (self.folder / "stop").touch()
        until = time.monotonic() + _DRAIN
        askers = [task for task in self._tasks if "asker" in task.get_name()]
        await asyncio.wait(askers, timeout=_DRAIN) if askers else None
        await end_leases(self.address)
        while (left := await left_to_tell(self.address, self.workspace)) and time.monotonic() < until + 15:
            await asyncio.sleep(0.2)
            await end_leases(self.address)
        self.drained = all(task.done() for task in askers) and not left
        self._ending = True
        for slot in self._slots:
            if slot.life is not None and not slot.life.death.done():
                self._pool.kill(slot.life)
        await asyncio.gather(*self._tasks)
        self.entries = read(self.folder.glob("*.jsonl"))
        self.stored = await stored_questions(self.address, self.workspace)
        (self.folder / "stored.json").write_text(json.dumps([asdict(each) for each in self.stored]))
        self.verdict = check(self.entries, self.stored)

    async def _keep_alive(self, slot: Slot) -> None:
        """One life after the other, until all is over."""
        while not self._ending:
            journal = self.folder / f"{slot.name}.{slot.lives}.jsonl"
            journal.touch()
            slot.journal, name = journal, f"{slot.name}.{slot.lives}"
            told = Assignment(
                name=name,
                slot=slot.name,
                address=self.address,
                servers=self._servers,
                tokens=self._tokens,
                workspace=self.workspace,
                journal=str(journal),
                stop=str(self.folder / "stop"),
                seed=str(self.seed),
                next=slot.next,
                unfinished=tuple(sorted(slot.unfinished)),
                port=slot.port,
            )
            role = _FUNCTIONS.get(slot.role, slot.role)
            slot.life = await self._pool.begin(name, f"chaos.kills.roles:{role}", asdict(told))
            slot.born = time.monotonic()
            death = await slot.life.death
            slot.lives += 1
            self._record_exit(slot, journal, death)
            if death.signal == 0 and death.code == 0:
                return  # an asker that has finished everything
            if not death.killed:
                self.failures[slot.role] += 1
                await asyncio.sleep(0.1)

    def _record_exit(self, slot: Slot, journal: Path, death: ProcessExit) -> None:
        """Record what is unknown now, and remember what is not finished."""
        if death.killed and not self._ending:
            self.kills[slot.role] += 1
        entries = read([journal])
        with journal.open("a") as file:
            for entry in under_way(entries):
                ended = Entry(
                    time.monotonic_ns(), entry.process, "unknown", entry.op, entry.question, error=KILLED
                )
                file.write(json.dumps(asdict(ended)) + "\n")
        if "asker" in slot.role:
            for entry in entries:
                number = int(entry.question.rpartition("-")[2])
                slot.next = max(slot.next, number + 1)
                if entry.op == "ask":
                    slot.unfinished.add(number)
                elif entry.op == "read" and entry.type != "invoke":
                    slot.unfinished.discard(number)

    async def _add_people(self) -> None:
        """The people and agents, their credentials, and where they are notified."""
        async with open_backend(self.address) as backend:
            for person in (*PEOPLE, "reader"):
                role = Role.ADMIN if person == "reader" else Role.MEMBER
                await backend.directory.put_person(self.workspace, person, name=person, email=None, role=role)
                token = make_token(TokenKind.SESSION, self.workspace, secrets.token_bytes(32))
                session = {"digest": digest_of(token), "person": person, "how": "test"}
                await backend.directory.open_session(
                    self.workspace, uuid.uuid4().hex, lasts=timedelta(days=1), **session
                )
                self._tokens[person] = token
            for slot in self._slots:
                if slot.role == "remote_asker":
                    token = make_token(TokenKind.AGENT, self.workspace, secrets.token_bytes(32))
                    known = {"digest": digest_of(token), "agent": slot.name, "created_by": "chaos"}
                    await backend.directory.add_key(self.workspace, uuid.uuid4().hex, **known)
                    self._tokens[slot.name] = token
                elif slot.role == "remote_answerer":
                    self._tokens[slot.name] = self._tokens["reader"]
            for person in PEOPLE[:2]:
                await backend.outbox.put_address(
                    Address(workspace=self.workspace, recipient=person, channel="ledger", id="1", to=person)
                )


@asynccontextmanager
async def workload(
    address: str, *, folder: Path, seed: int, cast: Mapping[str, int] = CAST, workspace: str = "chaos"
) -> AsyncIterator[Workload]:
    """A group of clients that works while inside; at the end it finishes, and is checked."""
    async with open_process_pool() as pool:
        work = Workload(address, pool=pool, folder=folder, seed=seed, cast=cast, workspace=workspace)
        await work.begin()
        yield work
        await work.end()
