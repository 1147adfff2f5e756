"""PostgreSQL itself keeps workspaces apart: who is walled in, who may not open, what crosses and what not."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias, Unpack
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from handraise import Question, Responder, StoreUnavailable
from handraise.backends.postgres import open_postgres, row_security, schema
from handraise.backends.postgres.connections import transaction
from handraise.backends.postgres.database import RowSecurity
from handraise.backends.postgres.store import PostgresStore
from handraise.backends.postgres.transaction import STATEMENTS
from handraise.backends.sql.new_questions import ask
from handraise.backends.sql_files import Migration
from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import Sealer
from handraise.desks import desk_from_store
from handraise.errors import SchemaMismatch, UnsafeStore
from handraise.model.audit_verification import verify
from handraise.model.drafting import Limits, QuestionOptions, compose
from handraise.model.identities import Role
from handraise.model.lifecycle import answer_move
from handraise.model.questions import Draft
from handraise.model.seals import Rule
from handraise.ports import AGES, Backend
from handraise.questions import Ref
from handraise.testing import ManualClock, promise
from tests.conftest import own_database

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


RIGHTS = {
    "migrations": {"SELECT"},
    "imports": {"SELECT"},
    "listeners": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "questions": {"SELECT", "INSERT", "UPDATE"},
    "inbox": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "events": {"SELECT", "INSERT"},
    "grants": {"SELECT", "INSERT", "UPDATE"},
    "agent_keys": {"SELECT", "INSERT", "UPDATE"},
    "passkey_nonces": {"SELECT", "INSERT", "DELETE"},
    "passkeys": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "provisioned": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "saved_views": {"SELECT", "INSERT", "DELETE"},
    "people": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "calendars": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "members": {"SELECT", "INSERT", "DELETE"},
    "sessions": {"SELECT", "INSERT", "DELETE"},
    "links": {"SELECT", "INSERT", "DELETE"},
    "question_links": {"SELECT", "INSERT", "DELETE"},
    "requests": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "addresses": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "routing": {"SELECT", "INSERT", "UPDATE"},
    "policies": {"SELECT", "INSERT"},
    "rule_suspensions": {"SELECT", "INSERT", "DELETE"},
    "standing_answers": {"SELECT", "INSERT", "UPDATE"},
    "stops": {"SELECT", "INSERT", "DELETE"},
    "quotas": {"SELECT", "INSERT", "DELETE"},
    "search_entries": {"SELECT"},
    "search_progress": {"SELECT"},
    "outbox": {"SELECT", "INSERT", "DELETE"},
    "files": {"SELECT", "INSERT"},
    "file_references": {"SELECT", "INSERT"},
    "blobs": {"SELECT", "INSERT"},
    "deliveries": {"SELECT", "INSERT", "UPDATE"},
    "seals": {"SELECT"},
    "removals": {"SELECT"},
    "salts": {"SELECT", "INSERT"},
    "retention": {"SELECT"},
    "holds": {"SELECT", "INSERT"},
    "numbering": {"SELECT"},
}
WALL = "handraise.is_visible(workspace)"


@pytest.fixture
async def plain(postgres: str) -> AsyncIterator[Connection]:
    """A superuser's connection to the migrated database."""
    async with connected(postgres) as connection:
        yield connection


@pytest.fixture
async def app(postgres: str, plain: Connection) -> AsyncIterator[str]:
    """The address for a login that may do what the application may."""
    async with role(plain, "login in role handraise_app") as name:
        yield as_role(postgres, name)


@pytest.fixture
async def own(plain: Connection, postgres: str) -> AsyncIterator[str]:
    """The address of a database of the test's own, not migrated, for a login that owns it and is nothing else."""
    async with role(plain, "login") as owner, database(plain, f"owner {owner}") as name:
        yield as_role(at_database(postgres, name), owner)


