"""pytest finds the fixtures without configuration, in a folder with nothing but the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = """
from handraise import Confirm

async def clean_up(desk):
    return "deleted" if await desk.ask("Delete 3 files?", form=Confirm()) else "kept"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path that says what an installed distribution says: the entry point."""
    folder = tmp_path_factory.mktemp("installed")
    info = folder / "handraise_entry_point-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: handraise-entry-point\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[pytest11]\nhandraise.testing.plugin = handraise.testing.plugin\n"
    )
    return folder


def run(folder: Path, text: str, *options: str, **environment: str) -> str:
    """Run a file of tests where there is nothing else, with our plugin alone; what pytest says."""
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p handraise.testing.plugin"}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, **alone, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ran.stdout + ran.stderr


PASSES = f"""{AGENT}
import asyncio
import pytest
from handraise.testing import never

async def test_coroutine(handraise_desk, handraise_person):
    handraise_person.answers("Delete*", True)
    assert await clean_up(handraise_desk) == "deleted"
    assert handraise_person.asked[0].prompt == "Delete 3 files?"

async def test_silence(handraise_desk, handraise_person, handraise_clock):
    began = handraise_clock.now()
    handraise_person.answers("Delete*", never())
    question = await handraise_desk.post("Delete 3 files?", expires_in="4h")
    assert str(await handraise_desk.wait(question.id)) == "expired without an answer"
    assert (handraise_clock.now() - began).total_seconds() == 4 * 3600

@pytest.mark.parametrize("said, then", [(True, "deleted"), (False, "kept")])
def test_run(handraise_desk, handraise_person, said, then):
    handraise_person.answers("Delete*", said)
    assert asyncio.run(clean_up(handraise_desk)) == then

def test_blocking(handraise_blocking_desk, handraise_person):
    handraise_person.answers("Which?", "eu")
    assert handraise_blocking_desk.ask("Which?") == "eu"

async def test_by_hand(handraise_desk, handraise_person):
    running = asyncio.create_task(clean_up(handraise_desk))
    question = await handraise_person.next_question()
    await handraise_desk.answer(question.id, False, by="ana")
    assert await running == "kept"

async def test_channel(handraise_desk, handraise_channel):
    running = asyncio.create_task(clean_up(handraise_desk))
    assert "Delete 3 files?" in (await handraise_channel.next_message()).text
    await handraise_channel.reply("yes", by="ana")
    assert await running == "deleted"

class TestInAClass:
    async def test_method(self, handraise_desk, handraise_person):
        handraise_person.script(True)
        assert await clean_up(handraise_desk) == "deleted"
"""


def test_everything_works_without_configuration_and_without_another_plugin(tmp_path: Path) -> None:
    said = run(tmp_path, PASSES, "-W", "error")
    assert "8 passed" in said, said


@pytest.mark.parametrize(
    ("options", "mark"),
    [
        pytest.param(("-o", "asyncio_mode=auto"), "", id="auto"),
        pytest.param(
            (),
            "pytestmark = pytest.mark.asyncio",
            id="strict",
            marks=pytest.mark.slow("the gate has the other mode"),
        ),
    ],
)
def test_pytest_asyncio_runs_the_same_tests(tmp_path: Path, options: tuple[str, ...], mark: str) -> None:
    coroutines = PASSES.replace("def test_run", "def not_run").replace(
        "def test_blocking", "def not_blocking"
    )
    scope = "asyncio_default_fixture_loop_scope=function"
    said = run(
        tmp_path,
        f"{coroutines}\n{mark}\n",
        "-p",
        "pytest_asyncio.plugin",
        *options,
        "-o",
        scope,
        "-W",
        "error",
    )
    assert "5 passed" in said, said


@pytest.mark.slow("the gate has pytest-asyncio, which more people use")
def test_anyio_runs_the_same_tests(tmp_path: Path) -> None:
    text = f"""{AGENT}
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_coroutine(handraise_desk, handraise_person):
    handraise_person.answers("Delete*", True)
    assert await clean_up(handraise_desk) == "deleted"
"""
    said = run(tmp_path, text, "-p", "anyio", "-W", "error")
    assert "1 passed" in said, said


def test_an_unexpected_question_fails_the_test_and_says_what_to_add(tmp_path: Path) -> None:
    text = f"""{AGENT}
async def test_refused(handraise_desk, handraise_person):
    await clean_up(handraise_desk)

async def test_swallowed(handraise_desk, handraise_person):
    question = await handraise_desk.post("Delete 4 files?")
    await handraise_desk.wait(question.id)

async def test_left(handraise_desk, handraise_person):
    await handraise_desk.post("Delete 5 files?")

def test_blocking(handraise_blocking_desk, handraise_person):
    handraise_blocking_desk.post("Delete 6 files?")

async def test_not_used_up(handraise_desk, handraise_person):
    handraise_person.script(True)
"""
    said = run(tmp_path, text)
    assert "5 failed" in said, said
    assert "error" not in said.splitlines()[-1], said
    assert "person.answers('Delete 3 files?', True)" in said
    for number in (4, 5, 6):
        assert f"person.answers('Delete {number} files?', '…')" in said
    assert "asked 0 questions, but the script goes on with True" in said


@pytest.mark.slow("pytest itself decides which fixture wins")
def test_own_fixtures_of_the_same_name_win_and_other_coroutines_are_left_alone(tmp_path: Path) -> None:
    text = """
import pytest

@pytest.fixture
def handraise_desk():
    return "mine"

def test_mine(handraise_desk):
    assert handraise_desk == "mine"

async def test_not_ours():
    pass
"""
    said = run(tmp_path, text)
    assert "1 failed, 1 passed" in said, said
    assert "async def functions are not natively supported" in said


@pytest.mark.parametrize(
    "named",
    [
        pytest.param("", id="found"),
        pytest.param(
            "-p handraise.testing.plugin",
            id="named too",
            marks=pytest.mark.slow("pytest itself loads a plugin of one name once"),
        ),
    ],
)
def test_a_project_that_does_not_use_it_imports_nothing_of_it(
    installed: Path, tmp_path: Path, named: str
) -> None:
    text = """
import sys

def test_nothing_is_imported():
    assert "handraise.testing.plugin" in sys.modules
    ours = {name for name in sys.modules if name.startswith("handraise")}
    assert ours == {"handraise", "handraise._version", "handraise.testing", "handraise.testing.plugin"}
    assert "pydantic" not in sys.modules
"""
    path = os.pathsep.join((str(installed), os.environ.get("PYTHONPATH", "")))
    found = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", "PYTEST_ADDOPTS": named}
    said = run(tmp_path, text, **found)
    assert "1 passed" in said, said
