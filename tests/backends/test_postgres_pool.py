"""The connections of a process to PostgreSQL: few, kept, and never given on in a bad state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from urllib.parse import urlsplit, urlunsplit

import pytest

from handraise import StoreUnavailable
from handraise.backends.postgres import database, open_postgres
from handraise.backends.postgres import pool as pool_module
from handraise.backends.postgres.connections import connection, open_pool, transaction
from handraise.backends.postgres.pool import Pool
from handraise.backends.postgres.transaction import STATEMENTS
from handraise.model.questions import Ref
from handraise.ports import Filter
from tests.backends.test_postgres_row_security import draft
from tests.conftest import own_database

SOON = 10.0
PROCESS = "select pg_backend_pid()"


@pytest.fixture(name="empty")
def new_database() -> Iterator[str]:
    with own_database() as address:
        yield address


@asynccontextmanager
async def pool_of(postgres: str, size: int) -> AsyncIterator[Pool]:
    pool = open_pool(postgres, size)
    try:
        yield pool
    finally:
        await asyncio.wait_for(pool.close(), SOON)


async def process_of(pool: Pool) -> int:
    async with connection(pool) as acquired:
        process: int = await acquired.fetchval(PROCESS)
    return process


async def test_a_connection_is_used_again(postgres: str) -> None:
    async with pool_of(postgres, 3) as pool:
        assert len({await process_of(pool) for _ in range(5)}) == 1


async def test_every_statement_is_prepared_once_however_long_it_is(postgres: str) -> None:
    """The driver keeps no long statements unless told to: then each is parsed and planned every time."""
    longest = max(STATEMENTS.values(), key=lambda each: len(each.numbered))
    kept = "select count(*) from pg_prepared_statements where statement = $1"
    async with pool_of(postgres, 1) as pool, connection(pool) as acquired:
        await acquired.fetch(longest.numbered, *[None] * len(longest.parameters))
        assert await acquired.fetchval(kept, longest.numbered) == 1


async def test_no_more_than_allowed_are_open_and_everybody_gets_a_turn(postgres: str) -> None:
    async with pool_of(postgres, 2) as pool, asyncio.timeout(SOON):
        processes = await asyncio.gather(*(process_of(pool) for _ in range(20)))
    assert len(processes) == 20
    assert len(set(processes)) == 2


async def test_a_connection_that_was_lost_is_not_given_out_again(postgres: str) -> None:
    async with pool_of(postgres, 2) as pool, asyncio.timeout(SOON), connection(pool) as other:
        async with connection(pool) as lost:
            process = await lost.fetchval(PROCESS)
        await other.execute("select pg_terminate_backend($1)", process)
        while not lost.is_closed():
            await asyncio.sleep(0.01)
        assert await process_of(pool) != process


async def test_a_connection_that_takes_no_writes_any_more_is_not_given_out_again(postgres: str) -> None:
    """Such as one to a primary that was fenced off, and has kept its connections."""
    async with pool_of(postgres, 1) as pool:
        async with connection(pool) as acquired:
            demoted = await acquired.fetchval(PROCESS)
            await acquired.execute("set default_transaction_read_only = on")
        with pytest.raises(StoreUnavailable):
            async with connection(pool) as acquired:
                await acquired.execute("create table written ()")
        assert await process_of(pool) != demoted


async def test_a_connection_left_in_a_transaction_is_not_given_out_again(postgres: str) -> None:
    async with pool_of(postgres, 1) as pool:
        async with connection(pool) as acquired:
            left = await acquired.fetchval(PROCESS)
            await acquired.execute("begin")
        async with connection(pool) as acquired:
            assert not acquired.is_in_transaction()
            assert await acquired.fetchval(PROCESS) != left


async def test_one_whose_statement_is_cancelled_can_be_used_by_the_next(postgres: str) -> None:
    async with pool_of(postgres, 1) as pool, asyncio.timeout(SOON):
        began = asyncio.Event()

        async def long() -> None:
            async with connection(pool) as acquired, transaction(acquired, "begin"):
                began.set()
                await acquired.execute("select pg_sleep(60)")

        task = asyncio.create_task(long())
        await began.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        async with connection(pool) as acquired:
            assert not acquired.is_in_transaction()
            assert await acquired.fetchval("select 1") == 1


async def test_whoever_is_cancelled_in_the_queue_takes_nobodys_turn(postgres: str) -> None:
    async with pool_of(postgres, 1) as pool, asyncio.timeout(SOON):
        async with connection(pool):
            cancelled, kept = (asyncio.create_task(process_of(pool)) for _ in range(2))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.wait([cancelled])
        assert await kept
        assert await process_of(pool)


async def test_waiting_for_a_connection_ends(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_PATIENCE", 0.05)
    async with pool_of(postgres, 1) as pool:
        async with connection(pool):
            with pytest.raises(StoreUnavailable):
                await process_of(pool)
        monkeypatch.setattr(pool_module, "_PATIENCE", SOON)
        assert await process_of(pool)


async def test_a_server_that_is_not_there_uses_nothing_up() -> None:
    async with pool_of("postgresql://127.0.0.1:1/nothing", 1) as pool, asyncio.timeout(SOON):
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await process_of(pool)


async def test_what_nobody_needs_for_long_is_closed(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_KEPT_IDLE", 0.05)
    async with pool_of(postgres, 2) as pool, asyncio.timeout(SOON):
        async with connection(pool) as one, connection(pool) as other:
            both = (one, other)
        while not all(each.is_closed() for each in both):
            await asyncio.sleep(0.01)
        assert await process_of(pool)


async def test_closing_waits_for_what_is_taken_and_gives_out_no_more(postgres: str) -> None:
    pool = open_pool(postgres, 1)
    async with asyncio.timeout(SOON):
        async with connection(pool) as acquired:
            queueing = asyncio.create_task(process_of(pool))
            await asyncio.sleep(0)
            closing = asyncio.create_task(pool.close())
            await asyncio.sleep(0)
            assert not closing.done()
            assert await acquired.fetchval("select 1") == 1
        await closing
        assert acquired.is_closed()
        with pytest.raises(StoreUnavailable):
            await queueing
    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(SOON):
            await process_of(pool)


@pytest.mark.only_proof_of("that a plan for an empty table is not kept when the table has grown")
async def test_a_plan_that_was_made_for_an_empty_table_is_made_anew_when_it_has_grown(
    empty: str, workspace: str
) -> None:
    """With row-level security, such a plan reads all of a workspace for each question."""
    async with open_postgres(empty, confined=True, connections=2) as backend, pool_of(empty, 1) as pool:
        await backend.store.read([Ref(workspace, "0")])
        await backend.store.insert([draft(workspace, str(number)) for number in range(5_000)])

        async def rows_fetched() -> int:
            """How many rows of questions indexes have led to; a connection tells of that once a second, when it works."""
            await asyncio.sleep(1.1)
            await backend.store.read([Ref(workspace, "0")])
            async with connection(pool) as acquired:
                fetched: int = await acquired.fetchval(
                    "select idx_tup_fetch from pg_stat_user_tables"
                    " where schemaname = 'handraise' and relname = 'questions'"
                )
            return fetched

        before = await rows_fetched()
        for number in range(20):
            assert (await backend.store.read([Ref(workspace, str(number))]))[0] is not None
        assert await rows_fetched() - before < 1_000


class Freezer:
    """Stands in front of PostgreSQL. While it is frozen nothing passes, and nothing is lost: as if the server were stopped."""

    def __init__(self) -> None:
        self.thawed = asyncio.Event()
        self.thawed.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def before(self, address: str) -> AsyncIterator[str]:
        parts = urlsplit(address)

        async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            from_server, to_server = await asyncio.open_connection(parts.hostname, parts.port)
            ways = ((reader, to_server), (from_server, writer))
            self._tasks |= {asyncio.create_task(self._pass_on(*way)) for way in ways}

        server = await asyncio.start_server(come, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield urlunsplit(parts._replace(netloc=f"127.0.0.1:{port}"))
        finally:
            self.thawed.set()
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def thaw(self) -> None:
        """Let everything pass, and wait until PostgreSQL is done with what came on the connections of before."""
        self.thawed.set()
        await asyncio.gather(*self._tasks)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError), closing(writer):
            while data := await reader.read(65_536):
                await self.thawed.wait()
                writer.write(data)
                await writer.drain()


async def test_a_frozen_server_is_given_up_soon_and_nothing_is_recorded_when_it_thaws(
    postgres: str, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    freezer = Freezer()
    async with (
        freezer.before(postgres) as address,
        open_postgres(address, confined=True, connections=2, listen=postgres) as backend,
        asyncio.timeout(SOON),
    ):
        assert await backend.store.read([Ref(workspace, "0")]) == [None]
        freezer.thawed.clear()
        with monkeypatch.context() as patched:
            for module, name in (
                (database, "WITHIN"),
                (database, "_AT_LEAST"),
                (pool_module, "_PATIENCE"),
                (pool_module, "_HANGING_UP"),
            ):
                patched.setattr(module, name, 0.1)
            for number in range(3):  # on a connection that is open, then where none can be opened
                with pytest.raises(StoreUnavailable):
                    await backend.store.insert([draft(workspace, str(number))])
        await freezer.thaw()
        await backend.store.insert([draft(workspace, "later")])
        found = await backend.store.pending(Filter(workspace=workspace), after=None, limit=10)
        assert [each.id for each in found] == ["later"]


async def test_a_server_that_is_slow_to_discard_plans_is_waited_for_as_long_as_for_a_connection(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_PLANNED", 0.0)
    monkeypatch.setattr(pool_module, "_AT_LEAST", 0.05)
    freezer = Freezer()
    async with freezer.before(postgres) as address, pool_of(address, 1) as pool, asyncio.timeout(SOON):
        process = await process_of(pool)
        freezer.thawed.clear()
        asyncio.get_running_loop().call_later(0.3, freezer.thawed.set)
        assert await process_of(pool) == process
