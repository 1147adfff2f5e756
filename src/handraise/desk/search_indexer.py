"""Put the words of questions into the search index: in the background, and before each search.

Nothing is indexed when a question is asked or settled. The index follows the trail of events, so any process may bring it up
to date at any time, and two that do it at once do no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from handraise.model.errors import StoreUnavailable
from handraise.model.questions import Question, Ref
from handraise.model.search_words import indexed_tags, indexed_words
from handraise.ports import IndexEntry, Store

_log = logging.getLogger(__name__)

AT_ONCE = 1_000
"""How many events are looked at together."""
_WORKSPACES = 1_000
_BATCHES = 20
"""How many batches of one workspace are done before the next one has its turn."""


class SearchIndexer:
    """Brings the search index of a store up to date."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> int:
        """Index what has happened in every workspace; return the number of batches. A failing workspace stops no other."""
        done = 0
        for workspace in await self._store.unindexed(limit=_WORKSPACES):
            try:
                done += await self.catch_up(workspace, batches=_BATCHES)
            except StoreUnavailable as error:
                _log.warning(
                    "the search index of workspace %r is behind: %s",
                    workspace,
                    error,
                    extra={"event": "search_index_behind"},
                )
        return done

    async def catch_up(self, workspace: str, *, batches: int) -> int:
        """Index what has happened in a workspace, up to so many batches; return how many that were."""
        for done in range(batches):
            batch = await self._store.next_to_index(workspace, limit=AT_ONCE)
            if not batch.question_ids and batch.cursor == batch.after:
                return done
            entries = await self._entries(workspace, batch.question_ids)
            stored = await self._store.put_in_index(
                workspace, entries, after=batch.after, cursor=batch.cursor
            )
            if not stored or batch.cursor == batch.after:
                return done  # somebody else has done it, or the events are not final yet
        return batches

    async def _entries(self, workspace: str, ids: Sequence[str]) -> list[IndexEntry]:
        if not ids:
            return []
        found = await self._store.read([Ref(workspace, each) for each in ids])

        def cut() -> list[IndexEntry]:
            return [_entry(question) for question in found if question is not None]

        return await asyncio.to_thread(cut)  # a thousand of them would block the event loop


def _entry(question: Question) -> IndexEntry:
    return IndexEntry(question.id, indexed_words(question), indexed_tags(question))
