"""The end of a run says what it cost, names what is flaky, and refuses tests that are too slow for the gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.ci import report, slow
from scripts.ci.costs import read

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import pathlib, time, pytest

def test_quick(): pass

def test_is_flaky():
    tried = pathlib.Path("tried")
    tried.touch() if (first := not tried.exists()) else None
    assert not first

def test_takes_long(): time.sleep(0.3)

@pytest.mark.only_proof_of("nothing cheaper shows it")
def test_may_take_long(): time.sleep(0.3)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where these tests were run as `.ci/run` runs tests, with a second try for the one that failed."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "test_some.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    only_proof_of(what): may be slow\n")
    run_tests(folder, "tests")
    run_tests(folder, "tests-again", CI_AFTER="tests")
    (folder / ".cache/ci/stages.txt").write_text("lint 3\ntests 42\n")
    return folder


@pytest.fixture(autouse=True)
def folder(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in, where 0.25 seconds are long."""
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(slow, "LIMIT", 0.25)
    monkeypatch.setattr(slow, "FAILS_FROM", 0.25)
    monkeypatch.setattr(slow, "BESIDE", 1.0)
    monkeypatch.setattr(slow, "TRIES", 1)
    monkeypatch.setattr(slow, "BUSY", 1e9)
    return tmp_path


def run_tests(folder: Path, stage: str, **settings: str) -> int:
    environment = {
        **os.environ,
        "CI_STAGE": stage,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **settings,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "scripts.ci.recorder"]
    return subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, timeout=60
    ).returncode


def lines_with(text: str, printed: str) -> Sequence[str]:
    return [line for line in printed.splitlines() if text in line]


def test_it_prints_the_cost_of_each_stage_and_keeps_that_of_each_test(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report.main()
    printed = capsys.readouterr().out
    assert [line.split() for line in printed.splitlines()[:4]] == [
        ["stage", "seconds", "tests"],
        ["lint", "3"],
        ["tests", "42", "4"],
        ["total", "45", "4"],
    ]
    assert lines_with("test_takes_long", printed)
    kept = json.loads((folder / ".cache/ci.json").read_text())
    assert (kept["seconds"], kept["tests"], len(kept["stages"][1]["tests"])) == (45, 4, 4)


def test_a_test_that_passed_only_on_its_second_try_is_named_and_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        report.main()
    printed = capsys.readouterr().out
    assert (
        lines_with("second try", printed)
        == ["passed only on its second try: test_some.py::test_is_flaky"] * 2
    )
    kept = json.loads((folder / ".cache/flaky.json").read_text())
    assert [each["test"] for each in kept] == ["test_some.py::test_is_flaky"] * 2


def test_a_slow_test_fails_the_check_unless_it_says_why_it_is_worth_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read("tests")["test_some.py::test_may_take_long"]["call"] > slow.LIMIT
    assert slow.main(["tests"]) == 1
    (line,) = lines_with("by itself", capsys.readouterr().out)
    assert line.endswith("test_some.py::test_takes_long")
    monkeypatch.setattr(slow, "FAILS_FROM", 60)
    assert slow.main(["tests"]) == 0
    assert lines_with("by itself", capsys.readouterr().out)
    monkeypatch.setattr(slow, "LIMIT", 60)
    assert slow.main(["tests"]) == 0


def test_nothing_is_judged_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slow, "BUSY", 0.0)
    assert slow.main(["tests"]) == 0
    assert "not judged: test_some.py::test_takes_long\n" in capsys.readouterr().out


def test_the_second_try_runs_what_failed_and_nothing_that_passed() -> None:
    assert list(read("tests-again")) == ["test_some.py::test_is_flaky"]


def test_a_run_that_hangs_is_interrupted_and_the_rest_runs_the_second_time(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pathlib, time\n"
        "def test_first(): pass\n"
        "def test_hangs():\n"
        "    tried = pathlib.Path('hung')\n"
        "    if not tried.exists():\n"
        "        tried.touch()\n"
        "        time.sleep(60)\n"
        "def test_last(): pass\n"
    )
    assert run_tests(tmp_path, "tests", CI_IDLE="1") == pytest.ExitCode.INTERRUPTED
    assert [test for test, cost in read("tests").items() if cost["ran"]] == ["test_some.py::test_first"]
    assert run_tests(tmp_path, "tests-again", CI_AFTER="tests") == 0
    assert list(read("tests-again")) == ["test_some.py::test_hangs", "test_some.py::test_last"]


def test_a_run_in_which_the_import_of_the_tests_takes_long_is_not_interrupted(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("import time\ntime.sleep(2)\ndef test_first(): pass\n")
    assert run_tests(tmp_path, "tests", CI_IDLE="1") == 0
