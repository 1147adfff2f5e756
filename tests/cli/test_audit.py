"""The audit trail from outside: sealed by a command, exported, checked, and erased from, to the last byte."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from handraise import open_desk
from handraise.backends.sqlite import connections
from handraise.desk_factory import open_backend
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.model.seals import Rule
from support.command import Done, handraise

CANARY = "canary-5e1f"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'questions.db'}"
    found: str = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def key(tmp_path: Path) -> Path:
    done = handraise("audit", "key", str(tmp_path / "key"))
    assert done.returncode == 0, done.stderr
    return tmp_path / "key"


async def asked_and_answered(url: str, workspace: str, person: str = "ana", prompt: str = "Deploy?") -> str:
    async with open_desk(url, workspace=workspace) as desk:
        question = await desk.post(prompt, recipients=[person], check_recipients=False)
        await desk.answer(question.id, f"yes, says {person}", by=person)
        return question.id


async def head_number(url: str, workspace: str) -> int:
    async with open_backend(url) as ports:
        seal = (await ports.ledger.head(workspace)).seal
        return seal.number if seal else 0


def exported(url: str, workspace: str, file: Path, key: Path | None, events: int) -> list[str]:
    """An export that has so many events: what other transactions may come before is not sealed yet."""
    settings = {} if key is None else {"audit_key": str(key)}
    for _ in range(200):
        file.unlink(missing_ok=True)
        done = handraise("audit", "export", str(file), "-w", workspace, url=url, **settings)
        assert done.returncode == 0, done.stderr
        assert file.stat().st_mode & 0o077 == 0, "others could read all questions and answers"
        lines = file.read_text().splitlines()
        if json.loads(lines[-1])["events"] == events and not json.loads(lines[-1])["loose"]:
            return lines
    pytest.fail("the events were never sealed")


def verified(file: Path, *line: str) -> Done:
    return handraise("audit", "verify", str(file), *line)


def test_an_export_is_checked_without_the_store(url: str, workspace: str, tmp_path: Path, key: Path) -> None:
    asyncio.run(asked_and_answered(url, workspace))
    file, public = tmp_path / "trail.jsonl", f"{key}.pub"
    lines = exported(url, workspace, file, key, 2)
    good = verified(file, "--key", public)
    assert (good.returncode, good.stderr) == (0, "")
    assert "GOOD" in good.stdout
    head = handraise("audit", "head", "-w", workspace, url=url).stdout.strip()
    assert head in good.stdout
    assert verified(file, "--key", public, "--head", head).returncode == 0
    tampered = tmp_path / "tampered.jsonl"
    tampered.write_text("\n".join(lines).replace("yes, says ana", "no, says ana"))
    bad = verified(tampered, "--key", public)
    answered = json.loads(lines[3])["record"]
    assert (bad.returncode, bad.stdout) == (1, "")
    assert f"event {answered['cursor']}" in bad.stderr
    assert verified(file).returncode == 1
    assert verified(file, "--key", public, "--head", "99:" + "0" * 64).returncode == 1
    assert verified(file, "--key", public, "--head", "nonsense").returncode == 1


def test_an_unsigned_export_says_so(url: str, workspace: str, tmp_path: Path) -> None:
    asyncio.run(asked_and_answered(url, workspace))
    file = tmp_path / "trail.jsonl"
    exported(url, workspace, file, None, 2)
    refused = verified(file)
    assert (refused.returncode, "nothing here is signed" in refused.stderr) == (1, True)
    good = verified(file, "--unsigned")
    assert good.returncode == 0
    assert "nobody" in good.stdout


def test_a_store_whose_seals_were_deleted_is_not_exported_with_a_signature(
    url: str, workspace: str, tmp_path: Path, key: Path
) -> None:
    asyncio.run(asked_and_answered(url, workspace))
    exported(url, workspace, tmp_path / "before.jsonl", key, 2)
    good = handraise("doctor", url=url, audit_key=str(key))
    assert (good.returncode, "continues from the last signed seal" in good.stdout) == (0, True)
    asyncio.run(rewritten(url, workspace))
    file = tmp_path / "after.jsonl"
    refused = handraise("audit", "export", str(file), "-w", workspace, url=url, audit_key=str(key))
    assert (refused.returncode, refused.stdout, file.exists()) == (78, "", False)
    assert "seal 1 was signed, and there is none now" in refused.stderr
    looked = handraise("doctor", url=url, audit_key=str(key))
    assert (looked.returncode, "NO LONGER SIGNED in 1 workspaces" in looked.stdout) == (78, True)
    assert refused.stderr in looked.stderr
    wrong = handraise("audit", "accept", "1:" + "0" * 64, "-w", workspace, url=url, audit_key=str(key))
    assert (wrong.returncode, "The last seal of the store is none" in wrong.stderr) == (1, True)
    done = handraise("audit", "accept", "none", "-w", workspace, url=url, audit_key=str(key))
    assert done.returncode == 0, done.stderr
    exported(url, workspace, file, key, 2)


def test_doctor_says_that_events_cannot_be_sealed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    asyncio.run(asked_and_answered(url, "lorem"))
    good = handraise("doctor", url=url)
    assert (good.returncode, "possible; 1 workspaces" in good.stdout) == (0, True), good.stderr
    with closing(sqlite3.connect(tmp_path / "questions.db")) as file, file:
        file.execute("update events set kind = 'no-such-kind' where kind = 'answered'")
    looked = handraise("doctor", url=url)
    assert (looked.returncode, "IMPOSSIBLE in 1 workspaces" in looked.stdout) == (78, True)
    assert "The events of workspace 'lorem' cannot be sealed: ValueError" in looked.stderr
    assert "Traceback" not in looked.stderr


async def rewritten(url: str, workspace: str) -> None:
    """What an operator of the database can do without the key."""
    changes = (
        "delete from handraise.seals where workspace = ?",
        "update handraise.events set actor = 'bob' where workspace = ? and kind = 'answered'",
    )
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            for sql in changes:
                file.execute(sql.replace("handraise.", ""), (workspace,))
        file.close()
        return
    connection = await asyncpg.connect(url)
    try:
        for sql in changes:
            await connection.execute(sql.replace("?", "$1"), workspace)
    finally:
        await connection.close()


def test_seals_that_nobody_signed_are_good_only_below_the_seal_that_is_given(
    url: str, workspace: str, tmp_path: Path, key: Path
) -> None:
    asyncio.run(asked_and_answered(url, workspace))
    file, public = tmp_path / "trail.jsonl", f"{key}.pub"
    exported(url, workspace, file, None, 2)
    first = asyncio.run(head_number(url, workspace)) + 1
    asyncio.run(asked_and_answered(url, workspace))
    exported(url, workspace, file, key, 4)
    refused = verified(file, "--key", public)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"--allow-unsigned-before {first}" in refused.stderr
    good = verified(file, "--key", public, "--allow-unsigned-before", str(first))
    assert good.returncode == 0, good.stderr
    assert f"the first {first - 1} seals only by the chain" in good.stdout


def test_nothing_is_written_over(url: str, workspace: str, tmp_path: Path, key: Path) -> None:
    file = tmp_path / "there"
    file.write_text("mine")
    assert handraise("audit", "export", str(file), "-w", workspace, url=url).returncode == 1
    assert handraise("audit", "key", str(key)).returncode == 1
    assert file.read_text() == "mine"


def test_a_key_in_a_folder_that_is_not_there_says_which(tmp_path: Path) -> None:
    done = handraise("audit", "key", str(tmp_path / "etc" / "audit.key"))
    assert done.returncode == 1
    assert done.stderr == f"There is no folder {tmp_path / 'etc'}. Make it first.\n"


def test_the_rule_of_a_workspace_is_set_shown_and_taken_away(url: str, workspace: str) -> None:
    def run(*line: str) -> str:
        done = handraise("retention", *line, "-w", workspace, url=url, keep_settled_days="30")
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "for 30 days, as by HANDRAISE_KEEP_SETTLED_DAYS" in run("show")
    assert "for 90 days" in run("set", "90")
    assert "for 90 days" in run("show")
    assert "for ever" in run("set", "forever")
    run("unset")
    assert "for 30 days" in run("show")
    for wrong in ("-1", "soon", "nan"):
        assert handraise("retention", "set", "-w", workspace, "--", wrong, url=url).returncode == 1


def test_a_hold_keeps_a_question_from_being_erased(url: str, workspace: str) -> None:
    question = asyncio.run(asked_and_answered(url, workspace))
    held = handraise(
        "hold", "add", "case-7", "--question", question, "--reason", "a suit", "-w", workspace, url=url
    )
    assert held.returncode == 0, held.stderr
    refused = handraise("erase", "ana", "--yes", "-w", workspace, url=url)
    assert (refused.returncode, question in refused.stderr) == (1, True)
    assert "case-7" in handraise("hold", "list", "-w", workspace, url=url).stdout
    assert handraise("hold", "lift", "case-7", "-w", workspace, url=url).returncode == 0
    assert handraise("hold", "lift", "case-7", "-w", workspace, url=url).returncode == 1
    assert "Nothing is held" in handraise("hold", "list", "-w", workspace, url=url).stdout
    assert handraise("erase", "ana", "--yes", "-w", workspace, url=url).returncode == 0


def test_who_is_erased_leaves_no_byte_and_a_chain_that_is_good(
    url: str, workspace: str, tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some builds of SQLite overwrite what is deleted by themselves; most do not.
    connect = connections.connect

    def connected(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("pragma secure_delete = off")
        return connection

    monkeypatch.setattr(connections, "connect", connected)
    asyncio.run(fill(url, workspace))
    asyncio.run(asked_and_answered(url, workspace, "bob", "Something else?"))
    file, public = tmp_path / "trail.jsonl", f"{key}.pub"
    exported(url, workspace, file, key, 12)  # six of them are of the workspace
    assert CANARY in file.read_text()
    assert CANARY in contents(url)
    would = handraise("erase", CANARY, "-w", workspace, url=url)
    assert (would.returncode, "would erase" in would.stdout) == (0, True)
    assert CANARY in contents(url)
    done = handraise("erase", CANARY, "--yes", "-w", workspace, url=url)
    assert done.returncode == 0, done.stderr
    assert CANARY not in contents(url)
    exported(url, workspace, file, key, 3)  # one of them says that somebody was erased
    assert CANARY not in file.read_text()
    assert CANARY not in contents(url)
    good = verified(file, "--key", public)
    assert (good.returncode, "3, besides 10 erased" in good.stdout) == (0, True)


async def fill(url: str, workspace: str) -> None:
    """The canary in every place that a person's content gets to."""
    async with open_backend(url) as ports:
        await ports.directory.put_person(
            workspace, CANARY, name=CANARY, email=f"{CANARY}@example.com", role=Role.MEMBER
        )
        await ports.directory.put_group(workspace, "ops", [CANARY])
        span: dict[str, Any] = {"person": CANARY, "lasts": timedelta(days=1)}
        await ports.directory.open_session(workspace, "s", digest="d-s", how="link", **span)
        await ports.directory.add_link(workspace, "l", digest="d-l", purpose="sign-in", **span)
        await ports.outbox.put_address(
            Address(
                workspace=workspace, recipient=CANARY, channel="mail", id=CANARY, to=f"{CANARY}@example.com"
            )
        )
        await ports.directory.add_key(workspace, "k", digest="d-k", agent="bot", created_by=CANARY)
    async with open_desk(url, workspace=workspace) as desk:
        # Large enough to be stored apart from its row.
        note = " ".join([CANARY] * 400)
        pending = await desk.post(f"Dear {CANARY}", recipients=[CANARY], context=note, state=note, key=CANARY)
        settled = await desk.post(f"{CANARY}?", conversation=CANARY)
        await desk.answer(settled.id, note, by=CANARY, provenance=Provenance(channel="web", details=note))
    async with open_backend(url) as ports:
        await ports.directory.add_question_link(
            workspace, "ql", digest="d-q", question_id=pending.id, channel="mail", created_by=CANARY, **span
        )
        claim: dict[str, Any] = {"fingerprint": "f", "made": "m", "patience": timedelta(days=1)}
        await ports.directory.claim(workspace, "agent:bot", "i", **claim)
        body = json.dumps({"id": settled.id, "value": CANARY})
        await ports.directory.finish(workspace, "agent:bot", "i", turn=1, status=200, body=body)
        # Settled questions may have been put away.
        await ports.store.tidy(rest=timedelta(0), keep=None, limit=1_000)
    async with open_desk(url, workspace=workspace) as desk:
        late = await desk.post("Late?", recipients=["bob", CANARY], check_recipients=False)
        assert late.id


