"""Settled questions leave the table that is worked in, and nobody can tell, except that it stays small."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import asyncpg
import pytest

from handraise import Approval, Desk, Question, QuestionNotFound, open_desk
from handraise.backends.postgres import open_postgres, store
from handraise.backends.postgres.connections import SETTINGS
from handraise.desks import desk_from_store
from handraise.errors import AlreadyConsumed, AlreadyReported, ApprovalTakenBack
from handraise.ports import Backend
from handraise.testing import ManualClock, promise
from tests.conftest import own_database

DAY, WEEK = timedelta(days=1), timedelta(days=7)
NOW = timedelta(0)
SOON = 10.0
ALL = 1_000_000
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture(scope="module", name="own")
def own_address() -> Iterator[str]:
    """A database in which nobody else's questions are."""
    with own_database() as address:
        yield address


@pytest.fixture
def fresh() -> Iterator[str]:
    with own_database() as address:
        yield address


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 3, 10, tzinfo=UTC))


@pytest.fixture(params=[None, True], ids=["plain", "confined"])
async def backend(request: pytest.FixtureRequest, own: str, clock: ManualClock) -> AsyncIterator[Backend]:
    async with open_postgres(own, clock=clock, connections=8, confined=request.param) as opened:
        yield opened


@pytest.fixture
async def desk(backend: Backend, workspace: str) -> AsyncIterator[Desk]:
    async with desk_from_store(backend.store, backend.bus, workspace=workspace) as opened:
        yield opened


@pytest.fixture
async def plain(own: str) -> AsyncIterator[Connection]:
    async with open_desk(own), connected(own) as connection:
        yield connection


async def test_what_is_settled_long_enough_is_moved_to_its_month_and_the_rest_stays(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock, workspace: str
) -> None:
    in_march, in_april = await answered(desk, 3), []
    waiting = await desk.post("Which?")
    clock.advance(timedelta(days=25))
    in_april = await answered(desk, 2)
    clock.advance(timedelta(days=6))
    assert await backend.store.tidy(rest=WEEK, keep=None, limit=ALL) >= 3
    assert await places(plain, workspace) == {"questions": 3, "archive_2026_03": 3}
    clock.advance(timedelta(days=2))
    await backend.store.tidy(rest=WEEK, keep=None, limit=ALL)
    assert await places(plain, workspace) == {"questions": 1, "archive_2026_03": 3, "archive_2026_04": 2}
    for question in (*in_march, *in_april):
        assert (await desk.get(question.id)) == question
        assert await desk.wait(question.id, timeout=SOON) == question.outcome
    assert (await desk.get(waiting.id)).status == "pending"
    assert (await desk.list_settled()).items == [*reversed(in_april), *reversed(in_march)]


async def test_a_look_that_archives_nothing_lets_new_ids_be_believed(fresh: str) -> None:
    async with open_postgres(fresh) as opened, connected(fresh) as plain:
        await opened.store.tidy(rest=NOW, keep=None, limit=ALL)
        assert await plain.fetchval("select mark from handraise.archive_hand") == ""


async def test_partitions_are_walled_like_every_table(
    backend: Backend, desk: Desk, clock: ManualClock, plain: Connection
) -> None:
    await answered(desk, 1)
    clock.advance(DAY)
    await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
    walls = """
        select c.relname, c.relrowsecurity and c.relforcerowsecurity as forced, p.polname,
            has_table_privilege('handraise_app', c.oid, 'select, insert, update, delete') as open
        from pg_class as c left join pg_policy as p on p.polrelid = c.oid
        where c.oid in (select inhrelid from pg_inherits where inhparent = 'handraise.archive'::regclass)
    """
    partitions = [tuple(row) for row in await plain.fetch(walls)]
    assert partitions
    assert all(row[1:] == (True, "workspace", False) for row in partitions)


async def test_the_archive_has_the_columns_of_questions(plain: Connection) -> None:
    columns = """
        select attname, format_type(atttypid, atttypmod) as type, attcollation
        from pg_attribute where attrelid = $1::text::regclass and attnum > 0 and not attisdropped order by attnum
    """
    hot, archived = [await plain.fetch(columns, f"handraise.{name}") for name in ("questions", "archive")]
    assert hot == archived


