"""Administrators stop and resume 200 times (in the gate fewer) while agents ask, are approved and execute through several
servers, some of which are killed: after an acknowledged stop, nothing that it covers is given out.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from handraise import Approval, Desk, open_desk
from handraise.errors import HandraiseError, Stopped
from handraise.testing.promises import promise
from support.free_port import free_port
from support.issuer import ThreadIssuer, issuer_at
from support.server_process import free_clock, start_server
from tests.conftest import own_database
from tests.tiers import SEED, sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("a stop counts on every server at once"),
    pytest.mark.timeout(900),
]

SERVERS, AGENTS = sized(gate=2, nightly=4), sized(gate=4, nightly=8)
STOPS, KILLS = sized(gate=10, nightly=200), sized(gate=1, nightly=40)
TOOLS = ("pay", "ship", "look")
PLACE = "stops"

EVERYTHING = {"posted", "approved", "consumed"}

GIVEN_OUT = """
    select count(*)
    from handraise.events as e
    join handraise.questions as q on q.workspace = e.workspace and q.id = e.question_id
    where e.workspace = $1
        and (
            e.kind in ('asked', 'consumed')
            or e.kind = 'answered' and e.data -> 'value' ->> 'decision' = 'approve'
        )
        and ($2::text is null or q.asker = $2)
        and ($3::text is null or q.form -> 'action' ->> 'tool' = $3)
"""
"""How often something that a stop covers was given out so far."""


@dataclass(frozen=True, slots=True)
class Success:
    """Something that an agent or a person got: when they sent the request, and when they had it."""

    what: str
    agent: str
    tool: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A stop from its acknowledgement until somebody began to end it."""

    scope: dict[str, str]
    began: float
    ended: float

    def covers(self, success: Success) -> bool:
        """Whether this should not have happened."""
        named = {"agent": success.agent, "tool": success.tool}
        inside = self.began < success.began and success.ended < self.ended
        return inside and all(named[name] == value for name, value in self.scope.items())


@dataclass
class Servers:
    """Servers on one store, each at its own port, also after it was killed."""

    store: str
    clock: Path
    ports: list[int] = field(default_factory=lambda: [free_port() for _ in range(SERVERS)])
    processes: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    killed: int = 0

    @property
    def addresses(self) -> list[str]:
        """Where they are."""
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def start(self, port: int) -> None:
        """Start one, or start it again."""
        self.processes[port] = start_server(self.store, self.clock, port, rate_limit="1000000/second")

    def started(self, port: int) -> None:
        """Wait until one listens."""
        stdout = self.processes[port].stdout
        assert stdout is not None
        assert stdout.readline().strip() == str(port)

    async def kill(self, port: int) -> None:
        """Kill one, and start it again."""
        _end(self.processes[port])
        self.killed += 1
        self.start(port)
        await asyncio.to_thread(self.started, port)


@contextmanager
def servers_on(store: str, clock: Path) -> Iterator[Servers]:
    """The servers, while this lasts."""
    servers = Servers(store, clock)
    try:
        for port in servers.ports:
            servers.start(port)
        for port in servers.ports:
            servers.started(port)
        yield servers
    finally:
        for process in servers.processes.values():
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(timeout=30)
    assert process.stdout is not None
    process.stdout.close()


@promise("P18", "P11")
def test_nothing_that_a_stop_covers_is_given_out_after_it_was_acknowledged(tmp_path: Path) -> None:
    free_clock(tmp_path / "clock")
    with (
        own_database() as store,
        servers_on(store, tmp_path / "clock") as servers,
        issuer_at(store) as issuer,
    ):
        asyncio.run(asyncio.wait_for(_run(store, servers, issuer), 800))


