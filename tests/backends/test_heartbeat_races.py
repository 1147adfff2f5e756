"""Signs of askers in PostgreSQL, while other transactions hold the rows: nobody waits, and what was acknowledged counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from handraise import Desk, Question, Status, open_desk
from handraise.desk_factory import open_backend
from handraise.ports import Backend
from handraise.testing import ManualClock
from handraise.testing.contract.backend import put_policy
from tests.conftest import own_database

SOON = 10.0
CLOSED_AFTER = timedelta(minutes=15)
LOCK = "select from handraise.questions where id = $1 for update"


@pytest.fixture(scope="module")
def address() -> object:
    with own_database() as found:
        yield found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def backend(address: str, clock: ManualClock) -> AsyncIterator[Backend]:
    async with open_backend(address, clock=clock) as backend:
        if await backend.policies.current("races") is None:
            await put_policy(backend.policies, "races", {"close_orphans": "10m", "rules": []})
        yield backend


@pytest.fixture
async def desk(address: str, backend: Backend, clock: ManualClock) -> AsyncIterator[Desk]:
    assert backend is not None
    async with open_desk(address, workspace="races", clock=clock) as desk:
        yield desk


@pytest.fixture
async def other(address: str) -> AsyncIterator[object]:
    connection = await asyncpg.connect(address)
    yield connection
    await connection.close()


async def test_a_sign_does_not_wait_for_who_is_settling_the_question(
    desk: Desk, clock: ManualClock, other: asyncpg.Connection[asyncpg.Record]
) -> None:
    locked, free = [await desk.post("Which?", heartbeat="5m") for _ in range(2)]
    clock.advance(timedelta(minutes=5))
    async with other.transaction():
        await other.execute(LOCK, locked.id)
        async with asyncio.timeout(SOON):
            assert await desk.heartbeat([locked.id, free.id]) == 1
    assert await desk.heartbeat([locked.id, free.id]) == 2


async def test_a_sign_that_is_being_stored_is_not_overlooked(
    desk: Desk, clock: ManualClock, other: asyncpg.Connection[asyncpg.Record]
) -> None:
    question = await desk.post("Which?", heartbeat="5m")
    clock.advance(CLOSED_AFTER)
    async with other.transaction():
        heard = "update handraise.questions set heard_at = $2 where id = $1"
        await other.execute(heard, question.id, clock.now())
        async with asyncio.timeout(SOON):
            assert await desk.run_due() == 0
    assert await desk.run_due() == 0
    assert (await desk.get(question.id)).status is Status.PENDING


async def test_of_a_sign_and_a_sweep_at_once_either_was_first(
    desk: Desk, clock: ManualClock, backend: Backend
) -> None:
    """A sign that was acknowledged while the question was pending keeps it pending."""
    questions: list[Question] = [await desk.post("Which?", heartbeat="5m") for _ in range(60)]
    clock.advance(CLOSED_AFTER)

    async def sign(question: Question) -> tuple[str, bool]:
        return question.id, bool(await desk.heartbeat([question.id]))

    async def sweep() -> None:
        await backend.store.run_due(limit=7, workspace="races")

    sweeps = [asyncio.create_task(sweep()) for _ in range(4)]
    told = await asyncio.gather(*map(sign, questions))
    await asyncio.gather(*sweeps)
    found = {each: (await desk.get(each)).status for each, _ in told}
    assert {status for each, status in found.items() if dict(told)[each]} <= {Status.PENDING}
    assert {status for each, status in found.items() if not dict(told)[each]} <= {
        Status.WITHDRAWN,
        Status.PENDING,
    }
