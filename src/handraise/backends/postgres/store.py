"""The PostgreSQL store: every decision is one statement, and therefore one transaction."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from handraise.backends.pagination import Edge, endings_since, read_cursor, settled_page, walks_of
from handraise.backends.postgres.connections import is_lost
from handraise.backends.postgres.database import KEEPER_ROLE, Database, Result
from handraise.backends.postgres.durability import durability_of
from handraise.backends.postgres.quota import QuotaCache
from handraise.backends.postgres.search_index import PostgresSearchIndex
from handraise.backends.postgres.transaction import STATEMENTS, PostgresTransaction, columns_of
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
from handraise.backends.sql.feed_places import Place, cursor_of, read_place
from handraise.backends.sql.new_questions import ask
from handraise.backends.sql.parameters import (
    count_query,
    is_indexed,
    page_query,
    settled_query,
    urgent_query,
    view_query,
    walks_query,
)
from handraise.backends.sql.rows import (
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
from handraise.backends.sql_files import load_statements
from handraise.model.approval_uses import Use, UseRefused
from handraise.model.errors import StoreUnavailable
from handraise.model.events import SETTLING, Event, EventKind
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import Move
from handraise.model.move_decisions import Change, Refused
from handraise.model.outcomes import Outcome
from handraise.model.pending_views import Order, ViewCounts, counted_views
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question, Ref
from handraise.model.receipts import UsableApproval
from handraise.model.search_words import SearchQuery
from handraise.model.settled_rows import COLUMNS as SETTLED_COLUMNS
from handraise.model.settled_rows import SettledRow
from handraise.model.statistics import Ending
from handraise.model.stops import Stop, tool_of
from handraise.model.urgency import soon_at
from handraise.model.workspace_events import WorkspaceEvent
from handraise.ports import (
    AGES,
    MAX_EVENTS_SCANNED,
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

_log = logging.getLogger(__name__)

VIEW_STATEMENTS = load_statements("handraise.backends.postgres", "views.sql")
LEDGER = load_statements("handraise.backends.postgres", "ledger.sql")

_WORKSPACES_AT_ONCE = 1_000
_LOOKED_AT = 1_000
"""How many events are read at once to find questions to remove."""
_BEGINNING = {"transaction": "0", "number": -(2**63)}
"""So early that even an event that somebody inserts before the first one is in the feed."""
_END = {"transaction": str(2**64 - 1), "number": 2**63 - 1}
_FIRST = {"workspace": "", **_BEGINNING}
"""Before the first workspace."""


class PostgresStore:
    """Questions in PostgreSQL. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._removes: bool | None = None
        self._hand: Mapping[str, Any] = _FIRST
        self._database = database
        self._allowances = QuotaCache()
        self._search = PostgresSearchIndex(database)

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """Register drafts; see the port."""
        return await self._database.run_batch(
            drafts, lambda draft: draft.workspace, partial(self._insert_safely, quota=quota)
        )

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        """Make moves; see the port."""
        results: dict[int, Question | Refused] = {}
        rounds = rounds_of([(move.question.ref,) for move in moves])
        for places in rounds:
            batch = [moves[place] for place in places]
            try:
                moved = await self._database.run_batch(
                    batch, lambda move: move.question.workspace, self._settle
                )
            except StoreUnavailable as error:
                # Otherwise an earlier round may have been committed.
                error.refused = error.refused and len(rounds) == 1
                raise
            results.update(zip(places, moved, strict=True))
        return [results[place] for place in range(len(moves))]

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """Questions by their places; see the port."""
        return await self._database.run_batch(refs, lambda ref: ref.workspace, self._read)

    async def followers(self, ref: Ref, *, limit: int) -> Sequence[Question]:
        """Questions that follow one; see the port."""
        rows = await self._fetch(ref.workspace, "followers", id=ref.id, limit=limit)
        return await stored_questions(rows)

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled; see the port."""
        places = list(refs)
        rows = await self._database.run_batch(places, lambda ref: ref.workspace, self._read_outcomes)
        return {ref: stored_outcome(row) for ref, row in zip(places, rows, strict=True) if row is not None}

    async def find_by_key(self, workspace: str, owner: str, key: str) -> Question | None:
        """The question with a key; see the port."""
        rows = await self._fetch_each("read_by_key", [{"workspace": workspace, "owner": owner, "key": key}])
        return stored_question(rows[0]) if rows else None

    async def join(self, ref: Ref, *, by: str, key: str) -> bool:
        """Have another key stand for a question; see the port."""
        return await self._transact([ref.workspace], partial(join, ref, by=by, key=key))

    async def pending(self, where: Filter, *, after: str | None, limit: int) -> Sequence[Question]:
        """A page of pending questions; see the port."""
        name, values = page_query(where, after=after, limit=limit)
        rows = await self._fetch(where.workspace, name, **values)
        return await stored_questions(rows)

    async def by_urgency(
        self, where: Filter, *, after: str | None, limit: int, order: Order = "urgency"
    ) -> WaitingPage:
        """Places of pending questions, most urgent first; see the port."""
        cursor = read_cursor(after)
        walks = walks_query(walks_of(cursor, order))
        if is_indexed(where, order):
            name, values = urgent_query(where, limit=limit)
            rows = await self._fetch(where.workspace, name, **values, **walks)
        else:
            name = "view_all" if where.recipient is None else "view_by_recipient"
            values = view_query(where, limit=limit, order=order)
            rows = await self._fetch_view(where.workspace, name, **values, **walks)
        if not rows:
            return WaitingPage([], None)
        soon = soon_at(rows[0]["now"]) if cursor is None else cursor.soon
        return waiting_page(rows, limit, order, soon)

    async def count_views(self, workspace: str, recipient: Responder) -> ViewCounts:
        """How many questions are in each view; see the port."""
        (row,) = await self._fetch_view(workspace, "count_views", **count_query(recipient))
        return counted_views(row, more=row["more"])

    async def settled(self, where: Filter, *, after: str | None, limit: int) -> SettledPage:
        """A page of settled questions; see the port."""
        values, begin = settled_query(where, limit=limit), where.ending.begin
        if after is None and begin is not None:
            found = await self._fetch(where.workspace, "first_event_at", at=begin)
            after = _cursor(found[0]) if found else None
        rows = await self._fetch(where.workspace, "settled", **values, **_place(after))
        ended = [row for row in rows if row["id"] is not None]
        placed = list(zip(map(_cursor, ended), await stored_questions(ended), strict=True))
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
        ending, place = SettledFilter(since=since, until=until), _BEGINNING
        if after is not None:
            place = _place(after)
        elif ending.oldest is not None:
            found = await self._fetch(workspace, "first_event_at", at=ending.oldest)
            if not found:
                return SettledRows((), None)
            place = {"transaction": str(found[0]["transaction"]), "number": found[0]["number"] - 1}
        values = {"since": since, "until": until, "kinds": list(ending.kinds), "looked": limit}
        rows = await self._fetch(workspace, "settled_rows", **values, **place)
        edge = _edge(rows[0])
        if edge is not None and ending.is_after(rows[0]["edge_at"]):
            edge = None
        number = len(SETTLED_COLUMNS)
        return SettledRows([SettledRow._make(row[:number]) for row in rows if row[0] is not None], edge)

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
            values = {"since": since, "looked": MAX_EVENTS_SCANNED, "limit": wanted}
            rows = await self._fetch(workspace, "endings", **values, **_place(after))
            found = [stored_ending(row) for row in rows if row["status"] is not None]
            edge = _edge(rows[0])
            return found, None if edge is None else Edge(edge, rows[0]["edge_at"])

        return await endings_since(look, since=since, limit=limit)

    async def run_due(self, *, limit: int, workspace: str | None = None) -> Sequence[Ref]:
        """Do what is due; see the port."""
        settled: list[Ref] = []
        worked = True
        # One batch of each workspace in turn, so that none waits for the end of another one's backlog.
        while worked:
            worked = False
            for each in await self._due_workspaces() if workspace is None else [workspace]:
                ended, was_due = await self._transact([each], partial(take_due_steps, each, limit))
                settled += ended
                worked = worked or was_due
        return settled

    async def beat(self, refs: Sequence[Ref], *, by: str) -> Mapping[Ref, float]:
        """Store that an asker still waits; see the port."""
        found = await self._database.run_batch(refs, lambda ref: ref.workspace, partial(self._beat, by=by))
        return {ref: seconds for ref, seconds in zip(refs, found, strict=True) if seconds is not None}

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """Expire what is too old; see the port."""
        return await self._transact([workspace], partial(expire_older, workspace, asker, max_age, limit))

    async def count_pending(self, workspace: str, asker: str) -> int:
        """How many are pending; see the port."""
        rows = await self._fetch(workspace, "count_pending", asker=asker)
        count: int = rows[0]["count"]
        return count

    async def covering_stop(self, question: Question) -> Stop | None:
        """The stop that covers a question; see the port."""
        asked = {"asker": question.asker, "tool": tool_of(question)}
        rows = await self._fetch(question.workspace, "covering_stop", **asked)
        return stored_stop(rows[0]) if rows else None

    async def consume(self, ref: Ref, use: Use) -> UsableApproval | UseRefused | None:
        """Use an approval up; see the port."""
        return await self._transact([ref.workspace], partial(use_approval, ref, use))

    async def claim_sending(self, ref: Ref, *, by: str, lease: timedelta) -> bool:
        """Claim the task of showing a question; see the port."""
        claim = {"id": ref.id, "actor": by, "lease": lease}
        return bool(await self._fetch(ref.workspace, "claim_sending", **claim))

    async def mark_sent(self, ref: Ref, *, by: str, channel: str | None) -> bool:
        """Record that a question was shown; see the port."""
        return bool(await self._fetch(ref.workspace, "mark_sent", id=ref.id, actor=by, channel=channel))

    async def take_back(self, ref: Ref, *, by: str, reason: str | None) -> bool:
        """Take back an approval; see the port."""
        return await self._transact([ref.workspace], partial(take_back, ref, by=by, reason=reason))

    async def report(self, ref: Ref, *, by: str, record: dict[str, Json]) -> bool:
        """Record what came of an answer; see the port."""
        return await self._transact([ref.workspace], partial(report, ref, by=by, record=record))

    async def tidy(self, *, keep: timedelta | None, limit: int) -> int:
        """Remove what is settled; see the port."""
        removed = 0
        (row,) = await self._database.fetch(LEDGER["shortest_keep"])
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

    async def find_grant(self, question: Question) -> Grant | None:
        """The grant that holds; see the port."""
        return await self._transact([question.workspace], partial(find_grant, question))

    async def grants(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Grant]:
        """All grants; see the port."""
        rows = await self._fetch(workspace, "grants", after=after or "", limit=limit)
        return [stored_grant(row) for row in rows]

    async def revoke(self, workspace: str, grant_id: str, *, by: str) -> Grant | None:
        """End a grant; see the port."""
        return await self._transact([workspace], partial(revoke, workspace, grant_id, by=by))

    async def history(self, ref: Ref) -> Sequence[Event]:
        """One question's events; see the port."""
        rows = await self._fetch(ref.workspace, "history", question_id=ref.id)
        return [_event(row) for row in rows]

    async def histories(
        self, workspace: str, question_ids: Collection[str], *, kinds: Collection[EventKind], limit: int
    ) -> Sequence[Event]:
        """Several questions' events; see the port."""
        rows = await self._fetch(
            workspace, "histories", ids=list(question_ids), kinds=list(kinds), limit=limit
        )
        return [_event(row) for row in reversed(rows)]

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """A workspace's events; see the port."""
        place = _place(after) if after else _BEGINNING
        rows = await self._fetch(workspace, "feed", **place, limit=limit)
        return [_event(row) for row in rows]

    async def trail(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[Event | WorkspaceEvent]:
        """All events that are to be sealed; see the port."""
        place = _place(after) if after else _BEGINNING
        rows = await self._fetch(workspace, "trail", **place, limit=limit)
        return [stored_trail_line(row, _cursor(row)) for row in rows]

    async def workspace_events(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """Events that are not about a question; see the port."""
        place = _place(after) if after else _BEGINNING
        rows = await self._fetch(workspace, "workspace_events", **place, limit=limit)
        return [stored_change(row, cursor=_cursor(row)) for row in rows]

    async def search_workspace_events(
        self, workspace: str, search: WorkspaceEventSearch, *, before: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """The newest events that are searched for; see the port."""
        place = _place(before) if before else _END
        rows = await self._fetch(workspace, "search_workspace_events", **place, **asdict(search), limit=limit)
        return [stored_change(row, cursor=_cursor(row)) for row in rows]

    async def feed_end(self, workspace: str) -> str:
        """Where a workspace's events end now; see the port."""
        rows = await self._fetch(workspace, "feed_end")
        return _cursor(rows[0]) if rows else "0.0"

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

    async def _settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        """Make at most one move on each question."""
        decided = await self._transact([move.question.workspace for move in moves], partial(settle, moves))
        return [each.question if isinstance(each, Change) else each for each in decided]

    async def _transact(
        self,
        workspaces: Iterable[str],
        work: Callable[[PostgresTransaction], Awaitable[Result]],
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
            (row,) = await self._database.fetch(LEDGER["may_remove"])
            self._removes = bool(row["so"])
            if not self._removes:
                _log.warning(
                    "questions that are over are not removed here: this login is not a member of %s. Run `handraise retention "
                    "run` as one that is",
                    KEEPER_ROLE,
                    extra={"event": "removal_not_allowed"},
                )
        return self._removes

    async def _read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        rows = await self._fetch_each("read", [ref._asdict() for ref in refs])
        found = {question.ref: question for question in await stored_questions(rows)}
        return [found.get(ref) for ref in refs]

    async def _fetch_each(self, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """What a statement that reads returns for these rows."""
        workspaces = {row["workspace"] for row in rows}
        return await self._database.fetch_batch(workspaces, STATEMENTS[name], **dict(columns_of(rows)))

    async def _read_outcomes(self, refs: Sequence[Ref]) -> Sequence[Any]:
        """Rows of what is settled or does not exist, None for what is pending."""
        rows = await self._fetch_batch(refs, "outcomes", **_places(refs))
        found = {Ref(row["workspace"], row["id"]): row for row in rows}
        return [found.get(ref) for ref in refs]

    async def _beat(self, refs: Sequence[Ref], *, by: str) -> Sequence[float | None]:
        rows = await self._fetch_batch(refs, "beat", **_places(refs), actor=by)
        found: dict[Ref, float] = {Ref(row["workspace"], row["id"]): row["heartbeat"] for row in rows}
        return [found.get(ref) for ref in refs]

    async def _due_workspaces(self) -> list[str]:
        rows = await self._database.fetch(STATEMENTS["due_workspaces"], at_most=_WORKSPACES_AT_ONCE)
        return list(dict.fromkeys(row["workspace"] for row in rows))

    async def _fetch_view(self, workspace: str, name: str, /, **values: Any) -> list[Any]:
        return await self._database.fetch_in(
            workspace, VIEW_STATEMENTS[name], **{"workspace": workspace, **values}
        )

    async def _fetch(self, workspace: str, name: str, /, **values: Any) -> list[Any]:
        return await self._database.fetch_in(
            workspace, STATEMENTS[name], **{"workspace": workspace, **values}
        )

    async def _fetch_batch(
        self, items: Iterable[Draft | Question | Ref], name: str, /, **values: Any
    ) -> list[Any]:
        workspaces = {item.workspace for item in items}
        return await self._database.fetch_batch(workspaces, STATEMENTS[name], **values)


def _event(row: Any) -> Event:
    return stored_event(row, cursor=_cursor(row))


def _cursor(row: Any) -> str:
    return cursor_of(row)


def _edge(row: Any) -> str | None:
    """Where the walk stopped before it had enough, or None if it reached the end."""
    number = row["edge_number"]
    return None if number is None else str(Place(int(row["edge_transaction"]), number))


def _place(cursor: str | None) -> dict[str, Any]:
    """The place before which a walk back begins: that of a cursor, or else the end."""
    if cursor is None:
        return _END
    place = read_place(cursor)
    return {"transaction": str(place.transaction), "number": place.number}


def _places(refs: Collection[Ref]) -> dict[str, list[str]]:
    return {"workspaces": [ref.workspace for ref in refs], "ids": [ref.id for ref in refs]}
