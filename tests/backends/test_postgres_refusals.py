"""Rows that PostgreSQL refuses. No verb lets one get that far; somebody's own ids can."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from handraise import Open, Question, Responder, StoreUnavailable, open_desk
from handraise.backends.postgres import open_postgres
from handraise.desk.ids import uuid7_ids
from handraise.desks import desk_from_store
from handraise.model.lifecycle import answer_move
from handraise.questions import Draft

HALF_A_PAIR = "\ud800"


async def test_a_row_that_postgresql_refuses_does_not_fail_its_neighbours(
    postgres: str, workspace: str
) -> None:
    good = uuid7_ids()
    ids = iter([good(), HALF_A_PAIR, good(), good()])
    async with open_desk(postgres, workspace=workspace, new_id=lambda: next(ids)) as desk:
        results = await asyncio.gather(*(desk.post(f"Which {n}?") for n in range(4)), return_exceptions=True)
        assert [type(result).__name__ for result in results] == [
            "Question",
            "StoreUnavailable",
            "Question",
            "Question",
        ]
        assert len((await desk.list_pending()).items) == 3


async def test_an_answer_that_postgresql_refuses_does_not_fail_its_neighbours(
    postgres: str, workspace: str
) -> None:
    async with open_desk(postgres, workspace=workspace) as desk:
        questions = [await desk.post(f"Which {n}?") for n in range(3)]
        bad = replace(questions[0], id=HALF_A_PAIR)
        moves = [answer_move(each, Responder("ana"), "a") for each in (questions[0], bad, *questions[1:])]
        settle = desk._engine.settle  # type: ignore[attr-defined]  # noqa: SLF001 -- no verb would send it
        results = await asyncio.gather(*map(settle, moves), return_exceptions=True)
        assert [getattr(result, "status", type(result)) for result in results] == [
            "answered",
            StoreUnavailable,
            "answered",
            "answered",
        ]
        for question in questions:
            assert [event.kind for event in await desk.history(question.id)] == ["asked", "answered"]


async def test_a_row_that_is_refused_does_not_fail_those_of_other_workspaces(
    postgres: str, workspace: str
) -> None:
    async with open_postgres(postgres, confined=True) as backend:
        ids = iter([HALF_A_PAIR, "1", "2"])
        async with desk_from_store(backend.store, backend.bus, new_id=lambda: next(ids)) as desk:
            desks = [desk.scoped(f"{workspace}{n}") for n in range(3)]
            results = await asyncio.gather(*(each.post("Which?") for each in desks), return_exceptions=True)
            assert [type(each).__name__ for each in results] == ["StoreUnavailable", "Question", "Question"]


async def test_what_is_done_in_part_is_not_told_as_refused(postgres: str, workspace: str) -> None:
    """Whoever makes it again, row by row, would make the other part twice."""
    async with open_postgres(postgres) as backend, open_postgres(postgres, confined=True) as confined:
        drafts = [Draft(id="1", workspace=workspace, asker="agent", prompt="?", form=Open(), quorum=2)]
        (question,) = await backend.store.insert(drafts)
        assert isinstance(question, Question)
        bad = replace(question, id=HALF_A_PAIR)
        ana, bob = Responder("ana"), Responder("bob")
        with pytest.raises(StoreUnavailable) as whole:
            await backend.store.settle([answer_move(question, ana, "a"), answer_move(bad, ana, "a")])
        assert whole.value.refused
        assert len(await backend.store.history(question.ref)) == 1
        again = [answer_move(question, ana, "a"), answer_move(bad, ana, "a"), answer_move(question, bob, "a")]
        with pytest.raises(StoreUnavailable) as rounds:
            await backend.store.settle(again)
        assert not rounds.value.refused
        elsewhere = replace(drafts[0], workspace=f"{workspace} too")
        with pytest.raises(StoreUnavailable) as parts:
            await confined.store.insert([replace(drafts[0], id=HALF_A_PAIR), elsewhere])
        assert parts.value.refused
        assert await confined.store.read([elsewhere.ref]) == [None]