@pytest.fixture
async def spare(plain: Connection, postgres: str) -> AsyncIterator[str]:
    """The address of a database of the test's own, not migrated, for a superuser."""
    async with database(plain) as name:
        yield at_database(postgres, name)


@pytest.fixture
def copy() -> Iterator[str]:
    """The address of a database of the test's own, migrated, for a superuser."""
    with own_database() as address:
        yield address


@promise("P8")
async def test_every_table_with_a_workspace_is_walled(plain: Connection) -> None:
    tables = await plain.fetch(
        """
        select c.relname, c.relrowsecurity and c.relforcerowsecurity as forced,
            pg_get_expr(p.polqual, c.oid) as reading, pg_get_expr(p.polwithcheck, c.oid) as writing,
            p.polcmd = '*' and p.polpermissive and p.polroles = '{0}' as everything
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'workspace'
        left join pg_policy p on p.polrelid = c.oid and p.polname = 'workspace'
        where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p', 'f', 'v', 'm')
        """
    )
    assert len(tables) >= 12
    for table in tables:
        assert dict(table) == {
            "relname": table["relname"],
            "forced": True,
            "reading": WALL,
            "writing": WALL,
            "everything": True,
        }


async def test_the_application_may_do_what_its_statements_need_and_owns_nothing(plain: Connection) -> None:
    granted = await plain.fetch(
        """
        select c.relname, array_agg(a.privilege_type) as rights
        from pg_class c, aclexplode(c.relacl) a
        where c.relnamespace = 'handraise'::regnamespace and a.grantee in (0, 'handraise_app'::regrole)
        group by c.relname
        """
    )
    assert {row["relname"]: set(row["rights"]) for row in granted} == RIGHTS
    columns = """
        select attrelid::regclass::text || '.' || attname as name
        from pg_attribute where attacl::text like '%handraise_app%'
    """
    # Not `removed_at`: only functions remove files, and only those to which nothing refers.
    assert {row["name"] for row in await plain.fetch(columns)} == {
        "handraise.files.used_at",
        "handraise.files.stored",
        "handraise.files.referred",
    }
    owned = "select count(*) from pg_shdepend where refobjid = 'handraise_app'::regrole and deptype = 'o'"
    assert await plain.fetchval(owned) == 0
    attributes = (
        "select rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolcanlogin from pg_roles"
    )
    assert await plain.fetchval(f"{attributes} where rolname = 'handraise_app'") is False


async def test_what_runs_as_the_owner_is_for_the_application_only_and_has_a_fixed_path(
    plain: Connection,
) -> None:
    functions = await plain.fetch(
        """
        select proname, proconfig, has_function_privilege('public', oid, 'execute') as public
        from pg_proc where pronamespace = 'handraise'::regnamespace and prosecdef
        """
    )
    assert {row["proname"] for row in functions} == {
        "due_workspaces",
        "queue_stats",
        "forget",
        "forget_question_links",
        "workspaces_with_entries",
        "workspaces_with_rotas",
        "workspaces_with_due",
        "remove_settled",
        "unsealed_workspaces",
        "find_words",
        "unindexed_workspaces",
        "index_questions",
        "append_seal",
        "erase_questions",
        "erase_person",
        "note_change",
        "shortest_keep",
        "take_unused_files",
        "forget_file",
        "drop_blob",
    }
    for row in functions:
        assert (row["proconfig"][0], row["public"]) == ("search_path=pg_catalog, pg_temp", False)


@promise("P8")
async def test_a_confined_login_sees_its_workspace_and_nothing_else(app: str, workspace: str) -> None:
    async with open_postgres(app, confined=True) as backend, connected(app) as connection:
        await backend.store.insert([draft(workspace, "1"), draft(f"not {workspace}", "2")])
        questions = "select id from handraise.questions"
        assert await connection.fetch(questions) == []
        async with transaction(connection, RowSecurity(None).begin_in(workspace)):
            assert [row["id"] for row in await connection.fetch(questions)] == ["1"]
        assert await connection.fetch(questions) == [], "the workspace outlived its transaction"


