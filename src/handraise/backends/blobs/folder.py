"""The bytes of files in a folder. All processes of a store must share it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from handraise.model.errors import StoreUnavailable

T = TypeVar("T")


class FolderBlobs:
    """Bytes in files of a folder. See `handraise.ports.Blobs` for what each method promises."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, workspace: str, key: str, data: bytes) -> None:
        """Store bytes: under another name at first, so that nobody sees a part of them; see the port."""
        place = self._place(workspace, key)
        await _in_thread(lambda: _write(place, data))

    async def get(self, workspace: str, key: str) -> bytes | None:
        """Bytes; see the port."""
        place = self._place(workspace, key)
        return await _in_thread(lambda: _read(place))

    async def delete(self, workspace: str, key: str) -> None:
        """Delete bytes; see the port."""
        place = self._place(workspace, key)
        await _in_thread(lambda: _delete(place))

    def _place(self, workspace: str, key: str) -> Path:
        return self._folder / place_of(workspace, key)


def place_of(workspace: str, key: str) -> str:
    """The path of a file's bytes. A workspace may have any name, so its digest is used."""
    return f"{hashlib.sha256(workspace.encode()).hexdigest()[:32]}/{key[:2]}/{key}"


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise StoreUnavailable(f"The folder of files cannot be used: {error}") from error


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    begun = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with os.fdopen(os.open(begun, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        begun.replace(path)
    finally:
        begun.unlink(missing_ok=True)
    for folder in (path.parent, path.parent.parent):
        _sync(folder)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        _sync(path.parent)


def _sync(folder: Path) -> None:
    """Make the names in a folder survive a power failure."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
