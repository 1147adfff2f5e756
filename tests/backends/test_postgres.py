"""What only PostgreSQL can show: refusals, migrations, listeners, late commits, HOT updates."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from chaos.faults.rolling_upgrade import LATER
from handraise import (
    Answered,
    Approval,
    Confirm,
    Responder,
    StillPending,
    StoreUnavailable,
    __version__,
    open_desk,
)
from handraise.backends.hint_codec import LONGEST, decoded, encoded
from handraise.backends.postgres import schema
from handraise.backends.postgres.durability import durability_of
from handraise.backends.postgres.schema import MIGRATIONS
from handraise.backends.sql_files import Migration
from handraise.desk import question_access
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.errors import SchemaMismatch, UnsafeStore
from handraise.model.identities import Role
from handraise.model.questions import Draft, Need, Ref
from handraise.testing import ManualClock, promise
from tests.conftest import migrated

SOON = 10.0


@pytest.fixture
async def plain(postgres: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    async with open_desk(postgres):
        pass
    connection = await asyncpg.connect(postgres)
    yield connection
    await connection.close()


@pytest.mark.parametrize("confined", [None, True], ids=["plain", "in transactions"])
@pytest.mark.parametrize("address", ["postgres"], indirect=True)
async def test_a_migration_of_a_later_release_refuses_no_call_of_a_running_process(
    empty_address: str, *, confined: bool | None
) -> None:
    async with (
        open_backend(empty_address, confined=confined) as backend,
        desk_from_store(backend.store, backend.bus) as desk,
    ):
        question = await desk.post("Which?")
        assert (await desk.get(question.id)).outcome is None
        assert len((await desk.list_pending()).items) == 1
        migrating = await asyncpg.connect(empty_address)
        await migrating.execute(LATER["postgres"])
        await migrating.close()
        assert (await desk.get(question.id)).outcome is None
        assert len((await desk.list_pending()).items) == 1
        await desk.answer(question.id, "that", by="ana")
        assert isinstance(await desk.wait(question.id), Answered)


@promise("P3")
@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
def test_settings_that_lose_answers_are_refused(name: str) -> None:
    safe = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
    assert "crash" in durability_of(safe).survives
    with pytest.raises(UnsafeStore, match=f"{name}=off"):
        durability_of({**safe, name: "off"})


@promise("P3")
def test_a_synchronous_standby_is_reported() -> None:
    settings = {"fsync": "on", "synchronous_commit": "on", "synchronous_standby_names": "replica1"}
    assert "replica1" in durability_of(settings).survives
    local = durability_of({**settings, "synchronous_commit": "local"})
    assert "not the loss of its disk" in local.survives


@promise("P3")
async def test_a_desk_does_not_open_where_a_crash_would_lose_answers(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record]
) -> None:
    name = await plain.fetchval("select current_database()")
    await plain.execute(f'alter database "{name}" set synchronous_commit = off')
    try:
        with pytest.raises(UnsafeStore, match="synchronous_commit=off"):
            async with open_desk(postgres):
                pass
    finally:
        await plain.execute(f'alter database "{name}" reset synchronous_commit')


async def test_a_server_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(StoreUnavailable, match="PostgreSQL cannot do this now"):
        async with open_desk("postgresql://127.0.0.1:1/nothing"):
            pass


async def test_one_connection_is_not_enough(postgres: str) -> None:
    with pytest.raises(ValueError, match="at least 2 connections"):
        async with open_desk(postgres, connections=1):
            pass


async def test_processes_that_start_together_migrate_once(
    plain: asyncpg.Connection[asyncpg.Record], postgres: str
) -> None:
    await plain.execute("drop schema handraise cascade")

    async def start() -> None:
        async with open_desk(postgres, connections=2):
            pass

    await asyncio.gather(*(start() for _ in range(5)))
    assert await plain.fetchval("select count(*) from handraise.migrations") == len(MIGRATIONS)


async def test_a_migration_gives_way_to_whoever_keeps_a_table(
    plain: asyncpg.Connection[asyncpg.Record], postgres: str, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump may read a table for hours: nobody else may have to wait for it behind a migration."""
    locking = "alter table handraise.questions add column later integer"
    later = Migration(MIGRATIONS[-1].number + 1, "later", locking)
    monkeypatch.setattr(schema, "_BRIEFLY", "set local lock_timeout = '50ms'")
    async with open_desk(postgres, workspace=workspace) as desk, asyncio.timeout(SOON):
        async with plain.transaction():
            await plain.execute("lock table handraise.questions in access share mode")
            monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, later))
            migrating = asyncio.create_task(migrated(postgres))
            for n in range(20):
                await desk.post(f"Which {n}?")
                await asyncio.sleep(0.02)
            assert not migrating.done()
        assert await migrating == 1
    await plain.execute("alter table handraise.questions drop column later")
    await plain.execute("delete from handraise.migrations where number = $1", later.number)


