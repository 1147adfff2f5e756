"""A store is copied whole, from each engine to each, and nothing of it is lost, changed, or used twice."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from handraise.backends.sql.copied_tables import LEFT_OUT
from handraise.backends.sql.portable_values import CONVERSIONS
from handraise.backends.sql.store_copy import CopyEnd, cancel_copy
from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import Sealer
from handraise.desk_factory import open_backend, open_copy_end
from handraise.desks import desk_from_store
from handraise.errors import UnsafeStore
from handraise.events import Event
from handraise.model.audit_verification import TrustedKey, Verdict, verify
from handraise.ports import Backend
from handraise.signing.key_files import KeySigner, load_signer, make_key
from support.command import environment
from tests.backends.copied_store import copied, differences, fill, tables_of
from tests.conftest import own_database

SOON = 60.0


@pytest.fixture
def empty() -> Iterator[str]:
    """A database with nothing but the schema."""
    with own_database() as address:
        yield address


@pytest.fixture
def another() -> Iterator[str]:
    """One more."""
    with own_database() as address:
        yield address


@pytest.fixture
def bare() -> Iterator[str]:
    """A database without a schema."""
    with own_database(empty=True) as address:
        yield address


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with a row in every table that is copied."""
    file = tmp_path_factory.mktemp("copy") / "full.db"
    with own_database() as database:

        async def make() -> None:
            await fill(f"sqlite:///{file}", await tables_of(f"sqlite:///{file}", database))

        asyncio.run(make())
    return file


@pytest.fixture
def full(original: Path, tmp_path: Path) -> str:
    """The same for each test."""
    shutil.copy(original, tmp_path / "full.db")
    return f"sqlite:///{tmp_path / 'full.db'}"


@pytest.fixture
def new_file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'new.db'}"


@asynccontextmanager
async def two_ends(source: str, target: str) -> AsyncIterator[tuple[CopyEnd, CopyEnd]]:
    async with (
        open_copy_end(source, may_create=True) as one,
        open_copy_end(target, may_create=True) as other,
    ):
        yield one, other


# == Which tables are copied ==


async def test_every_table_is_copied_or_left_out_with_a_reason(new_file: str, postgres: str) -> None:
    """A new table or column is copied by itself; one that only one engine has fails here until it is left out."""
    tables = await tables_of(new_file, postgres)
    names = {table.name for table in tables}
    async with two_ends(new_file, postgres) as ends:
        stored = [{table.name for table in await end.tables()} for end in ends]
    assert names | LEFT_OUT.keys() == stored[0] | stored[1]
    assert not names & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())
    unknown = {kind for table in tables for kind in table.types} - CONVERSIONS.keys()
    assert unknown == set(), "say in portable_values how these are converted"


async def test_a_table_that_only_one_store_has_is_not_forgotten(new_file: str, postgres: str) -> None:
    await tables_of(new_file, postgres)
    with closing(sqlite3.connect(new_file.removeprefix("sqlite:///"))) as file, file:
        file.execute("create table notes (workspace text primary key, text text not null) strict")
    with pytest.raises(UnsafeStore, match="only one of the stores has the tables notes"):
        await copied(new_file, postgres)
    with closing(sqlite3.connect(new_file.removeprefix("sqlite:///"))) as file, file:
        file.execute("drop table notes")
        file.execute("alter table people add column nickname text")
    with pytest.raises(UnsafeStore, match="only one of the stores has the columns nickname of people"):
        await copied(new_file, postgres)


# == What is copied ==


@pytest.mark.only_proof_of("that cursors and the audit trail outlive several copies between the engines")
async def test_a_store_goes_from_engine_to_engine_and_back_and_its_audit_trail_stays_good(
    full: str, empty: str, another: str, tmp_path: Path
) -> None:
    key = signer(tmp_path)
    await seal(full, key)
    begin, followed = await read_feed(full)
    whole = len(begin)
    for number, target in enumerate(
        (empty, f"sqlite:///{tmp_path / '2.db'}", another, f"sqlite:///{tmp_path / '4.db'}")
    ):
        before, cursor = await read_feed(full, least=whole + 2 * number)
        proofs, stored = await copied(full, target)
        assert differences(proofs) == []
        assert stored == sum(each.source_rows for each in proofs)
        assert all(each.source_rows for each in proofs), "a table was empty, so its copy shows nothing"
        assert (await read_feed(target, least=len(before)))[0] == before
        new = await use(target, number)
        came, _ = await read_feed(target, after=cursor, least=2)
        assert [each.question_id for each in came] == [new, new], "a follower that comes along misses nothing"
        late, _ = await read_feed(target, after=followed, least=2 * (number + 1))
        assert len(late) == 2 * (number + 1), "nor does one that was away for all the copies"
        await seal(target, key)
        assert (verdict := await audited(target, key)).fault is None, verdict.fault
        assert list(verdict.keys.values()) == [(1, number + 2)]
        full = target
    assert len((await read_feed(full))[0]) == whole + 8


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_store_is_copied_into_another_one_of_its_engine(
    full: str, empty: str, another: str, tmp_path: Path, engine: str
) -> None:
    if engine == "postgres":
        await copied(full, empty)
    source, target = (full, f"sqlite:///{tmp_path / 'new.db'}") if engine == "sqlite" else (empty, another)
    _, cursor = await read_feed(source)
    proofs, _ = await copied(source, target)
    assert differences(proofs) == []
    new = await use(target, 0)
    came, _ = await read_feed(target, after=cursor, least=2)
    assert [each.question_id for each in came] == [new, new]


