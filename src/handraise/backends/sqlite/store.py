"""The SQLite store: each call is one transaction."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from handraise.backends.pagination import Cursor, Edge, endings_since, settled_page, walks_of
from handraise.backends.sql.feed_places import (
    BEGINNING,
    END,
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
)
from handraise.backends.sql.rows import Row, instant, stored_ending, stored_question
from handraise.backends.sql.store import SqlStore
from handraise.backends.sql.transactions import Transaction, Values
from handraise.backends.sqlite.connections import Connections
from handraise.backends.sqlite.search_index import SqliteSearchIndex
from handraise.backends.sqlite.statements import run
from handraise.backends.sqlite.timestamps import length, now_by
from handraise.backends.sqlite.transaction import SqliteTransaction, finished
from handraise.model.events import SETTLING
from handraise.model.pending_views import Order, ViewCounts, counted_views
from handraise.model.people import Responder
from handraise.model.questions import Draft, Ref
from handraise.model.settled_rows import SettledRow
from handraise.model.statistics import Ending
from handraise.ports import (
    AGES,
    MAX_EVENTS_SCANNED,
    Clock,
    Durability,
    Endings,
    Filter,
    Inserted,
    QueueStats,
    SettledPage,
    SettledRows,
)
from handraise.ports.settled_filter import SettledFilter

Result = TypeVar("Result")

_LOOKED_AT = 1_000
"""How many events are read at once to find questions to remove."""
_COUNTED = 100_000
"""How many questions and deliveries are counted at most."""


class SqliteStore(SqlStore):
    """Questions in SQLite. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, connections: Connections, clock: Clock | None = None) -> None:
        super().__init__(SqliteSearchIndex(connections, self._now))
        self._connections = connections
        self._clock = clock
        self._hand = 0

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """Register drafts; see the port."""
        workspaces = {draft.workspace for draft in drafts}
        asked = await self._transact(workspaces, partial(ask, drafts, quota=quota, counted=True))
        return asked.results

    async def _transact(
        self, workspaces: Iterable[str], work: Callable[[Transaction], Awaitable[Result]]
    ) -> Result:
        """The result of work in one transaction."""
        del workspaces  # whoever can open the file may read all of it
        return await self._connections.write(
            lambda connection: finished(work(SqliteTransaction(connection, self._now())))
        )

    async def _places(self, where: Filter, cursor: Cursor | None, order: Order, limit: int) -> Sequence[Row]:
        """The places of a page: one walk after the other."""
        if is_indexed(where, order):
            name, values = urgent_query(where, limit=limit)
        else:
            name, values = "view", view_query(where, limit=limit, order=order)

        def work(connection: sqlite3.Connection) -> list[sqlite3.Row]:
            return [
                row
                for walk in walks_of(cursor, order)
                for row in run(connection, name, **{**values, **walk._asdict()}, now=self._now())
            ]

        return await self._connections.read(work)

    async def count_views(self, workspace: str, recipient: Responder) -> ViewCounts:
        """How many questions are in each view; see the port."""
        rows = await self._fetch(workspace, "count_views", **count_query(recipient))
        numbers = {row["view"]: row["number"] for row in rows}
        return counted_views(numbers, more=any(row["more"] for row in rows))

    async def settled(self, where: Filter, *, after: str | None, limit: int) -> SettledPage:
        """A page of settled questions; see the port."""
        place, values, begin = end_or_place(after), settled_query(where, limit=limit), where.ending.begin

        def work(connection: sqlite3.Connection) -> SettledPage:
            before = place
            if after is None and begin is not None:
                before = _first_event_at(connection, where.workspace, begin)
            edge = _look(connection, where.workspace, before)
            rows = run(connection, "settled", now=self._now(), **_down_to(before, edge), **values)
            placed = [(cursor_of(row), stored_question(row)) for row in rows]
            if edge is not None and where.ending.is_before(instant(edge["at"])):
                edge = None
            return settled_page(placed, cursor_of(edge) if edge else None, limit)

        return await self._connections.read(work)

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
        ending = SettledFilter(since=since, until=until)
        place = BEGINNING if after is None else read_place(after)
        values = {"workspace": workspace, "since": since, "until": until, "kinds": list(ending.kinds)}

        def work(connection: sqlite3.Connection) -> SettledRows:
            start = place
            if after is None and ending.oldest is not None:
                start = _first_event_at(connection, workspace, ending.oldest).before()
            behind = start.named("after_")
            ahead = run(connection, "looked_ahead", workspace=workspace, looked=limit, **behind)
            edge = ahead[0] if ahead else None
            upto = (END if edge is None else place_of(edge)).named("edge_")
            rows = run(connection, "settled_rows", **behind, **upto, **values)
            if edge is not None and ending.is_after(instant(edge["at"])):
                edge = None
            return SettledRows(list(map(_settled_row, rows)), cursor_of(edge) if edge else None)

        return await self._connections.read(work)

    async def endings(self, workspace: str, *, since: datetime, limit: int) -> Endings:
        """How questions ended; see the port."""

        async def look(after: str | None, wanted: int) -> tuple[Sequence[Ending], Edge | None]:
            before = end_or_place(after)

            def work(connection: sqlite3.Connection) -> tuple[Sequence[Ending], Edge | None]:
                edge = _look(connection, workspace, before)
                down_to = {**_down_to(before, edge), "since": since}
                rows = run(connection, "endings", workspace=workspace, limit=wanted, **down_to)
                found = [stored_ending(row) for row in rows]
                return found, Edge(cursor_of(edge), instant(edge["at"])) if edge else None

            return await self._connections.read(work)

        return await endings_since(look, since=since, limit=limit)

    async def tidy(self, *, keep: timedelta | None, limit: int) -> int:
        """Remove what is settled; see the port."""
        removed = 0
        rules = {row["workspace"]: row["keep"] for row in await self._fetch(None, "rules")}
        kept = None if keep is None else length(keep)
        shortest = min((each for each in (kept, *rules.values()) if each is not None), default=None)
        while shortest is not None and removed < limit:
            now, batch = self._now(), {"number": self._hand, "looked": _LOOKED_AT}
            looked = await self._fetch(None, "look_at", **batch)
            over = {
                Ref(row["workspace"], row["id"]): now - keeps
                for row in looked
                if row["id"] is not None
                and (keeps := rules.get(row["workspace"], kept)) is not None
                and row["settled_at"] < now - keeps
                and (row["kept_until"] or 0) <= now
            }
            if over:
                removed += await self._connections.write(_removing(over, now))
            # Events are in the order of time: after the first recent one, there is nothing to remove yet.
            if len(looked) < _LOOKED_AT or looked[-1]["at"] >= now - shortest:
                self._hand = 0
                break
            self._hand = looked[-1]["number"]
        return removed

    async def settled_since(
        self, workspace: str, mark: str | None, *, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """What was settled lately; see the port."""
        if mark is None:
            return [], await self.feed_end(workspace)
        rows = await self._fetch(
            workspace,
            "settled_since",
            **read_place(mark).named(),
            kinds=sorted(SETTLING),
            limit=limit + 1,
        )
        last = cursor_of(rows[-1]) if rows else mark
        return [row["question_id"] for row in rows[:limit]], last if len(rows) <= limit else None

    async def queue_stats(self, workspace: str | None = None, *, quota: int | None = None) -> QueueStats:
        """How many questions and deliveries wait; see the port."""

        def work(connection: sqlite3.Connection) -> QueueStats:
            now = self._now()
            since = [0 if math.isinf(age) else now - length(timedelta(seconds=age)) for age in AGES]
            counted: dict[str, Any] = {"since": since, "limit": _COUNTED}
            if workspace is not None:
                pending = run(connection, "queue_stats_of_workspace", workspace=workspace, **counted)
                return QueueStats(pending=_by_age(pending), deliveries={})
            deliveries = run(connection, "queue_stats_of_deliveries", limit=_COUNTED)
            (due,) = run(connection, "oldest_due")
            (full,) = run(connection, "askers_at_quota", quota=quota, limit=_COUNTED)
            (unanswerable,) = run(connection, "unanswerable", limit=_COUNTED)
            return QueueStats(
                pending=_by_age(run(connection, "queue_stats_of_questions", **counted)),
                deliveries={row["status"]: row["count"] for row in deliveries},
                oldest_due=0.0 if due["at"] is None else max((now - due["at"]) / 1_000_000, 0.0),
                askers_at_quota=full["count"],
                unanswerable=unanswerable["count"],
            )

        return await self._connections.read(work)

    async def durability(self) -> Durability:
        """What an acknowledged write survives; see the port."""
        return await self._connections.durability()

    async def _fetch(self, workspace: str | None, name: str, /, **values: Any) -> Sequence[Row]:
        """The rows of a statement."""
        values = {"workspace": workspace, "now": self._now(), **values}
        return await self._connections.read(lambda connection: run(connection, name, **values))

    async def _fetch_each(self, name: str, rows: Sequence[Values]) -> Sequence[Row]:
        """What a statement that reads returns for these rows."""
        return await self._fetch(None, name, rows=rows)

    def _now(self) -> int:
        return now_by(self._clock)


def _first_event_at(connection: sqlite3.Connection, workspace: str, at: datetime) -> Place:
    """The place of the first event at or after an instant, by halving: events are in the order of their times."""

    def last_upto(place: Place) -> sqlite3.Row | None:
        rows = run(connection, "event_before", workspace=workspace, **place.named())
        return rows[0] if rows else None

    # First the transaction, of which a store that was not copied has one, then the number in it.
    low, high = -1, (newest["transaction"] if (newest := last_upto(END)) else 0)
    while high - low > 1:
        middle = (low + high) // 2
        found = last_upto(Place(middle, END.number))
        if found and instant(found["at"]) >= at:
            high = found["transaction"]
        else:
            low = middle
    transaction, low, high = high, 0, END.number
    while high - low > 1:
        middle = (low + high) // 2
        found = last_upto(Place(transaction, middle))
        if found and found["transaction"] == transaction and instant(found["at"]) >= at:
            high = found["number"]
        else:
            low = middle
    return Place(transaction, high)


def _down_to(before: Place, edge: sqlite3.Row | None) -> dict[str, int]:
    """The parameters of a walk back from before a place to an edge, or to the beginning."""
    return {**before.named("before_"), **(BEGINNING if edge is None else place_of(edge)).named("edge_")}


def _look(connection: sqlite3.Connection, workspace: str, before: Place) -> sqlite3.Row | None:
    """The place and the instant of the last event that one walk reads; None if there are fewer events."""
    down_from = before.named("before_")
    rows = run(connection, "looked_through", workspace=workspace, looked=MAX_EVENTS_SCANNED, **down_from)
    return rows[0] if rows else None


def _by_age(rows: Sequence[sqlite3.Row]) -> dict[float, int]:
    return dict(zip(AGES, (row["count"] for row in rows), strict=True))


def _settled_row(row: sqlite3.Row) -> SettledRow:
    *texts, asked_at, settled_at, consumed_at, taken_back_at = row
    later = (None if at is None else instant(at) for at in (consumed_at, taken_back_at))
    return SettledRow._make((*texts, instant(asked_at), instant(settled_at), *later))


def _removing(over: Mapping[Ref, int], now: int) -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        removed = 0
        for ref, before in over.items():
            place = {"workspace": ref.workspace, "id": ref.id}
            if run(connection, "is_held", **place) or run(connection, "is_unsealed", **place):
                continue
            if run(connection, "remove", before=before, **place):
                run(connection, "note_removal", what="removed", actor=None, now=now, **place)
                for name in ("remove_events", "remove_deliveries", "erase_salt", "unindex"):
                    run(connection, name, **place)
                run(connection, "remove_references", now=now, **place)
                removed += 1
        return removed

    return work
