"""A stop in PostgreSQL is acknowledged only after the statements that could not see it have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from handraise import Approval, open_desk
from handraise.backends.postgres import open_postgres, policies
from handraise.errors import Stopped, StoreUnavailable
from handraise.ports import Policies
from handraise.testing.promises import promise

SOON = 30
PAY = Approval.of("pay", {"amount": 1})
HOLD = "select from handraise.questions where workspace = $1 and id = $2 for update"


@pytest.fixture
async def stops(postgres: str) -> AsyncIterator[Policies]:
    async with open_postgres(postgres) as backend:
        yield backend.policies


@promise("P18")
async def test_a_stop_waits_for_what_began_before_it(postgres: str, stops: Policies) -> None:
    place, holder = "stop-waits", await asyncpg.connect(postgres)
    async with open_desk(postgres, workspace=place) as desk, asyncio.timeout(SOON):
        used, unused = [await desk.post("Pay?", form=PAY) for _ in range(2)]
        for each in (used, unused):
            await desk.answer(each.id, "approve", by="ana")
        held = holder.transaction()
        await held.start()
        await holder.fetch(HOLD, place, used.id)
        consuming = asyncio.create_task(desk.consume_approval(used.id))
        await _waits(holder, 1)
        stopping = asyncio.create_task(stops.stop(place, why="wrong account", by="olga"))
        while not await stops.stops(place):
            await asyncio.sleep(0.005)
        # What begins now sees it. What began before may have read its facts already, so the stop is not acknowledged yet.
        with pytest.raises(Stopped):
            await desk.consume_approval(unused.id)
        assert not stopping.done()
        await held.rollback()
        with pytest.raises(Stopped):
            await consuming  # it had not: it reads them once the question is locked
        assert (await stopping).why == "wrong account"
    await holder.close()


async def test_a_stop_that_cannot_be_sure_says_so_and_is_stored(
    postgres: str, stops: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "_PATIENCE", 0.02)
    place, holder = "stop-unsure", await asyncpg.connect(postgres)
    async with holder.transaction():
        await holder.execute("delete from handraise.questions where workspace = 'nobody'")
        with pytest.raises(StoreUnavailable, match="Stop again to be sure"):
            await stops.stop(place, why="wrong account", by="olga")
    assert len(await stops.stops(place)) == 1
    assert (await stops.stop(place, why="once more", by="olga")).why == "wrong account"
    await holder.close()


async def _waits(connection: asyncpg.Connection[asyncpg.Record], number: int) -> None:
    """Wait until so many statements wait for a row of a question."""
    waiting = "select count(*) from pg_locks where not granted and locktype in ('transactionid', 'tuple')"
    while await connection.fetchval(waiting) < number:
        await asyncio.sleep(0.005)
