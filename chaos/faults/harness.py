"""What every fault uses: desks, a load, and a verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import inf

from chaos.faults.load import Load
from chaos.history import Entry
from chaos.history_checker import PATIENCE, check
from chaos.stored_state import stored_questions
from handraise import Desk
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store

WORKSPACE = "chaos"
POLL = 0.3


@dataclass(frozen=True)
class Survived:
    """The result of a fault: its figures, and what broke a promise or made the run useless."""

    figures: str
    problems: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.figures}; {f'{len(self.problems)} PROBLEMS' if self.problems else 'good'}"


@asynccontextmanager
async def desks_on(
    address: str,
    number: int = 2,
    *,
    workspace: str = WORKSPACE,
    listen: str | None = None,
    confined: bool | None = None,
    poll: float = POLL,
) -> AsyncIterator[list[Desk]]:
    """Desks, each with its own connections and listener; confined ones have longer transactions."""
    async with AsyncExitStack() as stack:
        desks: list[Desk] = []
        for _ in range(number):
            opening = open_backend(address, listen=listen, confined=confined)
            backend = await stack.enter_async_context(opening)
            desk = desk_from_store(backend.store, backend.bus, workspace=workspace, poll_interval=poll)
            desks.append(await stack.enter_async_context(desk))
        yield desks


@asynccontextmanager
async def under_load(desks: Sequence[Desk], *, seed: int, callers: int = 8) -> AsyncIterator[Load]:
    """A load that runs while inside, and after that until everything is seen to work again."""
    load, over = Load(seed=seed), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run(desks, over, callers=callers))
        yield load
        await load.busy()
        over.set()


async def judged(
    address: str,
    entries: Iterable[Entry],
    figures: str,
    *,
    began: float,
    least: int = 0,
    most: float = inf,
    patience: float = PATIENCE,
    also: Sequence[str] = (),
) -> Survived:
    """Check what a load was told against its store; the number of calls with an unknown end must be in these bounds."""
    verdict = check(entries, await stored_questions(address, WORKSPACE), patience=patience)
    problems = [*verdict.problems, *also]
    if not least <= verdict.unknown <= most:
        problems.append(f"{verdict.unknown} calls have an unknown end, not {least} to {most}")
    return Survived(f"{figures}, {verdict}, {time.monotonic() - began:.0f} s", problems)
