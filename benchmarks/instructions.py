"""Instructions for each HTTP request, counted by valgrind's callgrind: they do not depend on what else the machine does.

    python -m benchmarks.instructions [PAIRS]

`handraise serve` and the bare ASGI application run under callgrind, one after the other, and 64 callers with their own keys
make pairs. What starting costs is not counted. This takes some minutes; valgrind must be installed.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.http import Credentials, Server, make_credentials
from support.command import environment
from support.database import own_database
from support.raw_http import Caller

CALLERS = 64
SERVERS = {
    "handraise serve": ["-m", "handraise", "serve", "--port", "0"],
    "bare ASGI": ["-m", "benchmarks.bare_asgi", "ADDRESS"],
}


async def count(command: Sequence[str], address: str, known: Sequence[Credentials], pairs: int) -> float:
    """The instructions of each request of these pairs."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        process = subprocess.Popen(
            [
                *("valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", sys.executable),
                *(address if each == "ADDRESS" else each for each in command),
            ],
            env=environment(address, rate_limit="1000000/second"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            server = Server(await asyncio.to_thread(_listening, process), process.pid, known)
            await _make(server, 2 * CALLERS)
            _dump(process)
            await _make(server, pairs)
            _dump(process)
        finally:
            process.kill()
            process.communicate()
        found = re.findall(r"^(?:summary|totals): (\d+)", Path(f"{counts}.2").read_text(), re.MULTILINE)
    return int(found[-1]) / (2 * pairs)


def _listening(process: subprocess.Popen[str]) -> str:
    """Where a server listens, as soon as it says so."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"(?:Listening\s+http://127.0.0.1:|^)(\d+)$", line.strip()):
            return f"http://127.0.0.1:{found[1]}"
    raise RuntimeError("the server did not start")


def _dump(process: subprocess.Popen[str]) -> None:
    """Write the counts so far to the next file, and begin again."""
    subprocess.run(["callgrind_control", "-d", str(process.pid)], check=True, stdout=subprocess.DEVNULL)


async def _make(server: Server, pairs: int) -> None:
    left = pairs

    async def keep_calling(own: Credentials) -> None:
        nonlocal left
        caller, one = Caller([server.address]), Server(server.address, server.process, [own])
        while left > 0:
            left -= 1
            await one.answer(caller, await one.ask(caller))
        caller.close()

    await asyncio.gather(*map(keep_calling, server.credentials))


async def main(pairs: int) -> None:
    """Count for each server, and print."""
    async with own_database() as address:
        known = await make_credentials(address, CALLERS)
        for name, command in SERVERS.items():
            print(
                f"{name:16} {await count(command, address, known, pairs):12,.0f} instructions a request",
                flush=True,
            )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
