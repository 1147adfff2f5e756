"""`handraise copy` copies a store, proves it at the end, and says what to do next. tests/backends/test_store_copy.py has more."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handraise.cli import progress_bar
from support.command import handraise
from tests.cli.test_progress_bar import Terminal
from tests.conftest import own_database


@pytest.fixture
def bare() -> Iterator[str]:
    """A database without a schema."""
    with own_database(empty=True) as address:
        yield address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A SQLite store with a question and a signed audit trail."""
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    assert handraise("ask", "Deploy?", url=url).returncode == 7
    assert handraise("audit", "key", str(tmp_path / "key")).returncode == 0
    trail = tmp_path / "before.jsonl"
    sealed = handraise("audit", "export", str(trail), url=url, HANDRAISE_AUDIT_KEY=str(tmp_path / "key"))
    assert sealed.returncode == 0, sealed.stderr
    return tmp_path / "questions.db"


def test_a_copy_ends_with_a_proof_that_names_rows_digest_and_audit_trail(file: Path, bare: str) -> None:
    url, key = f"sqlite:///{file}", str(file.with_name("key.pub"))
    copied = handraise("copy", url, bare, "--key", key)
    assert copied.returncode == 0, copied.stderr
    assert "questions  1       1" in copied.stdout
    assert "rows are the same in both. Digest: " in copied.stdout
    assert "The audit trail of default is GOOD: seals 1 to 1, 1 events, signed by " in copied.stdout
    assert f"set HANDRAISE_URL to it. {url} cannot be used any more." in copied.stdout
    assert "Deploy?" in handraise("list", url=bare).stdout
    refused = handraise("list", url=url)
    assert (refused.returncode, "is not used any more" in refused.stderr) == (78, True)
    again = handraise("copy", url, bare, "--key", key, "--verify")
    assert (again.returncode, again.stdout) == (0, copied.stdout)


def test_what_differs_ends_with_1_and_is_named(file: Path, bare: str) -> None:
    url = f"sqlite:///{file}"
    handraise("copy", url, bare)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("update seals set sealed_at = sealed_at + 1")
    compared = handraise("copy", url, bare, "--verify")
    assert compared.returncode == 1
    assert any(line.split() == ["seals", "1", "1", "DIFFERENT"] for line in compared.stdout.splitlines())
    assert "The two stores are DIFFERENT" in compared.stderr


def test_an_audit_trail_that_is_not_good_ends_with_1(file: Path, bare: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("update seals set sealed_at = sealed_at + 1")
    copied = handraise("copy", f"sqlite:///{file}", bare, "--key", str(file.with_name("key.pub")))
    assert copied.returncode == 1
    assert "The audit trail of default is NOT GOOD" in copied.stderr
    assert "not good there either" in copied.stderr


def test_a_copy_that_is_given_up_lets_the_source_be_used_again(file: Path, bare: str) -> None:
    url = f"sqlite:///{file}"
    handraise("copy", url, bare)
    given_up = handraise("copy", url, bare, "--cancel")
    assert given_up.stdout == f"{url} can be used again. Drop the copy.\n"
    assert "Deploy?" in handraise("list", url=url).stdout
    assert handraise("list", url=bare).returncode == 78


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        ("memory:", "sqlite:///b.db", "A copy is between sqlite:///file.db and postgresql://"),
        ("sqlite:///gone.db", "sqlite:///b.db", "There is no file"),
        ("sqlite:///a.db", "sqlite:///a.db", "It is the source"),
    ],
)
def test_what_cannot_be_copied_is_refused_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = handraise("copy", source, target)
    assert (refused.returncode, says in refused.stderr) == (78, True), refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bar_counts_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress_bar.count_bar("Copying", 200) as advance:
        advance(100)
        assert "50%" in screen.getvalue()
    assert "100%" in screen.getvalue()
