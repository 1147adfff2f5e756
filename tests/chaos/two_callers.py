"""Two processes that race for many questions, each of which one of them gets.

Which of two calls is quicker depends on the machine and on its other work. So the one or the other begins a little later, by
another time for each question, and the one that was first more often has less of a head start next time. If one of them
nevertheless was first every time, more questions follow, for which the head start grows until the other one has been first.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

CALLER = Path(__file__).with_name("racing_caller.py")
TOGETHER = 20
"""After so many both wait for each other, so that one which fell behind does not find everything done."""
APART, MOST_APART = 0.02, 0.1
"""How many seconds the questions are apart. If a process falls behind, its head start is lost: then they are further apart."""
SPREAD = [(place * 7 % TOGETHER) / TOGETHER - 0.5 for place in range(TOGETHER)]
"""How much later the first one begins, as a part of the time between two questions; the second one, if it is negative."""
LONGEST = 10.0
"""With a head start of so many seconds, the other one is as good as sure to be first."""

Make = Callable[[int], Awaitable[Sequence[str]]]


class TwoCallers:
    """Two processes that wait for questions."""

    def __init__(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        self._processes = processes
        self.first = [0, 0]
        """For how many questions each of them was first."""

    async def race(self, number: int, make: Make) -> list[str]:
        """Race for so many questions, and for more until both were first at least once; return the ids of all.

        `make` makes questions and returns their ids. Of every question, exactly one of the two must get what it wants.
        """
        ids: list[str] = []
        shift, apart = 0.0, APART
        while len(ids) < number:
            some = list(await make(min(TOGETHER, number - len(ids))))
            before, began = self.first[0], time.time()
            await self._race(some, [shift + part * apart for part in SPREAD[: len(some)]], apart + abs(shift))
            fell_behind = time.time() - began > 1.5 * len(some) * (apart + abs(shift))
            shift += ((self.first[0] - before) / len(some) - 0.5) * apart
            apart = min(MOST_APART, apart * 2) if fell_behind else max(APART, apart * 0.8)
            ids += some
        head_start = 0.05
        while min(self.first) == 0 and head_start < LONGEST:
            more = list(await make(2))
            await self._race(more, [head_start, -head_start], 3 * head_start)
            ids += more
            head_start *= 2
        return ids

    async def _race(self, ids: list[str], head_starts: list[float], apart: float) -> None:
        start = time.time() + 0.05
        for sign, process in zip((1, -1), self._processes, strict=True):
            assert process.stdin is not None
            later = [max(0.0, sign * each) for each in head_starts]
            work = {"start": start, "apart": apart, "ids": ids, "later": later}
            process.stdin.write(json.dumps(work).encode() + b"\n")
        one, other = [json.loads(await _line(process)) for process in self._processes]
        won = [a + b for a, b in zip(one, other, strict=True)]
        assert won == [1] * len(ids), f"both, or neither, were first: {won}"
        self.first[0] += sum(one)
        self.first[1] += sum(other)


@asynccontextmanager
async def two_callers(address: str, workspace: str, *calls: Sequence[str]) -> AsyncIterator[TwoCallers]:
    """Two processes, each with what it does (see `racing_caller.py`), both of them ready."""
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(CALLER), address, workspace, *call),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for call in calls
    ]
    try:
        assert [await _line(process) for process in processes] == ["ready", "ready"]
        yield TwoCallers(processes)
    finally:
        for process in processes:
            await process.communicate(b"")


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()
