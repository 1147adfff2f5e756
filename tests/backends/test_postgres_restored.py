"""A dump that is restored elsewhere: events go on in their order, though another cluster counts its transactions."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import asyncpg
import pytest

from chaos.servers import Server, own_servers
from handraise import open_desk
from handraise.errors import SchemaMismatch
from handraise.testing import promise
from handraise.testing.contract.backend import fed

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.slow("starts two clusters; tests/backends/test_postgres.py has the order of the feed in one"),
]

AHEAD = "do $$ begin for n in 1..3000 loop perform pg_current_xact_id(); commit; end loop; end $$"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with own_servers(1) as (old,), own_servers(1) as (new,):  # of two copies one could not tell
        yield old, new


async def run(server: Server, *statements: str) -> None:
    connection = await asyncpg.connect(server.address)
    try:
        for each in statements:
            await connection.execute(each)
    finally:
        await connection.close()


def restored(old: Server, new: Server) -> None:
    dump, into = (old.binaries / "pg_dump", old.address), (new.binaries / "psql", new.address)
    text = subprocess.run([*dump], check=True, capture_output=True).stdout
    subprocess.run([*into, "--quiet", "--set=ON_ERROR_STOP=1"], check=True, input=text, capture_output=True)


@promise("P7")
async def test_the_feed_goes_on_where_it_was_when_a_dump_is_restored_in_another_cluster(
    servers: tuple[Server, Server],
) -> None:
    old, new = servers
    await run(old, AHEAD)
    async with open_desk(old.address) as desk:
        first, second = await desk.post("First?"), await desk.post("Second?")
        await desk.answer(first.id, "yes", by="ana")
        before = await fed(desk, 3)
    await run(new, "create role handraise_app", "create role handraise_keeper")  # which a dump has not
    restored(old, new)
    for _ in range(2):  # opened again, it does not begin another count
        async with open_desk(new.address) as desk:
            assert await fed(desk, 3) == before
    async with open_desk(new.address) as desk:
        await desk.answer(second.id, "no", by="ana")
        (since,) = await fed(desk, 1, after=before[-1].cursor)
        assert (since.kind, since.question_id) == ("answered", second.id)
        assert await fed(desk, 4) == [*before, since]


async def test_who_may_not_change_the_schema_is_told_to_let_its_owner_open_it_first(
    servers: tuple[Server, Server],
) -> None:
    server, _ = servers
    async with open_desk(server.address):
        pass
    await run(server, "create role worker login", "grant handraise_app to worker")
    worker = server.address.replace("postgres@", "worker@")
    async with open_desk(worker):
        pass
    await run(server, "update handraise.numbering set cluster = 'another'")
    with pytest.raises(SchemaMismatch, match="restored"):
        async with open_desk(worker):
            pass
    async with open_desk(server.address):
        pass
    async with open_desk(worker):
        pass
