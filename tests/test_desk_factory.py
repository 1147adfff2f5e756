"""One address chooses the backend."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

import handraise
from handraise import (
    Desk,
    InvalidQuestion,
    PermissionDenied,
    Responder,
    StoreUnavailable,
    desk_factory,
    open_desk,
)
from handraise.desk_factory import address_from, default_address, misspelt_variables, open_backend
from handraise.errors import DeskClosed, SchemaMismatch, UnknownAddress, WrongLoop
from handraise.model.identities import Role
from handraise.server import ServerSettings
from handraise.testing import Person


@pytest.mark.parametrize(
    "address",
    ["mysql://x", "sqlite:", "sqlite:///", "sqlite://host/x", "memory:x", "questions.db", "redis://x"],
)
async def test_an_address_that_nobody_understands_says_which_ones_do(address: str) -> None:
    with pytest.raises(UnknownAddress, match="Use 'memory:'"):
        async with open_desk(address):
            pass


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("sqlite:///:memory:", "Use 'memory:'"),
        ("sqlite:///here.db?mode=ro", "leave out everything from the '?' on"),
    ],
)
async def test_what_would_become_the_name_of_a_file_by_mistake_is_refused(
    address: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownAddress, match=re.escape(says)):
        async with open_desk(address):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_a_desk_can_be_awaited_and_closed_later(tmp_path: Path) -> None:
    desk = await open_desk(f"sqlite:///{tmp_path / 'q.db'}")
    other = desk.scoped(asker="other")
    question = await desk.post("Which?")
    await other.close()
    await desk.close()  # a second time does nothing
    with pytest.raises(DeskClosed):
        await desk.get(question.id)
    async with open_desk(f"sqlite:///{tmp_path / 'q.db'}") as again:
        assert (await again.get(question.id)).prompt == "Which?"
        await again.close()


def test_a_desk_that_nobody_closes_is_closed_in_order_and_another_loop_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def opened() -> Desk:
        return await open_desk(f"sqlite:///{tmp_path / 'q.db'}")

    async def used(desk: Desk) -> None:
        await desk.post("Which?")

    desk = asyncio.run(opened())
    with pytest.raises(WrongLoop, match="inside the coroutine that you give to asyncio"):
        asyncio.run(used(desk))
    assert not caplog.records


async def test_what_cannot_be_opened_says_so_when_it_is_awaited(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="There is no folder"):
        await open_desk(f"sqlite:///{tmp_path / 'none' / 'q.db'}")


async def test_the_address_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDRAISE_URL", f"sqlite:///{tmp_path / 'from-environment.db'}")
    async with open_desk() as desk:
        await desk.post("Which?")
    assert (tmp_path / "from-environment.db").exists()


async def test_without_an_address_it_is_one_file_in_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HANDRAISE_URL", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(desk_factory, "at_terminal", lambda: True)
    assert default_address() == f"sqlite:///{tmp_path}/handraise/handraise.db"
    async with open_desk() as desk:
        await desk.post("Which?")
    assert (tmp_path / "handraise" / "handraise.db").exists()
    assert (tmp_path / "handraise").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("environment", "must_be_set", "says"),
    [
        ({"HANDRAISE_KEY": "hr_agent_x"}, False, "no address of the server that knows it. Set HANDRAISE_URL"),
        ({"HANDRAISE_ULR": "https://x"}, False, "Did you mean HANDRAISE_URL?"),
        ({"HANDRAISE_ULR": "https://x", "HANDRAISE_KEY": "y"}, False, "Did you mean HANDRAISE_URL?"),
        ({"HANDRAISE_URL": "https://x", "HANDRAISE_KYE": "y"}, False, "Did you mean HANDRAISE_KEY?"),
        ({"HANDRAISE_URL": "sqlite:///q.db", "HANDRAISE_BUSS": "y"}, False, "Did you mean HANDRAISE_BUS?"),
        ({}, True, "does not run in a terminal and names no store"),
    ],
)
def test_an_environment_that_was_meant_for_another_store_is_refused(
    environment: dict[str, str],
    must_be_set: bool,  # noqa: FBT001 -- a case
    says: str,
) -> None:
    with pytest.raises(UnknownAddress, match=re.escape(says)):
        address_from(environment, must_be_set=must_be_set)


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({"HANDRAISE_URL": "https://x", "HANDRAISE_KEY": "y"}, "https://x"),
        ({"HANDRAISE_URL": "https://x", "HANDRAISE_URLS": "of something else"}, "https://x"),
        ({"HANDRAISE_PORT_8765_TCP": "of Kubernetes", "HANDRAISE_URL": "memory:"}, "memory:"),
        ({}, default_address()),
    ],
)
def test_the_address_of_an_environment(environment: dict[str, str], address: str) -> None:
    assert address_from(environment) == address


def test_no_setting_of_the_server_is_taken_for_a_misspelt_one_of_a_desk() -> None:
    settings = [f"HANDRAISE_{name.upper()}" for name in ServerSettings.model_fields]
    assert misspelt_variables(dict.fromkeys([*settings, *(f"{name}_FILE" for name in settings)], "x")) == []


async def test_a_program_with_a_key_and_no_server_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HANDRAISE_URL", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(desk_factory, "at_terminal", lambda: True)
    with pytest.raises(UnknownAddress, match="no address of the server"):
        async with open_desk(credentials="hr_agent_x"):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_a_program_that_waits_at_a_terminal_says_where_to_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"sqlite:///{tmp_path / 'q.db'}"
    async with open_desk(address) as desk, open_desk("memory:") as testing:
        with pytest.raises(handraise.StillPending):
            await desk.ask("Which?", timeout=0)
        assert capsys.readouterr().err == ""  # no terminal
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        for each in (desk.scoped(asker="other"), testing):
            with pytest.raises(handraise.StillPending):
                await each.ask("Which?", timeout=0)
        [_, asked] = await desk.list_pending()
    said = f"Waiting for anyone: answer it with: HANDRAISE_URL={address} handraise answer {asked.id}\n"
    assert capsys.readouterr().err == said


async def test_a_slip_in_the_path_of_a_file_makes_no_folders(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=re.escape(f"There is no folder {tmp_path}/nowhere/here")):
        async with open_desk(f"sqlite:///{tmp_path}/nowhere/here/q.db"):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_the_database_that_postgresql_comes_with_is_left_alone(postgres: str) -> None:
    own = urlunsplit(urlsplit(postgres)._replace(path="/postgres"))
    with pytest.raises(SchemaMismatch, match=r"createdb handraise.*handraise migrate"):
        async with open_desk(own):
            pass
    plain = await asyncpg.connect(own)
    try:
        assert await plain.fetchval("select to_regnamespace('handraise')") is None
    finally:
        await plain.close()


async def test_a_relative_file_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_desk("sqlite:///here.db") as desk:
        await desk.post("Which?")
    assert (tmp_path / "here.db").exists()


def test_a_missing_driver_names_the_extra() -> None:
    program = """
