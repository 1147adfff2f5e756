"""The command from outside: what it prints, where, and how it ends."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

import asyncpg
import pytest
import typer

from handraise import __version__, open_desk
from handraise.cli import commands
from handraise.cli.environment import operator
from handraise.desk_factory import open_backend
from handraise.model.away import Away
from handraise.server import ServerSettings
from handraise.wire.credentials import TokenKind, read_token
from support.command import Done, handraise, process


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.slow("tests/contract has the directory there")),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'questions.db'}"
    found: str = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.mark.parametrize(
    "command",
    [
        "ask",
        *(
            pytest.param(each, marks=pytest.mark.slow("starts a process; they are loaded as `ask` is"))
            for each in ("answer", "inbox", "list", "wait", "watch")
        ),
    ],
)
def test_whoever_asks_or_answers_does_not_wait_for_a_server_to_be_loaded(command: str) -> None:
    load = (
        f"import sys; from handraise.cli.commands import app_for; app_for([{command!r}]); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & {"fastapi", "starlette", "uvicorn", "httptools", "jinja2"} == set()
    assert "handraise.server" not in done.stdout.split()


@pytest.mark.only_proof_of("that the real command starts, and prints what a script can read")
def test_a_new_key_is_one_line_of_json_and_opens_the_door(url: str, workspace: str) -> None:
    done = process("keys", "create", "deploy-bot", "--workspace", workspace, "--json", url=url)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    made = json.loads(line)
    assert (made["agent"], made["workspace"]) == ("deploy-bot", workspace)
    token = read_token(made["key"])
    assert token is not None
    assert (token.kind, token.workspace) == (TokenKind.AGENT, workspace)

    async def look() -> None:
        async with open_backend(url) as backend:
            found = await backend.directory.find_key(workspace, token.digest)
            assert found is not None
            assert (found.id, found.agent) == (made["id"], "deploy-bot")

    asyncio.run(look())
    listed = handraise("keys", "list", "-w", workspace, url=url)
    assert made["id"] in listed.stdout
    assert "command line" in listed.stdout, "who made it"
    assert made["key"] not in listed.stdout
    revoked = handraise("keys", "revoke", made["id"], "-w", workspace, url=url)
    assert revoked.returncode == 0
    assert "The key of deploy-bot is revoked" in revoked.stdout
    assert "revoked 2" in handraise("keys", "list", "-w", workspace, url=url).stdout


def test_without_json_a_key_is_shown_to_a_person(file: str) -> None:
    done = handraise("keys", "create", "deploy-bot", url=file)
    assert done.returncode == 0
    assert "It is shown only once" in done.stdout
    assert re.search(r"^hra_\S+$", done.stdout, re.MULTILINE)


def test_a_question_link_is_for_somebody_who_may_answer(file: str) -> None:
    async def ask() -> tuple[str, str]:
        async with open_desk(file, asker="bot") as desk:
            theirs = await desk.post("Which?", recipients=["ada"])
            settled = await desk.post("Which?")
            await desk.answer(settled.id, "this", by="ada")
            return theirs.id, settled.id

    asked, settled = asyncio.run(ask())
    for name in ("ada", "bob"):
        handraise("people", "add", name, url=file)
    done = handraise("people", "question-link", "ada", asked, url=file, public_url="https://ask.example.com/")
    assert (done.returncode, done.stderr) == (0, "")
    assert "With this link ada answers that one question, until" in done.stdout
    found = re.search(r"^https://ask\.example\.com/q/(hrq_\S+)$", done.stdout, re.MULTILINE)
    assert found is not None
    token = read_token(found[1])
    assert token is not None

    async def look() -> None:
        async with open_backend(file) as backend:
            kept = await backend.directory.find_question_link("default", token.digest)
            assert kept is not None
            link = kept[0]
            assert (link.question_id, link.person, link.created_by) == (asked, "ada", operator())
            assert link.expires_at - link.created_at == timedelta(days=7)

    asyncio.run(look())
    for name, question, why in (
        ("bob", asked, "addressed to others"),
        ("nobody", asked, "There is nobody called 'nobody' here"),
        ("ada", settled, "settled"),
        ("ada", "nowhere", "nowhere"),
    ):
        done = handraise("people", "question-link", name, question, url=file)
        assert (done.returncode, done.stdout, why in done.stderr) == (1, "", True), done.stderr


def test_a_link_has_the_address_that_was_given_and_a_guess_is_called_one(tmp_path: Path) -> None:
    file = f"sqlite:///{tmp_path / 'desk.db'}"
    handraise("people", "add", "ada", url=file)
    given = handraise("people", "link", "ada", "--server", "https://ask.example.com/", url=file)
    assert "https://ask.example.com/sign-in/link?token=" in given.stdout
    assert given.stderr == ""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        told = handraise("people", "link", "ada", url=file, port=port)
    assert f":{port}/sign-in/link" in told.stdout
    assert told.stderr == ""
    with mock.patch("socket.create_connection", side_effect=ConnectionRefusedError):
        guessed = handraise("people", "link", "ada", url=file)
    assert guessed.returncode == 0
    assert "No server answers at http://127.0.0.1:8765" in guessed.stderr
    assert "--server ADDRESS" in guessed.stderr


def test_people_and_their_groups(url: str, workspace: str) -> None:
    def run(*line: str) -> Done:
        return handraise(*line, url=url, workspace=workspace, public_url="https://ask.example.com/")

    assert run("people", "list").stdout == "There is nobody yet. Add somebody: handraise people add NAME\n"
    assert run("people", "add", "ada", "--email", "ada@example.com", "--admin").returncode == 0
    assert run("people", "add", "bob").returncode == 0
    assert (
        run("groups", "list").stdout == "There is no group yet. Make one: handraise groups set NAME PERSON\n"
    )
    assert run("groups", "set", "release", "ada", "bob").stdout == "group:release is ada, bob.\n"
    assert run("groups", "set", "ops", "bob").returncode == 0
    assert [line.split("  ") for line in run("groups", "list").stdout.splitlines()] == [
        ["GROUP", "", "PEOPLE"],
        ["ops", "", "", "bob"],
        ["release", "ada, bob"],
    ]
    assert run("groups", "set", "ops").returncode == 0
    linked = run("people", "link", "bob")
    found = re.search(
        r"^https://ask\.example\.com/sign-in/link\?token=(hrl_\S+)$", linked.stdout, re.MULTILINE
    )
    assert found
    assert [line.split() for line in run("people", "list").stdout.splitlines()] == [
        ["NAME", "ROLE", "E-MAIL", "GROUPS"],
        ["ada", "admin", "ada@example.com", "release"],
        ["bob", "member", "release"],
    ]
    assert run("people", "disable", "bob").returncode == 0
    assert [line.split() for line in run("people", "list").stdout.splitlines()] == [
        ["NAME", "ROLE", "E-MAIL", "GROUPS", "STATE"],
        ["ada", "admin", "ada@example.com", "release"],
        ["bob", "member", "release", "disabled"],
    ]
    assert run("people", "enable", "bob").returncode == 0
    refusals = {
        ("people", "add", "ada"): "There is somebody called 'ada' already.",
        (
            "people",
            "add",
            "eve",
            "--email",
            "ADA@example.com",
        ): "ADA@example.com belongs to somebody else here.",
        ("people", "add", "eve", "--email", "nowhere"): "'nowhere' is not an e-mail address.",
        ("people", "add", "group:x"): "Nobody can be called 'group:x': a group cannot answer",
        ("people", "link", "eve"): "There is nobody called 'eve' here.",
        ("groups", "set", "release", "eve"): "There is nobody called 'eve' here.",
        ("keys", "revoke", "nothing"): "There is no key 'nothing' here.",
        ("keys", "create", ""): "No agent can be called ''",
    }
    for line, why in refusals.items():
        done = run(*line)
        assert (done.returncode, done.stdout) == (1, ""), line
        assert done.stderr.startswith(why)
    assert run("groups", "set", "release").stdout == "group:release is removed.\n"


@pytest.mark.parametrize("leave", ["remove", "disable"])
def test_what_somebody_leaves_behind_is_said(file: str, leave: str) -> None:
    for line in (("ada", "--admin"), ("bob",), ("cy",)):
        assert handraise("people", "add", *line, url=file).returncode == 0
    handraise("groups", "set", "ops", "ada", "bob", url=file)

    async def prepare() -> str:
        async with open_desk(file) as desk, open_backend(file) as backend:
            require = {"people": ["group:ops"], "quorum": 2}
            rule = {"name": "pay", "when": "tool == 'pay'", "then": {"require": require}}
            await backend.policies.put("default", {"rules": [rule]}, by="boss", expected=0)
            now = datetime.now(UTC)
            away = Away(starts=now, until=now + timedelta(days=1), deputy="bob")
            await backend.directory.set_away("default", "ada", away)
            return (await desk.post("Go?", recipients=["bob"])).id

    asked = asyncio.run(prepare())
    assert "needs somebody else" not in handraise("people", leave, "cy", url=file).stdout
    left = handraise("people", leave, "bob", url=file)
    assert left.stdout.partition("\n\n")[2].splitlines() == [
        "This needs somebody else now:",
        f"  1 question that nobody else can answer: {asked}",
        "  Rule 'pay' needs 2 people of group:ops, but there is only 1. Nobody can fulfil it.",
        "  bob was to answer while these are away: ada",
    ]


def test_sessions_of_somebody_are_listed_and_ended(file: str) -> None:
    def run(*line: str) -> Done:
        return handraise("people", *line, url=file)

    async def sign_in() -> None:
        async with open_backend(file) as backend:
            for name, maker in (("s-1", None), ("s-2", "boss")):
                await backend.directory.open_session(
                    "default",
                    name,
                    digest=name,
                    person="bob",
                    how="oidc",
                    lasts=timedelta(days=1),
                    vouched_by=maker,
                )

    assert run("add", "bob").returncode == 0
    assert run("sessions", "bob").stdout == "bob is not signed in anywhere.\n"
    asyncio.run(sign_in())
    rows = [line.split()[:3] for line in run("sessions", "bob").stdout.splitlines()]
    assert rows[0] == ["SESSION", "HOW", "LINK"]
    assert ["s-2", "oidc", "boss"] in rows
    unknown = run("sign-out", "bob", "--session", "s-9")
    assert (unknown.returncode, unknown.stderr[:29]) == (1, "'bob' has no such session. To")
    assert run("sign-out", "bob", "--session", "s-1").stdout == "Ended 1 session of bob.\n"
    assert run("sign-out", "bob").stdout == "Ended 1 session of bob.\n"
    assert run("sign-out", "bob").stdout == "Ended 0 sessions of bob.\n"
    for line in (("sessions", "eve"), ("sign-out", "eve")):
        assert run(*line).stderr.startswith("There is nobody called 'eve' here.")


def test_somebody_is_taken_out_and_what_they_answered_stays(file: str) -> None:
    for line in (("ada", "--admin"), ("bob",)):
        assert handraise("people", "add", *line, url=file).returncode == 0
    handraise("groups", "set", "ops", "ada", "bob", url=file)

    async def ask_and_answer() -> str:
        async with open_desk(file) as desk:
            return (await desk.answer((await desk.post("Go?")).id, "yes", by="bob")).id

    asked = asyncio.run(ask_and_answer())
    done = handraise("people", "remove", "bob", url=file)
    assert (done.returncode, done.stdout) == (0, "bob is removed. Their answers stay.\n")
    shown = handraise("people", "list", url=file).stdout
    assert "bob" not in shown
    assert "bob" in handraise("show", asked, url=file).stdout
    for name, why in (
        ("bob", "There is nobody called 'bob' here."),
        ("ada", "'ada' is the only administrator. Add another first"),
    ):
        refused = handraise("people", "remove", name, url=file)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith(why)


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({"url": "mysql://root:secret@host/db"}, 78, "No backend understands 'mysql://…@host/db'."),
        ({"url": "http://localhost:8765"}, 1, "HANDRAISE_URL is the address of a server"),
        ({"url": "memory:"}, 1, "HANDRAISE_URL is memory:, which keeps nothing"),
        ({"url": "postgresql://me:secret@127.0.0.1:1/db"}, 69, "PostgreSQL cannot do this now"),
        ({"url": "sqlite:////proc/nowhere/file.db"}, 78, "There is no folder /proc/nowhere: make it"),
        ({"port": "secret"}, 78, "HANDRAISE_PORT cannot be used: "),
        ({"rate_limit": "secret"}, 78, "HANDRAISE_RATE_LIMIT cannot be used: expected a rate such as"),
        ({"oidc_join": "secret"}, 78, "HANDRAISE_OIDC_JOIN cannot be used: it is not JSON."),
        ({"public_url": "secret"}, 78, "HANDRAISE_PUBLIC_URL cannot be used: expected an address such as"),
        ({"workspace": ""}, 78, "HANDRAISE_WORKSPACE cannot be used: "),
        (
            {"audit_key": "/nowhere/key"},
            78,
            "/nowhere/key: No such file or directory. Check HANDRAISE_AUDIT_KEY.",
        ),
        ({"trusted_proxies": "foo/bar"}, 78, "HANDRAISE_TRUSTED_PROXIES cannot be used: expected addresses"),
        (
            {"slack_bot_token": "secret"},
            78,
            "HANDRAISE_SLACK_BOT_TOKEN cannot be used: expected the Bot User",
        ),
        (
            {"slack_app_token": "xoxb-secret"},
            78,
            "HANDRAISE_SLACK_APP_TOKEN cannot be used: expected an app-level",
        ),
        (
            {"oidc_issuer": "https://login.example.com"},
            78,
            "HANDRAISE_OIDC_CLIENT_ID cannot be used: OIDC sign-in",
        ),
        ({"oidc_client_id": "us"}, 78, "HANDRAISE_OIDC_CLIENT_ID cannot be used: it is for OIDC sign-in"),
        (
            {"oidc_issuer": "https://login.example.com", "oidc_client_id": "us", "secret": "secret"},
            78,
            "HANDRAISE_OIDC_CLIENT_ID cannot be used: OIDC sign-in needs HANDRAISE_SECRET",
        ),
        (
            {"oidc_issuer": "http://login.example.com"},
            78,
            "HANDRAISE_OIDC_ISSUER cannot be used: expected an https",
        ),
    ],
    ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else "",
)
def test_what_is_wrong_is_one_sentence_and_a_code(settings: dict[str, str], code: int, says: str) -> None:
    settings = {"url": "sqlite:////proc/nowhere/file.db", **settings}
    done = handraise("keys", "list", **settings)
    assert done.stderr.startswith(says)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


def test_a_name_cannot_move_the_cursor(file: str) -> None:
    async def prepare() -> None:
        async with open_backend(file) as backend:
            await backend.directory.add_key(
                "default", "id", digest="d", agent="evil\x1b[2J\nID", created_by="test"
            )

    asyncio.run(prepare())
    shown = handraise("keys", "list", url=file).stdout
    assert len(shown.splitlines()) == 2
    assert "evil‹U+001B›[2J‹U+000A›ID" in shown


def test_migrate_says_what_it_did(file: str, tmp_path: Path) -> None:
    first = handraise("migrate", url=file)
    assert re.fullmatch(r"The schema was at 0 and is at \d+ now: 0001_schema.*\.\n", first.stdout)
    assert handraise("migrate", url=file).stdout.startswith("Nothing to do: the schema is at ")
    with sqlite3.connect(tmp_path / "questions.db") as connection:
        connection.execute("pragma user_version = 999")
    newer = handraise("migrate", url=file)
    assert newer.returncode == 78
    assert "Upgrade Handraise" in newer.stderr


def test_doctor_says_which_question_is_in_nobodys_inbox(file: str, tmp_path: Path) -> None:
    assert handraise("ask", "Deploy?", "--confirm", url=file).returncode == 7
    assert "1 looked at, 1 of them pending: all as they should be" in handraise("doctor", url=file).stdout
    with closing(sqlite3.connect(tmp_path / "questions.db")) as connection, connection:
        connection.execute("update questions set follows = 'gone'")
    looked = handraise("doctor", url=file)
    assert looked.returncode == 78
    assert (
        "is pending in nobody's inbox, and no time will change that. Put it back, or withdraw it"
        in looked.stderr
    )


def test_doctor_warns_while_nobody_can_approve_what_is_of_high_risk(file: str) -> None:
    assert "High risk" not in handraise("doctor", url=file).stdout
    assert handraise("people", "add", "ana", url=file).returncode == 0
    looked = handraise("doctor", url=file)
    assert (looked.returncode, "NOBODY can approve an action of high risk" in looked.stdout) == (0, True)


def test_migrate_and_doctor_say_that_a_newer_schema_can_be_worked_on(file: str, tmp_path: Path) -> None:
    handraise("migrate", url=file)

    def becomes(number: int, oldest: str) -> None:
        with closing(sqlite3.connect(tmp_path / "questions.db")) as connection, connection:
            connection.execute(
                "insert into migrations (number, name, oldest_release) values (?, 'later', ?)",
                [number, oldest],
            )
            connection.execute(f"pragma user_version = {number:d}")

    becomes(998, __version__)
    said = r"998, of a later release; this one knows \d+ and works on it"
    migrated, looked = handraise("migrate", url=file), handraise("doctor", url=file)
    assert (migrated.returncode, looked.returncode) == (0, 0)
    assert re.search(f"Nothing to do: the schema is at {said}", migrated.stdout)
    assert re.search(f"Schema +{said}", looked.stdout)
    becomes(999, "9.0.0")
    looked = handraise("doctor", url=file)
    assert looked.returncode == 78
    assert "needs release 9.0.0 of Handraise" in " ".join(looked.stdout.split())


NO_SETTINGS = {
    "trusted_proxys": "Did you mean HANDRAISE_TRUSTED_PROXIES?",
    "secret_fiel": "Did you mean HANDRAISE_SECRET_FILE?",
    "port_8765_tcp": "Kubernetes sets it for a service of that name: set enableServiceLinks: false in the pod.",
    "zzz": "Unset it.",
}


def test_doctor_names_variables_that_are_no_settings(file: str) -> None:
    handraise("migrate", url=file)
    done = handraise("doctor", url=file, key="hrk_x", **dict.fromkeys(NO_SETTINGS, "1"))
    assert done.returncode == 78
    assert done.stderr.splitlines() == [
        f"HANDRAISE_{name.upper()} is no setting of this release. {advice}"
        for name, advice in sorted(NO_SETTINGS.items())
    ]


def test_a_server_refuses_all_wrong_settings_at_once(file: str, tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing", tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    wrong = {
        "port": ("secret", None),
        "rate_limit": ("secret", "expected a rate such as 200/second or 30/minute"),
        "oidc_join": ("secret", "it is not JSON"),
        "slack_bot_token_file": (
            str(missing),
            f"its file {missing} cannot be read: No such file or directory",
        ),
        "secret_fallbacks_file": (str(binary), f"its file {binary} is not text in UTF-8"),
        "admin_file": (str(binary), "HANDRAISE_ADMIN_FILE is set too; unset one of them"),
    }
    given = {name: value for name, (value, _) in wrong.items()}
    done = handraise("serve", url=file, admin="ada", zzz="1", **given)
    assert (done.returncode, done.stdout) == (78, "")
    lines = sorted(done.stderr.splitlines())
    assert len(lines) == len(wrong) + 1
    for name, (_, why) in wrong.items():
        says = f"HANDRAISE_{name.removesuffix('_file').upper()} cannot be used: {why or ''}"
        assert any(line.startswith(says) for line in lines), says
    assert lines[-1] == "HANDRAISE_ZZZ is no setting of this release. Unset it."
    assert "secret\n" not in done.stderr


def test_settings_come_from_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"SECRET": "hush\n", "SECRET_FALLBACKS": '["older"]\r\n', "PORT": "9000"}.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(f"HANDRAISE_{name}_FILE", str(tmp_path / name))
    settings = ServerSettings(url="memory:")
    assert (settings.secret_keys, settings.port) == ((b"hush", b"older"), 9000)


def test_doctor_says_what_the_store_promises_and_changes_nothing(file: str, tmp_path: Path) -> None:
    before = handraise("doctor", url=file)
    assert before.returncode == 78
    assert "none yet" in before.stdout
    assert not (tmp_path / "questions.db").exists()
    handraise("migrate", url=file)
    after = handraise("doctor", url=file)
    assert after.returncode == 0
    assert re.search(r"Schema +\d+, which is what this release needs", after.stdout)
    assert re.search(r"Survives +a crash of any process", after.stdout)
    assert re.search(r"Settings +.*synchronous=full", after.stdout)
    assert re.search(r"Workspaces +kept apart by Handraise alone", after.stdout)
    assert re.search(r"Clock +this machine's own", after.stdout)
    assert re.search(r"Listener +receives a wake-up after \d+ ms", after.stdout)


@pytest.mark.slow(
    "waits for a wake-up that never comes; the gate has what doctor says of PostgreSQL and files"
)
def test_doctor_says_whether_wake_ups_come_over_nats(file: str, nats: str) -> None:
    handraise("migrate", url=file)
    assert re.search(
        r"Listener +receives a wake-up after \d+ ms", handraise("doctor", url=file, bus=nats).stdout
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = f"nats://127.0.0.1:{taken.getsockname()[1]}"
    looked = handraise("doctor", url=file, bus=nowhere)
    assert "receives NOTHING" in looked.stdout
    assert "Is NATS running at HANDRAISE_BUS?" in " ".join(looked.stdout.split())


def test_doctor_says_whether_postgresql_keeps_workspaces_apart(postgres: str) -> None:
    handraise("migrate", url=postgres)
    scheme, _, rest = postgres.partition("://")
    done = handraise("doctor", url=f"{scheme}://{rest}?application_name=secret")
    assert done.returncode == 0, done.stderr
    assert f"Address     {postgres}" in done.stdout
    assert "row-level security is in force" in done.stdout
    assert "synchronous_commit=on" in done.stdout
    assert re.search(r"Clock +the store's, and this machine's is the same", done.stdout)
    assert re.search(r"Listener +receives a wake-up after \d+ ms", done.stdout)


def test_doctor_names_the_grant_that_a_role_lacks(postgres: str) -> None:
    handraise("migrate", url=postgres)
    role, address = f"stranger_{uuid.uuid4().hex[:12]}", urlsplit(postgres)

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(postgres)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute(f"create role {role} login"))
    try:
        host = address.netloc.rpartition("@")[2]
        looked = handraise("doctor", url=address._replace(netloc=f"{role}@{host}").geturl())
    finally:
        asyncio.run(execute(f"drop role {role}"))
    assert looked.returncode == 78
    assert "permission denied for schema handraise" in looked.stderr
    assert f"needs: grant handraise_app to {role}." in looked.stderr


def test_doctor_says_that_the_folder_of_a_file_is_missing(tmp_path: Path) -> None:
    looked = handraise("doctor", url=f"sqlite:///{tmp_path}/nowhere/questions.db")
    assert looked.returncode == 78
    assert looked.stderr == (
        f"There is no folder {tmp_path}/nowhere: make it, or correct the address of the file.\n"
    )
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("address", ["postgres"], indirect=True)
@pytest.mark.slow("starts a server; tests/backends/test_postgres_row_security.py has the refusal")
def test_a_database_without_its_walls_is_refused_by_doctor_and_serve(empty_address: str) -> None:
    assert "is at" in handraise("migrate", url=empty_address).stdout

    async def tear_down() -> None:
        connection = await asyncpg.connect(empty_address)
        await connection.execute("alter table handraise.people disable row level security")
        await connection.close()

    asyncio.run(tear_down())
    looked = handraise("doctor", url=empty_address)
    assert looked.returncode == 78
    assert "NOT kept apart by PostgreSQL" in looked.stdout
    assert looked.stderr.startswith("PostgreSQL would not keep workspaces apart: ")
    served = process("serve", "--port", "0", url=empty_address)
    assert (served.returncode, served.stdout, served.stderr) == (78, "", looked.stderr)


def test_version_and_help() -> None:
    assert re.fullmatch(r"handraise \d+\.\d+\.\d+\n", handraise("--version").stdout)
    assert handraise("nonsense").returncode == 2
    assert "Traceback" not in handraise("serve", "--port", "99999").stderr
    assert handraise("--", "keys", "list", url="memory:").stderr.startswith("HANDRAISE_URL is memory:")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_need_nothing_of_a_server(option: str) -> None:
    """The server's parts take seconds to import."""
    parts = "['handraise.server', 'fastapi', 'uvicorn', 'asyncpg', 'sqlite3']"
    looked = f"import atexit, sys; atexit.register(lambda: print(*set({parts}) & {{*sys.modules}}, file=sys.stderr))"
    done = process(option, before=looked)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    whole = typer.main.get_command(commands.app_with())
    assert isinstance(whole, typer.core.TyperGroup)
    assert list(commands.COMMANDS) == sorted(whole.commands, key=list(commands.COMMANDS).index)
    for name, (_, _, summary) in commands.COMMANDS.items():
        said = " ".join((whole.commands[name].help or "").split())
        assert said.startswith(summary), name
        assert f"  {name} " in handraise("--help").stdout


@pytest.mark.parametrize(("command", "extra"), [("serve", "server"), ("ask", "cli")])
def test_without_the_extra_the_command_names_it(command: str, extra: str) -> None:
    done = process(command, before="import sys; sys.modules['typer'] = None")
    assert done == Done(
        78,
        "",
        f'typer is not installed. Run: pip install "handraise[{extra}]"\n'
        f'Without installing it: uvx --from "handraise[{extra}]" handraise {command}\n',
    )


def test_over_http_nobody_answers_for_a_person_without_a_token(tmp_path: Path) -> None:
    done = handraise("mcp", "--http", "--person", "ana", url=f"sqlite:///{tmp_path / 'questions.db'}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "could ask and then answer as ana. Set HANDRAISE_MCP_TOKEN" in " ".join(done.stderr.split())
