"""What it saves to send the requests of one workspace to the same few servers: a simulation, printed as the table of docs/explanation/scale.md.

    python -m benchmarks.routing

A proxy picks a server for each client: any of them; by the client's workspace; or by its workspace, but never a server that
has half as many clients again as the mean, which HAProxy calls `hash-balance-factor 150`. A server hears of every workspace
that has a client there. Workspaces are as different as words are: the second largest has half as many clients as the
largest, the third a third, and so on. Questions are asked and answered in proportion.

    python -m benchmarks.routing --connections

measures instead how many connections one server keeps to each of four databases, while only one of them has work.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

import asyncpg

from handraise import Desk, open_desk
from handraise.backends.postgres import pool
from handraise.backends.shards import enlist
from handraise.server import ServerSettings, open_server
from support.database import own_database

Routing: TypeAlias = Literal["any server", "by workspace", "by workspace, bounded"]
ROUTINGS: tuple[Routing, ...] = ("any server", "by workspace", "by workspace, bounded")

PAIRS = 5_787
"""Questions a second that are asked and answered: 100 million a day, at the peak."""
HINTS, FEED_HINTS = 3, 2
"""Of each: about the feed when it is asked and when it is answered, and about the answer. Those of a batch are fewer."""
HINT = 43e-6
"""Seconds of a core for a hint: `python -m benchmarks.buses --listeners ''`."""
CLIENTS = 20
"""Of a workspace, in the mean: processes with agents, and people's browsers."""
MOST_SUBJECTS = 2_000
"""A server that hears of more workspaces takes all hints."""
POINTS = 160
"""Of each server on the ring, as in nginx."""
BOUND = 1.5


class Ring:
    """Consistent hashing: a name belongs to the next server on the ring, and then to the one after it."""

    def __init__(self, servers: Sequence[int]) -> None:
        self._points = sorted(
            (_place(f"server {server} {point}"), server) for server in servers for point in range(POINTS)
        )

    def servers_of(self, name: str) -> Iterator[int]:
        """All servers, in the order in which they are tried for a name."""
        start, seen = bisect(self._points, (_place(name), -1)), set[int]()
        for n in range(len(self._points)):
            server = self._points[(start + n) % len(self._points)][1]
            if server not in seen:
                seen.add(server)
                yield server


