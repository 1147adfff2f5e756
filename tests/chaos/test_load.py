"""The load of the faults: what it leaves is right where nothing is wrong, and found wrong where something is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from chaos.faults import main
from chaos.faults.harness import WORKSPACE, desks_on, judged, under_load
from chaos.faults.load import Load
from chaos.history import Entry
from chaos.history_checker import Stored, check
from chaos.stored_state import stored_questions
from handraise import Desk, Question, StoreUnavailable, open_desk
from handraise.model.provenance import Provenance

EVERYTHING = {"ask", "answer", "decline", "withdraw", "read", "wait"}


@pytest.fixture
async def left(tmp_path: Path) -> tuple[list[Entry], list[Stored]]:
    """What a small load wrote down, and what is stored of it."""
    address = f"sqlite:///{tmp_path / 'questions.db'}"
    async with desks_on(address) as desks, under_load(desks, seed=7, callers=3) as load:
        await load.busy(10)
    return load.entries, await stored_questions(address, WORKSPACE)


async def test_a_load_without_faults_leaves_nothing_wrong(left: tuple[list[Entry], list[Stored]]) -> None:
    verdict = check(*left)
    assert verdict.problems == []
    assert verdict.unknown == 0
    assert verdict.questions >= 30
    assert verdict.by_op.keys() == EVERYTHING


async def test_whatever_is_changed_in_its_store_is_found(left: tuple[list[Entry], list[Stored]]) -> None:
    entries, (first, *others) = left
    assert first.outcome is not None
    other = {**first.outcome, "by": "eve"}
    for changed, rule in (
        ([], "lost ask"),
        ([first, replace(first, id="other")], "key"),
        ([replace(first, id="other")], "lost ask"),
        ([replace(first, outcome=other)], "two outcomes"),
        ([replace(first, outcome=other)], "invented"),
        ([replace(first, outcome=None, status="pending")], "lost answer"),
        ([first, replace(first, key="nobody's", id="other")], "invented"),
    ):
        assert rule in {each.rule for each in check(entries, [*changed, *others]).violations}, rule


async def test_an_unknown_end_is_done_again_and_any_other_error_ends_the_load(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'questions.db'}"
    load = Load()
    async with open_desk(address, workspace=WORKSPACE) as desk:
        question = await load.ask("p", desk, "k")
        for error in (StoreUnavailable("gone"), ZeroDivisionError()):
            with suppress(ZeroDivisionError):
                await load.move("p", cast("Desk", Flaky(desk, error)), question, "ann")
        await load.wait("p", desk, question)
        await load.read("p", desk, question)
    assert [entry.type for entry in load.entries if entry.op == "answer"] == [
        *("invoke", "unknown", "invoke", "fail"),  # it was done, and nobody else was faster
        *("invoke", "unknown"),
    ]
    survived = await judged(address, load.entries, "twice", began=0.0, least=3)
    assert [problem.partition(":")[0] for problem in survived.problems] == [
        "only 50% of 6 calls succeeded",
        "2 calls have an unknown end, not 3 to inf",
    ]


class Flaky:
    """A desk that does what it should, and says once that it may not have."""

    def __init__(self, desk: Desk, error: Exception) -> None:
        self._desk = desk
        self._error: Exception | None = error

    async def answer(
        self, question_id: str, value: str, *, by: str, provenance: Provenance | None = None
    ) -> Question:
        error, self._error = self._error, None
        if isinstance(error, ZeroDivisionError):
            raise error
        answered = await self._desk.answer(question_id, value, by=by, provenance=provenance)
        if error is not None:
            raise error
        return answered


def test_the_command_knows_no_other_faults() -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])