async def test_what_is_to_be_sent_is_sent_by_the_copy_alone(full: str, empty: str) -> None:
    async with open_backend(full) as backend:
        workspaces = await backend.outbox.workspaces_with_entries(limit=10)
        waiting = await entries(backend)
    assert waiting
    await copied(full, empty)
    with pytest.raises(UnsafeStore, match=r"was copied to postgresql://.* and is not used any more"):
        async with open_backend(full):
            pass
    async with open_backend(empty) as backend:
        assert await backend.outbox.workspaces_with_entries(limit=10) == workspaces
        assert await entries(backend) == waiting


async def test_a_key_names_the_same_question_in_the_copy(new_file: str, empty: str) -> None:
    async with open_backend(new_file) as backend, desk_from_store(backend.store, backend.bus) as desk:
        asked = await desk.post("Which?", key="k")
    await copied(new_file, empty)
    async with open_backend(empty) as backend, desk_from_store(backend.store, backend.bus) as desk:
        assert (await desk.post("Which?", key="k")).id == asked.id
        assert len((await desk.list_pending()).items) == 1


async def test_full_text_search_finds_what_was_copied(full: str, empty: str) -> None:
    await copied(full, empty)
    async with open_backend(empty) as backend, desk_from_store(backend.store, backend.bus) as desk:
        assert len((await desk.search("question")).items) > 0


# == Interrupted ==


@pytest.mark.only_proof_of("that a copy continues after a kill in the middle of a transaction")
@pytest.mark.parametrize(
    "there",
    [
        "sqlite to postgres",
        pytest.param(
            "postgres to sqlite", marks=pytest.mark.slow("the same with the engines the other way round")
        ),
    ],
)
async def test_a_copy_that_is_killed_anywhere_continues_and_stores_no_row_twice(
    full: str, empty: str, new_file: str, there: str
) -> None:
    source, target = full, empty
    if there == "postgres to sqlite":
        await copied(full, empty)
        source, target = empty, new_file
    before = 0
    for point in ("noted", "2", "9", "complete"):
        stored = killed_copy(source, target, point)
        assert (point == "noted") == (stored == 0)
        before += stored
        for address in {source, target} - ({target} if point == "noted" else set()):
            with pytest.raises(UnsafeStore, match="copy"):
                async with open_backend(address):
                    pass
    proofs, after = await copied(source, target)
    assert differences(proofs) == []
    assert (before, after) == (sum(each.source_rows for each in proofs), 0)
    async with open_backend(target):
        pass


def killed_copy(source: str, target: str, point: str) -> int:
    """Let a copy be killed; return how many rows it had stored."""
    command = [sys.executable, "-m", "tests.backends.copied_store", source, target, point]
    done = subprocess.run(
        command, env=environment(None), capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return sum(map(int, done.stdout.split()))


# == Refused ==


async def test_a_target_that_is_not_empty_is_refused_and_the_source_can_still_be_used(
    full: str, another: str
) -> None:
    await use(another, 0)
    with pytest.raises(UnsafeStore, match="is not empty: it has rows in"):
        await copied(full, another)
    async with open_backend(full):
        pass


@pytest.mark.parametrize("busy", ["source", "target"])
@pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("another", marks=pytest.mark.slow("the gate has the same with SQLite"))]
)
async def test_a_store_that_somebody_has_open_is_refused_and_can_still_be_used(
    full: str, empty: str, new_file: str, engine: str, busy: str
) -> None:
    source, target = (full, empty) if (engine == "sqlite") == (busy == "source") else (empty, new_file)
    if source == empty:
        await copied(full, empty)
    used = source if busy == "source" else target
    async with open_backend(used) as backend:
        await backend.store.feed_end("default")
        with pytest.raises(UnsafeStore, match=r"Somebody has .* open"):
            await copied(source, target)
        await backend.store.feed_end("default")
    async with open_backend(source):
        pass


async def test_a_source_that_was_changed_meanwhile_is_found_out(full: str, empty: str) -> None:
    """Handraise itself cannot change it: the note keeps it out. This is somebody with SQL."""
    killed_copy(full, empty, "complete")
    with closing(sqlite3.connect(full.removeprefix("sqlite:///"))) as file, file:
        file.execute("update people set name = 'Eve' where id = 'ana'")
    proofs, _ = await copied(full, empty)
    assert [each.table for each in differences(proofs)] == ["people"]
    with pytest.raises(UnsafeStore, match="unfinished copy"):
        async with open_backend(empty):
            pass


