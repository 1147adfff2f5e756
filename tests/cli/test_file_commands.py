"""Files from a terminal: they are attached, listed with their sizes, saved once, and answered with."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Done, handraise
from support.terminal import ENTER, at_terminal

Run = Callable[..., Done]
PDF = b"%PDF-1.7\n" + bytes(4_000)
DIGEST = hashlib.sha256(PDF).hexdigest()
FORM = {
    "kind": "form",
    "fields": [
        {"name": "receipt", "form": {"kind": "file", "accept": ["application/pdf"]}},
        {"name": "paid", "form": {"kind": "confirm"}},
    ],
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
def run(url: str, tmp_path: Path) -> Run:
    """A command on the store, by ada."""

    def command(*line: str) -> Done:
        return handraise(*line, url=url, LOGNAME="ada", XDG_DATA_HOME=str(tmp_path))

    return command


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.pdf"
    path.write_bytes(PDF)
    return path


def asked(run: Run, *line: str) -> str:
    """The id of a new question."""
    done = run("ask", *line)
    found = re.search(r"^Pending: (\S+)$", done.stderr, re.MULTILINE)
    assert found, done.stderr
    return found[1]


def test_files_are_listed_and_saved_once(run: Run, report: Path, tmp_path: Path) -> None:
    question = asked(run, "Publish?", "--confirm", "--attach", str(report))
    shown = run("show", question).stdout
    assert "report.pdf (4 kB)" in shown
    assert DIGEST[:12] in shown
    listed = run("files", question).stdout
    assert f"{DIGEST}  report.pdf (4 kB)  application/pdf" in listed
    assert json.loads(run("files", question, "--json").stdout)["digest"] == DIGEST
    where = tmp_path / "saved"
    saved = run("save", question, DIGEST[:12], str(where))
    assert (saved.returncode, where.read_bytes()) == (0, PDF)
    assert stat.S_IMODE(where.stat().st_mode) == 0o600
    again = run("save", question, DIGEST, str(where))
    assert again.returncode == 1
    assert "could not be written" in again.stderr
    unknown = run("save", question, "0000", str(tmp_path / "other"))
    assert unknown.returncode == 1
    assert "Which file?" in unknown.stderr
    assert run("files", asked(run, "Go?", "--confirm")).stdout == "This question has no files.\n"


def test_a_question_is_answered_with_a_file(run: Run, report: Path, tmp_path: Path) -> None:
    (tmp_path / "form.json").write_text(json.dumps(FORM))
    question = asked(run, "The receipt?", "--form", str(tmp_path / "form.json"))
    wrong = run("answer", question, '{"paid": true}', "--file", f"paid={report}")
    assert wrong.returncode == 1
    assert "--file NAME=PATH" in wrong.stderr
    missing = run("answer", question, '{"paid": true}', "--file", "receipt=/nowhere.pdf")
    assert missing.returncode == 1
    assert "could not be read" in missing.stderr
    done = run("answer", question, '{"paid": true}', "--file", f"receipt={report}")
    assert done.returncode == 0, done.stderr
    assert DIGEST in run("files", question).stdout


def test_the_prompt_takes_a_path(run: Run, url: str, report: Path, tmp_path: Path) -> None:
    (tmp_path / "form.json").write_text(json.dumps(FORM["fields"][0]["form"]))  # type: ignore[index]  # it is a form
    question = asked(run, "The receipt?", "--form", str(tmp_path / "form.json"))
    with at_terminal("answer", question, url=url, LOGNAME="ada", XDG_DATA_HOME=str(tmp_path)) as terminal:
        terminal.until("The path of the file")
        terminal.send("/nowhere.pdf", ENTER)
        terminal.until("could not be read")
        terminal.send(f"@{report}", ENTER)
        terminal.until("Answered: report.pdf")
    assert DIGEST in run("files", question).stdout