async def test_a_month_is_dropped_once_nothing_in_it_is_kept_and_readers_never_wait(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock, own: str, workspace: str
) -> None:
    old = await answered(desk, 3)
    clock.advance(timedelta(days=60))
    new = await answered(desk, 1)
    await backend.store.tidy(rest=WEEK, keep=None, limit=ALL)
    assert "archive_2026_03" in await months(plain)
    async with connected(own) as reader, reader.transaction():
        await reader.execute("select from handraise.archive")
        await backend.store.tidy(rest=WEEK, keep=30 * DAY, limit=ALL)
        # Removed for anyone who looks; the month itself waits until nobody reads the archive.
        assert "archive_2026_03" in await months(plain)
        with pytest.raises(QuestionNotFound):
            await desk.get(old[0].id)
    await backend.store.tidy(rest=WEEK, keep=30 * DAY, limit=ALL)
    assert "archive_2026_03" not in await months(plain)
    assert (await desk.list_settled()).items == new
    assert await places(plain, workspace) == {"questions": 1}


async def test_a_month_with_one_question_that_is_kept_longer_stays(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock, workspace: str
) -> None:
    held, gone = await answered(desk, 2)
    clock.advance(timedelta(days=90))
    await backend.store.tidy(rest=WEEK, keep=None, limit=ALL)
    hold = "update handraise.archive_index set kept_until = 'infinity' where workspace = $1 and id = $2"
    await plain.execute(hold, workspace, held.id)
    await backend.store.tidy(rest=WEEK, keep=DAY, limit=ALL)
    assert await desk.get(held.id) == held
    with pytest.raises(QuestionNotFound):
        await desk.get(gone.id)
    assert "archive_2026_03" in await months(plain)
    await plain.execute("delete from handraise.archive_index where workspace = $1", workspace)


@promise("P9")
async def test_no_question_leaves_while_somebody_posts_who_cannot_see_its_copy(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock, own: str, workspace: str
) -> None:
    """A statement that began before the copy was made would find the key in neither place."""
    question = await desk.post("Which?", key="release 7")
    await desk.answer(question.id, "this", by="ana")
    clock.advance(DAY)
    async with connected(own) as slow, asyncio.timeout(SOON):
        async with slow.transaction():
            await slow.execute("delete from handraise.questions where workspace = 'nobody'")
            tidying = asyncio.create_task(backend.store.tidy(rest=NOW, keep=None, limit=ALL))
            copied = "select count(*) from handraise.archive_index where workspace = $1"
            while not await plain.fetchval(copied, workspace):
                await asyncio.sleep(0.01)
            assert (await desk.post("Which?", key="release 7")).id == question.id
            assert await desk.list_settled() == await desk.list_settled()
            assert len((await desk.list_settled()).items) == 1
            assert await places(plain, workspace) == {"questions": 1, "archive_2026_03": 1}
        assert await tidying == 1
    assert await places(plain, workspace) == {"archive_2026_03": 1}
    (again, *others) = await asyncio.gather(
        desk.post("Which?", key="release 7"), *(desk.post("Other?") for _ in range(3))
    )
    assert again.id == question.id
    assert [each.status for each in others] == ["pending"] * 3
    assert len((await desk.list_pending()).items) == 3
    assert [event.kind for event in await desk.history(question.id)] == ["asked", "answered"]


async def test_who_writes_for_long_holds_nothing_up(
    backend: Backend,
    desk: Desk,
    plain: Connection,
    clock: ManualClock,
    own: str,
    workspace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "_PATIENCE", 0.02)
    await answered(desk, 1)
    clock.advance(DAY)
    async with connected(own) as slow, asyncio.timeout(SOON), slow.transaction():
        await slow.execute("delete from handraise.questions where workspace = 'nobody'")
        assert await backend.store.tidy(rest=NOW, keep=None, limit=ALL) == 0
    assert await places(plain, workspace) == {"questions": 1, "archive_2026_03": 1}
    assert await backend.store.tidy(rest=NOW, keep=NOW, limit=ALL) >= 1
    assert (await desk.list_settled()).items == []
    assert await backend.store.feed(workspace, after=None, limit=10) == []