async def test_a_schema_from_the_future_is_refused(
    plain: asyncpg.Connection[asyncpg.Record], postgres: str
) -> None:
    await plain.execute("insert into handraise.migrations (number, name) values (9999, 'future')")
    try:
        with pytest.raises(SchemaMismatch, match="Upgrade Handraise"):
            async with open_desk(postgres):
                pass
    finally:
        await plain.execute("delete from handraise.migrations where number = 9999")


@pytest.mark.parametrize("column", ["digest", "of_an_earlier_build"])
async def test_a_database_of_another_build_is_refused(
    plain: asyncpg.Connection[asyncpg.Record], postgres: str, column: str
) -> None:
    if column == "digest":
        await plain.execute("update handraise.migrations set digest = digest || 'x'")
    else:
        await plain.execute(f"alter table handraise.migrations rename digest to {column}")
    try:
        with pytest.raises(SchemaMismatch, match="Another build of Handraise made this store"):
            async with open_desk(postgres):
                pass
    finally:
        if column == "digest":
            await plain.execute("update handraise.migrations set digest = left(digest, 64)")
        else:
            await plain.execute(f"alter table handraise.migrations rename {column} to digest")


async def test_a_release_starts_on_a_newer_schema_unless_the_schema_needs_a_newer_release(
    plain: asyncpg.Connection[asyncpg.Record], postgres: str, workspace: str
) -> None:
    added = "insert into handraise.migrations (number, name, oldest_release) values ($1, 'future', $2)"
    try:
        await plain.execute(added, 9998, __version__)
        async with open_desk(postgres, workspace=workspace) as desk:
            question = await desk.post("Which?")
            assert (await desk.get(question.id)).prompt == "Which?"
        await plain.execute(added, 9999, "9.0.0")
        with pytest.raises(SchemaMismatch, match=r"needs release 9\.0\.0 of Handraise; this is"):
            async with open_desk(postgres):
                pass
    finally:
        await plain.execute("delete from handraise.migrations where number >= 9998")


async def test_migrations_keep_the_oldest_release_that_works_on_them(
    plain: asyncpg.Connection[asyncpg.Record],
) -> None:
    rows = await plain.fetch("select number, oldest_release from handraise.migrations")
    assert {row["number"]: row["oldest_release"] for row in rows} == {
        each.number: each.oldest_release for each in MIGRATIONS
    }


async def test_every_table_has_a_workspace_for_row_level_security(
    plain: asyncpg.Connection[asyncpg.Record],
) -> None:
    tables = await plain.fetch(
        """
        select c.relname, bool_or(a.attname = 'workspace' and a.attnotnull) as walled
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0
        group by c.relname
        """
    )
    assert {row["relname"] for row in tables if not row["walled"]} == {
        "migrations",
        "listeners",
        "archive_hand",
        "numbering",
    }


@promise("P7")
async def test_a_late_commit_is_not_skipped_by_the_feed(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], workspace: str
) -> None:
    """A transaction takes its place in the feed, dawdles, and commits after a younger one."""
    async with open_desk(postgres, workspace=workspace) as desk:
        dawdling = plain.transaction()
        await dawdling.start()
        await plain.execute(
            "insert into handraise.events (at, workspace, question_id, kind) values (now(), $1, 'late', 'asked')",
            workspace,
        )
        early = await desk.post("Which?")
        before = await desk.feed()
        await dawdling.commit()
        seen = list(before)
        async with asyncio.timeout(SOON):
            while len(seen) < 2:  # any transaction that still runs in the cluster holds the feed back
                seen += await desk.feed(after=seen[-1].cursor if seen else None)
        assert [event.question_id for event in seen] == ["late", early.id]


