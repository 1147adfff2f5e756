"""Every failpoint, each action, on each backend: a scene is struck, played again to its end, and checked."""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chaos.failpoints.catalog import BACKENDS, BESIDE, load_points
from chaos.failpoints.injection import ACTIONS, Action
from chaos.failpoints.scenes import SCENES
from chaos.history import KILLED, read, under_way
from chaos.history_checker import check
from chaos.process_pool import ProcessExit, ProcessPool, open_process_pool
from chaos.stored_state import end_leases, stored_in
from handraise.desk_factory import open_backend
from handraise.ports import Backend
from support.database import own_store

_LONGEST = 180.0
"""A life that takes longer hangs."""
_RUNS = 3
"""How often each scene is played to find its steps."""


@dataclass(frozen=True, slots=True)
class Strike:
    """What happens to one life of a scene."""

    point: str
    action: Action

    def __str__(self) -> str:
        return f"{self.point}:{self.action}"


@dataclass(slots=True)
class Struck:
    """The result of a run over many strikes."""

    runs: Counter[str] = field(default_factory=Counter)
    """By backend and action."""
    missed: list[str] = field(default_factory=list)
    """What was never reached."""
    broken: list[str] = field(default_factory=list)
    unlisted: set[str] = field(default_factory=set)
    """Steps that were made and have no failpoint."""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether everything was struck and nothing broken."""
        return bool(self.runs) and not (self.missed or self.broken or self.unlisted)


def strikes_at(
    backend: str, *, pairs: bool = False, once: bool = False, turn: int = 0
) -> Iterator[Sequence[Strike]]:
    """Every failpoint and action of a backend; in pairs, a life is struck and the next one of the same verb too.

    `once` is every failpoint in one way, and the next one in another; after four turns each was struck in every way.
    """
    one_way = itertools.islice(itertools.cycle((action,) for action in ACTIONS), turn % len(ACTIONS), None)
    ways = one_way if once else itertools.repeat(ACTIONS)
    for verb, steps in load_points()[backend].items():
        if not pairs:
            for step, actions in zip(steps, ways):  # noqa: B905 -- there is no end of ways
                yield from ([Strike(f"{verb}.{step}", action)] for action in actions)
            continue
        # A life that is killed and one that is only cut off, in either order: the store is the same after both.
        orders: tuple[tuple[Action, Action], ...] = (("kill_after", "ambiguous"), ("ambiguous", "kill_after"))
        for first, then in orders:
            for each, other in itertools.product(steps, repeat=2):
                yield [Strike(f"{verb}.{each}", first), Strike(f"{verb}.{other}", then)]


@dataclass(frozen=True, slots=True)
class Stepper:
    """Plays scenes on one store."""

    backend: str
    address: str
    ports: Backend
    pool: ProcessPool
    folder: Path
    found: Struck

    async def play(
        self, verb: str, workspace: str, journal: Path, life: int, strike: Strike | None
    ) -> tuple[ProcessExit, dict[str, list[str]]]:
        """Play a life of a scene; return how it ended, its steps and what was struck."""
        what = [] if strike is None else [{"point": strike.point, "action": strike.action}]
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        death = await self.pool.run(
            f"{workspace}#{life}",
            "chaos.failpoints.scenes:play",
            {
                "verb": verb,
                "address": self.address,
                "confined": self.backend == "confined",
                "workspace": workspace,
                "journal": str(journal),
                "name": f"life-{life}",
                "failpoints": what,
                "result": str(result),
            },
            within=_LONGEST,
        )
        return death, json.loads(result.read_text()) if result.exists() else {"steps": [], "struck": []}

    async def steps_of(self, verb: str, workspace: str) -> set[str]:
        """The steps of a verb if nothing is struck; `RuntimeError` if it fails or breaks a promise."""
        journal = self.folder / f"{workspace}.jsonl"
        journal.touch()
        death, told = await self.play(verb, workspace, journal, 0, None)
        verdict = check(read([journal]), await stored_in(self.ports, self.address, workspace))
        if death.signal or death.code or not verdict.good:
            raise RuntimeError(f"{self.backend} {verb} without a fault: {death}, {verdict.violations}")
        return {step.partition(".")[2] for step in told["steps"]}

    async def run(self, strikes: Sequence[Strike]) -> None:
        """Play a scene with each of these strikes in its own life, then once without any, and check it."""
        verb = strikes[0].point.partition(".")[0]
        name = "+".join(map(str, strikes))
        journal = self.folder / f"{self.backend}-{self.found.runs.total()}.jsonl"
        workspace = f"{verb}-{journal.stem}"
        journal.touch()
        for life, strike in enumerate((*strikes, None)):
            death, told = await self.play(verb, workspace, journal, life, strike)
            wanted_death = strike is not None and strike.action.startswith("kill")
            if death.code:
                self.found.broken.append(f"{self.backend} {name}: life {life} ended with {death.code}")
            elif life == 0 and (wanted_death is not death.killed or not (wanted_death or told["struck"])):
                # Only of the first: a second strike may find nothing left to do.
                self.found.missed.append(f"{self.backend} {name}")
            if strike is None:
                made = {step.partition(".")[2] for step in told["steps"]}
                unlisted = made - _listed(self.backend) - BESIDE
                self.found.unlisted |= {f"{self.backend} {verb}.{step}" for step in unlisted}
            _write_ends(journal)
            await end_leases(self.address)
        verdict = check(read([journal]), await stored_in(self.ports, self.address, workspace))
        self.found.runs[f"{self.backend} {strikes[0].action}"] += 1
        self.found.broken += [f"{self.backend} {name}: {each}" for each in verdict.violations]
        if not verdict.counts:
            self.found.broken.append(f"{self.backend} {name}: only {verdict.share:.0%} succeeded")


async def step_through(
    backends: Sequence[str] = BACKENDS,
    *,
    pairs: bool = False,
    only: str = "",
    once: bool = False,
    turn: int = 0,
    one_in: int = 1,
    at_once: int = 2,
    found: Struck | None = None,
) -> Struck:
    """Strike everywhere; `only` is what the name of a strike must begin with. Each of `at_once` has its own store.

    `once` strikes each failpoint in one way only, each turn in another. `one_in` leaves the others out, each turn others.

    `found` is there to be looked at before the end, too.
    """
    found, began = found or Struck(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="handraise-chaos-") as folder:
        for backend in backends:
            todo = [
                each
                for each in strikes_at(backend, pairs=pairs, once=once, turn=turn)
                if str(each[0]).startswith(only)
            ][turn % one_in :: one_in]
            shares = [todo[start::at_once] for start in range(at_once)]
            await asyncio.gather(
                *(
                    _step(backend, share, Path(folder) / f"{backend}-{n}", found)
                    for n, share in enumerate(shares)
                    if share
                )
            )
    found.seconds = time.monotonic() - began
    return found


async def steps_made(backend: str, folder: Path) -> dict[str, set[str]]:
    """The steps of all verbs if nothing is struck. What runs beside them at no fixed time is among them if it came each time."""
    folder.mkdir(exist_ok=True)
    made: dict[str, set[str]] = {}
    async with _stepper(backend, folder, Struck()) as stepper:
        for verb in SCENES:
            runs = [await stepper.steps_of(verb, f"{verb}-{turn}") for turn in range(_RUNS)]
            always, sometimes = set.intersection(*runs), set.union(*runs)
            if uncertain := sometimes - always - BESIDE:
                raise RuntimeError(f"{backend} {verb}: not in every run: {', '.join(sorted(uncertain))}")
            made[verb] = always
    return made


@asynccontextmanager
async def _stepper(backend: str, folder: Path, found: Struck) -> AsyncIterator[Stepper]:
    async with (
        open_process_pool() as pool,
        own_store(backend, folder) as address,
        open_backend(address) as ports,
    ):
        yield Stepper(backend, address, ports, pool, folder, found)


async def _step(backend: str, todo: Sequence[Sequence[Strike]], folder: Path, found: Struck) -> None:
    """One after the other, on one store."""
    folder.mkdir()
    async with _stepper(backend, folder, found) as stepper:
        for each in todo:
            try:
                await stepper.run(each)
            except TimeoutError:
                found.broken.append(f"{backend} {'+'.join(map(str, each))}: it hangs")


def _listed(backend: str) -> set[str]:
    """Every step that is struck in some verb: a life struck in one verb may later reach the steps of another.

    All transactions of a server are confined.
    """
    points = load_points()
    verbs = points[backend], ({} if backend == "sqlite" else points["confined"])
    return {step for each in verbs for steps in each.values() for step in steps}


def _write_ends(journal: Path) -> None:
    """Mark the open calls of a killed life as unknown."""
    with journal.open("a") as file:
        for entry in under_way(read([journal])):
            ended = {"time": time.monotonic_ns(), "process": entry.process, "type": "unknown", "op": entry.op}
            file.write(json.dumps({**ended, "question": entry.question, "error": KILLED}) + "\n")
