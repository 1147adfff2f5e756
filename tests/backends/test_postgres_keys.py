"""One key names one question in PostgreSQL, also when one statement began before the other one took the key."""

from __future__ import annotations

import asyncio

import asyncpg

from handraise import open_desk
from handraise.testing.promises import promise

SOON = 30
HOLD = "select from handraise.questions where workspace = $1 and id = $2 for update"
WAITS = "select count(*) from pg_locks where not granted and locktype in ('transactionid', 'tuple')"


@promise("P9")
async def test_a_key_that_was_posted_while_a_join_waited_names_what_was_posted(postgres: str) -> None:
    holder = await asyncpg.connect(postgres)
    async with open_desk(postgres, workspace="join-waits") as desk, asyncio.timeout(SOON):
        first = await desk.post("One?")
        async with holder.transaction():
            await holder.fetch(HOLD, "join-waits", first.id)
            joining = asyncio.create_task(desk.join(first.id, key="k"))
            await _waits(holder)
            second = await desk.post("Two?", key="k")
        assert await joining == second
        assert await desk.find_by_key("k") == second
        assert [each.kind for each in await desk.history(first.id)] == ["asked"]
    await holder.close()


@promise("P9")
async def test_a_key_that_was_joined_while_a_post_waited_names_what_was_joined(postgres: str) -> None:
    holder = await asyncpg.connect(postgres)
    async with open_desk(postgres, workspace="post-waits") as desk, asyncio.timeout(SOON):
        old, first = await desk.post("Old?"), await desk.post("One?")
        async with holder.transaction():
            await holder.fetch(HOLD, "post-waits", old.id)
            posting = asyncio.create_task(desk.post("One?", key="k", replaces=old.id, if_exists="keep"))
            await _waits(holder)
            assert await desk.join(first.id, key="k") == first
        assert await posting == first
        assert (await desk.get(old.id)).status == "pending"
    await holder.close()


async def _waits(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Wait until a statement waits for the row of a question."""
    while not await connection.fetchval(WAITS):
        await asyncio.sleep(0.005)
