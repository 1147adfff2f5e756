"""Every statement that a transaction makes has a failpoint, in the list and in fact; and each of them bites."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from chaos.failpoints import injection
from chaos.failpoints.catalog import (
    BACKENDS,
    BESIDE,
    OUTSIDE,
    POINTS_FILE,
    WRITE_ANEW,
    load_points,
    outside_by_file,
)
from chaos.failpoints.injection import POSTGRES_PARTS, SQLITE_PARTS, Failpoint, Recorder, installed
from chaos.failpoints.runner import step_through, steps_made
from handraise import StoreUnavailable, open_desk
from handraise.backends.sql.dialects import Dialect

pytestmark = pytest.mark.timeout(300)

POINTS = load_points()


def writing(backend: str) -> set[str]:
    """The statements that write or lock."""
    parts = SQLITE_PARTS if backend == "sqlite" else POSTGRES_PARTS
    return {name for name, part in parts.items() if part.writes}


def named_in(backend: str) -> set[str]:
    """The statements in the names of its failpoints, also those that are made as one."""
    return {
        name
        for steps in POINTS[backend].values()
        for step in steps
        for together in step.split("/")
        for name in together.split("_and_")
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_statement_that_writes_has_a_failpoint_or_a_reason(backend: str) -> None:
    excused = {name for names in OUTSIDE.values() for name in names}
    excused |= outside_by_file(Dialect.SQLITE if backend == "sqlite" else Dialect.POSTGRES)
    without = writing(backend) - named_in(backend) - excused
    assert without == set(), (
        "give it a scene in chaos/failpoints/scenes.py, or a reason in chaos/failpoints/catalog.py"
    )


def test_no_failpoint_and_no_reason_is_for_a_statement_that_is_gone() -> None:
    named = {name for backend in BACKENDS for name in named_in(backend)} - {"begin", "commit"}
    assert named - POSTGRES_PARTS.keys() - SQLITE_PARTS.keys() == set(), WRITE_ANEW
    excused = {name for names in OUTSIDE.values() for name in names}
    assert excused - writing("postgres") - writing("sqlite") == set()
    assert {name for name in excused if all(name in named_in(backend) for backend in BACKENDS)} == set()


def test_the_file_of_failpoints_is_sorted_and_has_each_once() -> None:
    lines = POINTS_FILE.read_text().splitlines()
    assert lines == sorted(set(lines)), WRITE_ANEW


@pytest.mark.slow(
    "test_every_failpoint.py finds steps without a failpoint in the gate, and failpoints without a step"
)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_steps_that_are_made_are_those_that_have_a_failpoint(backend: str, tmp_path: Path) -> None:
    """A statement that is added to a transaction, or another order, is another step."""
    for verb, made in (await steps_made(backend, tmp_path)).items():
        listed = set(POINTS[backend][verb])
        assert (listed - made, made - listed - BESIDE) == (set(), set()), f"{verb}: {WRITE_ANEW}"


@pytest.mark.slow("test_every_failpoint.py strikes these and all others in the gate")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_some_failpoints_strike_and_nothing_is_lost(backend: str) -> None:
    """A few of them; all of them are the proof in `tests/chaos/test_every_failpoint.py`."""
    found = await step_through([backend], only="vote.lock")
    assert found.runs.total() >= 4
    assert found.good, (found.missed, found.unlisted, found.broken)


async def test_a_write_that_cannot_be_committed_does_not_keep_the_next_ones_from_it(tmp_path: Path) -> None:
    """Found by the harness: the transaction stayed open, and every write after it was refused."""
    failing = Failpoint("ask.ask_facts/insert_questions/open_inbox/add_events/commit", "raise")
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