@promise("P4")
async def test_what_a_late_commit_has_settled_is_found_since_a_mark_and_holds_nothing_back(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], workspace: str
) -> None:
    """A transaction settles, dawdles, and commits after marks were taken and others have settled something."""
    async with open_backend(postgres) as backend:
        dawdling = plain.transaction()
        await dawdling.start()
        await plain.execute(
            "insert into handraise.events (at, workspace, question_id, kind) values (now(), $1, 'late', 'answered')",
            workspace,
        )
        _, mark = await backend.store.settled_since(workspace, None, limit=10)
        async with desk_from_store(backend.store, backend.bus, workspace=workspace) as desk:
            question = await desk.post("Which?")
            await desk.answer(question.id, "a", by="ana")
        ids, mark = await backend.store.settled_since(workspace, mark, limit=10)
        assert list(ids) == [question.id]  # though an older transaction is still running
        await dawdling.commit()
        ids, _ = await backend.store.settled_since(workspace, mark, limit=10)
        assert "late" in ids


@promise("P10")
async def test_looking_at_an_expired_question_that_somebody_locks_gives_up(
    postgres: str,
    plain: asyncpg.Connection[asyncpg.Record],
    workspace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(question_access, "PATIENCE", 0.3)
    clock = ManualClock()
    async with open_desk(postgres, workspace=workspace, clock=clock) as desk:
        question = await desk.post("Which?", expires_in=60)
        clock.advance(timedelta(hours=1))
        async with plain.transaction():
            await plain.execute(
                "select from handraise.questions where workspace = $1 and id = $2 for update",
                workspace,
                question.id,
            )
            with pytest.raises(StoreUnavailable, match="locked by another process"):
                await desk.get(question.id)
        assert (await desk.get(question.id)).status == "expired"


async def test_settling_is_a_hot_update(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], workspace: str
) -> None:
    """No index holds anything that settling changes, so PostgreSQL need not touch one."""
    indexed = await plain.fetch(
        """
        select distinct a.attname
        from pg_index i
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
        where i.indrelid = 'handraise.questions'::regclass
        """
    )
    assert {row["attname"] for row in indexed} == {"workspace", "id", "key", "asker", "replaces"}
    counts = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'questions'"
    before = await plain.fetchrow(counts)
    async with open_desk(postgres, workspace=workspace) as desk:
        questions = await asyncio.gather(*(desk.post(f"Which {n}?", recipients=["ana"]) for n in range(300)))
        for question in questions:
            await desk.answer(question.id, "this one", by="ana")
    async with asyncio.timeout(SOON):
        while True:
            await plain.execute("select pg_stat_clear_snapshot()")
            after = await plain.fetchrow(counts)
            assert before is not None
            assert after is not None
            if after["n_tup_upd"] - before["n_tup_upd"] >= 300:
                break
            await asyncio.sleep(0.1)
    hot = after["n_tup_hot_upd"] - before["n_tup_hot_upd"]
    # Not all: where others keep old rows alive, a page may be full. With an index in the way it would be none.
    assert hot >= 0.1 * 300, f"only {hot} of 300 settlements were HOT updates"


@promise("P4")
async def test_a_listener_that_is_cut_off_comes_back_and_reads_again(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], workspace: str
) -> None:
    async with (
        open_desk(postgres, workspace=workspace, poll_interval=10 * SOON) as asker,
        open_desk(postgres, workspace=workspace) as person,
    ):
        first, second = await asker.post("One?"), await asker.post("Two?")
        one, two = (asyncio.create_task(asker.wait(each.id, timeout=SOON)) for each in (first, second))
        process = await listener(plain)
        await plain.execute("select pg_terminate_backend($1)", process)
        await person.answer(first.id, "a", by="ana")
        assert isinstance(await one, Answered)
        assert await listener(plain) != process
        await person.answer(second.id, "a", by="ana")
        assert isinstance(await two, Answered)


