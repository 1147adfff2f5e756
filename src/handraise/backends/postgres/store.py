"""The PostgreSQL store: every decision is one statement, and so one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from handraise.backends.postgres.connecting import Pool, connection, is_transient
from handraise.backends.postgres.durability import durability_of
from handraise.backends.rows import (
    draft_values,
    move_values,
    moved_question,
    page_query,
    posted_question,
    stored_event,
    stored_grant,
    stored_outcome,
    stored_question,
)
from handraise.backends.statements import load_statements
from handraise.model.errors import KeyConflict, StoreUnavailable
from handraise.model.events import Event
from handraise.model.grants import Grant
from handraise.model.lifecycle import Move
from handraise.model.outcomes import Outcome
from handraise.model.questions import Draft, Question, Ref, same_question
from handraise.ports import Clock, Durability, Filter

STATEMENTS = load_statements("handraise.backends.postgres")

_TRIES = 5


class PostgresStore:
    """Questions in PostgreSQL. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, pool: Pool, clock: Clock | None = None) -> None:
        self._pool = pool
        self._clock = clock

    async def insert(self, drafts: Sequence[Draft]) -> Sequence[Question | KeyConflict]:
        """Register drafts; see the port."""
        # In one order for everybody: two batches with the same keys must not wait for each other.
        ordered = sorted(drafts, key=lambda draft: (draft.workspace, draft.key or ""))
        rows = await self._fetch("insert", **_columns(map(draft_values, ordered)))
        created = {Ref(row["workspace"], row["id"]): row for row in rows}
        results: dict[int, Question | KeyConflict] = {}
        for place, draft in enumerate(drafts):
            row = created.pop(draft.ref, None)
            if row is not None:
                results[place] = posted_question(draft, row["asked_at"])
        known = [(place, draft) for place, draft in enumerate(drafts) if place not in results]
        if known:
            results.update(await self._existing(known))
        return [results[place] for place in range(len(drafts))]

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | None]:
        """Make moves; see the port."""
        results: list[Question | None] = [None] * len(moves)
        for places in _rounds(moves):
            batch = [moves[place] for place in places]
            rows = await self._fetch("settle", **_columns(map(move_values, batch)))
            accepted = {Ref(row["workspace"], row["id"]): row for row in rows}
            for place, move in zip(places, batch, strict=True):
                row = accepted.get(move.question.ref)
                if row is not None:
                    results[place] = moved_question(move, row, _as_it_is)
        return results

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """Questions by their places; see the port."""
        rows = await self._fetch("read", **_places(refs))
        found = {Ref(row["workspace"], row["id"]): stored_question(row, _as_it_is) for row in rows}
        return [found.get(ref) for ref in refs]

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled; see the port."""
        rows = await self._fetch("outcomes", **_places(refs))
        return {Ref(row["workspace"], row["id"]): stored_outcome(row, _as_it_is) for row in rows}

    async def find_by_key(self, workspace: str, key: str) -> Question | None:
        """The question with a key; see the port."""
        rows = await self._fetch("read_by_key", workspaces=[workspace], keys=[key])
        return stored_question(rows[0], _as_it_is) if rows else None

    async def pending(self, narrow: Filter, *, after: str | None, limit: int) -> Sequence[Question]:
        """A page of pending questions; see the port."""
        name, values = page_query(narrow, after=after, limit=limit)
        rows = await self._fetch(name, **values)
        return [stored_question(row, _as_it_is) for row in rows]

    async def sweep(self, *, limit: int) -> Sequence[Ref]:
        """Do due deeds; see the port."""
        settled: list[Ref] = []
        while rows := await self._fetch("sweep", limit=limit):
            settled += [Ref(row["workspace"], row["id"]) for row in rows if row["status"] != "pending"]
        return settled

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """Expire what is too old; see the port."""
        rows = await self._fetch(
            "expire_older", workspace=workspace, asker=asker, max_age=max_age.total_seconds(), limit=limit
        )
        return [Ref(row["workspace"], row["id"]) for row in rows]

    async def count_pending(self, workspace: str, asker: str) -> int:
        """How many are pending; see the port."""
        rows = await self._fetch("count_pending", workspace=workspace, asker=asker)
        count: int = rows[0]["count"]
        return count

    async def consume(self, ref: Ref, *, digest: str, by: str) -> bool:
        """Use up an approval; see the port."""
        rows = await self._fetch("consume", workspace=ref.workspace, id=ref.id, actor=by, digest=digest)
        return bool(rows)

    async def find_grant(
        self, workspace: str, *, asker: str, tool: str, digest: str, conversation: str | None
    ) -> Grant | None:
        """The grant that holds; see the port."""
        action = {"asker": asker, "tool": tool, "digest": digest, "conversation": conversation}
        rows = await self._fetch("find_grant", workspace=workspace, **action)
        return stored_grant(rows[0], _as_it_is) if rows else None

    async def grants(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Grant]:
        """All grants; see the port."""
        rows = await self._fetch("grants", workspace=workspace, after=after or "", limit=limit)
        return [stored_grant(row, _as_it_is) for row in rows]

    async def revoke(self, workspace: str, grant_id: str, *, by: str) -> Grant | None:
        """End a grant; see the port."""
        rows = await self._fetch("revoke", workspace=workspace, id=grant_id, actor=by)
        rows = rows or await self._fetch("read_grant", workspace=workspace, id=grant_id)
        return stored_grant(rows[0], _as_it_is) if rows else None

    async def history(self, ref: Ref) -> Sequence[Event]:
        """One question's events; see the port."""
        rows = await self._fetch("history", workspace=ref.workspace, question_id=ref.id)
        return [_event(row) for row in rows]

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """A workspace's events; see the port."""
        transaction, _, number = (after or "0.0").partition(".")
        rows = await self._fetch(
            "feed", workspace=workspace, transaction=transaction, number=int(number), limit=limit
        )
        return [_event(row) for row in rows]

    async def durability(self) -> Durability:
        """What an acknowledged write survives; see the port."""
        rows = await self._fetch("settings")
        return durability_of({row["name"]: row["setting"] for row in rows})

    async def _existing(self, drafts: Sequence[tuple[int, Draft]]) -> dict[int, Question | KeyConflict]:
        """What is stored already under the keys or ids of these drafts."""
        keyed = [draft for _, draft in drafts if draft.key is not None]
        rows = await self._fetch(
            "read_by_key",
            workspaces=[draft.workspace for draft in keyed],
            keys=[draft.key for draft in keyed],
        )
        by_key = {(row["workspace"], row["key"]): stored_question(row, _as_it_is) for row in rows}
        refs = [draft.ref for _, draft in drafts]
        by_id = dict(zip(refs, await self.read(refs), strict=True))
        results: dict[int, Question | KeyConflict] = {}
        for place, draft in drafts:
            stored = by_key.get((draft.workspace, draft.key)) or by_id.get(draft.ref)
            if stored is None:
                raise StoreUnavailable("The question was neither stored nor found; post it again.")
            results[place] = same_question(draft, stored)
        return results

    async def _fetch(self, name: str, **values: Any) -> list[Any]:
        statement = STATEMENTS[name]
        now = self._clock.now() if self._clock else None
        arguments = statement.arguments(now=now, **values)
        for tried in range(1, _TRIES + 1):
            try:
                async with connection(self._pool) as acquired:
                    return await acquired.fetch(statement.numbered, *arguments)
            except StoreUnavailable as error:
                if tried == _TRIES or not is_transient(error.__cause__):
                    raise
                await asyncio.sleep(0.01 * tried)
        raise AssertionError("unreachable")


def _event(row: Any) -> Event:
    return stored_event(row, f"{row['transaction']}.{row['number']}", _as_it_is)


def _as_it_is(instant: datetime) -> datetime:
    return instant


def _columns(items: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """One array for each column, as a batched statement takes them."""
    rows = list(items)
    return dict(zip(rows[0], map(list, zip(*(row.values() for row in rows), strict=True)), strict=True))


def _places(refs: Collection[Ref]) -> dict[str, list[str]]:
    return {"workspaces": [ref.workspace for ref in refs], "ids": [ref.id for ref in refs]}


def _rounds(moves: Sequence[Move]) -> list[list[int]]:
    """Places of moves, in rounds that touch each question once, in one order of locking for everybody."""
    rounds: list[list[int]] = []
    seen: dict[Ref, int] = {}
    for place, move in enumerate(moves):
        turn = seen.get(move.question.ref, 0)
        seen[move.question.ref] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(place)
    for places in rounds:
        places.sort(key=lambda place: moves[place].question.ref)
    return rounds
