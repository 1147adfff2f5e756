"""What only SQLite can show: refusals, turns at the lock, the doorbell, query plans."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from handraise import Answered, Approval, StillPending, StoreUnavailable, __version__, open_desk
from handraise.backends.sql_files import Migration, parts_of
from handraise.backends.sqlite import backend, connections, durability
from handraise.backends.sqlite.backend import MIGRATIONS
from handraise.backends.sqlite.statements import STATEMENTS
from handraise.errors import SchemaMismatch, UnsafeStore
from handraise.model.forms import form_to_json
from handraise.testing import promise

SOON = 10.0


OLD_APPROVAL = (
    '{"kind":"approval","action":{"tool":"pay","arguments":{"amount":1}},'
    '"digest":"c235b41b3d33c131d6a96bae55005b8af892d009c4f7ff9716f1b00396d1a121",'
    '"editable":[],"scopes":["once"],"remember_for":2592000.0}'
)
"""Without a risk, as it may be stored."""

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local\\040disk xfs rw 0 0
tmpfs /run tmpfs rw 0 0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "questions.db"


@pytest.fixture
def address(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/x.db", "ext4"),
        ("/home/ana/x.db", "nfs4"),
        ("/home/local disk/x.db", "xfs"),
        ("/run/x.db", "tmpfs"),
    ],
)
def test_the_deepest_mount_says_what_a_file_is_on(path: str, kind: str) -> None:
    assert durability.file_system_of(Path(path), MOUNTS) == kind


@promise("P3")
async def test_a_network_file_system_is_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr(durability, "_MOUNTS", mounts)
    with pytest.raises(UnsafeStore, match=r"network file system \(nfs\)"):
        async with open_desk(address):
            pass
    assert [each.name for each in tmp_path.iterdir()] == ["mounts"]


@promise("P3")
async def test_the_settings_in_force_are_full_durability(address: str) -> None:
    async with open_desk(address) as desk:
        settings = (await desk.durability()).settings
    assert (settings["journal_mode"], settings["synchronous"]) == ("wal", "full")


@promise("P3")
def test_a_connection_that_does_not_sync_is_refused(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("pragma synchronous = normal")
    with pytest.raises(UnsafeStore, match="needs wal and full"):
        durability.durability_of(connection, "ext4")
    connection.close()


def test_a_file_in_memory_is_said_to_end_with_the_host(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("pragma journal_mode = wal")
    assert "not a restart of the host" in durability.durability_of(connection, "tmpfs").survives
    connection.close()


async def test_a_schema_from_the_future_is_refused(address: str, file: Path) -> None:
    async with open_desk(address):
        pass
    connection = sqlite3.connect(file)
    connection.execute("pragma user_version = 9999")
    connection.close()
    with pytest.raises(SchemaMismatch, match="Upgrade Handraise"):
        async with open_desk(address):
            pass


@pytest.mark.parametrize(
    "older", ["update migrations set digest = 'other'", "alter table migrations drop column digest"]
)
async def test_a_file_of_another_build_is_refused_and_says_what_to_do(
    address: str, file: Path, older: str
) -> None:
    async with open_desk(address):
        pass
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(older)
    with pytest.raises(SchemaMismatch, match="Another build of Handraise made this store"):
        async with open_desk(address):
            pass
    ended = await asyncio.to_thread(_list, address)
    assert (ended.returncode, "name a new store" in ended.stderr) == (78, True)


def _list(address: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-m", "handraise", "list"], {**os.environ, "HANDRAISE_URL": address}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


async def test_a_release_opens_a_newer_schema_unless_the_schema_needs_a_newer_release(
    address: str, file: Path
) -> None:
    async with open_desk(address) as desk:
        question = await desk.post("Which?")

    def becomes(number: int, oldest: str) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(
                "insert into migrations (number, name, oldest_release) values (?, 'future', ?)",
                [number, oldest],
            )
            connection.execute(f"pragma user_version = {number:d}")

    becomes(9998, __version__)
    async with open_desk(address) as desk:
        assert (await desk.get(question.id)).prompt == "Which?"
    becomes(9999, "9.0.0")
    with pytest.raises(SchemaMismatch, match=r"needs release 9\.0\.0 of Handraise; this is"):
        async with open_desk(address):
            pass


async def test_a_file_that_is_no_database_is_a_clear_error(address: str, file: Path) -> None:
    file.write_text("these are not the bytes you are looking for" * 100)
    with pytest.raises(StoreUnavailable, match="belongs to another program"):
        async with open_desk(address):
            pass


@promise("P10")
async def test_a_writer_gives_up_where_another_process_holds_the_lock(
    address: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_desk(address) as desk:
        gate = os.open(f"{file}-lock", os.O_RDWR)
        fcntl.flock(gate, fcntl.LOCK_EX)
        assert connections.PATIENCE == 30.0
        monkeypatch.setattr(connections, "PATIENCE", 0.05)
        with pytest.raises(StoreUnavailable, match=r"kept .* locked"):
            await desk.post("Never stored?", key="k")
        fcntl.flock(gate, fcntl.LOCK_UN)
        os.close(gate)
        monkeypatch.setattr(connections, "PATIENCE", SOON)
        await desk.post("Stored?")
        assert await desk.find_by_key("k") is None


@promise("P10")
async def test_a_desk_closes_while_another_process_holds_the_lock(
    address: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(SOON), open_desk(address) as desk:
        monkeypatch.setattr(connections, "PATIENCE", 0.2)
        gate = os.open(f"{file}-lock", os.O_RDWR)
        fcntl.flock(gate, fcntl.LOCK_EX)
        posting = asyncio.create_task(desk.post("Never stored?"))
        await asyncio.sleep(0.05)
        posting.cancel()
    os.close(gate)
    async with open_desk(address) as another:
        assert (await another.list_pending()).items == []


async def test_a_failed_transaction_leaves_nothing(address: str, file: Path) -> None:
    async with open_desk(address) as desk:
        await desk.post("Which?")
        rows = await count(file, "events")
        breaking = sqlite3.connect(file)
        breaking.execute(
            "create trigger refuse before insert on events begin select raise(abort, 'disk on fire'); end"
        )
        breaking.close()
        with pytest.raises(StoreUnavailable, match="disk on fire"):
            await desk.post("Lost?")
        assert len((await desk.list_pending()).items) == 1
        assert await count(file, "events") == rows


@promise("P5")
async def test_a_strangers_datagram_is_not_heard(address: str, file: Path) -> None:
    async with open_desk(address, poll_interval=10 * SOON) as asker, open_desk(address) as person:
        question = await asker.post("Which?")
        with pytest.raises(StillPending):
            await asker.wait(question.id, timeout=0.1)
        connection = sqlite3.connect(file)
        (port,) = connection.execute("select port from listeners").fetchone()
        connection.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for junk in (b"", b"\xff\x00", b"x" * 32 + json.dumps(["default", question.id]).encode()):
                stranger.sendto(junk, ("127.0.0.1", port))
        with pytest.raises(StillPending):
            await asker.wait(question.id, timeout=0.1)
        waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
        await asyncio.sleep(0)
        await person.answer(question.id, "a", by="ana")
        assert isinstance(await waiting, Answered)


PARAMETERS: dict[str, Any] = {
    "workspace": "w",
    "id": "1",
    "key": "k",
    "owner": "a",
    "asker": "a",
    "person": "p",
    "conversation": "c",
    "principals": '["*"]',
    "after": "",
    "limit": 50,
    "at_most": 50,
    "now": 0,
    "rows": '[{"workspace": "w", "id": "1", "owner": "a", "key": "k"}]',
    "question_id": "1",
    "transaction": 0,
    "number": 0,
    "before_transaction": 0,
    "before_number": 100,
    "edge_transaction": 0,
    "edge_number": 0,
    "looked": 50,
    "since": 0,
    "until": 100,
    "kinds": "[]",
    "decision": "approve",
    "settled_by": "ana",
    "ways": '["person"]',
    "channel": "web",
    "tool": "pay",
    "risk": "high",
    "group_name": "group:ops",
    "took_at_least": 1,
    "took_less": 100,
    "is_late": True,
    "has_failed": True,
    "rank": 0,
    "aside": False,
}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "read",
            "read_by_key",
            "outcomes",
            "due_workspaces",
            "lock_due",
            "history",
            "feed",
            "feed_end",
            "settled_since",
        ),
        *("pending_all", "pending_by_asker", "pending_by_conversation", "pending_by_recipient"),
        *("urgent_all", "urgent_by_asker", "urgent_by_conversation", "urgent_by_recipient"),
        *("looked_through", "event_before", "settled", "endings", "queue_stats_of_workspace"),
    ],
)
async def test_a_hot_statement_searches_and_never_scans(address: str, file: Path, name: str) -> None:
    async with open_desk(address):
        pass
    connection = sqlite3.connect(file)
    plan = connection.execute(
        f"explain query plan {next(iter(parts_of(STATEMENTS[name]).values())).named}", PARAMETERS
    ).fetchall()
    connection.close()
    tables = ("questions", "inbox", "events", " q", " i", " e", " mine")
    scans = [row[3] for row in plan if row[3].startswith("SCAN") and row[3].endswith(tables)]
    assert scans == [], plan


@pytest.mark.parametrize("name", ["looked_through", "event_before", "settled", "endings"])
async def test_a_walk_back_goes_along_the_feed_and_sorts_nothing(address: str, file: Path, name: str) -> None:
    async with open_desk(address):
        pass
    connection = sqlite3.connect(file)
    plan = connection.execute(
        f"explain query plan {next(iter(parts_of(STATEMENTS[name]).values())).named}", PARAMETERS
    ).fetchall()
    connection.close()
    assert "INDEX events_by_workspace (workspace=? AND (transaction,place)" in plan[0][3]
    assert [row[3] for row in plan if "TEMP B-TREE" in row[3]] == []


async def test_a_later_migration_keeps_the_questions_of_a_file(
    address: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_desk(address):
        pass
    old = sqlite3.connect(file)
    old.execute(
        """
        insert into questions (workspace, id, asker, recipients, quorum, veto, asked_at, prompt, form)
        values ('default', 'q-1', 'agent', '[]', 1, 0, 0, 'Pay?', ?)
        """,
        [OLD_APPROVAL],
    )
    old.execute(
        """
        insert into inbox (workspace, question_id, recipient, asker, main, open)
        values ('default', 'q-1', '*', 'agent', 1, 1)
        """
    )
    old.commit()
    old.close()
    later = Migration(MIGRATIONS[-1].number + 1, "later", "alter table questions add column later integer;")
    monkeypatch.setattr(backend, "MIGRATIONS", (*MIGRATIONS, later))
    async with open_desk(address) as desk:
        (read,) = (await desk.list_pending()).items
        assert isinstance(read.form, Approval)
        assert (read.id, read.undo_for, read.form.risk) == ("q-1", 0.0, "medium")
        assert form_to_json(read.form) == OLD_APPROVAL
        answered = await desk.answer("q-1", "approve", by="ana")
        assert (await desk.list_settled()).items == [answered]
        assert (await desk.get((await desk.post("Which?", undo_for=5)).id)).undo_for == 5.0
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("select count(*), count(later) from questions").fetchone() == (2, 0)
        assert connection.execute("pragma user_version").fetchone() == (later.number,)
        kept = connection.execute("select number, oldest_release from migrations order by number").fetchall()
    assert kept == [(each.number, each.oldest_release) for each in (*MIGRATIONS, later)]


async def count(file: Path, table: str) -> int:
    connection = sqlite3.connect(file)
    (number,) = connection.execute(f"select count(*) from {table}").fetchone()  # noqa: S608 -- our own names
    connection.close()
    return int(number)


async def test_the_file_is_its_owners_and_opening_it_again_leaves_its_locks_alone(tmp_path: Path) -> None:
    path = tmp_path / "questions.db"
    async with open_desk(f"sqlite:///{path}") as one:
        assert path.stat().st_mode & 0o777 == 0o600
        question = await one.post("Which?")
        async with open_desk(f"sqlite:///{path}") as two:
            await two.answer(question.id, "a", by="ana")
        look = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('select status from questions'))"
        for _ in range(2):
            done = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", look, str(path)],
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stdout.strip() == "('answered',)"
        assert (await one.get(question.id)).status == "answered"


@promise("P1")
@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_nothing_is_acknowledged_in_a_file_that_was_deleted_or_replaced(
    tmp_path: Path, how: str
) -> None:
    path = tmp_path / "questions.db"
    url = f"sqlite:///{path}"
    async with open_desk(url) as desk:
        await desk.post("One?", key="one")
        if how == "deleted":
            for each in tmp_path.iterdir():
                each.unlink()
        else:
            shutil.copy(path, tmp_path / "backup.db")
            (tmp_path / "backup.db").replace(path)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="deleted or replaced"):
                await desk.post("Two?", key="two")
            with pytest.raises(StoreUnavailable, match="deleted or replaced"):
                await desk.find_by_key("one")
    async with open_desk(url) as again:
        assert await again.find_by_key("two") is None
        assert (await again.post("Two?", key="two")).status == "pending"


@pytest.mark.parametrize(
    ("error", "says", "lasts"),
    [
        (
            sqlite3.OperationalError("table questions already exists"),
            "Give Handraise a file of its own",
            True,
        ),
        (sqlite3.DatabaseError("file is not a database"), "/srv/q.db belongs to another program", True),
        (
            sqlite3.OperationalError("attempt to write a readonly database"),
            "This user cannot open or write /srv/q.db, or its folder",
            True,
        ),
        (PermissionError(13, "Permission denied", "/srv/new.db-lock"), "/srv/new.db-lock", True),
        (sqlite3.OperationalError("disk I/O error"), "SQLite cannot do this now: disk I/O error", False),
    ],
)
def test_an_error_says_what_to_do_and_whether_waiting_helps(
    error: sqlite3.Error | PermissionError,
    says: str,
    lasts: bool,  # noqa: FBT001 -- a case
) -> None:
    found = connections.unavailable(error, Path("/srv/q.db"))
    assert says in str(found)
    assert found.misconfigured is lasts


async def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as theirs:
        theirs.execute("create table questions (a)")
        theirs.commit()
    with pytest.raises(StoreUnavailable, match="Give Handraise a file of its own"):
        async with open_desk(f"sqlite:///{tmp_path / 'theirs.db'}"):
            pass
