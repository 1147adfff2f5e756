"""Connections cut after COMMIT was sent and before its reply came: a retry must find out what happened."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from pathlib import Path

from chaos.faults.harness import WORKSPACE, Survived, desks_on, judged, under_load
from chaos.faults.load import Load
from chaos.faults.tcp_proxy import Fate, Proxy, pass_all, proxy_to
from handraise import Desk, open_desk
from support.issuer import issuer_at
from support.server_process import free_clock, server_process

SHARE = 0.15
"""How many commits are cut: so few that most calls succeed, else the run would not count."""
_AMBIGUOUS = (Fate.REPLY_LOST, Fate.RACED)


async def cut_commits(address: str, times: int, *, confined: bool | None, seed: int = 7) -> Survived:
    """Cut this many connections after COMMIT under load, and some before it."""
    async with proxy_to(address) as proxy, desks_on(proxy.address, confined=confined) as desks:
        return await _cut_under_load(address, proxy, desks, times, seed)


@asynccontextmanager
async def desks_behind_server(
    address: str, folder: Path, number: int = 2
) -> AsyncIterator[tuple[Proxy, list[Desk]]]:
    """Desks at a server in its own process, and the proxy between that server and its store."""
    free_clock(folder / "clock")
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxy_to(address))
        # In a thread: the server starts through our proxy.
        serving = server_process(
            proxy.address, folder / "clock", rate_limit="1000000/second", pending_quota="0"
        )
        url = await asyncio.to_thread(serving.__enter__)
        stack.push_async_callback(asyncio.to_thread, serving.__exit__, None, None, None)
        issuing = issuer_at(address)
        issuer = await asyncio.to_thread(issuing.__enter__)
        stack.push_async_callback(asyncio.to_thread, issuing.__exit__, None, None, None)
        yield (
            proxy,
            [
                await stack.enter_async_context(
                    open_desk(url, credentials=issuer, workspace=WORKSPACE, asker="bot")
                )
                for _ in range(number)
            ],
        )


async def cut_commits_behind_server(address: str, times: int, folder: Path, *, seed: int = 7) -> Survived:
    """The same between a server and its store, where the client itself retries what the server does not know.

    Nobody whose own answer counts may be told that somebody else was faster.
    """
    async with desks_behind_server(address, folder) as (proxy, desks):
        return await _cut_under_load(address, proxy, desks, times, seed, most=0)


async def _cut_under_load(
    address: str, proxy: Proxy, desks: Sequence[Desk], times: int, seed: int, *, most: float = inf
) -> Survived:
    chance, began, enough = random.Random(seed), time.monotonic(), asyncio.Event()

    def decide(sql: str) -> Fate:
        del sql
        if sum(proxy.fates[each] for each in _AMBIGUOUS) >= times:
            enough.set()
            return Fate.PASSED
        if chance.random() > SHARE:
            return Fate.PASSED
        return chance.choices((*_AMBIGUOUS, Fate.UNSENT), (6, 3, 1))[0]

    proxy.decide = decide
    async with under_load(desks, seed=seed) as load, asyncio.timeout(60 + times):
        await enough.wait()
    proxy.decide = pass_all
    lost, raced, unsent = (proxy.fates[each] for each in (*_AMBIGUOUS, Fate.UNSENT))
    figures = f"cut {lost + raced} times after COMMIT ({lost} before the reply, {raced} at once), {unsent} before it"
    return await judged(address, load.entries, figures, began=began, most=most)


async def cut_everywhere(address: str, at_most: int, *, confined: bool | None, seed: int = 7) -> Survived:
    """Cut once at every message of asking, answering and waiting, up and down, until there are no more."""
    began, load, cut = time.monotonic(), Load(seed=seed), Counter[str]()
    async with (
        proxy_to(address) as proxy,
        desks_on(proxy.address, confined=confined) as (asking, answering),
    ):
        for way in ("up", "down"):
            for number in range(1, at_most + 1):
                process = f"{way}-{number}"
                proxy.left[way] = number
                question = await load.ask(process, asking, process)
                await load.move(process, answering, question, "ann")
                await load.wait(process, asking, question)
                await load.read(process, answering, question)
                if proxy.left.pop(way, None) is not None:
                    break
                cut[way] += 1
    figures = f"cut at {cut['up']} messages to PostgreSQL and {cut['down']} from it"
    few = [f"only {cut[way]} messages went {way}" for way in ("up", "down") if cut[way] < 10]
    return await judged(address, load.entries, figures, began=began, also=few)


def fates(proxy: Proxy, planned: Sequence[Fate]) -> None:
    """Apply these fates to the next commits, one after the other; later ones pass."""
    left = list(planned)
    proxy.decide = lambda _: left.pop(0) if left else Fate.PASSED