@promise("P8")
@pytest.mark.parametrize(
    "writing",
    [
        "insert into handraise.events (at, workspace, question_id, kind) values (now(), 'theirs', '1', 'asked')",
        "update handraise.questions set workspace = 'theirs'",
    ],
)
async def test_a_confined_login_cannot_write_into_another_workspace(
    app: str, workspace: str, writing: str
) -> None:
    async with open_postgres(app, confined=True) as backend, connected(app) as connection:
        await backend.store.insert([draft(workspace, "1")])
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="violates row-level security"):
            async with transaction(connection, RowSecurity(None).begin_in(workspace)):
                await connection.execute(writing)


@promise("P8")
@pytest.mark.parametrize(
    "way_out",
    [
        "set row_security = off; select from handraise.questions",
        "alter table handraise.questions disable row level security",
        "alter table handraise.questions no force row level security",
        "drop policy workspace on handraise.questions",
        "create policy open on handraise.questions using (true)",
        "update handraise.events set kind = 'answered'",
        "delete from handraise.events",
        "truncate handraise.questions",
        "select handraise.allow_app()",
        "create table handraise.mine ()",
    ],
)
async def test_a_confined_login_cannot_take_the_walls_down(app: str, way_out: str) -> None:
    async with connected(app) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(way_out)


@promise("P8")
@pytest.mark.parametrize(
    "name", ["'", "o'brien; drop schema handraise cascade; --", "名前", "\\x00", "a" * 150]
)
async def test_a_workspace_may_have_any_name(app: str, workspace: str, name: str) -> None:
    async with open_postgres(app, confined=True) as backend:
        places = [Ref(f"{workspace}{name}", "1"), Ref(f"{workspace}{name}.", "2")]
        await backend.store.insert([draft(*place) for place in places])
        found = await backend.store.read([*places, Ref(places[0].workspace, "2")])
        assert [question and question.ref for question in found] == [*places, None]


@promise("P8")
async def test_nothing_is_left_in_the_session_after_a_transaction(plain: Connection) -> None:
    """A pooled session takes neither the workspace nor the role to whoever comes next.

    Who gives up in the middle hangs up: tests/chaos/test_found.py.
    """
    kept = "select current_user::text, coalesce(current_setting('handraise.workspaces', true), '')"
    before = (await plain.fetchval("select current_user::text"), "")
    begin = RowSecurity("handraise_app").begin_in("w")
    async with transaction(plain, begin):
        assert tuple(await plain.fetchrow(kept) or ()) == ("handraise_app", ",77,.")
    assert tuple(await plain.fetchrow(kept) or ()) == before
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with transaction(plain, begin):
            await plain.execute("select 1 / 0")
    assert tuple(await plain.fetchrow(kept) or ()) == before


@promise("P8")
async def test_a_superuser_is_confined_by_taking_the_applications_role(
    postgres: str, plain: Connection, workspace: str
) -> None:
    async with open_postgres(postgres, confined=True) as backend:
        await backend.store.insert([draft(workspace, "1")])
        assert [question is not None for question in await backend.store.read([Ref(workspace, "1")])] == [
            True
        ]
        await plain.execute("revoke select on handraise.questions from handraise_app")
        try:
            with pytest.raises(StoreUnavailable, match="permission denied for table questions"):
                await backend.store.read([Ref(workspace, "1")])
        finally:
            await plain.execute("select handraise.allow_app()")


async def test_a_superuser_who_need_not_be_confined_pays_nothing_for_it(
    postgres: str, workspace: str
) -> None:
    async with open_postgres(postgres) as backend:
        await backend.store.insert([draft(workspace, "1"), draft(f"{workspace} too", "2")])
        async with connected(postgres) as connection:
            transactions = "select count(distinct transaction) from handraise.events where workspace like $1"
            assert await connection.fetchval(transactions, f"{workspace}%") == 1


