"""Full-text search in PostgreSQL: the words of questions as text search vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from handraise.backends.pagination import search_page
from handraise.backends.postgres.database import Database
from handraise.backends.sql.parameters import search_values
from handraise.backends.sql.rows import stored_questions
from handraise.backends.sql_files import load_statements
from handraise.model.search_words import SearchQuery
from handraise.ports import Filter, IndexBatch, IndexEntry, SearchPage

SEARCH = load_statements("handraise.backends.postgres", "search.sql")

_SPARE = 20
"""How many candidates more than wanted are read for a page: a few may be for others, according to their records."""
_WALKED = 2_000
"""How many of the newest questions are read one by one, before the index is asked."""
_CURSOR = re.compile(r"([0-9]{1,20})\.([0-9]{1,19})")
_MOST_PLACES = 255
"""How often a word can be in a vector."""


class PostgresSearchIndex:
    """The index of a PostgreSQL store. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, where: Filter, query: SearchQuery, *, after: str | None, limit: int) -> SearchPage:
        """Questions with these words; see the port."""
        values, tags = search_values(where, after=after, limit=limit)
        rows = await self._fetch(
            where.workspace,
            "search",
            **values,
            query=query_text(query, tags),
            looked=limit + 1 + _SPARE,
            walked=_WALKED,
        )
        found = await stored_questions([row for row in rows if row["id"] is not None])
        return search_page(found, rows[0]["edge"], limit)

    async def unindexed(self, *, limit: int) -> Sequence[str]:
        """Workspaces that are not indexed up to their ends; see the port."""
        rows = await self._database.fetch(SEARCH["unindexed"], at_most=limit)
        return [row["workspace"] for row in rows]

    async def next_to_index(self, workspace: str, *, limit: int) -> IndexBatch:
        """Questions to be indexed; see the port."""
        rows = await self._fetch(workspace, "next_to_index", limit=limit)
        first = rows[0]
        after = None
        if first["after_number"] is not None:
            after = f"{first['after_transaction']}.{first['after_number']}"
        final = [row for row in rows if row["is_final"]]
        cursor = f"{final[-1]['transaction']}.{final[-1]['number']}" if final else after
        return IndexBatch(sorted({row["id"] for row in rows if row["id"] is not None}), after, cursor)

    async def put_in_index(
        self, workspace: str, entries: Sequence[IndexEntry], *, after: str | None, cursor: str | None
    ) -> bool:
        """Index questions; see the port."""
        ordered = sorted(entries, key=lambda each: each.id)
        before, last = _place(after), _place(cursor)
        rows = await self._fetch(
            workspace,
            "put_in_index",
            after_transaction=before[0],
            after_number=before[1],
            transaction=last[0],
            number=last[1],
            ids=[each.id for each in ordered],
            words=[_vector_text(each) for each in ordered],
        )
        return bool(rows[0]["done"])

    async def _fetch(self, workspace: str, name: str, /, **values: Any) -> list[Any]:
        return await self._database.fetch_in(workspace, SEARCH[name], **{"workspace": workspace, **values})


def _place(cursor: str | None) -> tuple[str | None, int | None]:
    if cursor is None:
        return None, None
    if (found := _CURSOR.fullmatch(cursor)) is None:
        raise ValueError(f"{cursor[:100]!r} is not a cursor of this index")
    return found[1], int(found[2])


def _vector_text(entry: IndexEntry) -> str:
    """The words with their places, as PostgreSQL reads a vector. Words are letters and digits only."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(entry.words, 1):
        at = places.setdefault(word, [])
        if len(at) < _MOST_PLACES:
            at.append(str(place))
    words = (f"'{word}':{','.join(at)}" for word, at in places.items())
    return " ".join((*words, *(f"'={tag}'" for tag in entry.tags)))


def query_text(query: SearchQuery, tags: Sequence[Sequence[str]]) -> str:
    """A query for these words and one tag of each of these lists, as PostgreSQL reads it."""
    phrases = [" <-> ".join(f"'{word}'" for word in phrase) for phrase in query.phrases]
    if query.is_prefix:
        phrases[-1] += ":*"
    scopes = [" | ".join(f"'={tag}'" for tag in each) for each in tags]
    return " & ".join(f"({part})" for part in (*phrases, *scopes))
