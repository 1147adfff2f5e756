"""A real server in its own process, whose clock a test may set: `python support/server_process.py CLOCK_FILE PORT`.

Everything else comes from the environment, as for `handraise serve`. A port of 0 is any. Prints its port on the first line.
"""

from __future__ import annotations

import asyncio
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvicorn

from handraise.model.durations import Span
from handraise.server import ServerSettings, create_app, open_server
from handraise.testing import ManualClock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SharedClock(ManualClock):
    """A manual clock that a server in another process follows."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._write()

    def advance(self, span: Span) -> None:
        """Move the clock forward, there too."""
        super().advance(span)
        self._write()

    def _write(self) -> None:
        micros = (self.now() - _EPOCH) // timedelta(microseconds=1)
        with self._path.open("r+b") as file:
            file.write(struct.pack("<q", micros))


class FollowingClock:
    """The clock of the server: what the file says, or none while it says nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime | None:
        """The instant the test's clock shows."""
        (micros,) = struct.unpack("<q", self._path.read_bytes())
        return _EPOCH + timedelta(microseconds=micros) if micros else None


def free_clock(path: Path) -> None:
    """Let the server use the store's own time."""
    path.write_bytes(struct.pack("<q", 0))


@contextmanager
def server_process(url: str, clock_file: Path, **settings: str) -> Iterator[str]:
    """A server on this store, for as long as this context lasts; gives its address."""
    process = start_server(url, clock_file, 0, **settings)
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        assert port, "the server did not start"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()


def start_server(url: str, clock_file: Path, port: int = 0, **settings: str) -> subprocess.Popen[str]:
    """The process of a server on this store. Once it prints its port, it listens."""
    environment = {f"HANDRAISE_{name.upper()}": value for name, value in settings.items()}
    return subprocess.Popen(
        [sys.executable, __file__, str(clock_file), str(port)],
        env={**os.environ, "HANDRAISE_URL": url, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


async def _serve(clock_file: Path, port: int) -> None:
    # People with a session of the issuer are added when they come, not before they are asked.
    settings = ServerSettings(port=0, check_recipients=False)
    async with open_server(settings, clock=FollowingClock(clock_file)) as ctx:
        server = uvicorn.Server(
            uvicorn.Config(create_app(ctx), port=port, log_level="warning", timeout_graceful_shutdown=1)
        )
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        await serving


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
