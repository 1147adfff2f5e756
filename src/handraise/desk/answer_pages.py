"""Answers as data: the settled questions of a workspace, read page by page, oldest first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar

from handraise.model.settled_rows import SettledRow
from handraise.ports import SettledRows, Store

T = TypeVar("T")

_EVENTS = 2_000
"""How many events are read for a page: whatever the questions contain, a page has a bounded size."""


async def answer_pages(
    store: Store,
    workspace: str,
    convert: Callable[[Sequence[SettledRow]], T],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> AsyncGenerator[T, None]:
    """What `convert` makes of each page that has anything. It is called in a thread while the next page is read."""
    loop = asyncio.get_running_loop()

    def read(after: str | None) -> asyncio.Task[SettledRows]:
        return asyncio.create_task(
            store.settled_rows(workspace, since=since, until=until, after=after, limit=_EVENTS)
        )

    # One thread for all pages: what several allocate in turn adds up.
    with ThreadPoolExecutor(1, thread_name_prefix="handraise-export") as thread:
        reading: asyncio.Task[SettledRows] | None = read(None)
        try:
            while reading is not None:
                page = await reading
                reading = None if page.after is None else read(page.after)
                if page.rows:
                    yield await loop.run_in_executor(thread, convert, page.rows)
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
