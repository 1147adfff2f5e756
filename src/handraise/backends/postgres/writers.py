"""Waiting for the statements that were writing to questions, without any lock."""

from __future__ import annotations

import asyncio
import time

from handraise.backends.postgres.database import Database
from handraise.backends.sql_files import load_statements

_WRITERS = load_statements("handraise.backends.postgres")["writers"]
_PAUSE = 0.005


async def writers_ended(database: Database, *, patience: float) -> bool:
    """Wait until the statements that write to questions now have ended; False if some take longer than `patience`.

    After that, every statement sees what was committed before the call.
    """
    before, until = await _writers(database), time.monotonic() + patience
    while before:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(_PAUSE)
        before &= await _writers(database)
    return True


async def _writers(database: Database) -> set[str]:
    (row,) = await database.fetch(_WRITERS)
    return set(row["writers"])