@promise("P1", "P7")
async def test_a_post_whose_connection_is_cut_is_made_once(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], workspace: str
) -> None:
    async with open_desk(postgres, workspace=workspace) as desk:
        under_way = plain.transaction()
        await under_way.start()
        await plain.execute(
            "insert into handraise.questions (asked_at, quorum, veto, workspace, id, asker, key, recipients, prompt, form) "
            "values (now(), 1, false, $1, 'held', 'agent', 'k', '[]', '?', '{}')",
            workspace,
        )
        posting = asyncio.create_task(desk.post("Go?", key="k"))
        async with asyncio.timeout(SOON):
            while not await plain.fetchval(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity "
                "where pg_backend_pid() = any (pg_blocking_pids(pid))"
            ):
                await asyncio.sleep(0.01)
        await under_way.rollback()
        question = await posting
        assert [event.kind for event in await desk.history(question.id)] == ["asked"]
        assert len((await desk.list_pending()).items) == 1


@promise("P4")
async def test_no_notify_where_nobody_could_be_listening(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], workspace: str
) -> None:
    heard: list[Any] = []
    await plain.add_listener("handraise", lambda *args: heard.append(args[-1]))
    await plain.execute("delete from handraise.listeners")
    async with open_desk(postgres, workspace=workspace) as desk:
        unheard = await desk.post("One?")
        await desk.answer(unheard.id, "a", by="ana")
    async with (
        open_desk(postgres, workspace=workspace) as waiting,
        open_desk(postgres, workspace=workspace) as answering,
    ):
        question = await waiting.post("Two?")
        with pytest.raises(StillPending):
            await waiting.wait(question.id, timeout=0.2)
        await listener(plain)
        await answering.answer(question.id, "a", by="ana")
        assert isinstance(await waiting.wait(question.id, timeout=SOON), Answered)
    async with asyncio.timeout(SOON):
        while not heard:
            await plain.execute("select 1")
    assert [decoded(payload) for payload in heard] == [[question.ref]]


async def test_an_inbox_is_empty_of_everything_settled(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], workspace: str
) -> None:
    async with open_desk(postgres, workspace=workspace) as desk:
        question = await desk.post("Which?", recipients=["ana", "group:ops"])
        rows = "select count(*) from handraise.inbox where workspace = $1"
        assert await plain.fetchval(rows, workspace) == 2
        await desk.answer(question.id, "a", by=Responder("bob", groups=frozenset({"ops"})))
        assert await plain.fetchval(rows, workspace) == 0


def test_hints_fit_into_a_notify_and_come_back_whole() -> None:
    topics = [Ref(f"w{n % 3}", f"{n:036}") for n in range(2_000)]
    texts = list(encoded(topics))
    assert max(len(text.encode()) for text in texts) <= LONGEST
    assert len(texts) < 20
    assert sorted(ref for text in texts for ref in decoded(text) or []) == sorted(topics)


@pytest.mark.parametrize("junk", ["", "{", "null", "17", "[]", '"abc"', '["w", 7]', "[" * 7_900])
def test_a_hint_that_cannot_be_read_is_about_anything(junk: str) -> None:
    assert decoded(junk) is None


async def listener(plain: asyncpg.Connection[asyncpg.Record]) -> int:
    """The process of the one listening connection, as soon as there is one."""
    sql = """
        select pid from pg_stat_activity
        where datname = current_database() and application_name = 'handraise listener'
            and query like '%listeners%' and state = 'idle'
    """
    async with asyncio.timeout(SOON):
        while (process := await plain.fetchval(sql)) is None:
            await asyncio.sleep(0.02)
    number: int = process
    return number


