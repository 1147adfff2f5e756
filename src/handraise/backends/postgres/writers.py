"""Waiting for the statements that were writing to questions, without any lock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from handraise.backends.sql_files import Statement, load_statements

_WRITERS = load_statements("handraise.backends.postgres")["writers"]
_PAUSE = 0.005


Fetch = Callable[[Statement], Awaitable[list[Any]]]
"""Runs a statement in the database whose statements are waited for."""


async def writers_ended(fetch: Fetch, *, patience: float) -> bool:
    """Wait until the statements that write to questions now have ended; False if some take longer than `patience`.

    After that, every statement sees what was committed before the call.
    """
    before, until = await _writers(fetch), time.monotonic() + patience
    while before:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(_PAUSE)
        before &= await _writers(fetch)
    return True


async def _writers(fetch: Fetch) -> set[str]:
    (row,) = await fetch(_WRITERS)
    return set(row["writers"])
