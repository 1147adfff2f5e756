"""The SQLite store: each call is one transaction."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from handraise.backends.pagination import Edge, endings_since, read_cursor, settled_page, walks_of
from handraise.backends.sql.decided_changes import (
    expire_older,
    find_grant,
    join,
    report,
    revoke,
    rounds_of,
    settle,
    take_back,
    take_due_steps,
    use_approval,
)
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
    page_query,
    settled_query,
    to_json,
    urgent_query,
    view_query,
)
from handraise.backends.sql.rows import (
    instant,
    stored_change,
    stored_ending,
    stored_event,
    stored_grant,
    stored_outcome,
    stored_question,
    stored_questions,
    stored_stop,
    stored_trail_line,
    waiting_page,
)
from handraise.backends.sqlite.connections import Connections
from handraise.backends.sqlite.search_index import SqliteSearchIndex
from handraise.backends.sqlite.statements import run
from handraise.backends.sqlite.timestamps import length, micros, now_by
from handraise.backends.sqlite.transaction import SqliteTransaction, finished
from handraise.model.approval_uses import Use, UseRefused
from handraise.model.events import SETTLING, Event, EventKind
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import (
    Move,
)
from handraise.model.move_decisions import Change, Refused
from handraise.model.outcomes import Outcome
from handraise.model.pending_views import Order, ViewCounts, counted_views
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question, Ref
from handraise.model.receipts import UsableApproval
from handraise.model.search_words import SearchQuery
from handraise.model.settled_rows import SettledRow
from handraise.model.statistics import Ending
from handraise.model.stops import Stop, tool_of
from handraise.model.urgency import soon_at
from handraise.model.workspace_events import WorkspaceEvent
from handraise.ports import (
    AGES,
    MAX_EVENTS_SCANNED,
    Clock,
    Durability,
    Endings,
    Filter,
    IndexBatch,
    IndexEntry,
    Inserted,
    QueueStats,
    SearchPage,
    SettledPage,
    SettledRows,
    WaitingPage,
    WorkspaceEventSearch,
)
from handraise.ports.settled_filter import SettledFilter

_LOOKED_AT = 1_000
"""How many events are read at once to find questions to remove."""
_LOOKS = 64
_WORKSPACES_AT_ONCE = 1_000
_COUNTED = 100_000
"""How many questions and deliveries are counted at most."""


T = TypeVar("T")


class SqliteStore:
    """Questions in SQLite. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, connections: Connections, clock: Clock | None = None) -> None:
        self._connections = connections
        self._clock = clock
        self._hand = 0
        self._search = SqliteSearchIndex(connections, self._now)

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """Register drafts; see the port."""
        asked = await self._transact(partial(ask, drafts, quota=quota, counted=True))
        return asked.results

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        """Make moves; see the port."""

        async def work(made: SqliteTransaction) -> list[Question | Refused]:
            results: dict[int, Question | Refused] = {}
            for places in rounds_of([(move.question.ref,) for move in moves]):
                decided = await settle([moves[place] for place in places], made)
                for place, each in zip(places, decided, strict=True):
                    results[place] = each.question if isinstance(each, Change) else each
            return [results[place] for place in range(len(moves))]

        return await self._transact(work)

    async def _transact(self, work: Callable[[SqliteTransaction], Awaitable[T]]) -> T:
        """The result of work in one transaction."""
        return await self._connections.write(
            lambda connection: finished(work(SqliteTransaction(connection, self._now())))
        )

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """Questions by their places; see the port."""
        rows = await self._fetch("read", rows=[ref._asdict() for ref in refs])
        found = {question.ref: question for question in await stored_questions(rows)}
        return [found.get(ref) for ref in refs]

    async def followers(self, ref: Ref, *, limit: int) -> Sequence[Question]:
        """Questions that follow one; see the port."""
        rows = await self._fetch("followers", workspace=ref.workspace, id=ref.id, limit=limit)
        return await stored_questions(rows)

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled; see the port."""
        rows = await self._fetch("outcomes", places=list(refs))
        return {Ref(row["workspace"], row["id"]): stored_outcome(row) for row in rows}

    async def find_by_key(self, workspace: str, owner: str, key: str) -> Question | None:
        """The question with a key; see the port."""
        rows = await self._fetch("read_by_key", rows=[{"workspace": workspace, "owner": owner, "key": key}])
        return stored_question(rows[0]) if rows else None

    async def join(self, ref: Ref, *, by: str, key: str) -> bool:
        """Have another key stand for a question; see the port."""
        return await self._transact(partial(join, ref, by=by, key=key))

    async def pending(self, where: Filter, *, after: str | None, limit: int) -> Sequence[Question]:
        """A page of pending questions; see the port."""
        name, values = page_query(where, after=after, limit=limit)
        rows = await self._fetch(name, **values)
        return await stored_questions(rows)

    async def by_urgency(
        self, where: Filter, *, after: str | None, limit: int, order: Order = "urgency"
    ) -> WaitingPage:
        """Places of pending questions, most urgent first; see the port."""
        cursor, now = read_cursor(after), self._now()
        if is_indexed(where, order):
            name, values = urgent_query(where, limit=limit)
        else:
            name, values = "view", view_query(where, limit=limit, order=order)

        def work(connection: sqlite3.Connection) -> list[sqlite3.Row]:
            return [
                row
                for walk in walks_of(cursor, order)
                for row in run(connection, name, **{**values, **walk._asdict()}, now=now)
            ]

        rows = await self._connections.read(work)
        return waiting_page(rows, limit, order, soon_at(instant(now)) if cursor is None else cursor.soon)

    async def count_views(self, workspace: str, recipient: Responder) -> ViewCounts:
        """How many questions are in each view; see the port."""
        rows = await self._fetch("count_views", workspace=workspace, **count_query(recipient))
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

    async def search(self, where: Filter, query: SearchQuery, *, after: str | None, limit: int) -> SearchPage:
        """Questions with these words; see the port."""
        return await self._search.search(where, query, after=after, limit=limit)

    async def unindexed(self, *, limit: int) -> Sequence[str]:
        """Workspaces that are not indexed up to their ends; see the port."""
        return await self._search.unindexed(limit=limit)

    async def next_to_index(self, workspace: str, *, limit: int) -> IndexBatch:
        """Questions to be indexed; see the port."""
        return await self._search.next_to_index(workspace, limit=limit)

    async def put_in_index(
        self, workspace: str, entries: Sequence[IndexEntry], *, after: str | None, cursor: str | None
    ) -> bool:
        """Index questions; see the port."""
        return await self._search.put_in_index(workspace, entries, after=after, cursor=cursor)

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

    async def run_due(self, *, limit: int, workspace: str | None = None) -> Sequence[Ref]:
        """Do what is due; see the port."""
        settled: list[Ref] = []
        worked = True
        # Usually nothing is due, and finding that out by reading does not need the lock.
        while worked and (
            due := await self._fetch("due_workspaces", workspace=workspace, at_most=_WORKSPACES_AT_ONCE)
        ):
            worked = False
            for row in due:
                ended, was_due = await self._transact(partial(take_due_steps, row["workspace"], limit))
                settled += ended
                worked = worked or was_due
        return settled

    async def beat(self, refs: Sequence[Ref], *, by: str) -> Mapping[Ref, float]:
        """Store that an asker still waits; see the port."""
        found: dict[Ref, float] = {}
        for workspace in dict.fromkeys(ref.workspace for ref in refs):
            ids = [ref.id for ref in refs if ref.workspace == workspace]
            named: dict[str, Any] = {"workspace": workspace, "ids": ids}
            rows = await self._fetch("heartbeats", actor=by, **named)
            # Mostly nothing is to be written, and finding that out does not need the lock.
            if any(row["is_late"] for row in rows):
                rows = await self._connections.write(partial(self._beat, actor=by, **named))
            found |= {Ref(workspace, row["id"]): row["heartbeat"] for row in rows}
        return found

    def _beat(self, connection: sqlite3.Connection, **named: Any) -> list[sqlite3.Row]:
        now = self._now()
        run(connection, "beat", now=now, **named)
        return run(connection, "heartbeats", now=now, **named)

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """Expire what is too old; see the port."""
        return await self._transact(partial(expire_older, workspace, asker, max_age, limit))

    async def count_pending(self, workspace: str, asker: str) -> int:
        """How many are pending; see the port."""
        rows = await self._fetch("count_pending", workspace=workspace, asker=asker)
        count: int = rows[0]["count"]
        return count

    async def covering_stop(self, question: Question) -> Stop | None:
        """The stop that covers a question; see the port."""
        asked = {"asker": question.asker, "tool": tool_of(question)}
        rows = await self._fetch("covering_stop", workspace=question.workspace, **asked)
        return stored_stop(rows[0]) if rows else None

    async def consume(self, ref: Ref, use: Use) -> UsableApproval | UseRefused | None:
        """Use an approval up; see the port."""
        return await self._transact(partial(use_approval, ref, use))

    async def claim_sending(self, ref: Ref, *, by: str, lease: timedelta) -> bool:
        """Claim the task of showing a question; see the port."""

        def work(connection: sqlite3.Connection) -> bool:
            place = {"workspace": ref.workspace, "id": ref.id, "actor": by}
            return bool(run(connection, "claim_sending", now=self._now(), lease=lease, **place))

        return await self._connections.write(work)

    async def mark_sent(self, ref: Ref, *, by: str, channel: str | None) -> bool:
        """Record that a question was shown; see the port."""

        def work(connection: sqlite3.Connection) -> bool:
            now, place = self._now(), {"workspace": ref.workspace, "id": ref.id, "actor": by}
            if not run(connection, "mark_sent", now=now, **place):
                return False
            _log(connection, ref, "sent", now, actor=by, channel=channel)
            return True

        return await self._connections.write(work)

    async def take_back(self, ref: Ref, *, by: str, reason: str | None) -> bool:
        """Take back an approval; see the port."""
        return await self._transact(partial(take_back, ref, by=by, reason=reason))

    async def report(self, ref: Ref, *, by: str, record: dict[str, Json]) -> bool:
        """Record what came of an answer; see the port."""
        return await self._transact(partial(report, ref, by=by, record=record))

    async def tidy(self, *, keep: timedelta | None, limit: int) -> int:
        """Remove what is settled; see the port."""
        removed = 0
        rules = {row["workspace"]: row["keep"] for row in await self._fetch("rules")}
        kept = None if keep is None else length(keep)
        shortest = min((each for each in (kept, *rules.values()) if each is not None), default=None)
        while shortest is not None and removed < limit:
            now, batch = self._now(), {"number": self._hand, "looked": _LOOKED_AT}
            looked = await self._fetch("look_at", **batch)
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

    async def find_grant(self, question: Question) -> Grant | None:
        """The grant that holds; see the port."""
        return await self._transact(partial(find_grant, question))

    async def grants(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Grant]:
        """All grants; see the port."""
        rows = await self._fetch("grants", workspace=workspace, after=after or "", limit=limit)
        return [stored_grant(row) for row in rows]

    async def revoke(self, workspace: str, grant_id: str, *, by: str) -> Grant | None:
        """End a grant; see the port."""
        return await self._transact(partial(revoke, workspace, grant_id, by=by))

    async def history(self, ref: Ref) -> Sequence[Event]:
        """One question's events; see the port."""
        rows = await self._fetch("history", workspace=ref.workspace, question_id=ref.id)
        return [stored_event(row, cursor=cursor_of(row)) for row in rows]

    async def histories(
        self, workspace: str, question_ids: Collection[str], *, kinds: Collection[EventKind], limit: int
    ) -> Sequence[Event]:
        """Several questions' events; see the port."""
        rows = await self._fetch(
            "histories", workspace=workspace, ids=list(question_ids), kinds=list(kinds), limit=limit
        )
        return [stored_event(row, cursor=cursor_of(row)) for row in reversed(rows)]

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """A workspace's events; see the port."""
        rows = await self._fetch(
            "feed", workspace=workspace, limit=limit, **(read_place(after) if after else BEGINNING).named()
        )
        return [stored_event(row, cursor=cursor_of(row)) for row in rows]

    async def trail(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[Event | WorkspaceEvent]:
        """All events that are to be sealed; see the port."""
        rows = await self._fetch(
            "trail", workspace=workspace, limit=limit, **(read_place(after) if after else BEGINNING).named()
        )
        return [stored_trail_line(row, cursor_of(row)) for row in rows]

    async def workspace_events(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """Events that are not about a question; see the port."""
        rows = await self._fetch(
            "workspace_events",
            workspace=workspace,
            limit=limit,
            **(read_place(after) if after else BEGINNING).named(),
        )
        return [stored_change(row, cursor=cursor_of(row)) for row in rows]

    async def search_workspace_events(
        self, workspace: str, search: WorkspaceEventSearch, *, before: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """The newest events that are searched for; see the port."""
        rows = await self._fetch(
            "search_workspace_events",
            workspace=workspace,
            **(read_place(before) if before else END).named(),
            person=search.person,
            kind=search.kind,
            since=None if search.since is None else micros(search.since),
            until=None if search.until is None else micros(search.until),
            limit=limit,
        )
        return [stored_change(row, cursor=cursor_of(row)) for row in rows]

    async def feed_end(self, workspace: str) -> str:
        """Where a workspace's events end now; see the port."""
        rows = await self._fetch("feed_end", workspace=workspace)
        return cursor_of(rows[0]) if rows else "0"

    async def settled_since(
        self, workspace: str, mark: str | None, *, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """What was settled lately; see the port."""
        if mark is None:
            return [], await self.feed_end(workspace)
        rows = await self._fetch(
            "settled_since",
            workspace=workspace,
            **read_place(mark).named(),
            kinds=json.dumps(sorted(SETTLING)),
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

    async def _fetch(self, name: str, **values: Any) -> list[sqlite3.Row]:
        return await self._connections.read(
            lambda connection: run(connection, name, now=self._now(), **values)
        )

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


def _log(
    connection: sqlite3.Connection,
    ref: Ref,
    kind: str,
    now: int,
    *,
    actor: str | None = None,
    channel: str | None = None,
    data: Any = None,
) -> None:
    about = {"workspace": ref.workspace, "id": ref.id, "kind": kind, "now": now}
    run(connection, "log", actor=actor, channel=channel, data=to_json(data), **about)