async def test_a_copy_goes_on_only_between_the_same_two_stores(
    full: str, empty: str, postgres: str, tmp_path: Path
) -> None:
    killed_copy(full, empty, "2")
    with pytest.raises(UnsafeStore, match="is being copied, or was copied, to"):
        await copied(full, postgres)
    another = f"sqlite:///{tmp_path / 'another.db'}"
    await tables_of(another, postgres)
    with pytest.raises(UnsafeStore, match="unfinished copy of another store"):
        await copied(another, empty)
    with pytest.raises(UnsafeStore, match="is itself an unfinished copy"):
        await copied(empty, another)


async def test_a_copy_can_be_given_up_until_it_is_used(full: str, empty: str) -> None:
    await copied(full, empty)
    async with two_ends(full, empty) as (one, other):
        await cancel_copy(one, other)
    async with open_backend(full):
        pass
    with pytest.raises(UnsafeStore, match="unfinished copy"):
        async with open_backend(empty):
            pass


async def test_a_copy_that_was_used_is_not_given_up(full: str, empty: str) -> None:
    await copied(full, empty)
    await use(empty, 0)
    async with two_ends(full, empty) as (one, other):
        with pytest.raises(UnsafeStore, match="has been used since it was copied"):
            await cancel_copy(one, other)
    with pytest.raises(UnsafeStore, match="is not used any more"):
        async with open_backend(full):
            pass


# == Roles ==


async def test_the_owner_who_is_no_superuser_copies_and_row_level_security_stays_in_force(
    full: str, bare: str, new_file: str
) -> None:
    owner = f"owner_{uuid.uuid4().hex[:8]}"
    name = urlsplit(bare).path[1:]
    await run(
        bare, f'create role {owner} login in role handraise_app; grant create on database "{name}" to {owner}'
    )
    try:
        address = as_role(bare, owner)
        assert differences((await copied(full, address))[0]) == []
        killed_copy(address, new_file, "2")
        assert differences((await copied(address, new_file))[0]) == []
        walls = (
            "select count(*) from pg_class as c join pg_attribute as a on a.attrelid = c.oid and a.attname = 'workspace' "
            "where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relforcerowsecurity"
        )
        assert await run(bare, walls) == 0
        async with two_ends(address, new_file) as (one, other):
            await cancel_copy(one, other)
        async with open_backend(address, confined=True):
            pass
    finally:
        await run(bare, f"drop owned by {owner} cascade; drop role {owner}")


async def test_a_role_of_a_server_may_not_copy(full: str, postgres: str) -> None:
    server = f"server_{uuid.uuid4().hex[:8]}"
    await run(postgres, f"create role {server} login in role handraise_app")
    try:
        with pytest.raises(UnsafeStore, match="Log in as the role that owns the tables"):
            await copied(full, as_role(postgres, server))
    finally:
        await run(postgres, f"drop role {server}")


# == What the tests share ==


def as_role(address: str, name: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))


def signer(folder: Path) -> KeySigner:
    make_key(folder / "audit.key")
    return load_signer(folder / "audit.key")


async def seal(address: str, key: KeySigner) -> None:
    async with open_backend(address) as backend:
        await Sealer(backend.store, backend.ledger, key).seal("default")


async def audited(address: str, key: KeySigner) -> Verdict:
    """What an export of the audit trail proves."""
    async with open_backend(address) as backend:
        lines = [line async for line in export_lines(backend.store, backend.ledger, "default", key)]
    return verify(lambda: lines, keys=[TrustedKey(key_id=key.key_id, has_signed=key.has_signed)])


async def use(address: str, number: int) -> str:
    """Ask and answer something new; return its id."""
    async with open_backend(address) as backend, desk_from_store(backend.store, backend.bus) as desk:
        asked = await desk.post(f"Is this new, {number}?")
        await desk.answer(asked.id, "yes", by="ana")
        return asked.id


async def read_feed(address: str, after: str | None = None, least: int = 1) -> tuple[list[Event], str]:
    """All events of the workspace after a cursor, a few at a time, and the cursor of the last one.

    There are at least so many. PostgreSQL shows the last of them when older transactions of all its databases have ended.
    """
    async with asyncio.timeout(SOON), open_backend(address) as backend:
        while len(found := await _read_feed(backend, after)) < least:
            await asyncio.sleep(0.05)
    return found, found[-1].cursor


async def _read_feed(backend: Backend, after: str | None) -> list[Event]:
    found: list[Event] = []
    while page := await backend.store.feed("default", after=found[-1].cursor if found else after, limit=7):
        found += page
    return found


async def entries(backend: Backend) -> list[tuple[object, ...]]:
    """What nobody has been told of yet."""
    found = await backend.outbox.entries("default", limit=1_000)
    return [(each.number, each.question_id, each.kind, each.at, each.data) for each in found]


async def run(address: str, sql: str) -> object:
    """Execute SQL as a superuser; return the first value of a query."""
    connection = await asyncpg.connect(address)
    try:
        return await (connection.fetchval(sql) if sql.startswith("select") else connection.execute(sql))
    finally:
        await connection.close()
