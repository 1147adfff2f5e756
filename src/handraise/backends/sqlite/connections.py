"""Two connections to one SQLite file, each in its own thread: one writes, one reads.

Before they begin, the writers of all processes queue at a `WriteLock`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from handraise.backends.sqlite.durability import durability_of
from handraise.backends.sqlite.write_lock import WriteLock
from handraise.model.errors import DeskClosed, StoreUnavailable
from handraise.ports import Durability

T = TypeVar("T")

PATIENCE = 30.0
"""How many seconds a write waits for other processes before it is given up."""


class Connections(ABC):
    """Runs work on a database: in a file, or in memory."""

    @abstractmethod
    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction that nobody else can interleave with."""

    @abstractmethod
    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which changes nothing."""

    @abstractmethod
    async def scrub(self) -> bool:
        """Leave nothing of what was deleted; False if other processes prevent it."""

    @abstractmethod
    async def durability(self) -> Durability:
        """What an acknowledged write survives."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""


class FileConnections(Connections):
    """The writing and the reading connection to a file, which is on a file system of this kind."""

    def __init__(self, path: Path, file_system: str) -> None:
        self._path = path
        self._file_system = file_system
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="handraise-sqlite-write")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="handraise-sqlite-read")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._lock = WriteLock(path.with_name(f"{path.name}-lock"))
        self._file: tuple[int, int] | None = None
        self._closing = False

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction that nobody else can interleave with."""
        given_up = False

        def transact() -> T:
            if self._writer is None:
                self._writer = self._connected()
            with self._lock.held(lambda: given_up or self._closing):
                self._check_file()
                result = in_transaction(self._writer, work)
                self._check_file()
                return result

        running = self._begun(self._writing, transact)
        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.shield(running)
        except TimeoutError as error:
            given_up = True
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise StoreUnavailable(
                f"Another process has kept {self._path} locked for {PATIENCE:.0f} seconds."
            ) from error

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the reading connection."""

        def look() -> T:
            if self._reader is None:
                self._reader = self._connected()
            self._check_file()
            return work(self._reader)

        return await self._begun(self._reading, look)

    async def scrub(self) -> bool:
        """Rewrite the file, so that it contains nothing that was deleted; False if other processes prevent it."""

        def rewrite() -> bool:
            if self._writer is None:
                self._writer = self._connected()
            with self._lock.held(lambda: self._closing):
                self._check_file()
                self._writer.execute("vacuum")
                # Move the write-ahead log into the file, and truncate the log.
                busy: int = self._writer.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
                return busy == 0

        return await self._begun(self._writing, rewrite)

    async def durability(self) -> Durability:
        """What an acknowledged write survives, with the settings of the connection and on this file system."""
        return await self.write(lambda connection: durability_of(connection, self._file_system))

    async def close(self) -> None:
        """Close both connections in the threads that opened them."""
        self._closing = True
        loop = asyncio.get_running_loop()
        for executor, close in ((self._writing, self._close_writer), (self._reading, self._close_reader)):
            await loop.run_in_executor(executor, close)
            executor.shutdown()

    def _connected(self) -> sqlite3.Connection:
        connection = connect(self._path)
        if self._file is None:
            self._file = _file_at(self._path)
        return connection

    def _check_file(self) -> None:
        """Refuse to continue with a file that nobody can open any more: what is written to it is lost.

        A file that was deleted, or replaced by another one, still exists for processes that have it open.
        """
        if _file_at(self._path) != self._file:
            raise StoreUnavailable(
                f"{self._path} was deleted or replaced by another file while it was open. What was just written may be "
                "lost. Close this desk and open it again."
            )

    def _begun(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> asyncio.Future[T]:
        """Work that was started in its thread, which accepts none after the desk is closed or the process is ending."""
        try:
            return asyncio.get_running_loop().run_in_executor(executor, translated(work, self._path))
        except RuntimeError:
            raise DeskClosed from None

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._lock.close()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()


def in_transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """The result of `work` in one transaction, which is rolled back if it fails."""
    try:
        connection.execute("begin immediate")
        result = work(connection)
        connection.commit()
    except BaseException:
        # Also if the commit itself failed: an open transaction would make every later write fail.
        connection.rollback()
        raise
    return result


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file is at a path now, as its device and its number on that device."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def connect(path: Path) -> sqlite3.Connection:
    """A connection for the thread that calls this, whose commits are durable."""
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=True)
    connection.row_factory = sqlite3.Row
    for pragma in ("journal_mode = wal", "synchronous = full", "fullfsync = on"):
        with closing(connection.execute(f"pragma {pragma}")):
            pass
    return connection


def translated(work: Callable[[], T], path: Path) -> Callable[[], T]:
    """The same work, with SQLite's errors turned into ours."""

    def run() -> T:
        try:
            return work()
        except (sqlite3.Error, PermissionError) as error:
            raise unavailable(error, path) from error

    return run


def unavailable(error: sqlite3.Error | PermissionError, path: Path) -> StoreUnavailable:
    """What is wrong with a file, and what to do; some of it does not pass by itself."""
    said, found = str(error), None
    if isinstance(error, PermissionError):
        found = StoreUnavailable(f"This user cannot open or write {error.filename}.")
    elif "readonly database" in said or "unable to open database" in said:
        found = StoreUnavailable(f"This user cannot open or write {path}, or its folder: {said}.")
    elif "already exists" in said or "file is not a database" in said:
        found = StoreUnavailable(
            f"{path} belongs to another program: {said}. Give Handraise a file of its own."
        )
    if found is None:
        return StoreUnavailable(f"SQLite cannot do this now: {said}")
    found.misconfigured = True
    return found