@lru_cache(maxsize=100_000)
def _place(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


@dataclass(frozen=True)
class Scene:
    """Some servers and workspaces, and how a proxy picks a server."""

    servers: int
    workspaces: int
    routing: Routing

    @cached_property
    def clients(self) -> list[int]:
        """How many clients each workspace has; the largest is first."""
        largest = CLIENTS * self.workspaces / sum(1 / rank for rank in range(1, self.workspaces + 1))
        return [max(1, round(largest / rank)) for rank in range(1, self.workspaces + 1)]

    @cached_property
    def placed(self) -> list[dict[int, float]]:
        """For each workspace, how many of its clients are at each server."""
        return self.placed_on(range(self.servers))

    def placed_on(self, servers: Sequence[int]) -> list[dict[int, float]]:
        """The same if only these servers are there."""
        ring, load = Ring(servers), dict.fromkeys(servers, 0.0)
        most = BOUND * sum(self.clients) / len(servers)
        found: list[dict[int, float]] = []
        for workspace, clients in enumerate(self.clients):
            left, places = float(clients), dict[int, float]()
            for server in ring.servers_of(f"workspace {workspace}"):
                fit = left if self.routing == "by workspace" else min(left, most - load[server])
                if fit > 0:
                    places[server] = fit
                    load[server] += fit
                    left -= fit
                if left <= 0:
                    break
            found.append(places)
        return found

    @cached_property
    def _places(self) -> Sequence[float]:
        """At how many servers each workspace has a client."""
        if self.routing == "any server":
            return [self.servers * (1 - (1 - 1 / self.servers) ** clients) for clients in self.clients]
        return [len(places) for places in self.placed]

    @property
    def heard_of(self) -> float:
        """Of how many workspaces a server hears, in the mean."""
        return sum(self._places) / self.servers

    @property
    def hints(self) -> float:
        """Hints a second at each server, in the mean."""
        shared = FEED_HINTS * PAIRS / self.servers
        if self.heard_of > MOST_SUBJECTS:
            return HINTS * PAIRS + shared
        heard = sum(clients * places for clients, places in zip(self.clients, self._places, strict=True))
        share = heard / self.servers / sum(self.clients)
        return HINTS * PAIRS * share + shared

    @property
    def busiest(self) -> float:
        """The clients of the busiest server, divided by the mean."""
        if self.routing == "any server":
            return 1.0
        load = [0.0] * self.servers
        for places in self.placed:
            for server, clients in places.items():
                load[server] += clients
        return max(load) * self.servers / sum(load)

    @property
    def moved(self) -> float:
        """The share of clients at the other servers that go elsewhere when one server dies."""
        if self.routing == "any server":
            return 0.0
        after = self.placed_on(range(1, self.servers))
        stayed = kept = 0.0
        for old, new in zip(self.placed, after, strict=True):
            for server, clients in old.items():
                if server != 0:
                    kept += clients
                    stayed += min(clients, new.get(server, 0.0))
        return 1 - stayed / kept


def rows(workspaces: Sequence[int] = (256, 10_000), servers: Sequence[int] = (2, 8, 32)) -> Iterator[str]:
    """The lines of the table."""
    yield (
        "| workspaces | servers | a client goes to | workspaces a server hears of | hints a second there | "
        "cores for them | busiest server ÷ mean | others that move when a server dies |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for many in workspaces:
        for count in servers:
            for routing in ROUTINGS:
                scene = Scene(count, many, routing)
                yield (
                    f"| {many:,} | {count} | {routing} | {scene.heard_of:,.0f} | {scene.hints:,.0f} | "
                    f"{scene.hints * HINT:.2f} | {scene.busiest:.2f} | {scene.moved:.0%} |"
                )


async def connections(bus: str | None, seconds: float) -> Sequence[tuple[str, Sequence[int]]]:
    """How many connections a server keeps to each of four databases: idle, and while one of them has work."""
    found = []
    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(own_database()) for _ in range(4)]
        for address in addresses:
            async with open_desk(address):
                pass  # makes the tables
            await enlist(addresses[0], address)
        settings = ServerSettings(
            url=addresses[0].replace("postgresql:", "postgresql+shards:", 1), bus=bus, check_recipients=False
        )
        ctx = await stack.enter_async_context(open_server(settings))

        async def count() -> Sequence[int]:
            await asyncio.sleep(seconds)
            spy = await asyncpg.connect(addresses[0])
            try:
                return [
                    await spy.fetchval(
                        "select count(*) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()",
                        address.rpartition("/")[2],
                    )
                    for address in addresses
                ]
            finally:
                await spy.close()

        found.append(("idle", await count()))
        desk = ctx.desk.scoped("one workspace")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_keep_asking(desk)) for _ in range(64)]
            found.append(("64 callers in one workspace", await count()))
            for task in tasks:
                task.cancel()
    return found


async def _keep_asking(desk: Desk) -> None:
    while True:
        await desk.answer((await desk.post("Which?")).id, "a", by="ana")


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or measure connections."""
    parser = argparse.ArgumentParser(description="What it saves to route a workspace to few servers.")
    parser.add_argument(
        "--connections", action="store_true", help="count those of a server to four databases"
    )
    options = parser.parse_args(given)
    if not options.connections:
        print("\n".join(rows()))
        return
    pool._KEPT_IDLE = 5.0  # noqa: SLF001 -- five minutes are long; what is in use is the same
    for name, bus in (
        ("NOTIFY", None),
        ("NATS", os.environ.get("HANDRAISE_TEST_NATS", "nats://127.0.0.1:4222") + "/handraise-bench"),
    ):
        for what, counts in asyncio.run(connections(bus, 15)):
            print(f"{name}, {what}: {counts}", flush=True)


if __name__ == "__main__":
    main()