@promise("P8")
async def test_a_batch_of_several_workspaces_is_one_transaction(
    app: str, plain: Connection, workspace: str
) -> None:
    async with open_postgres(app, confined=True) as backend:
        store = backend.store
        drafts = [draft(f"{workspace}{n % 3}", f"{n}") for n in range(12)]
        posted = await store.insert(drafts)
        assert [each.ref for each in posted if isinstance(each, Question)] == [each.ref for each in drafts]
        refs = [each.ref for each in drafts]
        assert [each and each.ref for each in await store.read(refs)] == refs
        moves = [
            answer_move(each, Responder("ana"), "a") for each in posted[::2] if isinstance(each, Question)
        ]
        settled = await store.settle(moves)
        assert [each.ref for each in settled if isinstance(each, Question)] == refs[::2]
        outcomes = await store.outcomes([*refs, Ref(f"{workspace}0", "none")])
        assert set(outcomes) == {*refs[::2], Ref(f"{workspace}0", "none")}
        assert await store.insert([]) == await store.settle([]) == await store.read([]) == []
        assert await store.outcomes([]) == {}
        transactions = "select count(distinct transaction) from handraise.events where workspace like $1"
        assert await plain.fetchval(transactions, f"{workspace}%") == 2


@promise("P8")
async def test_a_batch_neither_reads_nor_writes_a_workspace_that_it_is_not_for(
    app: str, plain: Connection, workspace: str
) -> None:
    """Not even if a statement names it. Its name is a part of theirs, so that a list searched carelessly would have it."""
    ours, theirs = [f"{workspace}a", f"b{workspace}"], workspace
    posted = [draft(each, "1", heartbeat=60) for each in (*ours, theirs)]
    async with open_postgres(app, confined=True) as backend, connected(app) as connection:
        questions = [each for each in await backend.store.insert(posted) if isinstance(each, Question)]

        async def fetch(name: str, **values: Any) -> list[Any]:
            statement = STATEMENTS[name]
            async with transaction(connection, RowSecurity(None).begin_in(*ours)):
                return await connection.fetch(statement.numbered, *statement.arguments(now=None, **values))

        one_each = {"workspace": [each.workspace for each in posted], "id": ["1"] * 3}
        for name, more in (("read", one_each), ("heartbeats", {**one_each, "actor": ["agent"] * 3})):
            assert sorted(row["workspace"] for row in await fetch(name, **more)) == sorted(ours)
        assert {row["workspace"] for row in await fetch("outcomes", **one_each) if row["status"] is None} == {
            theirs
        }, "what is hidden looks as if it did not exist"
        refs = {"workspace": [each.workspace for each in questions], "id": [each.id for each in questions]}
        locked = await fetch("lock", **refs, actor=["ana"] * len(questions))
        assert sorted(row["workspace"] for row in locked) == sorted(ours)
        drafts = [draft(each, "2") for each in (*ours, theirs)]
        asking = partial(ask, drafts, quota=None, counted=False)
        assert isinstance(backend.store, PostgresStore)
        with pytest.raises(StoreUnavailable, match="violates row-level security"):
            await backend.store._transact(ours, asking)  # noqa: SLF001 -- no caller can name others
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="violates row-level security"):
            async with transaction(connection, RowSecurity(None).begin_in(*ours)):
                await connection.execute("update handraise.questions set workspace = $1", theirs)
    of_theirs = "select array_agg(id || ' ' || status) from handraise.questions where workspace = $1"
    assert await plain.fetchval(of_theirs, theirs) == ["1 pending"]


