"""Processes that are meant to be killed: one process has everything loaded, and forks another for each life.

Lines on its standard input: `begin <name> <module>:<function> <json>` begins a life, `kill <name>` ends it with SIGKILL
if it is not over. Lines on its standard output: `born <name> <pid>` and `dead <name> <signal or 0> <exit code>`. A
life is told to the coroutine function as its one argument, which is what the JSON says.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOADED = ("chaos.kills.roles", "chaos.failpoints.scenes", "chaos.webhook_dispatcher")
_PATIENCE = 60.0
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a life ended: by a signal, or by itself with an exit code."""

    signal: int
    code: int

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.signal == signal.SIGKILL


@dataclass(slots=True)
class Life:
    """A running process."""

    name: str
    pid: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    death: asyncio.Future[ProcessExit] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ProcessPool:
    """Begins and ends lives."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lives: dict[str, Life] = {}

    @property
    def pid(self) -> int:
        """The process that all lives are children of."""
        return self._process.pid

    async def begin(self, name: str, function: str, told: Any) -> Life:
        """Begin a life, by a name that no other has had."""
        life = self._lives[name] = Life(name)
        self._say(f"begin {name} {function} {json.dumps(told)}")
        async with asyncio.timeout(_PATIENCE):
            await asyncio.shield(life.pid)
        return life

    def kill(self, life: Life) -> None:
        """Kill a life that is not over. It is killed by name: another process may have its process id by now."""
        self._say(f"kill {life.name}")

    async def run(self, name: str, function: str, told: Any, *, within: float = _PATIENCE) -> ProcessExit:
        """A whole life; one that takes too long is killed, and raises."""
        life = await self.begin(name, function, told)
        try:
            async with asyncio.timeout(within):
                return await asyncio.shield(life.death)
        except TimeoutError:
            self.kill(life)
            raise

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        while line := (await self._process.stdout.readline()).decode().split():
            what, name, *numbers = line
            if what == "born":
                self._lives[name].pid.set_result(int(numbers[0]))
            else:
                self._lives.pop(name).death.set_result(ProcessExit(int(numbers[0]), int(numbers[1])))


@asynccontextmanager
async def open_process_pool() -> AsyncIterator[ProcessPool]:
    """A pool; every life that still runs at the end is killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chaos.process_pool"),
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    pool = ProcessPool(process)
    hearing = asyncio.create_task(pool._hear())  # noqa: SLF001 -- its own opener
    try:
        yield pool
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


class _PoolServer:
    """The process behind a pool."""

    def __init__(self) -> None:
        self._lives: dict[int, str] = {}
        self._rest = b""
        self._wake, wakes = os.pipe()
        for end in (self._wake, wakes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def run(self) -> None:
        """Follow commands until the input ends."""
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == self._wake:
                        os.read(self._wake, 4096)
                    elif not self._read():
                        self._end_all()
                        return
                self._reap()

    def _read(self) -> bool:
        said = os.read(0, 65_536)
        *lines, self._rest = (self._rest + said).split(b"\n")
        for line in lines:
            what, name, *rest = line.decode().split(" ", 3)
            if what == "begin":
                self._begin(name, rest[0], json.loads(rest[1]))
            else:
                for pid in [pid for pid, each in self._lives.items() if each == name]:
                    os.kill(pid, signal.SIGKILL)
        return bool(said)

    def _begin(self, name: str, function: str, told: Any) -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(_live(function, told))
        self._lives[pid] = name
        _print(f"born {name} {pid}")

    def _reap(self) -> None:
        while self._lives:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            _print(f"dead {self._lives.pop(pid)} {ended} {os.WEXITSTATUS(status) if not ended else 0}")

    def _end_all(self) -> None:
        for pid in self._lives:
            os.kill(pid, signal.SIGKILL)
        while self._lives:
            pid, _ = os.waitpid(-1, 0)
            del self._lives[pid]


def _live(function: str, told: Any) -> int:
    """A life; its standard input and output are not those of the pool."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    module, _, name = function.partition(":")
    try:
        asyncio.run(getattr(importlib.import_module(module), name)(told))
    except BaseException:  # noqa: BLE001 -- the exit code says it
        traceback.print_exc()
        return 1
    return 0


def _print(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    for _module in LOADED:
        importlib.import_module(_module)
    _PoolServer().run()
