"""Read the settled questions of a workspace page by page, the latest first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime

from handraise.model.questions import Question
from handraise.policies.decide import CompiledPolicy
from handraise.policies.policy_replay import PolicyReplay, ReplayReport
from handraise.policies.suggestions import Suggestion, Suggestions
from handraise.ports import Filter, SettledPage, Store

_PAGE = 250
Progress = Callable[[Sequence[Question]], None]
"""Is called with each page that was read."""


async def past_questions(
    store: Store, workspace: str, *, since: datetime
) -> AsyncGenerator[Sequence[Question], None]:
    """Pages of the questions that were settled since a given time. The next page is read while one is used."""

    def read(after: str | None) -> asyncio.Task[SettledPage]:
        return asyncio.create_task(store.settled(Filter(workspace=workspace), after=after, limit=_PAGE))

    reading: asyncio.Task[SettledPage] | None = read(None)
    try:
        while reading is not None:
            page = await reading
            found = [each for each in page.questions if each.outcome is not None and each.outcome.at >= since]
            is_last = page.after is None or len(found) < len(page.questions)
            reading = None if is_last else read(page.after)
            if found:
                yield found
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def replay_history(
    store: Store,
    workspace: str,
    policy: CompiledPolicy,
    *,
    since: datetime,
    limit: int | None = None,
    progress: Progress | None = None,
) -> ReplayReport:
    """What a policy would have done to the questions that were settled since a given time.

    With a `limit`, only about so many are replayed, the latest ones. Pages are evaluated in a thread, so that the event
    loop can serve others meanwhile.
    """
    replay = PolicyReplay(policy)
    async with aclosing(past_questions(store, workspace, since=since)) as pages:
        async for page in pages:
            if limit is not None and replay.report.questions >= limit:
                replay.report.truncated = True
                break
            await asyncio.to_thread(replay.add, page)
            if progress is not None:
                progress(page)
    return replay.report


async def suggest_rules(
    store: Store, workspace: str, *, since: datetime, progress: Progress | None = None
) -> Sequence[Suggestion]:
    """Rules that would allow what people always approved since a given time."""
    suggestions = Suggestions()
    async with aclosing(past_questions(store, workspace, since=since)) as pages:
        async for page in pages:
            await asyncio.to_thread(suggestions.add, page)
            if progress is not None:
                progress(page)
    return suggestions.found()