@promise("P11")
@pytest.mark.parametrize("lost", ["revoked", "removed", "left"])
async def test_a_grant_that_ends_while_it_is_applied_waits_or_wins(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], lost: str
) -> None:
    """Whoever writes to a question may hold the settlement up; what is acknowledged meanwhile must not be overlooked."""
    workspace = f"late-{lost}-{uuid.uuid4().hex}"
    form = Approval.of("pay", {"amount": 1}, scopes=("once", "always"))
    async with open_backend(postgres) as backend:
        directory = backend.directory
        await directory.put_person(workspace, "ana", name="Ana", email=None, role=Role.MEMBER)
        await directory.put_group(workspace, "ops", ["ana"])
        async with desk_from_store(backend.store, backend.bus, workspace=workspace) as desk:
            first = await desk.post("Pay?", form=form, recipients=["group:ops"])
            approval = {"decision": "approve", "scope": "always"}
            await desk.answer(first.id, approval, by=Responder("ana", frozenset({"ops"})))
            (grant,) = await desk.list_grants()
            again = await desk.post("Pay?", form=form, recipients=["group:ops"])
            held = plain.transaction()
            await held.start()
            row = "select from handraise.questions where workspace = $1 and id = $2 for update"
            await plain.execute(row, workspace, again.id)
            applying = asyncio.create_task(desk.apply_grant(again.id))
            await _blocked(plain, 1)
            ends: dict[str, Coroutine[Any, Any, object]] = {
                "revoked": desk.revoke_grant(grant.id, by="bob"),
                "removed": directory.remove_person(workspace, "ana"),
                "left": directory.put_group(workspace, "ops", []),
            }
            ending = asyncio.create_task(ends.pop(lost))
            for other in ends.values():
                other.close()
            await _blocked(plain, 2, unless=ending)
            assert not ending.done()
            await held.rollback()
            assert await asyncio.wait_for(applying, SOON) is not None
            await asyncio.wait_for(ending, SOON)
            last = await desk.post("Pay?", form=form, recipients=["group:ops"])
            assert await desk.apply_grant(last.id) is None


@promise("P11")
@pytest.mark.parametrize("lost", ["removed", "left"])
async def test_a_voter_who_leaves_the_group_that_a_vote_counts_for_waits_or_wins(
    postgres: str, plain: asyncpg.Connection[asyncpg.Record], lost: str
) -> None:
    workspace = f"late-need-{lost}-{uuid.uuid4().hex}"
    async with open_backend(postgres) as backend:
        directory = backend.directory
        await directory.put_person(workspace, "lee", name="Lee", email=None, role=Role.MEMBER)
        await directory.put_group(workspace, "legal", ["lee"])
        needs = (Need(("group:legal",)),)
        drafts = [
            Draft(id=each, workspace=workspace, asker="bot", prompt="?", form=Confirm(), needs=needs)
            for each in "ab"
        ]
        await backend.store.insert(drafts)
        async with desk_from_store(backend.store, backend.bus, workspace=workspace) as desk:
            held = plain.transaction()
            await held.start()
            row = "select from handraise.questions where workspace = $1 and id = 'a' for update"
            await plain.execute(row, workspace)
            voting = asyncio.create_task(desk.answer("a", True, by="lee"))
            await _blocked(plain, 1)
            leaving: Coroutine[Any, Any, object] = directory.put_group(workspace, "legal", [])
            removing: Coroutine[Any, Any, object] = directory.remove_person(workspace, "lee")
            ends, other = (leaving, removing) if lost == "left" else (removing, leaving)
            other.close()
            ending: asyncio.Task[object] = asyncio.create_task(ends)
            await _blocked(plain, 2, unless=ending)
            assert not ending.done()
            await held.rollback()
            assert (await asyncio.wait_for(voting, SOON)).status == "answered"
            await asyncio.wait_for(ending, SOON)
            assert (await desk.answer("b", True, by="lee")).missing == (1,)


async def _blocked(
    plain: asyncpg.Connection[asyncpg.Record], count: int, *, unless: asyncio.Task[Any] | None = None
) -> None:
    """Return once so many others wait for a lock, or a task is done that should be one of them."""
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    async with asyncio.timeout(SOON):
        while not (unless and unless.done()):
            await plain.execute("select pg_stat_clear_snapshot()")
            if await plain.fetchval(waiting) >= count:
                return
            await asyncio.sleep(0.01)
