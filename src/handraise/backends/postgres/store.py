"""The PostgreSQL store."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from handraise.backends.pagination import Cursor, Edge, endings_since, settled_page, walks_of
from handraise.backends.postgres.connections import is_lost
from handraise.backends.postgres.database import KEEPER_ROLE, Database, Item, Result
from handraise.backends.postgres.durability import durability_of
from handraise.backends.postgres.quota import QuotaCache
from handraise.backends.postgres.search_index import PostgresSearchIndex
from handraise.backends.postgres.transaction import STATEMENTS, PostgresTransaction, columns_of
from handraise.backends.sql.feed_places import (
    BEGINNING,
    Place,
    cursor_of,
    end_or_place,
    place_of,
    read_place,
)
from handraise.backends.sql.new_questions import ask
from handraise.backends.sql.parameters import (
    count_query,
    is_indexed,
    settled_query,
    urgent_query,
    view_query,
    walks_query,
)
from handraise.backends.sql.rows import Row, stored_ending, stored_questions
from handraise.backends.sql.store import SqlStore
from handraise.backends.sql.transactions import Transaction, Values
from handraise.model.errors import StoreUnavailable
from handraise.model.events import SETTLING
from handraise.model.pending_views import Order, ViewCounts, counted_views
from handraise.model.people import Responder
from handraise.model.questions import Draft
from handraise.model.settled_rows import COLUMNS as SETTLED_COLUMNS
from handraise.model.settled_rows import SettledRow
from handraise.model.statistics import Ending
from handraise.ports import (
    AGES,
    MAX_EVENTS_SCANNED,
    Durability,
    Endings,
    Filter,
    Inserted,
    QueueStats,
    SettledPage,
    SettledRows,
)
from handraise.ports.settled_filter import SettledFilter

_log = logging.getLogger(__name__)

_LOOKED_AT = 1_000
"""How many events are read at once to find questions to remove."""
_FIRST = {"workspace": "", "transaction": "0", "number": BEGINNING.number}
"""Before the first workspace."""


class PostgresStore(SqlStore):
    """Questions in PostgreSQL. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, database: Database) -> None:
        super().__init__(PostgresSearchIndex(database))
        self._removes: bool | None = None
        self._hand: Mapping[str, Any] = _FIRST
        self._database = database
        self._allowances = QuotaCache()

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """Register drafts; see the port."""
        return await self._run_batch(
            drafts, lambda draft: draft.workspace, partial(self._insert_safely, quota=quota)
        )

    async def _places(self, where: Filter, cursor: Cursor | None, order: Order, limit: int) -> Sequence[Row]:
        """The places of a page, of which one statement makes all walks."""
        if is_indexed(where, order):
            name, values = urgent_query(where, limit=limit)
        else:
            name = "view_all" if where.recipient is None else "view_by_recipient"
            values = view_query(where, limit=limit, order=order)
        return await self._fetch(where.workspace, name, **values, **walks_query(walks_of(cursor, order)))

    async def count_views(self, workspace: str, recipient: Responder) -> ViewCounts:
        """How many questions are in each view; see the port."""
        (row,) = await self._fetch(workspace, "count_views", **count_query(recipient))
        return counted_views(row, more=row["more"])

    async def settled(self, where: Filter, *, after: str | None, limit: int) -> SettledPage:
        """A page of settled questions; see the port."""
        values, begin = settled_query(where, limit=limit), where.ending.begin
        if after is None and begin is not None:
            found = await self._fetch(where.workspace, "first_event_at", at=begin)
            after = cursor_of(found[0]) if found else None
        rows = await self._fetch(where.workspace, "settled", **values, **end_or_place(after).named())
        ended = [row for row in rows if row["id"] is not None]
        placed = list(zip(map(cursor_of, ended), await stored_questions(ended), strict=True))
        edge = _edge(rows[0])
        if edge is not None and where.ending.is_before(rows[0]["edge_at"]):
            edge = None
        return settled_page(placed, edge, limit)

    async def settled_rows(
        self,
        workspace: str,
        *,
        since: datetime | None,
        until: datetime | None,
        after: str | None,
        limit: int,
    ) -> SettledRows:
        """Settled questions for an export; see the port."""
        ending, place = SettledFilter(since=since, until=until), BEGINNING
        if after is not None:
            place = read_place(after)
        elif ending.oldest is not None:
            found = await self._fetch(workspace, "first_event_at", at=ending.oldest)
            if not found:
                return SettledRows((), None)
            place = place_of(found[0]).before()
        values = {"since": since, "until": until, "kinds": list(ending.kinds), "looked": limit}
        rows = await self._fetch(workspace, "settled_rows", **values, **place.named())
        edge = _edge(rows[0])
        if edge is not None and ending.is_after(rows[0]["edge_at"]):
            edge = None
        number = len(SETTLED_COLUMNS)
        return SettledRows([SettledRow._make(row[:number]) for row in rows if row[0] is not None], edge)

    async def endings(self, workspace: str, *, since: datetime, limit: int) -> Endings:
        """How questions ended; see the port."""

        async def look(after: str | None, wanted: int) -> tuple[Sequence[Ending], Edge | None]:
            values = {"since": since, "looked": MAX_EVENTS_SCANNED, "limit": wanted}
            rows = await self._fetch(workspace, "endings", **values, **end_or_place(after).named())
            found = [stored_ending(row) for row in rows if row["status"] is not None]
            edge = _edge(rows[0])
            return found, None if edge is None else Edge(edge, rows[0]["edge_at"])

        return await endings_since(look, since=since, limit=limit)

    async def tidy(self, *, keep: timedelta | None, limit: int) -> int:
        """Remove what is settled; see the port."""
        removed = 0
        (row,) = await self._database.fetch(STATEMENTS["shortest_keep"])
        if (keep is None and row["keep"] is None) or not await self._may_remove():
            return 0
        while removed < limit:
            looking = {"keep": keep, "looked": _LOOKED_AT, **self._hand}
            (row,) = await self._database.fetch(STATEMENTS["remove_settled"], **looking)
            removed += row["removed"]
            if row["workspace"] is None:
                self._hand = _FIRST
                break
            self._hand = {name: row[name] for name in _FIRST}
        return removed

    async def settled_since(
        self, workspace: str, mark: str | None, *, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """What was settled lately; see the port."""
        rows = await self._fetch(
            workspace, "settled_since", mark=mark, kinds=sorted(SETTLING), limit=limit + 1
        )
        ids = [row["question_id"] for row in rows if row["question_id"] is not None]
        return ids[:limit], str(rows[0]["mark"]) if len(ids) <= limit else None

    async def queue_stats(self, workspace: str | None = None, *, quota: int | None = None) -> QueueStats:
        """How many questions and deliveries wait; see the port."""
        if workspace is not None:
            (row,) = await self._fetch(workspace, "queue_stats_of_workspace", ages=AGES)
            return QueueStats(pending=dict(zip(AGES, row["pending"], strict=True)), deliveries={})
        (row,) = await self._database.fetch(STATEMENTS["queue_stats"], ages=AGES, quota=quota)
        return QueueStats(
            pending=dict(zip(AGES, row["pending"], strict=True)),
            deliveries=json.loads(row["deliveries"]),
            oldest_due=row["oldest_due"],
            askers_at_quota=row["askers_at_quota"],
            unanswerable=row["unanswerable"],
        )

    async def durability(self) -> Durability:
        """What an acknowledged write survives; see the port."""
        rows = await self._database.fetch(STATEMENTS["settings"])
        return durability_of({row["name"]: row["setting"] for row in rows})

    async def _insert_safely(self, drafts: Sequence[Draft], *, quota: int | None) -> Sequence[Inserted]:
        """Insert, and repeat it if the connection was cut: questions that are already stored are found by their ids."""
        try:
            return await self._insert(drafts, quota=quota)
        except StoreUnavailable as error:
            if not is_lost(error.__cause__):
                raise
            return await self._insert(drafts, quota=quota)

    async def _insert(self, drafts: Sequence[Draft], *, quota: int | None) -> Sequence[Inserted]:
        counted = not self._allowances.cover(drafts)
        asked = await self._transact(
            {draft.workspace for draft in drafts},
            partial(ask, drafts, quota=quota, counted=counted),
            first="lock table handraise.questions in row exclusive mode",
        )
        if counted:
            self._allowances.counted(asked.room)
        return asked.results

    async def _transact(
        self,
        workspaces: Iterable[str],
        work: Callable[[Transaction], Awaitable[Result]],
        *,
        first: str = "",
    ) -> Result:
        """The result of work in one transaction about these workspaces, which may be repeated, after a `first` statement."""
        return await self._database.work_in(
            workspaces, lambda run: work(PostgresTransaction(run)), first=first
        )

    async def _may_remove(self) -> bool:
        """Whether this login may remove old questions; if not, log once who may."""
        if self._removes is None:
            (row,) = await self._database.fetch(STATEMENTS["may_remove"])
            self._removes = bool(row["so"])
            if not self._removes:
                _log.warning(
                    "questions that are over are not removed here: this login is not a member of %s. Run `handraise retention "
                    "run` as one that is",
                    KEEPER_ROLE,
                    extra={"event": "removal_not_allowed"},
                )
        return self._removes

    async def _fetch(self, workspace: str | None, name: str, /, **values: Any) -> list[Any]:
        """The rows of a statement."""
        if workspace is None:
            return await self._database.fetch(STATEMENTS[name], **values)
        values = {"workspace": workspace, **values}
        return await self._database.fetch_in(workspace, STATEMENTS[name], **values)

    async def _fetch_each(self, name: str, rows: Sequence[Values]) -> Sequence[Row]:
        """What a statement that reads returns for these rows."""
        workspaces = {row["workspace"] for row in rows}
        return await self._database.fetch_batch(workspaces, STATEMENTS[name], **dict(columns_of(rows)))

    async def _run_batch(
        self,
        items: Sequence[Item],
        workspace_of: Callable[[Item], str],
        call_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
    ) -> Sequence[Result]:
        """The results of items, each workspace apart if PostgreSQL undid the transaction of all."""
        return await self._database.run_batch(items, workspace_of, call_batch)


def _edge(row: Any) -> str | None:
    """Where the walk stopped before it had enough, or None if it reached the end."""
    number = row["edge_number"]
    return None if number is None else str(Place(int(row["edge_transaction"]), number))