@promise("P9")
async def test_the_id_of_an_archived_question_cannot_be_taken(
    backend: Backend, desk: Desk, clock: ManualClock, workspace: str
) -> None:
    (question,) = await answered(desk, 1)
    clock.advance(DAY)
    await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
    async with desk_from_store(
        backend.store, backend.bus, workspace=workspace, new_id=lambda: question.id
    ) as liar:
        assert await liar.post("Which 0?") == question
    assert (await desk.list_pending()).items == []


@promise("P11")
async def test_an_approval_that_is_archived_meanwhile_is_used_up_once(
    desk: Desk, plain: Connection, clock: ManualClock
) -> None:
    form = Approval.of("pay", {"amount": 7})
    question = await desk.post("Pay?", form=form)
    await desk.answer(question.id, "approve", by="ana")
    clock.advance(DAY)
    (copied,) = await plain.fetch("select * from handraise.copy_settled($1, 1000000)", clock.now())
    async with plain.transaction():
        leave = "select handraise.leave_copied($1, $2)"
        assert await plain.fetchval(leave, copied["workspaces"], copied["ids"])
        consuming = asyncio.gather(
            *(desk.consume_approval(question.id) for _ in range(3)), return_exceptions=True
        )
        await somebody_waits_for_a_lock(plain)
    results = await asyncio.wait_for(consuming, SOON)
    assert sorted(type(each).__name__ for each in results) == ["Action", "AlreadyConsumed", "AlreadyConsumed"]
    assert (await desk.get(question.id)).consumed_at == clock.now()
    with pytest.raises(AlreadyConsumed):
        await desk.consume_approval(question.id)
    assert [event.kind for event in await desk.history(question.id)] == ["asked", "answered", "consumed"]


@promise("P11")
async def test_an_approval_that_is_used_up_while_it_is_in_both_places_stays_used_up(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock
) -> None:
    question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 7}))
    await desk.answer(question.id, "approve", by="ana")
    clock.advance(DAY)
    await plain.fetch("select * from handraise.copy_settled($1, 1000000)", clock.now())
    await desk.consume_approval(question.id)
    assert await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
    assert (await desk.get(question.id)).consumed_at == clock.now()
    with pytest.raises(AlreadyConsumed):
        await desk.consume_approval(question.id)


@promise("P11")
async def test_an_approval_that_is_taken_back_while_it_is_in_both_places_stays_taken_back(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock
) -> None:
    both, archived = [await desk.post("Pay?", form=Approval.of("pay", {"amount": n})) for n in range(2)]
    for question in (both, archived):
        await desk.answer(question.id, "approve", by="ana")
    clock.advance(DAY)
    await plain.fetch("select * from handraise.copy_settled($1, 1000000)", clock.now())
    await desk.take_back(both.id, by="ana")
    assert await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
    await desk.take_back(archived.id, by="ana")
    for question in (both, archived):
        assert (await desk.get(question.id)).taken_back_at == clock.now()
        with pytest.raises(ApprovalTakenBack):
            await desk.consume_approval(question.id)


@promise("P6")
async def test_a_report_is_kept_wherever_the_question_is(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock
) -> None:
    before, both, archived = await answered(desk, 3)
    await desk.report(before.id, ok=True, text="before")
    clock.advance(DAY)
    await plain.fetch("select * from handraise.copy_settled($1, 1000000)", clock.now())
    await desk.report(both.id, ok=True, text="in both places")
    assert await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
    await desk.report(archived.id, ok=False, text="archived")
    reports = [(await desk.get(each.id)).report for each in (before, both, archived)]
    assert [each and each.text for each in reports] == ["before", "in both places", "archived"]
    for question in (before, both, archived):
        with pytest.raises(AlreadyReported):
            await desk.report(question.id, ok=True, text="something else")
        with pytest.raises(asyncpg.PostgresError, match="reported"):
            await plain.execute(
                'update handraise.archive set report = \'{"ok": true, "text": "forged"}\' where id = $1',
                question.id,
            )


