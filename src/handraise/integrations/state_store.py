"""Stores the state of a paused run if it is too large to be stored with a question."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Protocol


class StateStore(Protocol):
    """A place for texts under names: a folder, a bucket, a table. Names are short, made of letters and digits."""

    async def keep(self, name: str, text: str) -> None:
        """Store the text under the name. Storing it again changes nothing, or keeps the newer text.

        Questions are asked as soon as this returns, so the text must then be as durable as they are.
        """
        ...

    async def find(self, name: str) -> str | None:
        """The text under this name, or None."""
        ...


class Folder:
    """A folder that all processes of a run can reach. Nothing in it is deleted; old files belong to old runs."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    async def keep(self, name: str, text: str) -> None:
        """Write a file, whole or not at all."""
        await asyncio.to_thread(self._write, name, text)

    async def find(self, name: str) -> str | None:
        """Read it."""
        return await asyncio.to_thread(self._read, name)

    def _write(self, name: str, text: str) -> None:
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path / name, text)

    def _read(self, name: str) -> str | None:
        path = self._path / name
        return path.read_text(encoding="utf-8") if path.exists() else None


def write_whole(path: Path, text: str) -> None:
    """Replace a file atomically: after a kill or a power loss, it has the old text or the new one."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(unfinished).replace(path)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
