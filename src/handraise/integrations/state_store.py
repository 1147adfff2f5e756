"""Where the state of a paused run is kept that is too large to travel with a question."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Protocol


class StateStore(Protocol):
    """A place for texts under names: a folder, a bucket, a table. Names are short, made of letters and digits."""

    async def keep(self, name: str, text: str) -> None:
        """Keep the text under the name. A second time changes nothing, or keeps the newer text.

        Questions are asked as soon as this returns, so it must survive by then what they survive.
        """
        ...

    async def find(self, name: str) -> str | None:
        """The text that is kept under this name, or None."""
        ...


class Folder:
    """A folder that all processes of a run can reach. Nothing in it is deleted; an old file is an old run's."""

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
    """Put a text in a file's place: after a kill or a loss of power, the file has the old text or the new one."""
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
