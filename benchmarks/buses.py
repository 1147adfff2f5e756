"""Wake-ups by NOTIFY against wake-ups by NATS: pairs a second of several processes while many others listen.

Eight processes ask and answer without pause; the others only listen, each with a wait that nobody answers. NOTIFY costs
more with each listener, NATS does not: the crossing point is the smallest number of listeners at which NATS is
faster. The NATS server is at HANDRAISE_TEST_NATS, else at 127.0.0.1:4222. The benchmark starts its own PostgreSQL,
which takes enough connections.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from contextlib import AsyncExitStack
from functools import partial
from importlib.util import find_spec

from benchmarks import bare
from benchmarks.harness import Run, loop_factory, main, rate
from chaos.servers import own_servers
from handraise import open_desk
from handraise.desk_factory import open_backend
from support.database import own_database

NATS = os.environ.get("HANDRAISE_TEST_NATS", "nats://127.0.0.1:4222")
BUSES = {"notify": "", "nats": NATS}
RATIOS = {
    f"ratio_of_nats_to_notify_{listeners}": (
        f"nats_{listeners}_pairs_per_s",
        f"notify_{listeners}_pairs_per_s",
    )
    for listeners in (0, 8, 16, 32, 64, 128)
}


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


async def measure(run: Run) -> None:
    """Both buses with each number of listeners, in each round."""
    if find_spec("handraise.backends.nats") is None:
        sys.exit(
            "benchmarks.buses: there is no NATS bus here (handraise.backends.nats), so nothing to compare."
        )
    listeners = [int(each) for each in run.options["listeners"].split(",")]
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
    if sys.argv[1:2] in (["--pairs"], ["--listen"]):
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            print(runner.run((make_pairs if sys.argv[1] == "--pairs" else listen)(*sys.argv[2:])))
    else:
        main(
            measure,
            RATIOS,
            quick_rounds=1,
            quick_seconds=1.5,
            processes=(8, 8),
            listeners=("0,8,16,32,64,128", "8,64"),
        )
