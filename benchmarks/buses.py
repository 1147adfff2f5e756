"""Wake-ups by NOTIFY against wake-ups by NATS: pairs a second of several processes while many others listen.

Eight processes ask and answer without pause; the others only listen, each with a wait that nobody answers. NOTIFY costs
more with each listener, NATS does not: the crossing point is the smallest number of listeners at which NATS is
faster. The NATS server is at HANDRAISE_TEST_NATS, else at 127.0.0.1:4222. The benchmark starts its own PostgreSQL,
which takes enough connections.

Also what hints over NATS cost a process that needs only those of 4 workspaces, while 1,000 questions a second are asked and
answered in 256: if it takes all hints, if it takes those of its workspaces, and if it is one of 8 servers, which
share the hints about feeds. `--listeners ''` measures only this.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
import uuid
from collections.abc import Collection
from contextlib import AsyncExitStack
from functools import partial
from importlib.util import find_spec

from benchmarks import bare
from benchmarks.harness import Run, loop_factory, main, rate
from chaos.servers import own_servers
from handraise import open_desk
from handraise.desk_factory import open_backend, open_bus
from handraise.ports import Interest, feed_of
from handraise.questions import Ref
from support.database import own_database

NATS = os.environ.get("HANDRAISE_TEST_NATS", "nats://127.0.0.1:4222")
BUSES = {"notify": "", "nats": NATS}
RATIOS = {
    f"ratio_of_nats_to_notify_{listeners}": (
        f"nats_{listeners}_pairs_per_s",
        f"notify_{listeners}_pairs_per_s",
    )
    for listeners in (0, 8, 16, 32, 64, 128)
} | {
    "ratio_of_all_hints_to_own_cpu": ("all_hints_cpu_ms_per_s", "own_hints_cpu_ms_per_s"),
    "ratio_of_all_hints_to_server_cpu": ("all_hints_cpu_ms_per_s", "server_hints_cpu_ms_per_s"),
}
WORKSPACES, OWN, SERVERS, PAIRS = 256, 4, 8, 1_000
"""Of the measurement of hints: workspaces, those of the process, servers, and pairs a second."""


async def pairs_with(server: str, bus: str, listeners: int, processes: int, seconds: float) -> float:
    """Pairs a second of all processes together, in their own database."""
    environment = {name: value for name, value in os.environ.items() if name != "HANDRAISE_BUS"}
    if bus:
        environment["HANDRAISE_BUS"] = bus
    async with own_database(server) as address:
        async with open_desk(address):
            pass  # makes the tables
        works = [("listen", str(listeners))] + [("pairs", "16")] * processes
        started = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.buses", f"--{what}", address, count, str(seconds)),
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            for what, count in works
        ]
        for each in started:
            await each.stdout.readline()  # type: ignore[union-attr]  # it is ready
        printed = await asyncio.gather(*(each.communicate(b"go\n") for each in started))
    return sum(float(said) for said, _ in printed)


async def told_to_go() -> None:
    """Say that this process is ready, and wait until all are."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def make_pairs(address: str, callers: str, seconds: str) -> float:
    """One of the processes that ask and answer."""
    async with open_desk(address, workspace=f"bench-{os.getpid()}") as desk:

        async def pair() -> None:
            await desk.answer(await bare.ask(desk), "Canary", by="ana")

        await pair()
        await told_to_go()
        return await rate([pair] * int(callers), float(seconds))


async def listen(address: str, listeners: str, seconds: str) -> float:
    """The process with all listeners, each over its own connection, as separate processes would have."""
    async with AsyncExitStack() as stack:
        for _ in range(int(listeners)):
            backend = await stack.enter_async_context(open_backend(address, connections=2))
            await stack.enter_async_context(backend.bus.listen(lambda _: None))
        await told_to_go()
        await asyncio.sleep(float(seconds))
    return 0.0


async def hints_to(whom: str, seconds: float) -> dict[str, float]:
    """The processor time of a process that hears of these, and its hints, both for each second."""
    address = f"{NATS}/handraise-bench-{uuid.uuid4().hex[:12]}"
    works = [("send", "1"), ("hear", whom), ("others", str(SERVERS - 1) if whom == "server" else "0")]
    started = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.buses", f"--{what}", address, which, str(seconds)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for what, which in works
    ]
    for each in started:
        await each.stdout.readline()  # type: ignore[union-attr]  # it is ready
    _, (said, _), _ = await asyncio.gather(*(each.communicate(b"go\n") for each in started))
    cpu, hints = map(float, said.split())
    return {"cpu_ms_per_s": cpu, "per_s": hints}