@promise("P8")
async def test_equal_ids_and_keys_in_one_batch_stay_with_their_workspaces(app: str, workspace: str) -> None:
    one, two = f"{workspace}1", f"{workspace}2"
    async with open_postgres(app, confined=True) as backend:
        store = backend.store
        drafts = [draft(one, "1", key="k"), draft(two, "1", key="k"), draft(two, "2")]
        posted = [each for each in await store.insert(drafts) if isinstance(each, Question)]
        await store.settle([answer_move(posted[1], Responder("ana"), "a")])
        refs = [Ref(one, "1"), Ref(two, "1"), Ref(one, "2"), Ref(two, "2")]
        found = await store.read(refs)
        assert [each and (each.ref, each.status) for each in found] == [
            (refs[0], "pending"),
            (refs[1], "answered"),
            None,
            (refs[3], "pending"),
        ]
        assert {ref: outcome is None for ref, outcome in (await store.outcomes(refs)).items()} == {
            refs[1]: False,
            refs[2]: True,
        }
        again = await store.insert([draft(one, "3", key="k"), draft(two, "3", key="k")])
        assert [each.ref for each in again if isinstance(each, Question)] == refs[:2]
        assert await store.join(Ref(one, "1"), by="agent", key="first")
        assert await store.join(Ref(two, "2"), by="agent", key="second")
        joined = await store.insert([draft(two, "4", key="second"), draft(one, "4", key="first")])
        assert [each.ref for each in joined if isinstance(each, Question)] == [refs[3], refs[0]]


@promise("P1")
async def test_a_workspace_whose_part_fails_leaves_the_others_alone(
    app: str, plain: Connection, workspace: str
) -> None:
    await plain.execute(
        f"""
        create function pg_temp.refuse() returns trigger language plpgsql as
            'begin if new.workspace = ''{workspace}1'' then raise ''disk on fire''; end if; return new; end';
        create trigger refuse before insert on handraise.questions for each row execute function pg_temp.refuse()
        """
    )
    try:
        async with open_postgres(app, confined=True) as backend:
            drafts = [draft(f"{workspace}{n % 3}", f"{n}") for n in range(6)]
            with pytest.raises(StoreUnavailable, match="disk on fire"):
                await backend.store.insert(drafts)
            found = await backend.store.read([each.ref for each in drafts])
            assert [each is not None for each in found] == [True, False, True] * 2
    finally:
        await plain.execute("drop function pg_temp.refuse() cascade")


async def test_a_sweep_does_what_is_due_in_every_workspace_or_in_one(app: str, workspace: str) -> None:
    clock = ManualClock()
    async with open_postgres(app, clock=clock, confined=True) as backend:
        store = backend.store
        refs = [Ref(f"{workspace}{n}", f"{n}") for n in range(3)]
        await store.insert([draft(*ref, expires_in=60) for ref in refs])
        assert await store.run_due(limit=10, workspace=refs[1].workspace) == []
        clock.advance(timedelta(minutes=2))
        assert await store.run_due(limit=10, workspace=refs[1].workspace) == [refs[1]]
        assert {ref for ref in await store.run_due(limit=10) if ref in refs} == {refs[0], refs[2]}


async def test_a_workspace_with_very_many_due_deeds_does_not_hide_the_others(
    plain: Connection, workspace: str
) -> None:
    async with undone(plain):
        await plain.execute("delete from handraise.inbox")
        await plain.execute(
            """
            insert into handraise.inbox (due_at, main, open, workspace, question_id, recipient, asker)
            select now() - case when n <= 2000 then interval '2 days' else interval '1 day' end,
                true, true, $1 || case when n <= 2000 then '' else n::text end, n::text, '*', 'a'
            from generate_series(1, 2002) as n
            """,
            workspace,
        )
        await plain.execute(
            "update handraise.inbox set due_at = now() + interval '1 day' where question_id = '2002'"
        )
        due = "select * from handraise.due_workspaces(now(), $1)"
        assert {row[0] for row in await plain.fetch(due, 10)} == {workspace, f"{workspace}2001"}
        assert len(await plain.fetch(due, 1)) == 1
        assert (
            await plain.fetch("select * from handraise.due_workspaces(now() - interval '1 week', 10)") == []
        )


