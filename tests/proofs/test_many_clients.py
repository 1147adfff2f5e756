"""A thousand event streams and a thousand long polls on one server: nobody misses anything, and memory stays flat.

CI takes a small sample. The whole, five minutes long:
`HANDRAISE_PROOF_CLIENTS=1000 HANDRAISE_PROOF_SECONDS=300 pytest -m proof -s tests/proofs/test_many_clients.py`.
Ten thousand clients are 5000 of each. Beyond two thousand there are more people and agents, fewer who hear of everything, and
more who hear of nothing: what concerns everybody costs by the square of their number.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import secrets
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from handraise import Event, Question, Responder, open_desk
from handraise.desk_factory import open_backend
from handraise.model.identities import Role
from handraise.ports import Directory
from handraise.wire.credentials import TokenKind, digest_of, make_token
from support.command import Serving, serving
from support.issuer import Issuer

CLIENTS = int(os.environ.get("HANDRAISE_PROOF_CLIENTS", "200"))
SECONDS = float(os.environ.get("HANDRAISE_PROOF_SECONDS", "20"))
RATE = float(os.environ.get("HANDRAISE_PROOF_RATE", "10"))
"""How many questions are settled, and asked, each second."""

ROOT = Path(__file__).parent.parent.parent
SCALE = max(1, CLIENTS // 1000)
AGENTS, QUIET, PEOPLE, ADMINS, REVOKED = 25 * SCALE, 5, 40 * SCALE, 6, 2
HEARTBEAT = min(15.0, SECONDS / 6)
FLAT = 1.04

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow("measures the memory and the time of a server with many clients"),
    pytest.mark.timeout(300 * SCALE + 2 * SECONDS),
]


@pytest.fixture
def many_files() -> None:
    """Every client is an open file, here as at the server."""
    needed = 3 * CLIENTS + 1_000  # a workspace has at most three quarters of them
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        assert hard == resource.RLIM_INFINITY or hard >= needed, f"this needs {needed} open files"
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@pytest.fixture
def server(postgres: str, tmp_path: Path, many_files: None) -> Iterator[Serving]:
    del many_files
    # All clients are at one address here, as behind a proxy.
    with serving(postgres, tmp_path, heartbeat=str(HEARTBEAT), trusted_proxies="127.0.0.1") as server:
        yield server


async def test_a_thousand_streams_and_a_thousand_long_polls_miss_nothing_and_cost_no_more_with_time(
    server: Serving, postgres: str, workspace: str
) -> None:
    async with open_backend(postgres) as backend:
        cast = await Cast.gathered(backend.directory, workspace)
        usage = Usage(server.process.pid)
        crowd = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.proofs.crowd"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**30,
            cwd=ROOT,
        )
        try:
            assert crowd.stdin is not None
            assert crowd.stdout is not None
            work = {"address": server.address, "seconds": SECONDS, "rate": RATE, "lost_a_second": 0.005}
            crowd.stdin.write(json.dumps({**work, **cast.work()}).encode() + b"\n")
            assert await crowd.stdout.readline() == b"ready\n"
            sampling = asyncio.create_task(usage.sample())
            await asyncio.sleep(SECONDS / 2)
            for key in cast.to_be_revoked:
                await backend.directory.revoke_key(workspace, key, by="test")
            assert await crowd.stdout.readline() == b"over\n"
            sampling.cancel()
            told = json.loads(await crowd.stdout.readline())
        finally:
            if crowd.returncode is None:
                crowd.kill()
            await crowd.wait()
    async with open_desk(postgres, workspace=workspace) as desk:
        events: list[Event] = []
        while page := await desk.feed(after=events[-1].cursor if events else None):
            events += page
        questions = {name: await desk.get(name) for name in {event.question_id for event in events}}
    report(told, usage)
    check_nobody_missed_anything(told, cast, events, questions)
    check_signs_of_life(told)
    middle, last = usage.medians()
    assert last < middle * FLAT, f"memory grew from {middle:.1f} to {last:.1f} MB"


def check_nobody_missed_anything(
    told: dict[str, Any], cast: Cast, events: Sequence[Event], questions: dict[str, Question]
) -> None:
    assert told["wrong"] == []
    assert told["told"] == told["questions"] == len(questions)
    assert len(events) == 2 * len(questions)
    assert all(question.outcome is not None for question in questions.values())
    for who, kinds in told["seen"].items():
        wanted = [event.cursor for event in events if cast.concerns(who, questions[event.question_id])]
        for seen, _ in kinds:
            if who.startswith("revoked"):
                assert seen == wanted[: len(seen)]
                assert 0 < len(seen) < len(wanted)
            else:
                assert len(seen) == len(wanted), who
                assert seen == wanted, who


def check_signs_of_life(told: dict[str, Any]) -> None:
    """Who has nothing to hear hears at intervals that somebody is there; who may hear no more is sent away."""
    for who, fewest in told["signs"].items():
        if who.startswith("quiet"):
            assert fewest >= SECONDS / HEARTBEAT / 2, f"{who}: {fewest} signs of life in {SECONDS} s"
    for who, statuses in told["statuses"].items():
        assert set(statuses) == ({401} if who.startswith("revoked") else {0}), (who, statuses)


@dataclass
class Cast:
    """Who there is: agents that ask, agents that never do, people, administrators, and agents to be revoked."""

    listeners: list[tuple[str, str]] = field(default_factory=list)
    askers: list[tuple[str, str]] = field(default_factory=list)
    audiences: dict[str, tuple[list[str], list[tuple[str, str]]]] = field(default_factory=dict)
    to_be_revoked: list[str] = field(default_factory=list)

    @classmethod
    async def gathered(cls, directory: Directory, workspace: str) -> Cast:
        cast, issuer = cls(), Issuer(directory, role=Role.MEMBER)
        people = [
            Responder(f"person {n}", frozenset({"ops"} if n < PEOPLE // 2 else ())) for n in range(PEOPLE)
        ]
        tokens = {each.id: await issuer.person(workspace, each) for each in people}
        agents = [(f"agent {n}", await issuer.agent(workspace, f"agent {n}")) for n in range(AGENTS)]
        quiet = [(f"quiet {n}", await issuer.agent(workspace, f"quiet {n}")) for n in range(QUIET)]
        admins = [
            (f"admin {n}", await issuer.person(workspace, f"admin {n}", role=Role.ADMIN))
            for n in range(ADMINS)
        ]
        everybody, ops = list(tokens.items()), [(each.id, tokens[each.id]) for each in people if each.groups]
        cast.audiences["anyone"] = ([], everybody)
        cast.audiences["ops"] = (["group:ops"], ops)
        cast.audiences |= {name: ([name], [(name, token)]) for name, token in everybody}
        for n in range(REVOKED):
            token = make_token(TokenKind.AGENT, workspace, secrets.token_bytes(32))
            await directory.add_key(
                workspace, f"key {n}", digest=digest_of(token), agent=f"agent {n}", created_by="test"
            )
            cast.to_be_revoked.append(f"key {n}")
            cast.listeners.append((f"revoked {n}", token))
        overseers = 0.30 / SCALE**2
        shares = [(agents, 0.25), (quiet, 0.35 - overseers), (everybody, 0.40), (admins, overseers)]
        for kind, share in shares:
            cast.listeners += [kind[n % len(kind)] for n in range(round(share * CLIENTS))]
        audiences = ["anyone", "ops", *(name for name, _ in everybody[:: max(2, 10 // SCALE)])]
        for n in range(CLIENTS):
            cast.askers.append((agents[n % AGENTS][1], audiences[n % len(audiences)]))
        return cast

    def work(self) -> dict[str, Any]:
        return {"listeners": self.listeners, "askers": self.askers, "audiences": self.audiences}

    def concerns(self, who: str, question: Question) -> bool:
        """Whether somebody is to hear of a question."""
        kind, _, number = who.partition(" ")
        match kind:
            case "admin":
                return True
            case "agent" | "revoked":
                return question.asker == f"agent {number}"
            case "person":
                names = {who, "group:ops"} if int(number) < PEOPLE // 2 else {who}
                return not question.recipients or bool(names & set(question.recipients))
            case _:
                return False


class Usage:
    """What a process takes of memory and of the processor, second by second."""

    def __init__(self, pid: int) -> None:
        self.megabytes: list[float] = []
        self.processor: list[float] = []
        self._folder = Path(f"/proc/{pid}")

    async def sample(self) -> None:
        before, at = self._used(), time.monotonic()
        while True:
            await asyncio.sleep(1.0)
            pages = int((self._folder / "statm").read_text().split()[1])
            self.megabytes.append(pages * resource.getpagesize() / 2**20)
            used, now = self._used(), time.monotonic()
            self.processor.append((used - before) / (now - at))
            before, at = used, now

    def medians(self) -> tuple[float, float]:
        """The memory of the middle third of the time, and of the last."""
        third = len(self.megabytes) // 3
        return (
            statistics.median(self.megabytes[third : 2 * third]),
            statistics.median(self.megabytes[2 * third :]),
        )

    def _used(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(told: dict[str, Any], usage: Usage) -> None:
    middle, last = usage.medians()
    third = len(usage.megabytes) // 3
    streams = sum(count for kinds in told["seen"].values() for _, count in kinds)
    print(
        f"\n  {streams} streams and {CLIENTS} long polls for {told['took']:.0f} s: {told['questions']} questions, "
        f"{told['delivered']} events delivered ({told['delivered'] / told['took']:.0f} a second), "
        f"{told['polls']} polls, {told['connects'] - streams} streams broken and resumed"
        f"\n  from an answer's acknowledgement to its event, ms: {told['delivery_latency']}"
        f"\n  from an answer's acknowledgement to the end of its long poll, ms: {told['long_poll_latency']}"
        f"\n  server's memory, MB: {usage.megabytes[0]:.1f} at first, {middle:.1f} in the middle third, {last:.1f} in the last, "
        f"{max(usage.megabytes):.1f} at most; of one processor: {mean(usage.processor[:third]):.0%}, "
        f"{mean(usage.processor[third : 2 * third]):.0%}, {mean(usage.processor[2 * third :]):.0%}",
        end="",
    )


def mean(numbers: Sequence[float]) -> float:
    return statistics.fmean(numbers) if numbers else 0.0
