"""The verbs of the store that are the same in all SQL engines.

Engines differ in how they run statements, in how they read long lists, and in what they remove.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from handraise.backends.pagination import Cursor, read_cursor
from handraise.backends.sql.decided_changes import (
    claim_sending,
    expire_older,
    find_grant,
    join,
    mark_sent,
    report,
    revoke,
    rounds_of,
    settle,
    take_back,
    take_due_steps,
    use_approval,
)
from handraise.backends.sql.feed_places import BEGINNING, cursor_of, end_or_place, read_place
from handraise.backends.sql.parameters import page_query
from handraise.backends.sql.rows import (
    Row,
    instant,
    stored_change,
    stored_event,
    stored_grant,
    stored_outcome,
    stored_question,
    stored_questions,
    stored_stop,
    stored_trail_line,
    waiting_page,
)
from handraise.backends.sql.transactions import Transaction, Values
from handraise.model.approval_uses import Use, UseRefused
from handraise.model.due_changes import is_noted
from handraise.model.errors import StoreUnavailable
from handraise.model.events import Event, EventKind
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import Move
from handraise.model.move_decisions import Change, Refused
from handraise.model.outcomes import Outcome
from handraise.model.pending_views import Order
from handraise.model.questions import Question, Ref
from handraise.model.receipts import UsableApproval
from handraise.model.search_words import SearchQuery
from handraise.model.stops import Stop, tool_of
from handraise.model.urgency import soon_at
from handraise.model.workspace_events import WorkspaceEvent
from handraise.ports import Filter, IndexBatch, IndexEntry, SearchPage, WaitingPage, WorkspaceEventSearch

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORKSPACES_AT_ONCE = 1_000


class SearchIndex(Protocol):
    """The full-text index of an engine. See `handraise.ports.Store` for what each method promises."""

    async def search(self, where: Filter, query: SearchQuery, *, after: str | None, limit: int) -> SearchPage:
        """Questions with these words."""
        ...

    async def unindexed(self, *, limit: int) -> Sequence[str]:
        """Workspaces that are not indexed up to their ends."""
        ...

    async def next_to_index(self, workspace: str, *, limit: int) -> IndexBatch:
        """Questions to be indexed."""
        ...

    async def put_in_index(
        self, workspace: str, entries: Sequence[IndexEntry], *, after: str | None, cursor: str | None
    ) -> bool:
        """Index questions."""
        ...


class SqlStore(ABC):
    """Questions in an SQL database. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, search: SearchIndex) -> None:
        self._search = search

    @abstractmethod
    async def _transact(
        self, workspaces: Iterable[str], work: Callable[[Transaction], Awaitable[Result]]
    ) -> Result:
        """The result of work in one transaction about these workspaces, which may be repeated.

        `work` may only await what it is called with. About several workspaces, call this inside `_run_batch`.
        """

    @abstractmethod
    async def _fetch(self, workspace: str | None, name: str, /, **values: Any) -> Sequence[Row]:
        """The rows of a statement that only reads, about one workspace or none."""

    @abstractmethod
    async def _fetch_each(self, name: str, rows: Sequence[Values]) -> Sequence[Row]:
        """What a statement that only reads returns for these rows. Call it inside `_run_batch`."""

    @abstractmethod
    async def _places(self, where: Filter, cursor: Cursor | None, order: Order, limit: int) -> Sequence[Row]:
        """The places of a page in this order, from all of its walks, each with the time at which they were read."""

    async def _run_batch(
        self,
        items: Sequence[Item],
        workspace_of: Callable[[Item], str],
        call_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
    ) -> Sequence[Result]:
        """The results of items of several workspaces. An engine may call `call_batch` again, with fewer of them."""
        del workspace_of
        return await call_batch(items) if items else []

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        """Make moves; see the port."""
        results: dict[int, Question | Refused] = {}
        rounds = rounds_of([(move.question.ref,) for move in moves])
        for places in rounds:
            batch = [moves[place] for place in places]
            try:
                moved = await self._run_batch(batch, lambda move: move.question.workspace, self._settle)
            except StoreUnavailable as error:
                # Otherwise an earlier round may have been committed.
                error.refused = error.refused and len(rounds) == 1
                raise
            results.update(zip(places, moved, strict=True))
        return [results[place] for place in range(len(moves))]

    async def _settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        """Make at most one move on each question."""
        decided = await self._transact([move.question.workspace for move in moves], partial(settle, moves))
        return [each.question if isinstance(each, Change) else each for each in decided]

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """Questions by their places; see the port."""
        return await self._run_batch(refs, lambda ref: ref.workspace, self._read)

    async def _read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        rows = await self._fetch_each("read", [ref._asdict() for ref in refs])
        found = {question.ref: question for question in await stored_questions(rows)}
        return [found.get(ref) for ref in refs]

    async def followers(self, ref: Ref, *, limit: int) -> Sequence[Question]:
        """Questions that follow one; see the port."""
        rows = await self._fetch(ref.workspace, "followers", id=ref.id, limit=limit)
        return await stored_questions(rows)

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled; see the port."""
        places = list(refs)
        rows = await self._run_batch(places, lambda ref: ref.workspace, self._read_outcomes)
        return {ref: stored_outcome(row) for ref, row in zip(places, rows, strict=True) if row is not None}

    async def _read_outcomes(self, refs: Sequence[Ref]) -> Sequence[Row | None]:
        """Rows of what is settled or does not exist, None for what is pending."""
        rows = await self._fetch_each("outcomes", [ref._asdict() for ref in refs])
        found = {Ref(row["workspace"], row["id"]): row for row in rows}
        return [found.get(ref) for ref in refs]

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
        return await stored_questions(await self._fetch(where.workspace, name, **values))

    async def by_urgency(
        self, where: Filter, *, after: str | None, limit: int, order: Order = "urgency"
    ) -> WaitingPage:
        """Places of pending questions, most urgent first; see the port."""
        cursor = read_cursor(after)
        rows = await self._places(where, cursor, order, limit)
        if not rows:
            return WaitingPage([], None)
        soon = soon_at(instant(rows[0]["now"])) if cursor is None else cursor.soon
        return waiting_page(rows, limit, order, soon)

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

    async def run_due(self, *, limit: int, workspace: str | None = None) -> Sequence[Ref]:
        """Do what is due; see the port."""
        settled: list[Ref] = []
        worked = True
        # One batch of each workspace in turn, so that none waits for the end of another one's backlog.
        while worked:
            worked = False
            for each in await self._due_workspaces(workspace):
                ended, was_due = await self._transact([each], partial(take_due_steps, each, limit))
                settled += ended
                worked = worked or was_due
        return settled

    async def _due_workspaces(self, workspace: str | None) -> Sequence[str]:
        """The workspaces, or this one, in which something may be due."""
        if workspace is not None:
            return [workspace]
        rows = await self._fetch(None, "due_workspaces", at_most=_WORKSPACES_AT_ONCE)
        return list(dict.fromkeys(row["workspace"] for row in rows))

    async def beat(self, refs: Sequence[Ref], *, by: str) -> Mapping[Ref, float]:
        """Store that an asker still waits; see the port."""
        found = await self._run_batch(refs, lambda ref: ref.workspace, partial(self._beat, by=by))
        return {ref: seconds for ref, seconds in zip(refs, found, strict=True) if seconds is not None}

    async def _beat(self, refs: Sequence[Ref], *, by: str) -> Sequence[float | None]:
        rows = await self._fetch_each("heartbeats", [{**ref._asdict(), "actor": by} for ref in refs])
        found: dict[Ref, float] = {}
        late: list[Values] = []
        for row in rows:
            ref = Ref(row["workspace"], row["id"])
            if is_noted(instant(row["heard_at"]), row["heartbeat"], instant(row["now"])):
                found[ref] = row["heartbeat"]
            else:
                late.append({**ref._asdict(), "actor": by})
        if late:  # mostly nothing is to be written, and finding that out needs no lock
            written = await self._transact(
                {each["workspace"] for each in late}, lambda work: work.fetch_each("beat", late)
            )
            found |= {Ref(row["workspace"], row["id"]): row["heartbeat"] for row in written}
        return [found.get(ref) for ref in refs]

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
        return await self._transact([ref.workspace], partial(claim_sending, ref, by=by, lease=lease))

    async def mark_sent(self, ref: Ref, *, by: str, channel: str | None) -> bool:
        """Record that a question was shown; see the port."""
        return await self._transact([ref.workspace], partial(mark_sent, ref, by=by, channel=channel))

    async def take_back(self, ref: Ref, *, by: str, reason: str | None) -> bool:
        """Take back an approval; see the port."""
        return await self._transact([ref.workspace], partial(take_back, ref, by=by, reason=reason))

    async def report(self, ref: Ref, *, by: str, record: dict[str, Json]) -> bool:
        """Record what came of an answer; see the port."""
        return await self._transact([ref.workspace], partial(report, ref, by=by, record=record))

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
        return [stored_event(row, cursor=cursor_of(row)) for row in rows]

    async def histories(
        self, workspace: str, question_ids: Collection[str], *, kinds: Collection[EventKind], limit: int
    ) -> Sequence[Event]:
        """Several questions' events; see the port."""
        rows = await self._fetch(
            workspace, "histories", ids=list(question_ids), kinds=list(kinds), limit=limit
        )
        return [stored_event(row, cursor=cursor_of(row)) for row in reversed(rows)]

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """A workspace's events; see the port."""
        rows = await self._events("feed", workspace, after, limit)
        return [stored_event(row, cursor=cursor_of(row)) for row in rows]

    async def trail(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[Event | WorkspaceEvent]:
        """All events that are to be sealed; see the port."""
        rows = await self._events("trail", workspace, after, limit)
        return [stored_trail_line(row, cursor_of(row)) for row in rows]

    async def workspace_events(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """Events that are not about a question; see the port."""
        rows = await self._events("workspace_events", workspace, after, limit)
        return [stored_change(row, cursor=cursor_of(row)) for row in rows]

    async def _events(self, name: str, workspace: str, after: str | None, limit: int) -> Sequence[Row]:
        place = read_place(after) if after else BEGINNING
        return await self._fetch(workspace, name, **place.named(), limit=limit)

    async def search_workspace_events(
        self, workspace: str, search: WorkspaceEventSearch, *, before: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """The newest events that are searched for; see the port."""
        place = end_or_place(before or None).named()
        rows = await self._fetch(workspace, "search_workspace_events", **place, **asdict(search), limit=limit)
        return [stored_change(row, cursor=cursor_of(row)) for row in rows]

    async def feed_end(self, workspace: str) -> str:
        """Where a workspace's events end now; see the port."""
        rows = await self._fetch(workspace, "feed_end")
        return cursor_of(rows[0]) if rows else "0"
