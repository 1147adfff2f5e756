"""The lock at which writers of SQLite queue works on after something has gone wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from handraise.backends.sqlite.write_lock import WriteLock
from handraise.model.errors import StoreUnavailable


def never() -> bool:
    return False


def test_a_thread_that_cannot_be_started_fails_one_write_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = WriteLock(tmp_path / "lock"), WriteLock(tmp_path / "lock")

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with first.held(never), monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError), second.held(never):
            pass
    with second.held(never):
        pass
    first.close()
    second.close()


def test_a_file_system_without_locks_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = WriteLock(tmp_path / "lock"), WriteLock(tmp_path / "lock")

    def no_locks(*_: object) -> None:
        raise OSError("No locks available")

    with first.held(never), monkeypatch.context() as broken:
        monkeypatch.setattr("handraise.backends.sqlite.write_lock._is_taken", lambda _: False)
        broken.setattr("handraise.backends.sqlite.write_lock.fcntl.flock", no_locks)
        with pytest.raises(StoreUnavailable, match="No locks available"), second.held(never):
            pass
    with second.held(never):
        pass
    first.close()
    second.close()