def contents(url: str) -> str:
    """Every byte of a SQLite store's files, or what a dump of PostgreSQL has."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        files = [each for each in path.parent.iterdir() if each.name.startswith(path.name)]
        assert path in files
        return "".join(each.read_bytes().decode("latin-1") for each in files)
    return asyncio.run(_dump(url))


async def _dump(url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "select c.oid::regclass::text as name from pg_class c where c.relkind = 'r' "
            "and c.relnamespace = 'handraise'::regnamespace"
        )
        found = [await connection.fetch(f"select t::text as row from {each['name']} as t") for each in tables]  # noqa: S608 -- names of the catalogue
    finally:
        await connection.close()
    return "\n".join(row["row"] for rows in found for row in rows)


def test_what_is_over_is_removed_by_the_workspaces_rule(url: str, workspace: str) -> None:
    question = asyncio.run(asked_and_answered(url, workspace))
    assert handraise("retention", "set", "0", "-w", workspace, url=url).returncode == 0

    async def tidied() -> bool:
        async with open_backend(url) as ports, open_desk(url, workspace=workspace) as desk:
            assert await ports.ledger.rules(workspace) == Rule(timedelta(0))
            for _ in range(3):
                await ports.store.tidy(rest=timedelta(days=7), keep=None, limit=1_000)
            return not (await desk.list_settled()).items and await desk.find_by_key(question) is None

    assert asyncio.run(tidied())
