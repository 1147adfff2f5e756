"""Connections that PostgreSQL cuts: what was not sent, or only reads, is done again; else our own words say what to do."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from handraise import open_desk
from handraise.backends.postgres.connections import is_unsent, unavailable

CUT = """
select count(pg_terminate_backend(pid))
from pg_stat_activity
where datname = current_database() and application_name = 'handraise'
"""


@pytest.mark.parametrize(
    ("error", "unsent", "said"),
    [
        (
            asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
            True,
            "before this was sent",
        ),
        (asyncpg.InterfaceError("connection is closed"), True, "before this was sent"),
        (
            asyncpg.ConnectionDoesNotExistError("connection was closed in the middle"),
            False,
            "not known whether",
        ),
        (asyncpg.AdminShutdownError("terminating connection"), False, "not known whether"),
        (
            asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
            False,
            "another operation",
        ),
    ],
)
def test_only_what_was_not_sent_may_be_repeated(error: Exception, *, unsent: bool, said: str) -> None:
    assert is_unsent(error) is unsent
    assert said in str(unavailable(error))


async def test_posts_and_reads_go_on_while_idle_connections_are_cut(postgres: str) -> None:
    cutter = await asyncpg.connect(postgres)
    async with open_desk(postgres, workspace="cut") as desk, asyncio.timeout(60):
        for number in range(30):
            await cutter.fetchval(CUT)
            question = await desk.post(f"{number}?")
            await cutter.fetchval(CUT)
            assert (await desk.find_by_key("none"), (await desk.get(question.id)).id) == (None, question.id)
    await cutter.close()