import asyncio, sys
sys.modules["asyncpg"] = None
import handraise
async def main():
    async with handraise.open_desk("postgresql://127.0.0.1/test"):
        pass
try:
    asyncio.run(main())
except handraise.errors.MissingExtra as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert 'pip install "handraise[postgres]"' in done.stdout


def test_the_core_imports_no_driver() -> None:
    program = "import sys, handraise; print({'asyncpg', 'sqlite3', 'pytest', 'uvloop'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "set()\n"


def test_every_public_name_is_there_and_documented() -> None:
    for name in handraise.__all__:
        thing = getattr(handraise, name)
        assert thing.__doc__ or name in ("AnyForm", "Outcome", "Reply", "Risk", "Scope"), (
            f"{name} has no docstring"
        )
    assert handraise.__all__ == sorted(handraise.__all__)


async def test_a_question_has_its_page_where_the_address_of_a_server_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "handraise")
    async with open_desk("memory:") as desk:
        assert (await desk.post("Which?")).url is None
        async with Person(desk) as ana:
            ana.script("a", "b")
            await desk.ask("Secret?", recipients=["ana"], key="k")
    monkeypatch.setenv("HANDRAISE_PUBLIC_URL", "https://questions.example.com/")
    async with open_desk("memory:", new_id=lambda: "q-1") as desk:
        async with Person(desk) as ana:
            ana.script("a")
            await desk.ask("Secret?", key="k")
        page = "https://questions.example.com/questions/q-1"
        found = await desk.find_by_key("k")
        assert found is not None
        for question in (*ana.asked, found, await desk.get("q-1"), *(await desk.list_settled()).items):
            assert question.url == page
    said = [record.getMessage() for record in caplog.records if "waits for" in record.getMessage()]
    assert "waits for ana: answer it with: handraise answer " in said[0]
    assert said[1] == f"question q-1 waits for anyone: {page}"
    assert "Secret" not in caplog.text


async def test_a_question_becomes_json() -> None:
    async with open_desk("memory:") as desk:
        question = await desk.post("Which?", choices=["a"], state={"my": "own"}, expires_in="2h")
        written = json.loads(json.dumps(handraise.questions.question_to_dict(question)))
        assert (written["id"], written["status"], written["timeline"]) == (
            question.id,
            "pending",
            {"remind": [], "escalate": [], "expire": 7200.0},
        )
        assert "state" not in written


async def test_a_person_is_in_the_groups_that_the_store_knows_of(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_backend(url) as backend:
        for who in ("bob", "eve"):
            await backend.directory.put_person("default", who, name=who, email=None, role=Role.MEMBER)
        await backend.directory.put_group("default", "leads", ["bob"])
    async with open_desk(url) as desk:
        question = await desk.post("Ship it?", recipients=["group:leads"])
        theirs = (await desk.list_pending(recipient="bob")).items
        assert [each.id for each in theirs] == [question.id]
        assert not (await desk.list_pending(recipient="eve")).items
        with pytest.raises(PermissionDenied, match="addressed to others"):
            await desk.answer(question.id, "yes", by="eve")
        with pytest.raises(PermissionDenied, match="addressed to others"):
            await desk.answer(question.id, "yes", by=Responder("bob"))  # in no group, its caller says
        assert (await desk.answer(question.id, "yes", by="bob")).status == "answered"


@pytest.mark.parametrize(
    "wrong", ["group: leads", "Group:leads", " group:leads", "GROUP : leads", "group:leads "]
)
async def test_a_group_that_is_spelt_wrongly_is_refused_with_what_to_write(wrong: str) -> None:
    async with open_desk("memory:") as desk:
        with pytest.raises(InvalidQuestion, match="write 'group:leads'"):
            await desk.post("Ship it?", recipients=[wrong])
        with pytest.raises(InvalidQuestion, match="write 'ana'"):
            await desk.post("Ship it?", recipients=["ana "])
