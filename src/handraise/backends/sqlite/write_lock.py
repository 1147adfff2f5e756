"""The lock at which the writers of all processes queue before they begin, in a file next to the database.

SQLite's own back-off sleeps up to 100 ms, and some writers would wait for seconds. Here the kernel wakes the writers that
wait as soon as the lock is free, and releases the lock when a process and those that it has forked have died.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from handraise.model.errors import StoreUnavailable

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

_GLANCE = 0.02
"""How often a writer that waits looks whether its write was given up."""


class WriteLock:
    """An advisory lock on a file. Only one thread of a process takes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._state = threading.Lock()
        self._is_waiting = False
        self._wanted: threading.Event | None = None
        self._error: OSError | None = None
        self._closed = False

    @contextmanager
    def held(self, given_up: Callable[[], bool]) -> Iterator[None]:
        """Wait for the lock, or raise `StoreUnavailable` if the write was given up before."""
        if fcntl is None:  # SQLite's own back-off must be enough there
            yield
            return
        file = self._opened()
        with self._state:
            is_free = not self._is_waiting and _is_taken(file)
        if not is_free:
            self._wait(file, given_up)
        try:
            if given_up():
                raise _too_late()
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, or let the thread do it that still waits for the lock."""
        with self._state:
            self._closed = True
            if self._file is not None and not self._is_waiting:
                os.close(self._file)

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def _wait(self, file: int, given_up: Callable[[], bool]) -> None:
        """Wait in a thread of its own: nothing but the lock ends a wait in the kernel, and this one can be given up."""
        granted = threading.Event()
        with self._state:
            if not self._is_waiting:
                threading.Thread(
                    target=self._block, args=(file,), name="handraise-sqlite-lock", daemon=True
                ).start()
                self._is_waiting = True
            self._wanted = granted
        while not granted.wait(_GLANCE):
            if given_up():
                with self._state:
                    if not granted.is_set():
                        self._wanted = None
                        raise _too_late()
        if self._error is not None:
            error, self._error = self._error, None
            raise StoreUnavailable(f"{self._path} cannot be locked: {error}") from error

    def _block(self, file: int) -> None:
        error = None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as failure:  # such as on a network file system that has no locks
            error = failure
        with self._state:
            if self._closed:
                os.close(file)  # which releases the lock
            elif self._wanted is not None:
                self._error = error
                self._wanted.set()
                self._wanted = None
            elif error is None:
                fcntl.flock(file, fcntl.LOCK_UN)
            self._is_waiting = False


def _is_taken(file: int) -> bool:
    """Whether the lock was free, and is ours now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _too_late() -> StoreUnavailable:
    return StoreUnavailable("The write was given up before its turn came.")
