"""Full-text search in SQLite: an FTS5 table with the words of questions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from handraise.backends.pagination import search_page
from handraise.backends.sql.feed_places import BEGINNING, cursor_of, read_place
from handraise.backends.sql.parameters import search_values
from handraise.backends.sql.rows import stored_question
from handraise.backends.sqlite.connections import Connections
from handraise.backends.sqlite.statements import run
from handraise.model.search_words import SearchQuery
from handraise.ports import Filter, IndexBatch, IndexEntry, SearchPage


class SqliteSearchIndex:
    """The index of a SQLite store. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, connections: Connections, now: Callable[[], int]) -> None:
        self._connections = connections
        self._now = now

    async def search(self, where: Filter, query: SearchQuery, *, after: str | None, limit: int) -> SearchPage:
        """Questions with these words; see the port."""
        values, tags = search_values(where, after=after, limit=limit)
        text = _query_text(query, tags)
        rows = await self._connections.read(
            lambda connection: run(connection, "search", now=self._now(), query=text, **values)
        )
        return search_page([stored_question(row) for row in rows], None, limit)

    async def unindexed(self, *, limit: int) -> Sequence[str]:
        """Workspaces that are not indexed up to their ends; see the port."""
        rows = await self._connections.read(lambda connection: run(connection, "unindexed", limit=limit))
        return [row["workspace"] for row in rows]

    async def next_to_index(self, workspace: str, *, limit: int) -> IndexBatch:
        """Questions to be indexed; see the port."""

        def work(connection: sqlite3.Connection) -> IndexBatch:
            after = _cursor(connection, workspace)
            place = read_place(after) if after else BEGINNING
            rows = run(connection, "next_to_index", workspace=workspace, limit=limit, **place.named("after_"))
            ids = sorted({row["id"] for row in rows if row["id"] is not None})
            return IndexBatch(ids, after, cursor_of(rows[-1]) if rows else after)

        return await self._connections.read(work)

    async def put_in_index(
        self, workspace: str, entries: Sequence[IndexEntry], *, after: str | None, cursor: str | None
    ) -> bool:
        """Index questions; see the port."""

        def work(connection: sqlite3.Connection) -> bool:
            if _cursor(connection, workspace) != after:
                return False
            for each in entries:
                texts = {"words": " ".join(each.words), "tags": " ".join(each.tags)}
                run(connection, "put_in_index", workspace=workspace, id=each.id, **texts)
            place = read_place(cursor) if cursor else BEGINNING
            run(connection, "note_indexed", workspace=workspace, **place.named())
            return True

        return await self._connections.write(work)


def _cursor(connection: sqlite3.Connection, workspace: str) -> str | None:
    rows = run(connection, "index_cursor", workspace=workspace)
    return cursor_of(rows[0]) if rows else None


def _query_text(query: SearchQuery, tags: Sequence[Sequence[str]]) -> str:
    """A query for these words and one tag of each of these lists, as FTS5 reads it. Words are letters and digits only."""
    phrases = [f'"{" ".join(phrase)}"' for phrase in query.phrases]
    if query.is_prefix:
        phrases[-1] += " *"
    scopes = (" OR ".join(f'"{tag}"' for tag in each) for each in tags)
    return " AND ".join((f"words : ({' AND '.join(phrases)})", *(f"tags : ({each})" for each in scopes)))
