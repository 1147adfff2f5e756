"""Several servers, many agents that post, and policy changes in between: an acknowledged policy applies at once (P14)."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from handraise import Approval, open_desk
from handraise.desk_factory import open_backend
from handraise.errors import HandraiseError
from handraise.model.json_values import Json
from handraise.ports import Backend
from handraise.testing import promise
from support.command import Serving, serving
from support.database import own_database
from support.issuer import Issuer
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("an acknowledged policy decides every later question, on every server"),
    pytest.mark.timeout(1_800),
]

SERVERS = sized(gate=2, nightly=4)
AGENTS = sized(gate=4, nightly=8)
CHANGES = sized(gate=25, nightly=200)
KILLS = sized(gate=1, nightly=12)
_PAY = Approval.of("pay", {"amount": 1})


class Post(NamedTuple):
    """A question that was posted: when the call began, the version that decided, and whether it was approved."""

    began: float
    version: int
    approved: bool


def policy(version: int) -> Json:
    """A policy that approves in its odd versions and denies in its even ones."""
    then: Json = "allow" if version % 2 else {"deny": "not now"}
    return {"rules": [{"name": f"version {version}", "when": "tool == 'pay'", "then": then}]}


class Servers:
    """Servers on one database, each of which can be killed and is replaced then."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._open: list[tuple[ExitStack, Serving]] = [self._start() for _ in range(SERVERS)]

    def addresses(self) -> list[str]:
        """Where they listen now."""
        return [server.address for _, server in self._open]

    async def kill_one(self, place: int) -> None:
        """Kill a server in the middle of its work, and start another."""
        stack, server = self._open[place % SERVERS]
        server.send(signal.SIGKILL)
        stack.close()
        self._open[place % SERVERS] = await asyncio.to_thread(self._start)

    def close(self) -> None:
        """End them all."""
        for stack, _ in self._open:
            stack.close()

    def _start(self) -> tuple[ExitStack, Serving]:
        stack = ExitStack()
        return stack, stack.enter_context(serving(self._url, self._folder))


async def post_again_and_again(
    servers: Servers, key: str, number: int, posts: list[Post], over: asyncio.Event
) -> None:
    """One agent: it posts at one server after another, and starts again if a server is gone."""
    places: Iterator[int] = itertools.count(number)
    while not over.is_set():
        address = servers.addresses()[next(places) % SERVERS]
        with suppress(HandraiseError, ConnectionError, TimeoutError):
            async with asyncio.timeout(20), open_desk(address, credentials=key) as desk:
                for _ in range(20):
                    if over.is_set():
                        break
                    began = time.monotonic()
                    question = await desk.post("Pay?", form=_PAY)
                    assert question.ruling is not None
                    posts.append(Post(began, question.ruling.version, bool(question.decision)))


async def change_again_and_again(ports: Backend, acknowledged: dict[int, float], posts: list[Post]) -> None:
    """The operator: each version is stored directly, as `handraise policy apply` does, while agents post."""
    for version in range(2, CHANGES + 2):
        stored = await ports.policies.put("default", policy(version), by="operator", expected=version - 1)
        assert stored is not None
        acknowledged[version] = time.monotonic()
        wanted = len(posts) + AGENTS
        for _ in range(1_000):  # until a few questions were posted, unless servers are being replaced
            if len(posts) >= wanted:
                break
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Servers, Backend]]:
    async with own_database() as url, open_backend(url, connections=3) as ports:
        await ports.policies.put("default", policy(1), by="operator", expected=0)
        servers = await asyncio.to_thread(Servers, url, folder)
        try:
            yield servers, ports
        finally:
            await asyncio.to_thread(servers.close)


@promise("P14")
async def test_no_question_is_decided_by_a_policy_older_than_an_acknowledged_one(tmp_path: Path) -> None:
    posts: list[Post] = []
    acknowledged: dict[int, float] = {1: time.monotonic()}
    over = asyncio.Event()
    async with running(tmp_path) as (servers, ports):
        issuer = Issuer(ports.directory)
        keys = [await issuer.agent("default", f"agent {each}") for each in range(AGENTS)]
        agents: list[asyncio.Task[Any]] = [
            asyncio.create_task(post_again_and_again(servers, key, number, posts, over))
            for number, key in enumerate(keys)
        ]
        changing = asyncio.create_task(change_again_and_again(ports, acknowledged, posts))
        for kill in range(KILLS):
            await asyncio.sleep(0.5)
            await servers.kill_one(kill)
        await changing
        await asyncio.sleep(0.5)
        over.set()
        await asyncio.gather(*agents)
    used = {post.version for post in posts}
    print(
        f"\n  {len(posts)} questions at {SERVERS} servers, {len(acknowledged)} versions, {len(used)} of them decided one",
        end="",
    )
    assert len(used) > CHANGES / 3, "too few versions were used for this to show anything"
    for post in posts:
        latest = max(version for version, at in acknowledged.items() if at < post.began)
        assert post.version >= latest, f"decided by {post.version}, but {latest} had been acknowledged"
        assert post.approved is bool(post.version % 2)