async def test_what_somebody_else_holds_is_passed_over(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock, workspace: str
) -> None:
    held, free = await answered(desk, 2)
    clock.advance(DAY)
    async with asyncio.timeout(SOON), plain.transaction():
        lock = "select from handraise.questions where workspace = $1 and id = $2 for update"
        await plain.execute(lock, workspace, held.id)
        await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
        assert (await desk.get(free.id), await desk.get(held.id)) == (free, held)
    assert await places(plain, workspace) == {"questions": 1, "archive_2026_03": 2}
    await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
    assert await places(plain, workspace) == {"archive_2026_03": 2}


@pytest.mark.slow("fills a database of its own; the query plans of the gate are made on more rows")
async def test_tidying_touches_only_what_it_tidies_though_nobody_has_counted_the_rows(fresh: str) -> None:
    copy = "select * from handraise.copy_settled(now(), 1)"
    leave = "select handraise.leave_copied($1, $2)"
    async with open_postgres(fresh) as backend, desk_from_store(backend.store, backend.bus) as desk:
        for _ in range(2):  # one half is archived, the other beside it
            await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
            await asyncio.gather(*(answered(desk, 15) for _ in range(200)))
        async with connected(fresh, SETTINGS) as connection:
            (row,) = await connection.fetch(copy)
            while not row["ids"]:  # the pages of those who have left
                (row,) = await connection.fetch(copy)
            assert len(row["ids"]) < 50
            assert await pages_touched(connection, copy) < 1000
            assert await pages_touched(connection, leave, row["workspaces"], row["ids"]) < 1000


async def test_of_those_who_tidy_at_once_one_does_it(
    backend: Backend, desk: Desk, plain: Connection, clock: ManualClock
) -> None:
    await answered(desk, 2)
    clock.advance(DAY)
    async with asyncio.timeout(SOON), plain.transaction():
        await plain.execute("select from handraise.archive_hand for update")
        assert await backend.store.tidy(rest=NOW, keep=NOW, limit=ALL) == 0
    counts = [backend.store.tidy(rest=NOW, keep=None, limit=ALL) for _ in range(4)]
    assert sum(await asyncio.gather(*counts)) == 2


@promise("P1", "P2", "P6", "P7", "P9")
async def test_while_questions_are_archived_everything_goes_on_and_nothing_is_lost_or_doubled(
    own: str, workspace: str
) -> None:
    """Asking, answering, withdrawing, getting, posting again, following and two who archive, all at once."""
    done = asyncio.Event()
    asked: list[Question] = []
    ends: dict[str, str] = {}

    async def archiving(backend: Backend) -> None:
        while not done.is_set():
            await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
            await asyncio.sleep(0)

    async def asking(desk: Desk, name: str) -> None:
        for n in range(60):
            question = await desk.post(f"Which {name} {n}?", key=f"{name} {n}")
            asked.append(question)
            if n % 3:
                ended = await desk.answer(question.id, "this", by="ana")
            else:
                ended = await desk.withdraw(question.id)
            ends[question.id] = str(ended.outcome)

    async def looking(desk: Desk) -> None:
        while not done.is_set():
            for question in asked[-5:]:
                again = await desk.post(question.prompt, key=question.key or "")
                assert again.id == question.id
                assert (await desk.get(question.id)).prompt == question.prompt
                if question.id in ends:
                    assert str(await desk.wait(question.id, timeout=SOON)) == ends[question.id]
            await asyncio.sleep(0)

    async def following(desk: Desk) -> list[tuple[str, str]]:
        seen: list[tuple[str, str]] = []
        async for event in desk.follow(after=""):
            seen.append((event.question_id, event.kind))
            if len(seen) == 2 * 4 * 60:
                return seen
        raise AssertionError("unreachable")

    async with (
        open_postgres(own, connections=6) as backend,
        open_postgres(own, connections=3) as other,
        desk_from_store(backend.store, backend.bus, workspace=workspace) as desk,
        asyncio.timeout(60),
        asyncio.TaskGroup() as tasks,
    ):
        followed = tasks.create_task(following(desk))
        for each in (backend, other):
            tasks.create_task(archiving(each))
        tasks.create_task(looking(desk))
        await asyncio.gather(*(asking(desk, name) for name in "abcd"))
        seen = await followed
        done.set()
        assert len(set(seen)) == len(seen) == 2 * len(asked)
        pages = [question async for question in everything_settled(desk)]
        assert sorted(each.id for each in pages) == sorted(ends)
        assert {each.id: str(each.outcome) for each in pages} == ends
        await backend.store.tidy(rest=NOW, keep=None, limit=ALL)
    async with connected(own) as connection:
        hot = await connection.fetchval(
            "select count(*) from handraise.questions where workspace = $1", workspace
        )
        assert hot == 0


