"""A workspace is exported as a file and imported, from each engine to each, and nothing of it is lost, changed, or half there."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from handraise.backends.postgres.workspace_tables import CONVERSIONS
from handraise.backends.sql.workspace_transfer import LEFT_OUT, MERGED
from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import Sealer
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.errors import Stopped, UnsafeStore
from handraise.events import Event
from handraise.model.audit_verification import TrustedKey, Verdict, verify
from handraise.ports import Backend
from handraise.ports.store import Filter
from handraise.signing.key_files import KeySigner, load_signer, make_key
from support.command import environment
from tests.backends.moved_workspace import (
    SAMPLED,
    cancelled,
    exported,
    fill,
    imported,
    removed,
    tables_of,
)
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
    """A SQLite store with a row in every table that is exported."""
    file = tmp_path_factory.mktemp("transfer") / "full.db"
    with own_database() as database:

        async def make() -> None:
            await fill(f"sqlite:///{file}", await tables_of(database))

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


async def moved(source: str, target: str, folder: Path, workspace: str = "default") -> None:
    """Export and import a workspace, and compare an export of what came."""
    there, back = folder / f"{uuid.uuid4().hex}.jsonl", folder / f"{uuid.uuid4().hex}.jsonl"
    given = await exported(source, there, workspace)
    assert await imported(there, target) == given
    assert (await exported(target, back, workspace)).record() == given.record()


# == Which tables are exported ==


async def test_every_table_is_exported_or_left_out_with_a_reason(new_file: str, postgres: str) -> None:
    """A new table or column is exported by itself; one that only one engine has fails here until it is left out."""
    ours, theirs = [
        {
            name: table.types
            for name, table in (await tables_of(address)).items()
            if name not in LEFT_OUT and name not in MERGED
        }
        for address in (new_file, postgres)
    ]
    assert {name: set(types) for name, types in ours.items()} == {
        name: set(types) for name, types in theirs.items()
    }
    assert all(LEFT_OUT.values())
    unknown = {kind for types in theirs.values() for kind in types.values()} - CONVERSIONS.keys()
    assert unknown == set(), "say in workspace_tables how these are converted"


# == What goes along ==


@pytest.mark.only_proof_of("that cursors and the audit trail outlive several moves between the engines")
async def test_a_workspace_goes_from_engine_to_engine_and_back_and_its_audit_trail_stays_good(
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
        head = await head_of(full)
        await moved(full, target, tmp_path)
        assert await head_of(target) == head
        assert (await read_feed(target, least=len(before)))[0] == before
        new = await use(target, number)
        came, _ = await read_feed(target, after=cursor, least=2)
        assert [each.question_id for each in came] == [new, new], "a follower that comes along misses nothing"
        late, _ = await read_feed(target, after=followed, least=2 * (number + 1))
        assert len(late) == 2 * (number + 1), "nor does one that was away for all the moves"
        await seal(target, key)
        assert (verdict := await audited(target, key)).fault is None, verdict.fault
        assert list(verdict.keys.values()) == [(1, number + 2)]
        full = target
    assert len((await read_feed(full))[0]) == whole + 8


async def test_a_row_of_every_table_goes_there_and_back(
    full: str, empty: str, new_file: str, tmp_path: Path
) -> None:
    one = await exported(full, tmp_path / "one.jsonl", SAMPLED)
    assert one.rows.keys() == (await tables_of(new_file)).keys() - LEFT_OUT.keys() - {"questions"}
    await moved(full, empty, tmp_path, SAMPLED)
    await moved(empty, new_file, tmp_path, SAMPLED)
    assert (await exported(new_file, tmp_path / "two.jsonl", SAMPLED)).record() == one.record()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_workspace_goes_into_another_store_of_its_engine(
    full: str, empty: str, another: str, tmp_path: Path, engine: str
) -> None:
    if engine == "postgres":
        await moved(full, empty, tmp_path)
    source, target = (full, f"sqlite:///{tmp_path / 'new.db'}") if engine == "sqlite" else (empty, another)
    _, cursor = await read_feed(source)
    await moved(source, target, tmp_path)
    new = await use(target, 0)
    came, _ = await read_feed(target, after=cursor, least=2)
    assert [each.question_id for each in came] == [new, new]


async def test_archived_questions_go_along_and_are_found_by_when_they_were_settled(
    full: str, empty: str, new_file: str, tmp_path: Path
) -> None:
    await moved(full, empty, tmp_path)
    ends = await settled_ids(empty)
    async with open_backend(empty) as backend:
        assert await backend.store.tidy(rest=timedelta(0), keep=None, limit=1_000) >= 0
    assert await run(empty, "select exists (select from handraise.archive)")
    await moved(empty, new_file, tmp_path)
    assert await settled_ids(new_file) == ends


async def test_what_is_to_be_sent_and_what_is_found_by_words_goes_along(
    full: str, empty: str, tmp_path: Path
) -> None:
    async with open_backend(full) as backend:
        waiting = await entries(backend)
    assert waiting
    await moved(full, empty, tmp_path)
    async with open_backend(empty) as backend, desk_from_store(backend.store, backend.bus) as desk:
        assert await backend.outbox.workspaces_with_entries(limit=10) == ["default"]
        assert await entries(backend) == waiting
        assert len((await desk.search("question")).items) > 0


async def test_others_use_both_stores_meanwhile(full: str, empty: str, tmp_path: Path) -> None:
    async with (
        open_backend(full) as source,
        open_backend(empty) as target,
        desk_from_store(source.store, source.bus) as here,
        desk_from_store(target.store, target.bus, workspace="other") as there,
    ):
        await there.post("Is this cell used?")
        given = await exported(full, tmp_path / "one.jsonl")
        await here.post("Is this too late?")
        assert await imported(tmp_path / "one.jsonl", empty) == given
        later = await there.post("Is this cell still used?")
        await there.answer(later.id, "yes", by="ana")
    assert len((await read_feed_of(empty, "other", least=3))[0]) == 3


# == Interrupted ==


@pytest.mark.only_proof_of("that an import continues after a kill in the middle of a transaction")
@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
async def test_an_import_that_is_killed_anywhere_continues_and_is_nowhere_to_be_seen_before_its_end(
    full: str, empty: str, new_file: str, tmp_path: Path, engine: str
) -> None:
    await seal(full, signer(tmp_path))
    source, target = full, empty if engine == "postgres" else new_file
    file = tmp_path / "one.jsonl"
    given = await exported(source, file)
    killed_import(file, target, 1)
    for transactions in (3, 4):
        killed_import(file, target, transactions)
        await check_unseen(target, tmp_path)
    last = 2
    while run_import(file, target, last) == -signal.SIGKILL:
        await check_unseen(target, tmp_path)
        last += 1
    back = await exported(target, tmp_path / "back.jsonl")
    assert back.record() == given.record()
    new = await use(target, 0)
    async with open_backend(target) as backend:
        assert await backend.ledger.unsealed(limit=10) == ["default"]
        assert new


async def check_unseen(address: str, folder: Path) -> None:
    """Nothing works on a workspace that is half there, and nobody can use it."""
    async with open_backend(address) as backend, desk_from_store(backend.store, backend.bus) as desk:
        assert await backend.ledger.unsealed(limit=10) == []
        assert await backend.store.unindexed(limit=10) == []
        assert await backend.outbox.workspaces_with_entries(limit=10) == []
        assert await backend.outbox.workspaces_with_due(limit=10) == []
        assert await backend.directory.people("default", after=None, limit=10) == []
        assert await backend.store.pending(Filter(workspace="default"), after=None, limit=10) == []
        with pytest.raises(Stopped, match="being imported"):
            await desk.post("Is this workspace complete?")
    with pytest.raises(UnsafeStore, match="is not finished"):
        await exported(address, folder / "half.jsonl")


def killed_import(file: Path, target: str, transaction: int) -> None:
    """Let an import be killed in this transaction."""
    assert run_import(file, target, transaction) == -signal.SIGKILL


def run_import(file: Path, target: str, transaction: int) -> int:
    """Import in another process, which is killed in this transaction if it comes so far."""
    command = [sys.executable, "-m", "tests.backends.moved_workspace", str(file), target, str(transaction)]
    done = subprocess.run(
        command, env=environment(None), capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


async def test_an_import_that_is_given_up_leaves_nothing(full: str, empty: str, tmp_path: Path) -> None:
    file, later = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    await exported(full, file)
    killed_import(file, empty, 3)
    given = await exported(full, later)
    with pytest.raises(UnsafeStore, match="The import of another file"):
        await imported(later, empty)
    await cancelled(file, empty)
    assert await imported(later, empty) == given
    with pytest.raises(UnsafeStore, match="or it is complete"):
        await cancelled(later, empty)


# == Refused ==


async def test_a_store_that_has_the_workspace_is_refused(full: str, another: str, tmp_path: Path) -> None:
    await use(another, 0)
    await exported(full, tmp_path / "one.jsonl")
    with pytest.raises(UnsafeStore, match="has a workspace 'default' already"):
        await imported(tmp_path / "one.jsonl", another)


async def test_a_file_of_sqlite_takes_no_workspace_whose_numbers_it_has(
    full: str, new_file: str, tmp_path: Path
) -> None:
    async with (
        open_backend(new_file) as backend,
        desk_from_store(backend.store, backend.bus, workspace="other") as desk,
    ):
        await desk.post("Is this file used?")
    file = tmp_path / "one.jsonl"
    await exported(full, file)
    with pytest.raises(UnsafeStore, match="numbers the events of all its workspaces together"):
        await imported(file, new_file)
    await cancelled(file, new_file)


@pytest.mark.parametrize("harm", ["cut off", "changed", "swapped"])
async def test_a_file_that_is_not_as_it_was_written_does_not_become_a_workspace(
    full: str, empty: str, tmp_path: Path, harm: str
) -> None:
    file = tmp_path / "one.jsonl"
    await exported(full, file)
    head, *lines, end = file.read_text().splitlines()
    match harm:
        case "cut off":
            file.write_text("\n".join([head, *lines]))
        case "changed":
            file.write_text("\n".join([head, *(each.replace("Ana", "Eve") for each in lines), end]))
        case _:
            file.write_text("\n".join([head, '{"table":"migrations","row":{}}', *lines, end]))
    with pytest.raises(UnsafeStore, match=r"cut off|digests differ|Line 2 of the file cannot"):
        await imported(file, empty)
    await check_unseen(empty, tmp_path)


async def test_a_file_of_another_schema_is_refused(full: str, empty: str, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    await exported(full, file)
    head, rest = file.read_text().split("\n", 1)
    file.write_text(f"{json.dumps({**json.loads(head), 'schema': 99})}\n{rest}")
    with pytest.raises(UnsafeStore, match="has schema 99"):
        await imported(file, empty)
    file.write_text("{}")
    with pytest.raises(UnsafeStore, match="is not one that"):
        await imported(file, empty)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_workspace_is_removed_only_if_the_file_has_all_of_it(
    full: str, empty: str, tmp_path: Path, engine: str
) -> None:
    file, later, source = tmp_path / "one.jsonl", tmp_path / "two.jsonl", full
    if engine == "postgres":
        await moved(full, empty, tmp_path)
        source = empty
    await exported(source, file)
    await use(source, 0)
    with pytest.raises(UnsafeStore, match="it was used since"):
        await removed(file, source)
    await exported(source, later)
    await removed(later, source)
    with pytest.raises(UnsafeStore, match="There is nothing in the workspace 'default'"):
        await exported(source, tmp_path / "three.jsonl")
    await imported(later, source)
    assert (await exported(source, tmp_path / "four.jsonl")).rows["questions"] > 0


# == Roles ==


async def test_the_owner_imports_and_a_role_of_servers_exports(full: str, bare: str, tmp_path: Path) -> None:
    owner, server = f"owner_{uuid.uuid4().hex[:8]}", f"server_{uuid.uuid4().hex[:8]}"
    name = urlsplit(bare).path[1:]
    await run(
        bare,
        f'create role {owner} login in role handraise_app; grant create on database "{name}" to {owner}; '
        f"create role {server} login in role handraise_app",
    )
    try:
        address = as_role(bare, owner)
        await moved(full, address, tmp_path)
        given = await exported(address, tmp_path / "one.jsonl")
        assert (await exported(as_role(bare, server), tmp_path / "two.jsonl")).record() == given.record()
        with pytest.raises(UnsafeStore, match="Log in as the role that owns the tables"):
            await imported(tmp_path / "two.jsonl", as_role(bare, server))
        await removed(tmp_path / "two.jsonl", address)
        async with open_backend(address, confined=True):
            pass
    finally:
        await run(bare, f"drop owned by {owner} cascade; drop role {owner}; drop role {server}")


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


async def head_of(address: str) -> str:
    """The last seal."""
    async with open_backend(address) as backend:
        last = (await backend.ledger.head("default")).seal
        assert last is not None
        return last.digest.hex()


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
    """All events of the default workspace after a cursor."""
    return await read_feed_of(address, "default", after, least)


async def read_feed_of(
    address: str, workspace: str, after: str | None = None, least: int = 1
) -> tuple[list[Event], str]:
    """All events of a workspace after a cursor, a few at a time, and the cursor of the last one.

    There are at least so many. PostgreSQL shows the last of them when older transactions of all its databases have ended.
    """
    async with asyncio.timeout(SOON), open_backend(address) as backend:
        while len(found := await _read_feed(backend, workspace, after)) < least:
            await asyncio.sleep(0.05)
    return found, found[-1].cursor


async def _read_feed(backend: Backend, workspace: str, after: str | None) -> list[Event]:
    found: list[Event] = []
    while page := await backend.store.feed(workspace, after=found[-1].cursor if found else after, limit=7):
        found += page
    return found


async def entries(backend: Backend) -> list[tuple[object, ...]]:
    """What nobody has been told of yet."""
    found = await backend.outbox.entries("default", limit=1_000)
    return [(each.number, each.question_id, each.kind, each.at, each.data) for each in found]


async def settled_ids(address: str) -> list[list[str]]:
    """The settled questions from the beginning, and from the middle of their ends on."""
    async with open_backend(address) as backend:

        async def rows(since: datetime | None) -> list[tuple[datetime, str]]:
            found: list[tuple[datetime, str]] = []
            after = None
            while True:
                page = await backend.store.settled_rows(
                    "default", since=since, until=None, after=after, limit=7
                )
                found += [(row.settled_at, row.id) for row in page.rows]
                after = page.after
                if after is None:
                    return found

        every = await rows(None)
        middle = every[len(every) // 2][0]
        later = await rows(middle)
    assert [each for each in every if each[0] >= middle] == later
    return [[name for _, name in every], [name for _, name in later]]


async def run(address: str, sql: str) -> object:
    """Execute SQL as a superuser; return the first value of a query."""
    connection = await asyncpg.connect(address)
    try:
        return await (connection.fetchval(sql) if sql.startswith("select") else connection.execute(sql))
    finally:
        await connection.close()
