"""A server with very many idle clients dies: how long until all of them have a stream again? A simulation, not a measurement.

Every client that was connected to it tries the servers that are left, with the pauses of the Python client. A server is one
core with one queue; each attempt costs it `open_ms`, each poll of a client without a stream `poll_ms`. A client that gets no
answer in time gives up and tries again, but the server has that work to do all the same: that is how a crowd of clients can
keep a server busy with answers that nobody waits for. A server that has too much to do refuses what comes, which is cheap.

    python -m benchmarks.failover --clients 30000 --servers 10 --open-ms 1.5

No benchmark measures `open_ms` and `poll_ms` by themselves. `python -m benchmarks.http` says what a pair of requests costs.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Event: TypeAlias = Literal["open", "poll"]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Who is there, what their requests cost, and how clients behave. Times are in seconds."""

    clients: int = 30_000
    servers: int = 10
    """How many servers are left. Each client goes to one of them."""
    open_cost: float = 0.0015
    poll_cost: float = 0.001
    pause: float = 0.05
    longest_pause: float = 2.0
    open_patience: float = 45.0
    """How long a client waits for a stream."""
    poll_every: float = 5.0
    poll_patience: float = 25.0
    most_busy: int | None = 2_000
    """A server that works on so many requests refuses what comes, and says when to come again."""
    refuse_cost: float = 0.0003
    retry_after: tuple[float, float] = (5.0, 30.0)
    noticed_within: float = 0.0
    """Clients of a process that was killed notice it at once; those of a machine that is gone, after some heartbeats."""


@dataclass(frozen=True)
class Result:
    """When how many had a stream again, and how much work was for nobody."""

    half: float
    nearly_all: float
    """99 of 100."""
    all_of_them: float
    wasted: float
    """The share of the servers' work whose client had given up."""


def simulate(scene: Scene, *, seed: int = 1, within: float = 900.0) -> Result:
    """What happens after a server has died at 0."""
    chance = random.Random(seed)
    free_at = [0.0] * scene.servers
    pauses = [scene.pause] * scene.clients
    connected: list[float] = [-1.0] * scene.clients
    came_back: list[float] = []
    most_queued = float("inf") if scene.most_busy is None else scene.most_busy * scene.open_cost
    work = wasted = 0.0
    coming: list[tuple[float, int, Event]] = []
    for client in range(scene.clients):
        noticed = chance.uniform(0, scene.noticed_within)
        heapq.heappush(coming, (noticed + scene.pause * chance.uniform(0.5, 1), client, "open"))
        heapq.heappush(coming, (noticed + scene.poll_every * chance.random(), client, "poll"))
    while coming and len(came_back) < scene.clients:
        now, client, what = heapq.heappop(coming)
        if now > within:
            break
        if 0 <= connected[client] <= now:
            continue
        server = chance.randrange(scene.servers)
        is_refused = free_at[server] - now > most_queued
        cost = scene.refuse_cost if is_refused else scene.open_cost if what == "open" else scene.poll_cost
        answered = max(now, free_at[server]) + cost
        free_at[server] = answered
        work += cost
        patience = scene.open_patience if what == "open" else scene.poll_patience
        if is_refused:
            heapq.heappush(coming, (answered + chance.uniform(*scene.retry_after), client, what))
            continue
        in_time = answered - now <= patience
        if not in_time:
            wasted += cost
        if in_time and what == "open":
            connected[client] = answered
            came_back.append(answered)
            continue
        pause = scene.poll_every
        if what == "open":
            pause = pauses[client] = min(pauses[client] * 2, scene.longest_pause)
        again = min(answered, now + patience) + pause * chance.uniform(0.5, 1)
        heapq.heappush(coming, (again, client, what))
    came_back.sort()

    def when(share: float) -> float:
        place = round(share * scene.clients) - 1
        return came_back[place] if place < len(came_back) else float("inf")

    return Result(when(0.5), when(0.99), when(1.0), wasted / work if work else 0.0)


def _after(seconds: float) -> str:
    return "never" if seconds == float("inf") else f"after {seconds:,.0f} s"


def main(given: Sequence[str] | None = None) -> None:
    """Simulate both ways to die, with and without the limit of a server's work, and print them."""
    parser = argparse.ArgumentParser(
        description="How long until all clients of a dead server have a stream again."
    )
    parser.add_argument("--clients", type=int, default=30_000, help="of the server that dies")
    parser.add_argument("--servers", type=int, default=10, help="that are left, of one core each")
    parser.add_argument("--open-ms", type=float, default=1.5, help="what opening a stream costs a server")
    parser.add_argument("--poll-ms", type=float, default=1.0, help="what a poll costs a server")
    parser.add_argument(
        "--heartbeat", type=float, default=15.0, help="seconds between two heartbeats of a stream"
    )
    options = parser.parse_args(given)
    for name, noticed in (("its process is killed", 0.0), ("its machine is gone", 2 * options.heartbeat)):
        for limit, most_busy in (("", Scene.most_busy), (", if servers refused nothing", None)):
            found = simulate(
                Scene(
                    clients=options.clients,
                    servers=options.servers,
                    open_cost=options.open_ms / 1_000,
                    poll_cost=options.poll_ms / 1_000,
                    most_busy=most_busy,
                    noticed_within=noticed,
                )
            )
            print(
                f"{name}{limit}: half are back {_after(found.half)}, 99 % {_after(found.nearly_all)}, "
                f"all {_after(found.all_of_them)}; {found.wasted:.0%} of the work was for nobody",
                flush=True,
            )


if __name__ == "__main__":
    main()
