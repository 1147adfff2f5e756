"""Behind PgBouncer in transaction mode, where every transaction may get another session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import asyncpg
import pytest

from chaos.faults.pooler_crash import pooler_to
from handraise import (
    Answered,
    Declined,
    Desk,
    KeyConflict,
    QuestionNotFound,
    StillPending,
    StoreUnavailable,
    Withdrawn,
)
from handraise.backends.postgres import open_postgres
from handraise.desks import desk_from_store
from handraise.model.identities import Role
from handraise.ports import Backend
from handraise.testing import ManualClock, promise
from support.database import fetch_value
from tests.tiers import sized

SOON = 10.0


@pytest.fixture(
    scope="module",
    params=[1, pytest.param(3, marks=pytest.mark.slow("more is shared where there is one session"))],
    ids=["1 session", "3 sessions"],
)
def pooler(request: pytest.FixtureRequest, postgres: str) -> Iterator[str]:
    """The address of the database through a PgBouncer of our own, which has few sessions to give."""
    user = asyncio.run(fetch_value(postgres, "select current_user"))
    with pooler_to(postgres, user, sessions=request.param) as pooler:
        yield pooler.address


@pytest.fixture(params=[True, None], ids=["confined", "plain"])
async def backend(request: pytest.FixtureRequest, pooler: str, postgres: str) -> AsyncIterator[Backend]:
    async with open_postgres(pooler, listen=postgres, confined=request.param) as backend:
        yield backend


@pytest.fixture
async def desk(backend: Backend, workspace: str) -> AsyncIterator[Desk]:
    async with desk_from_store(backend.store, backend.bus, workspace=workspace) as desk:
        yield desk


async def test_the_verbs_of_a_desk_work_behind_a_pooler(desk: Desk) -> None:
    question = await desk.post("Which?", choices=["a", "b"], key="k", recipients=["ana"], conversation="c")
    assert (
        await desk.post("Which?", choices=["a", "b"], key="k", recipients=["ana"], conversation="c")
        == question
    )
    with pytest.raises(KeyConflict):
        await desk.post("Who?", key="k")
    assert await desk.find_by_key("k") == await desk.get(question.id) == question
    assert (await desk.list_pending(conversation="c")).items == [question]
    await desk.answer(question.id, "a", by="ana")
    declined, withdrawn = await desk.post("One?"), await desk.post("Two?")
    await desk.decline(declined.id, by="ana", reason="no")
    await desk.withdraw(withdrawn.id)
    endings = [await desk.wait(each.id, timeout=SOON) for each in (question, declined, withdrawn)]
    assert [type(outcome) for outcome in endings] == [Answered, Declined, Withdrawn]
    assert [event.kind for event in await desk.history(question.id)] == ["asked", "answered"]
    many = await asyncio.gather(*(desk.post(f"Which {n}?") for n in range(50)))
    await asyncio.gather(*(desk.answer(each.id, "this", by="ana") for each in many))
    assert (await desk.list_pending()).items == []


@promise("P4")
async def test_a_wait_behind_a_pooler_is_woken_by_somebody_else(
    backend: Backend, pooler: str, postgres: str, workspace: str
) -> None:
    async with (
        desk_from_store(backend.store, backend.bus, workspace=workspace, poll_interval=10 * SOON) as asker,
        open_postgres(pooler, listen=postgres) as other,
        desk_from_store(other.store, other.bus, workspace=workspace) as person,
    ):
        for n in range(5):
            question = await asker.post("Which?")
            waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
            with pytest.raises(StillPending):
                await asker.wait(question.id, timeout=0.1 if n == 0 else 0.01)
            answered = await person.answer(question.id, "a", by="ana")
            assert await waiting == answered.outcome


async def test_timelines_and_people_work_behind_a_pooler(pooler: str, postgres: str, workspace: str) -> None:
    clock = ManualClock()
    async with (
        open_postgres(pooler, listen=postgres, clock=clock, confined=True) as backend,
        desk_from_store(backend.store, backend.bus, workspace=workspace) as desk,
    ):
        question = await desk.post("Which?", expires_in=60)
        clock.advance(timedelta(minutes=2))
        assert question.ref in await backend.store.run_due(limit=10)
        directory = backend.directory
        for person in ("ana", "bob"):
            await directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
        assert await directory.put_group(workspace, "ops", ["ana", "nobody"]) == ["ana"]
        claims = [
            directory.claim(
                workspace, "agent", "k", fingerprint="f", made=f"{n}", patience=timedelta(minutes=1)
            )
            for n in range(20)
        ]
        states = [claim.state for claim in await asyncio.gather(*claims)]
        assert sorted(states) == ["busy"] * 19 + ["new"]


@promise("P8")
async def test_workspaces_that_share_a_session_never_see_each_other(
    pooler: str, postgres: str, workspace: str
) -> None:
    """Many transactions of two workspaces, and of somebody who set none, take turns in the same sessions."""
    kept = "select current_user::text, coalesce(current_setting('handraise.workspaces', true), '')"
    seen: set[tuple[str, ...]] = set()

    async def look() -> None:
        stranger = await asyncpg.connect(pooler, statement_cache_size=0)
        try:
            while not done.is_set():
                seen.add(tuple(await stranger.fetchrow(kept) or ()))
        finally:
            await stranger.close()

    async def work(desk: Desk, other: Desk) -> None:
        for n in range(sized(gate=5, nightly=20)):
            question = await desk.post(f"Which {n}?")
            assert {each.workspace for each in (await desk.list_pending()).items} == {question.workspace}
            with pytest.raises(QuestionNotFound):
                await other.get(question.id)
            await desk.answer(question.id, "a", by="ana")

    done = asyncio.Event()
    async with (
        open_postgres(pooler, listen=postgres, confined=True) as backend,
        desk_from_store(backend.store, backend.bus) as desk,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(look())
        one, two = desk.scoped(f"{workspace} 1"), desk.scoped(f"{workspace} 2")
        await asyncio.gather(*(work(*pair) for pair in [(one, two), (two, one)] * 3))
        done.set()
    assert seen == {(await fetch_value(postgres, "select current_user"), "")}


async def test_a_pooler_without_a_direct_address_is_refused(pooler: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"plan_cache_mode.*HANDRAISE_LISTEN_URL"):
        async with open_postgres(pooler):
            pass
