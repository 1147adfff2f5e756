"""One address chooses the backend."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import handraise
from handraise import UnknownAddress, open_desk
from handraise.opening import default_address


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
        ("sqlite:///here.db?mode=ro", "leave out what is behind the '?'"),
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
    assert default_address() == f"sqlite:///{tmp_path}/handraise/handraise.db"
    async with open_desk() as desk:
        await desk.post("Which?")
    assert (tmp_path / "handraise" / "handraise.db").exists()
    assert (tmp_path / "handraise").stat().st_mode & 0o077 == 0


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
except handraise.MissingExtra as error:
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
