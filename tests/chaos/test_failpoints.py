"""Every statement that a transaction makes has a failpoint, in the list and in fact; and each of them bites."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from chaos.failpoints import injection
from chaos.failpoints.catalog import BESIDE, OUTSIDE, POINTS
from chaos.failpoints.injection import POSTGRES_NAMES, SQLITE_NAMES, Failpoint, Recorder, installed
from chaos.failpoints.runner import step_through
from chaos.failpoints.scenes import SCENES
from chaos.history import read
from chaos.history_checker import check
from chaos.process_pool import open_process_pool
from chaos.stored_state import stored_questions
from handraise import StoreUnavailable, open_desk
from support.database import own_store

pytestmark = pytest.mark.timeout(300)

BACKENDS = list(POINTS)


def statements_of(backend: str) -> set[str]:
    return set((SQLITE_NAMES if backend == "sqlite" else POSTGRES_NAMES).values())


def named_in(backend: str) -> set[str]:
    return {name for steps in POINTS[backend].values() for step in steps for name in step.split("/")}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_statement_of_the_product_has_a_failpoint_or_a_reason(backend: str) -> None:
    excused = {name for names in OUTSIDE.values() for name in names}
    without = statements_of(backend) - named_in(backend) - excused
    assert without == set(), (
        "give it a scene in chaos/failpoints/scenes.py, or a reason in chaos/failpoints/catalog.py"
    )


def test_no_failpoint_and_no_reason_is_for_a_statement_that_is_gone() -> None:
    there = {name for backend in BACKENDS for name in statements_of(backend)}
    named = {name for backend in BACKENDS for name in named_in(backend)} - {"begin", "commit"}
    assert named - there == set()
    assert {name for names in OUTSIDE.values() for name in names} - there == set()


@pytest.mark.slow(
    "test_every_failpoint.py finds steps without a failpoint in the gate, and failpoints without a step"
)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_steps_that_are_made_are_those_that_have_a_failpoint(backend: str, tmp_path: Path) -> None:
    """A statement that is added to a transaction, or another order, is another step."""
    async with open_process_pool() as pool, own_store(backend, tmp_path) as address:
        for verb in SCENES:
            journal, result = tmp_path / f"{verb}.jsonl", tmp_path / f"{verb}.json"
            told = {
                "verb": verb,
                "address": address,
                "confined": backend == "confined",
                "workspace": verb,
                "journal": str(journal),
                "name": "life",
                "failpoints": [],
                "result": str(result),
            }
            death = await pool.run(verb, "chaos.failpoints.scenes:play", told)
            assert (death.signal, death.code) == (0, 0)
            steps = json.loads(result.read_text())["steps"]
            made, listed = {step.partition(".")[2] for step in steps}, set(POINTS[backend][verb])
            assert (listed - made, made - listed - BESIDE) == (set(), set()), verb
            verdict = check(read([journal]), await stored_questions(address, verb))
            assert verdict.good, verdict.violations


@pytest.mark.slow("test_every_failpoint.py strikes these and all others in the gate")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_some_failpoints_strike_and_nothing_is_lost(backend: str) -> None:
    """A few of them; all of them are the proof in `tests/chaos/test_every_failpoint.py`."""
    found = await step_through([backend], only="vote.settle")
    assert found.runs.total() >= 4
    assert found.good, (found.missed, found.unlisted, found.broken)


async def test_a_write_that_cannot_be_committed_does_not_keep_the_next_ones_from_it(tmp_path: Path) -> None:
    """Found by the harness: the transaction stayed open, and every write after it was refused."""
    failing = Failpoint("ask.quota_of/insert/open/log/commit", "raise")
    with installed(Recorder([failing])) as recorder:
        async with open_desk(f"sqlite:///{tmp_path / 'questions.db'}") as desk:
            recorder.verb = "ask"
            with pytest.raises(StoreUnavailable, match="before the commit"):
                await desk.post("Go?", key="one")
            assert recorder.struck == [failing.point]
            question = await desk.post("Go?", key="one")
            await desk.answer(question.id, "yes", by="ana")
            assert [event.kind for event in await desk.history(question.id)] == ["asked", "answered"]


def test_the_product_knows_nothing_of_failpoints() -> None:
    """Off is not there at all: no module of the product imports the harness, nor does the harness change a driver."""
    code = "import sys, handraise, handraise.server, handraise.cli; print([m for m in sys.modules if m.startswith('chaos')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "[]"
    assert asyncpg.connect.__module__ == "asyncpg.connection"
    assert sqlite3.connect.__module__ == "_sqlite3"
    with installed(Recorder()):
        assert asyncpg.connect.__module__ == injection.__name__
    assert asyncpg.connect.__module__ == "asyncpg.connection"


def test_commands_and_failpoints_are_listed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "failpoints", "--list"], capture_output=True, text=True, check=True
    )
    listed = done.stdout.splitlines()
    for backend, verbs in POINTS.items():
        for verb, steps in verbs.items():
            assert {f"{backend:9} {verb}.{step}" for step in steps} <= set(listed)
