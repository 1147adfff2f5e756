"""PostgreSQL killed under load: restarted, or replaced by its promoted standby."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from chaos.faults.harness import WORKSPACE, Survived, desks_on, judged, under_load
from chaos.faults.tcp_proxy import proxy_to
from chaos.history_checker import Verdict, check
from chaos.servers import Server, own_servers
from chaos.stored_state import stored_questions
from support.database import fetch_value

SAFE = {"max_wal_size": "256MB", "checkpoint_timeout": "30s", "wal_level": "replica", "max_wal_senders": "4"}


async def crashes(times: int, *, seed: int = 7) -> Survived:
    """Kill PostgreSQL this often under load, each time at another moment, and restart it."""
    chance, began, slowest = random.Random(seed), time.monotonic(), 0.0
    with own_servers(1, SAFE) as (server,):
        async with desks_on(server.address) as desks, under_load(desks, seed=seed) as load:
            for _ in range(times):
                await load.busy(60)
                await asyncio.sleep(chance.uniform(0.0, 0.15))
                at = time.monotonic()
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                slowest = max(slowest, time.monotonic() - at)
        figures = f"killed {times} times, started again within {slowest:.2f} s"
        # Otherwise nobody was connected when it died.
        return await judged(server.address, load.entries, figures, began=began, least=times // 2)


@asynccontextmanager
async def with_standby(*, synchronous: bool) -> AsyncIterator[tuple[Server, Server]]:
    """A primary and its standby, both running."""
    with own_servers(1, SAFE) as (primary,):
        standby = Server(primary.binaries, primary.folder.parent / "standby", primary.user, settings=SAFE)
        await asyncio.to_thread(copy, primary, standby)
        try:
            await asyncio.to_thread(standby.start)
            if synchronous:
                await fetch_value(primary.address, "alter system set synchronous_standby_names = '*'")
                await fetch_value(primary.address, "select pg_reload_conf()")
            await _attached(primary.address, "sync" if synchronous else "async")
            yield primary, standby
        finally:
            standby.kill()


def copy(primary: Server, standby: Server) -> None:
    """Make a standby's folder from its primary, which it will follow."""
    parts = urlsplit(primary.address)
    subprocess.run(
        [primary.binaries / "pg_basebackup", "-D", standby.folder, "-h", primary.host, "-p", str(parts.port),
         "-U", "postgres", "-R", "--no-sync", "-c", "fast", "-X", "stream"],
        check=True, user=primary.user, cwd="/", capture_output=True,
    )  # fmt: skip


@dataclass(frozen=True)
class FailOver:
    """What came of one: also what the desk had said an answer survives."""

    verdict: Verdict
    recovery: float
    said: str


async def fail_over(*, synchronous: bool, seed: int) -> FailOver:
    """Kill a primary under load and promote its standby."""
    async with with_standby(synchronous=synchronous) as (primary, standby):
        hosts = f"{primary.host}:{primary.port},{standby.host}:{standby.port}"
        address = f"postgresql://postgres@{hosts}/handraise?target_session_attrs=primary"
        async with desks_on(address) as desks:
            said = (await desks[0].durability()).survives
            async with under_load(desks, seed=seed) as load:
                await load.busy()
                await asyncio.sleep(random.Random(seed).random())
                at = time.monotonic()
                await asyncio.to_thread(primary.kill)
                await asyncio.to_thread(promote, standby)
                recovery = time.monotonic() - at
        return FailOver(
            check(load.entries, await stored_questions(standby.address, WORKSPACE)), recovery, said
        )


def promote(standby: Server) -> None:
    """Make a standby the primary, and no longer wait for another standby."""
    subprocess.run(
        [standby.binaries / "pg_ctl", "promote", "-D", standby.folder, "-w"],
        check=True, user=standby.user, cwd="/", capture_output=True,
    )  # fmt: skip


async def fail_overs(times: int, *, seed: int = 7) -> Survived:
    """Fail over this often to a synchronous standby, each on its own servers: it has everything acknowledged."""
    runs = [await fail_over(synchronous=True, seed=seed + number) for number in range(times)]
    questions = sum(each.verdict.questions for each in runs)
    slowest = max(each.recovery for each in runs)
    said = [f"it said: {each.said}" for each in runs if "and the loss of the primary" not in each.said]
    return Survived(
        f"promoted {times} times within {slowest:.2f} s, {questions:,} questions",
        [problem for each in runs for problem in each.verdict.problems] + said,
    )


async def lagging_fail_overs(times: int, *, seed: int = 7) -> Survived:
    """The same with a standby that lags behind: if it may lose something, the desk does not say that it cannot."""
    runs = [await fail_over(synchronous=False, seed=seed + number) for number in range(times)]
    lost = sum(bool(each.verdict.violations) for each in runs)
    said = [f"it said: {each.said}" for each in runs if "not the loss of its disk" not in each.said]
    return Survived(f"promoted {times} times, something lost in {lost}; it said: {runs[0].said}", said)


async def led_to_standby(times: int, *, seed: int = 7) -> Survived:
    """So often the address leads to a standby that lags behind, and then to the primary again, whose connections nobody cuts.

    Nothing is read from the standby, and desks come back by themselves.
    """
    began = time.monotonic()
    async with (
        with_standby(synchronous=False) as (primary, standby),
        proxy_to(primary.address) as proxy,
        desks_on(proxy.address) as desks,
    ):
        await _has_schema(standby.address)
        await fetch_value(standby.address, "select pg_wal_replay_pause()")
        async with under_load(desks, seed=seed) as load:
            for _ in range(times):
                await load.busy()
                proxy.port = standby.port
                proxy.cut_all()
                await load.refused(40)
                proxy.port = primary.port
                await load.busy()
        figures = f"led to a standby {times} times"
        return await judged(primary.address, load.entries, figures, began=began, least=10 * times)


async def _has_schema(address: str) -> None:
    """Wait until a standby has the tables of its primary."""
    async with asyncio.timeout(30):
        while await fetch_value(address, "select to_regclass('handraise.events')") is None:
            await asyncio.sleep(0.05)


async def _attached(address: str, state: str) -> None:
    """Wait until a standby follows in this way."""
    async with asyncio.timeout(30):
        while await fetch_value(address, "select sync_state from pg_stat_replication") != state:
            await asyncio.sleep(0.05)