async def _run(store: str, servers: Servers, issuer: ThreadIssuer) -> None:
    chance, over = random.Random(SEED), asyncio.Event()
    successes: list[Success] = []
    refusals: Counter[str] = Counter()
    bearer = {"authorization": f"Bearer {await issuer.person(PLACE, 'olga')}"}
    administrator = httpx2.AsyncClient(timeout=30, headers=bearer)
    connection = await asyncpg.connect(store)
    try:
        async with administrator, asyncio.TaskGroup() as group:
            for number in range(AGENTS):
                rotated = servers.addresses[number % SERVERS :] + servers.addresses[: number % SERVERS]
                asking = _ask(",".join(rotated), issuer, f"agent-{number}", over, successes, refusals)
                group.create_task(asking)
            while len({success.agent for success in successes}) < AGENTS:
                await asyncio.sleep(0.01)
            intervals: list[Any] = []
            kills: list[Any] = []
            for number in range(10 * STOPS):
                got = {success.what for success in successes}
                if number >= STOPS and refusals["posted"] and got == EVERYTHING:
                    break  # otherwise chance decides too much: more stops follow
                if (
                    number % max(1, STOPS // (KILLS + 1)) == 1
                    and len(kills) < KILLS
                    and all(map(_done, kills))
                ):
                    kills.append(group.create_task(servers.kill(chance.choice(servers.ports))))
                intervals.append(await _stop_and_resume(servers, administrator, connection, chance))
            over.set()
    finally:
        await connection.close()
    wrong = [(stop, each) for stop in intervals for each in successes if stop.covers(each)]
    assert wrong == []
    given = Counter(success.what for success in successes)
    print(
        f"\n  {len(intervals)} stops, {servers.killed} kills; given out {dict(given)}, refused {dict(refusals)}",
        end="",
    )
    assert servers.killed >= min(1, KILLS)
    assert given.keys() == EVERYTHING
    assert refusals["posted"] > 0, "nobody met a stop, so nothing was proven"


def _done(task: asyncio.Task[None]) -> bool:
    return task.done()


async def _stop_and_resume(
    servers: Servers, client: httpx2.AsyncClient, connection: Any, chance: random.Random
) -> Interval:
    """Stop something, see that nothing of it is given out any more, and resume it."""
    scope: dict[str, str] = {}
    if chance.random() < 0.5:
        scope["agent"] = f"agent-{chance.randrange(AGENTS)}"
    if chance.random() < 0.5:
        scope["tool"] = chance.choice(TOOLS)
    made = await _call(servers, client, chance, "POST", "/v1/stops", json={**scope, "why": "a proof"})
    assert made.status_code == 201, made.text
    began, covered = time.monotonic(), (PLACE, scope.get("agent"), scope.get("tool"))
    before = await connection.fetchval(GIVEN_OUT, *covered)
    await asyncio.sleep(chance.random() * 0.06)
    ended, after = time.monotonic(), await connection.fetchval(GIVEN_OUT, *covered)
    assert before == after, f"{after - before} were given out after the stop {scope} was acknowledged"
    # A server that was killed may have ended it before.
    done = await _call(servers, client, chance, "DELETE", f"/v1/stops/{made.json()['id']}")
    assert done.status_code in (200, 404), done.text
    await asyncio.sleep(chance.random() * 0.06)
    return Interval(scope, began, ended)


async def _call(
    servers: Servers,
    client: httpx2.AsyncClient,
    chance: random.Random,
    method: str,
    path: str,
    **options: Any,
) -> httpx2.Response:
    """The first response from any server."""
    while True:
        try:
            response = await client.request(method, chance.choice(servers.addresses) + path, **options)
        except httpx2.HTTPError:
            await asyncio.sleep(0.01)
            continue
        if response.status_code < 500:
            return response


async def _ask(
    address: str,
    issuer: ThreadIssuer,
    agent: str,
    over: asyncio.Event,
    successes: list[Success],
    refusals: Counter[str],
) -> None:
    """Ask for an approval, give it and execute it, again and again, also what was stopped meanwhile."""
    chance = random.Random(f"{SEED} {agent}")

    async def tried(what: str, tool: str, work: Any) -> Any:
        for _ in range(50):
            began = time.monotonic()
            try:
                done = await work()
            except Stopped:
                refusals[what] += 1
                await asyncio.sleep(0.01)
            except HandraiseError:  # a server was killed, and whether it was done is unknown
                refusals["unknown"] += 1
                return None
            else:
                successes.append(Success(what, agent, tool, began, time.monotonic()))
                return done
        return None

    async with open_desk(address, workspace=PLACE, asker=agent, credentials=issuer) as desk:
        while not over.is_set():
            tool = chance.choice(TOOLS)
            await _one(desk, tool, tried)


async def _one(desk: Desk, tool: str, tried: Any) -> None:
    form = Approval.of(tool, {"amount": 1})
    question = await tried("posted", tool, lambda: desk.post("May I?", form=form))
    if question is None:
        return
    if await tried("approved", tool, lambda: desk.answer(question.id, "approve", by="ana")):
        await tried("consumed", tool, lambda: desk.consume_approval(question.id))
