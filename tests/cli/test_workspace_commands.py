"""`handraise export workspace` and `handraise import`; tests/backends/test_workspace_transfer.py has what goes along."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from handraise.cli import progress_bar
from support.command import handraise, process
from tests.cli.test_progress_bar import Terminal
from tests.conftest import own_database


@pytest.fixture
def bare() -> Iterator[str]:
    """A database without a schema."""
    with own_database(empty=True) as address:
        yield address


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A SQLite store with a question and a signed audit trail."""
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    assert handraise("ask", "Deploy?", url=url).returncode == 7
    assert handraise("audit", "key", str(tmp_path / "key")).returncode == 0
    trail = tmp_path / "before.jsonl"
    sealed = handraise("audit", "export", str(trail), url=url, HANDRAISE_AUDIT_KEY=str(tmp_path / "key"))
    assert sealed.returncode == 0, sealed.stderr
    return url


def test_a_workspace_moves_to_another_store_and_is_removed_where_it_was(
    url: str, bare: str, tmp_path: Path
) -> None:
    file = tmp_path / "default.jsonl"
    exported = handraise("export", "workspace", str(file), url=url)
    assert exported.returncode == 0, exported.stderr
    assert f"The workspace default is in {file}: 1 questions, 1 events, 5 rows." in exported.stdout
    head = exported.stdout.rpartition("Head of its audit trail: ")[2]
    assert head.startswith("1:")
    imported = handraise("import", str(file), url=bare)
    assert imported.returncode == 0, imported.stderr
    assert "and equal to the file: 1 questions, 1 events, 5 rows." in imported.stdout
    assert imported.stdout.endswith(head)
    assert "Deploy?" in handraise("list", url=bare).stdout
    removed = handraise("export", "workspace", str(file), "--remove", url=url)
    assert f"The workspace default is removed from {url}:" in removed.stdout
    assert "Nothing is pending" in handraise("list", url=url).stdout


def test_the_trail_that_came_is_verified_with_the_key_and_the_head(
    url: str, bare: str, tmp_path: Path
) -> None:
    file, trail = tmp_path / "default.jsonl", tmp_path / "trail.jsonl"
    head = handraise("export", "workspace", str(file), url=url).stdout.strip().rpartition(" ")[2]
    handraise("import", str(file), url=bare)
    handraise("audit", "export", str(trail), url=bare)
    checked = handraise("audit", "verify", str(trail), "--key", str(tmp_path / "key.pub"), "--head", head)
    assert checked.returncode == 0, checked.stderr


def test_stdout_has_only_the_lines(url: str) -> None:
    exported = process("export", "workspace", url=url)
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert (lines[0]["format"], lines[0]["workspace"]) == ("handraise workspace", "default")
    assert lines[-1]["rows"]["questions"] == 1
    assert "The workspace default was exported: 1 questions" in exported.stderr


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["export", "workspace", "typo.jsonl", "-w", "typo"], "There is nothing in the workspace 'typo'."),
        (["export", "workspace", "--remove"], "With --remove, name the FILE"),
        (["import", "gone.jsonl"], "There is no file gone.jsonl"),
        (["import", "before.jsonl"], "This file is not one that `handraise export workspace`"),
    ],
)
def test_what_cannot_be_done_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = handraise(*command, url=url)
    assert refused.returncode != 0
    assert says in refused.stderr


def test_no_store_is_made_for_an_export(tmp_path: Path) -> None:
    refused = handraise("export", "workspace", "a.jsonl", url=f"sqlite:///{tmp_path / 'gone.db'}")
    assert (refused.returncode, "There is no file" in refused.stderr) == (78, True)
    assert list(tmp_path.iterdir()) == []


def test_a_bar_counts_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress_bar.share_bar("Exporting") as advance:
        advance(100, 200)
        assert "50%" in screen.getvalue()
    assert "100%" in screen.getvalue()