async def test_an_owner_who_is_no_superuser_archives_and_removes_for_every_workspace(
    own: str, plain: Connection, workspace: str
) -> None:
    """The owner is bound by the walls as well."""
    name = f"owner_{workspace[-12:]}".replace("-", "_")
    await plain.execute(f"create role {name} login")
    await plain.execute(f"create database {name} owner {name}")
    address = own.rsplit("/", 1)[0].replace("//", f"//{name}@", 1) + f"/{name}"
    clock = ManualClock(datetime(2026, 3, 10, tzinfo=UTC))
    try:
        async with open_postgres(address, clock=clock) as backend:
            desks = {}
            for each in ("a", "b"):
                async with desk_from_store(backend.store, backend.bus, workspace=each) as desk:
                    desks[each] = await answered(desk, 2)
            clock.advance(DAY)
            assert await backend.store.tidy(rest=NOW, keep=None, limit=ALL) == 4
            for each in ("a", "b"):
                async with desk_from_store(backend.store, backend.bus, workspace=each) as desk:
                    assert (await desk.list_settled()).items == [*reversed(desks[each])]
            clock.advance(60 * DAY)
            assert await backend.store.tidy(rest=NOW, keep=DAY, limit=ALL) == 4
            assert await backend.store.feed("a", after=None, limit=10) == []
        async with connected(address) as connection:
            assert await months(connection) == set()
    finally:
        await plain.execute(f"drop database {name} with (force)")
        await plain.execute(f"drop role {name}")


async def answered(desk: Desk, count: int) -> list[Question]:
    posted = [await desk.post(f"Which {n}?") for n in range(count)]
    return [await desk.answer(each.id, "this", by="ana") for each in posted]


async def everything_settled(desk: Desk) -> AsyncIterator[Question]:
    after = None
    while True:
        page = await desk.list_settled(after=after, limit=37)
        for question in page.items:
            yield question
        if page.next is None:
            return
        after = page.next


async def places(connection: Connection, workspace: str) -> dict[str, int]:
    """How many rows of questions each table has of a workspace."""
    counted: dict[str, int] = {}
    for table in ("questions", *sorted(await months(connection))):
        count = f"select count(*) from handraise.{table} where workspace = $1"  # noqa: S608 -- a name of ours
        if number := await connection.fetchval(count, workspace):
            counted[table] = number
    return counted


async def months(connection: Connection) -> set[str]:
    rows = await connection.fetch(
        """
        select c.relname from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
        where i.inhparent = 'handraise.archive'::regclass
        """
    )
    return {row["relname"] for row in rows}


async def somebody_waits_for_a_lock(connection: Connection) -> None:
    waiting = """
        select count(*) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()
    """
    async with asyncio.timeout(SOON):
        while True:
            await connection.execute("select pg_stat_clear_snapshot()")
            if await connection.fetchval(waiting):
                return
            await asyncio.sleep(0.01)


async def pages_touched(connection: Connection, statement: str, *values: object) -> int:
    text = await connection.fetchval(f"explain (analyze, buffers, format json) {statement}", *values)
    plan = json.loads(text)[0]["Plan"]
    touched: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return touched


@asynccontextmanager
async def connected(address: str, settings: dict[str, str] | None = None) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(address, server_settings=settings)
    try:
        yield connection
    finally:
        await connection.close()
