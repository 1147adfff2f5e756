"""Old questions are removed from PostgreSQL beside the work that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import asyncpg
import pytest

from handraise import Approval, Desk, Question, QuestionNotFound
from handraise.backends.postgres import open_postgres, store
from handraise.desks import desk_from_store
from handraise.model.seals import Rule
from handraise.ports import Backend
from handraise.testing import ManualClock, promise
from tests.conftest import own_database

DAY, NOW = timedelta(days=1), timedelta(0)
SOON = 20.0
ALL = 1_000_000
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
def own() -> Iterator[str]:
    """A database in which nobody else's questions are."""
    with own_database() as address:
        yield address


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 3, 10, tzinfo=UTC))


@pytest.fixture
async def backend(own: str, clock: ManualClock) -> AsyncIterator[Backend]:
    async with open_postgres(own, clock=clock, connections=8) as opened:
        yield opened


async def test_every_workspace_keeps_by_its_rule_however_little_is_looked_at_at_once(
    backend: Backend, clock: ManualClock, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_LOOKED_AT", 3)
    for name in "abcd":
        async with desk(backend, name) as asking:
            await asking.post("Which, of those that wait?")
            await answered(asking, 5)
    await backend.ledger.put_rule("b", Rule(None))
    await backend.ledger.put_rule("c", Rule(DAY))
    clock.advance(2 * DAY)
    assert await backend.store.tidy(keep=None, limit=ALL) == 5
    assert await counted(own) == {"a": (6, 11), "b": (6, 11), "c": (1, 1), "d": (6, 11)}
    assert await backend.store.tidy(keep=3 * DAY, limit=ALL) == 0
    first = await backend.store.tidy(keep=DAY, limit=2)
    assert 2 <= first < 5
    assert await backend.store.tidy(keep=DAY, limit=ALL) == 10 - first
    assert await counted(own) == {"a": (1, 1), "b": (6, 11), "c": (1, 1), "d": (1, 1)}


@promise("P11")
async def test_a_question_that_somebody_has_locked_is_removed_the_next_time(
    backend: Backend, clock: ManualClock, own: str
) -> None:
    async with desk(backend, "a") as asking, connected(own) as plain:
        paid = await asking.post("Pay?", form=Approval.of("pay", {"amount": 7}))
        await asking.answer(paid.id, "approve", by="ana")
        await answered(asking, 1)
        clock.advance(2 * DAY)
        async with asyncio.timeout(SOON), plain.transaction():
            await plain.execute("select from handraise.questions where id = $1 for update", paid.id)
            assert await backend.store.tidy(keep=DAY, limit=ALL) == 1
        await asking.consume_approval(paid.id)
        assert await backend.store.tidy(keep=DAY, limit=ALL) == 1
        with pytest.raises(QuestionNotFound):
            await asking.history(paid.id)


@promise("P1", "P7")
async def test_while_questions_are_removed_everything_goes_on_and_each_is_removed_once(own: str) -> None:
    done = asyncio.Event()

    async def removing(backend: Backend) -> int:
        removed = 0
        while not done.is_set():
            removed += await backend.store.tidy(keep=NOW, limit=ALL)
            await asyncio.sleep(0)
        return removed

    async def asking(desk: Desk, name: str) -> None:
        for n in range(60):
            question = await desk.post(f"Which {name} {n}?", key=f"{name} {n}")
            ended = await desk.answer(question.id, "this", by="ana")
            assert ended.status == "answered"

    async with (
        open_postgres(own, connections=6) as backend,
        open_postgres(own, connections=3) as other,
        desk(backend, "a") as opened,
        asyncio.timeout(60),
        asyncio.TaskGroup() as tasks,
    ):
        removals = [tasks.create_task(removing(each)) for each in (backend, other)]
        await asyncio.gather(*(asking(opened, name) for name in "abcd"))
        done.set()
        counts = await asyncio.gather(*removals)
        assert sum(counts) + await backend.store.tidy(keep=NOW, limit=ALL) == 4 * 60
    assert await counted(own) == {}


async def test_an_owner_who_is_no_superuser_removes_for_every_workspace(own: str, workspace: str) -> None:
    """The owner is bound by row-level security as well."""
    name = f"owner_{workspace[-12:]}".replace("-", "_")
    clock = ManualClock(datetime(2026, 3, 10, tzinfo=UTC))
    async with connected(own) as plain:
        await plain.execute(f"create role {name} login")
        await plain.execute(f"create database {name} owner {name}")
        address = own.rsplit("/", 1)[0].replace("//", f"//{name}@", 1) + f"/{name}"
        try:
            async with open_postgres(address, clock=clock) as backend:
                for each in ("a", "b"):
                    async with desk(backend, each) as asking:
                        await answered(asking, 2)
                clock.advance(2 * DAY)
                assert await backend.store.tidy(keep=DAY, limit=ALL) == 4
            assert await counted(address) == {}
        finally:
            await plain.execute(f"drop database {name} with (force)")
            await plain.execute(f"drop role {name}")


@asynccontextmanager
async def desk(backend: Backend, workspace: str) -> AsyncIterator[Desk]:
    async with desk_from_store(backend.store, backend.bus, workspace=workspace) as opened:
        yield opened


async def answered(desk: Desk, count: int) -> list[Question]:
    posted = [await desk.post(f"Which {n}?") for n in range(count)]
    return [await desk.answer(each.id, "this", by="ana") for each in posted]


async def counted(address: str) -> dict[str, tuple[int, int]]:
    """How many questions and events there are of each workspace."""
    statement = """
        select e.workspace, count(distinct q.id) as questions, count(distinct e.number) as events
        from handraise.events as e
        left join handraise.questions as q on q.workspace = e.workspace and q.id = e.question_id
        where e.question_id <> ''
        group by e.workspace
    """
    async with connected(address) as connection:
        rows = await connection.fetch(statement)
    return {row["workspace"]: (row["questions"], row["events"]) for row in rows}


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(address)
    try:
        yield connection
    finally:
        await connection.close()
