"""An approval in PostgreSQL that lapses while its use waits for a lock is not used."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from handraise import Approval, open_desk
from handraise.errors import ApprovalLapsed
from handraise.testing.promises import promise

SOON = 30
HOLD = "select from handraise.questions where workspace = $1 and id = $2 for update"
WAITS = "select count(*) from pg_locks where not granted and locktype in ('transactionid', 'tuple')"
LAPSED = "select clock_timestamp() > $1::timestamptz + interval '1 second'"


@promise("P16")
async def test_an_approval_that_lapses_while_its_use_waits_is_not_used(postgres: str) -> None:
    holder = await asyncpg.connect(postgres)
    async with open_desk(postgres, workspace="lapse-waits") as desk, asyncio.timeout(SOON):
        question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 1}, valid_for=1))
        answered = await desk.answer(question.id, "approve", by="ana")
        assert answered.outcome is not None
        async with holder.transaction():
            await holder.fetch(HOLD, "lapse-waits", question.id)
            using = asyncio.create_task(desk.consume_approval(question.id))
            while not await holder.fetchval(WAITS):
                await asyncio.sleep(0.005)
            while not await holder.fetchval(LAPSED, answered.outcome.at):
                await asyncio.sleep(0.05)
        with pytest.raises(ApprovalLapsed):
            await using
        assert (await desk.get(question.id)).consumed_at is None
    await holder.close()