async def send_hints(address: str, _: str, seconds: str) -> str:
    """The process that asks and answers, as far as its hints go."""
    async with open_bus(address) as bus:
        await told_to_go()
        began, sent = time.monotonic(), 0
        while (now := time.monotonic() - began) < float(seconds) + 1:
            while sent < now * PAIRS:
                sent += 1
                workspace = f"w{sent % WORKSPACES}"
                await bus.wake([feed_of(workspace)])
                await bus.wake([Ref(workspace, str(uuid.UUID(int=sent))), feed_of(workspace)])
            await asyncio.sleep(0.001)
    return ""


async def hear_hints(address: str, whom: str, seconds: str) -> str:
    """The process whose cost is measured."""
    heard, interest = 0, Interest()
    for n in range(OWN):
        interest.add(f"w{n}", lambda: None)

    def on_hint(topics: Collection[Ref] | None) -> None:
        nonlocal heard
        heard += topics is not None

    async with (
        open_bus(address) as bus,
        bus.listen(
            on_hint,
            feeds=True,
            shared_feeds=whom == "server",
            interest=None if whom == "all" else interest,
        ),
    ):
        await told_to_go()
        await asyncio.sleep(0.5)
        heard, worked, began = 0, time.process_time(), time.monotonic()
        await asyncio.sleep(float(seconds))
        took = time.monotonic() - began
        return f"{1_000 * (time.process_time() - worked) / took} {heard / took}"


async def other_servers(address: str, servers: str, seconds: str) -> str:
    """The process of the other servers, which take their part of the shared hints."""
    async with AsyncExitStack() as stack:
        for _ in range(int(servers)):
            bus = await stack.enter_async_context(open_bus(address))
            await stack.enter_async_context(
                bus.listen(lambda _: None, shared_feeds=True, interest=Interest())
            )
        await told_to_go()
        await asyncio.sleep(float(seconds) + 1)
    return ""


async def measure(run: Run) -> None:
    """Both buses with each number of listeners, in each round."""
    if find_spec("handraise.backends.nats") is None:
        sys.exit(
            "benchmarks.buses: there is no NATS bus here (handraise.backends.nats), so nothing to compare."
        )
    await run.mixed(
        {f"{whom}_hints": partial(hints_to, whom, run.seconds) for whom in ("all", "own", "server")}
    )
    listeners = [int(each) for each in run.options["listeners"].split(",") if each]
    if not listeners:
        return
    with own_servers(1, {"max_connections": "400", "shared_buffers": "128MB"}) as (server,):
        await compare(run, server.address, listeners)
    medians = {name: statistics.median(values) for name, values in run.series.items()}
    ahead = [
        count
        for count in listeners
        if medians[f"nats_{count}_pairs_per_s"] > medians[f"notify_{count}_pairs_per_s"]
    ]
    since = next(
        (count for count in listeners if all(more in ahead for more in listeners if more >= count)), None
    )
    run.remark(
        f"NATS is ahead from {since} listeners on"
        if since is not None
        else f"NATS is not ahead with up to {listeners[-1]} listeners"
    )


async def compare(run: Run, server: str, listeners: list[int]) -> None:
    """Both buses with each number of listeners, in turns."""
    await run.mixed(
        {
            f"{name}_{count}_pairs_per_s": partial(
                pairs_with, server, bus, count, run.options["processes"], run.seconds
            )
            for count in listeners
            for name, bus in BUSES.items()
        }
    )


if __name__ == "__main__":
    works = {
        "--pairs": make_pairs,
        "--listen": listen,
        "--send": send_hints,
        "--hear": hear_hints,
        "--others": other_servers,
    }
    if (work := works.get("".join(sys.argv[1:2]))) is not None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            print(runner.run(work(*sys.argv[2:])))
    else:
        main(
            measure,
            RATIOS,
            quick_rounds=1,
            quick_seconds=1.5,
            processes=(8, 8),
            listeners=("0,8,16,32,64,128", "8,64"),
        )