@pytest.mark.parametrize("confined", [True, None])
async def test_a_login_that_may_not_create_opens_what_is_migrated(app: str, confined: bool | None) -> None:  # noqa: FBT001 -- a case
    async with open_postgres(app, confined=confined) as backend:
        assert (await backend.store.durability()).survives


@pytest.mark.parametrize("applied", [0, 1])
async def test_a_login_that_may_not_create_is_told_who_must_migrate(
    plain: Connection, spare: str, applied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with role(plain, "login in role handraise_app") as name:
        if applied:
            async with open_postgres(spare):
                pass
            later = Migration(schema.MIGRATIONS[-1].number + 1, "later", "create table handraise.later ()")
            monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, later))
        with pytest.raises(SchemaMismatch, match=f"'{name}' may not .* as the role that owns the schema"):
            async with open_postgres(as_role(spare, name)):
                pass


@promise("P8")
@pytest.mark.parametrize(
    ("breaking", "told"),
    [
        ("alter table handraise.links disable row level security", "alter table handraise.links enable"),
        ("alter table handraise.links no force row level security", "alter table handraise.links force"),
        ("drop policy workspace on handraise.seals", "create policy workspace on handraise.seals"),
        ("create policy mine on handraise.inbox using (true)", "drop policy mine on handraise.inbox;"),
        ("create table handraise.more (workspace text)", "alter table handraise.more enable"),
        ("alter policy workspace on handraise.people using (true)", "handraise.people has no policy"),
        ("revoke select on handraise.links from handraise_app", "select handraise.allow_app"),
    ],
)
async def test_a_desk_that_must_be_confined_does_not_open_where_a_wall_is_down(
    copy: str, workspace: str, breaking: str, told: str
) -> None:
    async with open_postgres(copy, confined=True) as backend:
        await backend.directory.put_person(workspace, "ana", name="Ana", email=None, role=Role.MEMBER)
    async with connected(copy) as connection:
        await connection.execute(breaking)
    with pytest.raises(UnsafeStore, match=told):
        async with open_postgres(copy, confined=True):
            pass
    async with open_postgres(copy):
        pass


@promise("P8")
@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ("bypassrls", "alter role {app} nobypassrls"),
        ("superuser", "alter role {app} nosuperuser"),
        ("in role {owner}", "revoke {owner} from {app}"),
    ],
)
async def test_a_desk_that_must_be_confined_does_not_open_where_the_role_to_take_is_not_bound(
    plain: Connection, own: str, monkeypatch: pytest.MonkeyPatch, attributes: str, told: str
) -> None:
    owner = urlsplit(own).username or ""
    async with (
        open_postgres(own),
        role(plain, f"nologin {attributes.format(owner=owner)}") as app,
        role(plain, f"login bypassrls in role handraise_app, {app}") as login,
    ):
        monkeypatch.setattr(row_security, "APP_ROLE", app)
        with pytest.raises(UnsafeStore, match=told.format(app=app, owner=owner)):
            async with open_postgres(as_role(own, login), confined=True):
                pass


@promise("P8")
@pytest.mark.parametrize("attributes", ["bypassrls in role pg_read_all_data", "in role {owner}"])
async def test_a_login_that_gets_around_the_walls_must_be_a_member_of_the_applications_role(
    plain: Connection, own: str, workspace: str, attributes: str
) -> None:
    owner = urlsplit(own).username
    async with open_postgres(own), role(plain, f"login {attributes.format(owner=owner)}") as login:
        for name in (login, owner):
            with pytest.raises(UnsafeStore, match=f"grant handraise_app to {name}"):
                async with open_postgres(as_role(own, name or ""), confined=True):
                    pass
        await plain.execute(f"grant handraise_app to {login}")
        async with open_postgres(as_role(own, login), confined=True) as backend:
            await backend.store.insert([draft(workspace, "1")])


