"""A witness that is a file: lines are added to it, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from handraise.model.json_values import Json
from handraise.model.witnesses import ChainHead
from handraise.ports.channel import NotSent

_MOST_LINES = 200
_WRITTEN_WITHIN = 15.0


class FileWitness:
    """A file on another file system, to which lines are only ever added. It must exist.

    Otherwise heads would be written to the disk of this machine if the file system is not mounted.
    """

    batch = _MOST_LINES

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: threading.Thread | None = None
        self._torn = False

    async def send(self, heads: Sequence[ChainHead]) -> None:
        """Add a line for each head."""
        await self.add([head.record for head in heads])

    async def add(self, records: Sequence[dict[str, Json]]) -> None:
        """Add a line for each record."""
        if self._writer is not None and self._writer.is_alive():
            raise NotSent(f"the last write to {self._path} has not ended: is its file system there?")
        lines = "".join(f"{json.dumps(record)}\n" for record in records).encode()
        loop, written = asyncio.get_running_loop(), asyncio.Event()
        failed: list[OSError] = []

        def work() -> None:
            try:
                self._append(lines)
            except OSError as error:
                failed.append(error)
            with suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(written.set)

        # A file system that hangs keeps its own thread, which nobody waits for at the end of the process.
        self._writer = threading.Thread(target=work, name="handraise witness file", daemon=True)
        self._writer.start()
        try:
            async with asyncio.timeout(_WRITTEN_WITHIN):
                await written.wait()
        except TimeoutError:
            raise NotSent(f"{self._path} cannot be written now: it takes too long") from None
        self._writer = None  # it has written, and its thread may take another moment to end
        if failed:
            hint = " Create it once, where it is kept" if isinstance(failed[0], FileNotFoundError) else ""
            raise NotSent(f"{self._path} cannot be written: {failed[0].strerror}.{hint}".rstrip("."))

    def _append(self, lines: bytes) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            # After half a line, begin with a new one.
            text = b"\n" + lines if self._torn else lines
            self._torn = True
            if os.write(file, text) < len(text):
                raise OSError(0, "only a part could be written")
            self._torn = False
            os.fsync(file)
        finally:
            os.close(file)
