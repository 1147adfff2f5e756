"""Programs that tests start, kill with SIGKILL while they wait and start again; and the people who answer them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from handraise import Desk, Question, open_desk

ROOT = Path(__file__).parent.parent.parent
SEPARATE = ROOT / ".venv-separate" / "bin" / "python"
"""The interpreter of the frameworks that do not fit beside the others: `.ci/run nightly` makes it."""
SOON = 100.0
"""Seconds. On a busy machine, importing CrewAI alone takes half a minute."""


class Program:
    """A running program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[str] = []

    async def says(self, text: str) -> str:
        """The next line that has this text in it."""
        assert self._process.stdout is not None
        async with asyncio.timeout(SOON):
            while line := (await self._process.stdout.readline()).decode():
                self.said.append(line.rstrip())
                if text in line:
                    return line.rstrip()
        raise AssertionError(f"It never said {text!r} but:\n" + "\n".join(self.said))

    async def ends(self) -> int:
        """How it ended, and everything it still says."""
        assert self._process.stdout is not None
        async with asyncio.timeout(SOON):
            self.said += (await self._process.stdout.read()).decode().splitlines()
            return await self._process.wait()

    async def rest(self) -> list[str]:
        """All it says until it ends by itself; it must end well."""
        assert await self.ends() == 0, "\n".join(self.said)
        return self.said

    async def kill(self) -> list[str]:
        """End it with SIGKILL while it runs; what it had said."""
        await self.end()
        assert self._process.returncode == -signal.SIGKILL, "It ended by itself:\n" + "\n".join(self.said)
        return self.said

    async def end(self) -> None:
        """See to it that it has ended."""
        if self._process.returncode is None:
            self._process.kill()
        await self.ends()


@asynccontextmanager
async def started(
    *command: str | Path,
    folder: str | Path | None = None,
    python: str | Path = sys.executable,
    **environment: str,
) -> AsyncIterator[Program]:
    """A Python program; its errors go where those of the test go."""
    process = await asyncio.create_subprocess_exec(
        python,
        *("-W", "ignore"),
        *map(str, command),
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    program = Program(process)
    try:
        yield program
    finally:
        await program.end()


async def until(look: Callable[[], Awaitable[bool] | bool]) -> None:
    """Return once this is true of what another process does."""
    async with asyncio.timeout(SOON):
        while not await _found(look):
            await asyncio.sleep(0.02)


async def _found(look: Callable[[], Awaitable[bool] | bool]) -> bool:
    found = look()
    return found if isinstance(found, bool) else await found


async def asked(desk: Desk, conversation: str | None = None, *, number: int = 1) -> list[Question]:
    """So many pending questions, as soon as they are there."""
    found: list[Question] = []

    async def there() -> bool:
        found[:] = (await desk.list_pending(conversation=conversation)).items
        return len(found) >= number

    await until(there)
    assert len(found) == number
    return found


async def listening(port: int) -> None:
    """Return once somebody listens there."""

    async def there() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    await until(there)


@asynccontextmanager
async def people(url: str) -> AsyncIterator[Desk]:
    """A desk that looks often, for those who answer."""
    async with open_desk(url, poll_interval=0.05) as desk:
        yield desk