@promise("P8")
async def test_only_the_owner_of_the_tables_is_told_to_use_the_role_of_the_servers(
    plain: Connection, own: str
) -> None:
    async with open_postgres(own), role(plain, "login bypassrls in role pg_read_all_data") as login:
        refused = {}
        for name in (login, urlsplit(own).username or ""):
            with pytest.raises(UnsafeStore) as refusal:
                async with open_postgres(as_role(own, name), confined=True):
                    pass
            refused[name] = "Log in as the role of the servers" in str(refusal.value)
    assert refused == {login: False, urlsplit(own).username: True}


@promise("P8")
async def test_where_there_is_no_role_to_take_the_refusal_says_how_to_make_it(
    postgres: str, own: str, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner who may not create roles migrates all the same; what the refusal says to run then helps."""
    app = f"handraise_test_{uuid.uuid4().hex[:12]}"
    rename_app_role(monkeypatch, app)
    owner, superusers = urlsplit(own).username, at_database(postgres, name_of(own))
    async with open_postgres(own) as backend:
        await backend.store.insert([draft(workspace, "1")])
    for address in (own, superusers):
        with pytest.raises(UnsafeStore, match=f"create role {app} nologin .* select handraise.allow_app"):
            async with open_postgres(address, confined=True):
                pass
    async with connected(superusers) as administrator, AsyncExitStack() as stack:
        await administrator.execute(
            f"create role {app} nologin; grant {app} to {owner}; select handraise.allow_app()"
        )
        stack.push_async_callback(administrator.execute, f"drop owned by {app}; drop role {app}")
        for address in (own, superusers):
            async with open_postgres(address, confined=True) as backend:
                assert await backend.store.read([Ref(workspace, "1")]) != [None]


@pytest.mark.slow("makes and migrates several databases at once")
async def test_databases_that_migrate_at_once_make_the_role_together(
    plain: Connection, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = f"handraise_test_{uuid.uuid4().hex[:12]}"
    rename_app_role(monkeypatch, app)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(plain.execute, f"drop role {app}")
        names = [await stack.enter_async_context(database(plain)) for _ in range(4)]

        async def start(name: str) -> None:
            async with open_postgres(at_database(postgres, name), confined=True):
                pass

        await asyncio.gather(*map(start, names))


async def test_an_owner_who_is_no_superuser_is_walled_in_and_can_do_everything(own: str) -> None:
    """The usual login of a program with a database of its own."""
    clock = ManualClock()
    async with open_postgres(own, clock=clock) as backend:
        for workspace, later in (
            ("a", timedelta(days=8)),
            ("b", timedelta(hours=2)),
            ("c", timedelta(seconds=30)),
        ):
            async with desk_from_store(backend.store, backend.bus, workspace=workspace) as desk:
                await desk.post("Which?", recipients=["ana", "bob"])
                settled = await desk.post("Which?")
                await desk.answer(settled.id, "this", by="ana")
            clock.advance(later)
        queue_stats = await backend.store.queue_stats()
        assert tuple(queue_stats.pending) == AGES
        assert list(queue_stats.pending.values()) == [1, 1, 1, 2, 2, 2, 3]
        assert queue_stats.deliveries == {}
        refs = [Ref("a", "due"), Ref("b", "due")]
        await backend.store.insert([draft(*ref, expires_in=60) for ref in refs])
        clock.advance(timedelta(minutes=2))
        assert await backend.store.run_due(limit=1) == refs
        directory, hour = backend.directory, timedelta(hours=1)
        await directory.put_person("a", "ana", name="Ana", email=None, role=Role.MEMBER)
        await directory.open_session("a", "1", digest="s", person="ana", how="link", lasts=hour)
        await directory.add_link("a", "1", digest="l", person="ana", purpose="sign-in", lasts=hour)
        about = {"question_id": "due", "person": "ana", "channel": "email", "created_by": "root"}
        await directory.add_question_link("a", "1", digest="q", lasts=hour, **about)
        await directory.claim("a", "agent", "key", fingerprint="f", made="m", patience=hour)
        clock.advance(timedelta(days=2))
        assert await directory.forget(older_than=timedelta(days=1), limit=10) == 4
        await seal_all(backend)
        assert await backend.ledger.erase("a", ["due"], by="op") == ["due"]
        await backend.ledger.erase_person("a", "ana")
        await backend.ledger.put_rule("b", Rule(hour))
        await backend.store.tidy(keep=None, limit=100)
        assert await backend.store.read([Ref("a", "due"), Ref("b", "due")]) == [None, None]
        await seal_all(backend)
        for workspace in "ab":
            lines = [line async for line in export_lines(backend.store, backend.ledger, workspace)]
            assert verify(lambda lines=lines: lines, unsigned=True).fault is None  # type: ignore[misc]  # a lambda's default has no type
    async with connected(own) as connection:
        assert await connection.fetch("select from handraise.events where question_id <> ''") == []
        assert await connection.execute("delete from handraise.inbox") == "DELETE 0"


async def seal_all(backend: Backend) -> None:
    """Seal until nothing is left: feeds wait for whoever else has a transaction."""
    sealer = Sealer(backend.store, backend.ledger)
    async with asyncio.timeout(20):
        while await backend.ledger.unsealed(limit=10):
            await sealer.run()


@pytest.mark.parametrize("confined", [True, None])
async def test_what_is_counted_and_forgotten_is_of_every_workspace(
    plain: Connection,
    app: str,
    workspace: str,
    confined: bool | None,  # noqa: FBT001 -- a case
) -> None:
    clock = ManualClock()
    async with open_postgres(app, clock=clock, confined=confined) as backend:
        before = (await backend.store.queue_stats()).pending
        await backend.store.insert([draft(f"{workspace}{n}", "1") for n in range(3)])
        await plain.execute(
            """
            insert into handraise.deliveries
                (created_at, workspace, id, question_id, recipient, channel, asker, reason, rate_limit_key, destination)
            select now(), $1, n::text, '1', 'ana', 'mail', 'bot', 'asked', 'mail', '{}' from generate_series(1, 3) as n
            """,
            workspace,
        )
        queue_stats = await backend.store.queue_stats()
        assert queue_stats.pending[AGES[0]] == before[AGES[0]] + 3
        assert queue_stats.deliveries["queued"] >= 3


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(address)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def undone(connection: Connection) -> AsyncIterator[None]:
    """A transaction that leaves nothing."""
    change = connection.transaction()
    await change.start()
    try:
        yield
    finally:
        await change.rollback()


@asynccontextmanager
async def role(plain: Connection, attributes: str) -> AsyncIterator[str]:
    name = f"handraise_test_{uuid.uuid4().hex[:12]}"
    await plain.execute(f"create role {name} {attributes}")
    try:
        yield name
    finally:
        await plain.execute(f"drop role {name}")


@asynccontextmanager
async def database(plain: Connection, attributes: str = "") -> AsyncIterator[str]:
    name = f"handraise_test_{uuid.uuid4().hex[:12]}"
    await plain.execute(f"create database {name} {attributes}")
    try:
        yield name
    finally:
        await plain.execute(f"drop database {name} with (force)")


def as_role(address: str, name: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))


def name_of(address: str) -> str:
    return urlsplit(address).path.removeprefix("/")


def at_database(address: str, name: str) -> str:
    return urlunsplit(urlsplit(address)._replace(path=f"/{name}"))


def rename_app_role(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The role belongs to the whole cluster, so a test of one that is not there needs another name."""
    monkeypatch.setattr(row_security, "APP_ROLE", name)
    renamed = (replace(each, sql=each.sql.replace("handraise_app", name)) for each in schema.MIGRATIONS)
    monkeypatch.setattr(schema, "MIGRATIONS", tuple(renamed))


def draft(workspace: str, question_id: str, **options: Unpack[QuestionOptions]) -> Draft:
    return compose("Which?", options, new_id=question_id, workspace=workspace, asker="agent", limits=Limits())
