"""Instructions for each HTTP request, counted by valgrind's callgrind: they do not depend on what else the machine does.

    python -m benchmarks.http_instructions [PAIRS]

`handraise serve` and the bare ASGI application run under callgrind, one after the other, and 16 callers make
pairs with 64 keys in turn: under callgrind a server is 50 times slower, and more callers would wait too long. What starting
costs, and what the server does in the same time without requests, is not counted. This takes some minutes; valgrind must be installed.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.http import Credentials, Server, make_credentials
from support.command import environment
from support.database import own_database
from support.raw_http import Caller

CALLERS, KEYS = 16, 64
SERVERS = {
    "handraise serve": ["-m", "handraise", "serve", "--port", "0"],
    "bare ASGI": ["-m", "benchmarks.bare_asgi", "ADDRESS"],
}


async def count(command: Sequence[str], address: str, known: Sequence[Credentials], pairs: int) -> float:
    """The instructions of each request of these pairs."""
    with tempfile.TemporaryDirectory() as folder:
        with _counted(command, address, Path(folder) / "counts") as (process, control):
            server = Server(await asyncio.to_thread(_listening, process), process.pid, known)
            await _make(server, 2 * CALLERS)
            control("--instr=on")
            began = time.monotonic()
            await _make(server, pairs)
            took = time.monotonic() - began
            control("--dump")
            await asyncio.sleep(took)
            control("--dump")
        busy, idle = (_instructions(Path(folder) / f"counts.{dump}") for dump in (1, 2))
        return (busy - idle) / (2 * pairs)


@contextmanager
def _counted(
    command: Sequence[str], address: str, counts: Path
) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], object]]]:
    """A server under callgrind, which counts nothing yet, and a function that tells it what to do."""
    callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={counts}"]
    process = subprocess.Popen(
        [*callgrind, sys.executable, *(address if each == "ADDRESS" else each for each in command)],
        env=environment(address, rate_limit="1000000/second"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def control(option: str) -> object:
        given = [shutil.which("callgrind_control") or "callgrind_control", option, str(process.pid)]
        return subprocess.run(given, check=True, capture_output=True)

    try:
        yield process, control
    finally:
        process.kill()
        process.communicate()


def _instructions(dump: Path) -> int:
    return max(map(int, re.findall(r"^(?:summary|totals): (\d+)", dump.read_text(), re.MULTILINE)))


def _listening(process: subprocess.Popen[str]) -> str:
    """Where a server listens, as soon as it says so."""
    for line in process.stdout or ():
        if found := re.search(r"(?:Listening\s+http://127.0.0.1:|^)(\d+)$", line.strip()):
            return f"http://127.0.0.1:{found[1]}"
    raise RuntimeError("the server did not start")


async def _make(server: Server, pairs: int) -> None:
    left = pairs

    async def keep_calling(number: int) -> None:
        nonlocal left
        caller = Caller([server.address])
        while left > 0:
            left -= 1
            number = (number + CALLERS) % KEYS
            own = server.credentials[number]
            await server.answer(caller, await server.ask(caller, own), own)
        caller.close()

    await asyncio.gather(*map(keep_calling, range(CALLERS)))


async def main(pairs: int) -> None:
    """Count for each server, and print."""
    async with own_database() as address:
        known = await make_credentials(address, KEYS)
        for name, command in SERVERS.items():
            print(
                f"{name:16} {await count(command, address, known, pairs):12,.0f} instructions a request",
                flush=True,
            )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
