"""The store over several shards: each call goes to the shard of its workspace."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from handraise.backends.shards.placement import ShardRouter
from handraise.backends.shards.shard import Shard
from handraise.model.errors import StoreUnavailable
from handraise.model.events import Event, EventKind
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import Move
from handraise.model.outcomes import Outcome
from handraise.model.pending_views import Order, ViewCounts
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question, Ref
from handraise.model.receipts import UsableApproval
from handraise.model.rulings import Ruling
from handraise.model.search_words import SearchQuery
from handraise.model.stops import Stop
from handraise.model.workspace_events import WorkspaceEvent
from handraise.ports import (
    Durability,
    Endings,
    Filter,
    IndexBatch,
    IndexEntry,
    Inserted,
    QueueStats,
    SearchPage,
    SettledPage,
    WaitingPage,
    WorkspaceEventSearch,
)


class ShardedStore:
    """Questions on several shards. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, router: ShardRouter) -> None:
        self._router = router

    def batch_key(self, workspace: str) -> int | str:
        """Return the key of calls that may share a batch; see `ShardRouter.batch_key`."""
        return self._router.batch_key(workspace)

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """Register drafts; see the port."""
        return await self._router.write_many(
            drafts,
            lambda draft: draft.workspace,
            lambda ports, own: ports.store.insert(own, quota=quota),
            is_noop=lambda draft, posted: not isinstance(posted, Question) or posted.id != draft.id,
        )

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | None]:
        """Make moves; see the port."""
        results: list[Question | None] = [None] * len(moves)
        # One move on each question at a time: each call is one transaction on its shard, done as a whole or not at all.
        for places in _rounds(moves):
            moved = await self._router.write_many(
                [moves[place] for place in places],
                lambda move: move.question.workspace,
                lambda ports, own: ports.store.settle(own),
                is_noop=lambda _, question: question is None,
            )
            for place, question in zip(places, moved, strict=True):
                results[place] = question
        return results

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """Questions by their places; see the port."""
        return await self._router.read_many(
            refs, lambda ref: ref.workspace, lambda ports, own: ports.store.read(own)
        )

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled; see the port. On a shard that does not answer, all is still pending."""
        parts: dict[str, list[Ref]] = {}
        for ref in refs:
            parts.setdefault(ref.workspace, []).append(ref)
        homes = await asyncio.gather(
            *(self._router.shard_of(workspace, place=False) for workspace in parts), return_exceptions=True
        )
        by_shard: dict[Shard, dict[str, list[Ref]]] = {}
        for workspace, shard in zip(parts, homes, strict=True):
            if isinstance(shard, Shard):
                by_shard.setdefault(shard, {})[workspace] = parts[workspace]
            elif not isinstance(shard, StoreUnavailable) or len(parts) == 1:
                raise shard
        found: dict[Ref, Outcome | None] = {}
        calls = {shard: partial(self._outcomes_at, shard, own) for shard, own in by_shard.items()}
        try:
            for each in await self._router.call_shards("waits", calls):
                found.update(each)
        except StoreUnavailable:
            if len(self._router.shards) == 1:
                raise  # if there are other shards, the waits for them matter more
        return found

    async def find_by_key(self, workspace: str, owner: str, key: str) -> Question | None:
        """The question with a key; see the port."""
        return await self._router.read(
            workspace, lambda ports: ports.store.find_by_key(workspace, owner, key)
        )

    async def pending(self, where: Filter, *, after: str | None, limit: int) -> Sequence[Question]:
        """A page of pending questions; see the port."""
        return await self._router.read(
            where.workspace, lambda ports: ports.store.pending(where, after=after, limit=limit)
        )

    async def by_urgency(
        self, where: Filter, *, after: str | None, limit: int, order: Order = "urgency"
    ) -> WaitingPage:
        """Places of pending questions, most urgent first; see the port."""
        return await self._router.read(
            where.workspace,
            lambda ports: ports.store.by_urgency(where, after=after, limit=limit, order=order),
        )

    async def count_views(self, workspace: str, recipient: Responder) -> ViewCounts:
        """How many questions are in each view; see the port."""
        return await self._router.read(workspace, lambda ports: ports.store.count_views(workspace, recipient))

    async def settled(self, where: Filter, *, after: str | None, limit: int) -> SettledPage:
        """A page of settled questions; see the port."""
        return await self._router.read(
            where.workspace, lambda ports: ports.store.settled(where, after=after, limit=limit)
        )

    async def search(self, where: Filter, query: SearchQuery, *, after: str | None, limit: int) -> SearchPage:
        """Questions with these words; see the port."""
        return await self._router.read(
            where.workspace, lambda ports: ports.store.search(where, query, after=after, limit=limit)
        )

    async def unindexed(self, *, limit: int) -> Sequence[str]:
        """Workspaces that are not indexed up to their ends, of every shard that answers; see the port."""
        found = await self._router.call_each("search", lambda ports: ports.store.unindexed(limit=limit))
        return [workspace for each in found for workspace in each]

    async def next_to_index(self, workspace: str, *, limit: int) -> IndexBatch:
        """Questions to be indexed; see the port."""
        return await self._router.read(
            workspace, lambda ports: ports.store.next_to_index(workspace, limit=limit)
        )

    async def put_in_index(
        self, workspace: str, entries: Sequence[IndexEntry], *, after: str | None, cursor: str | None
    ) -> bool:
        """Index questions; see the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.store.put_in_index(workspace, entries, after=after, cursor=cursor),
            is_noop=lambda done: not done,
            place=False,
        )

    async def endings(self, workspace: str, *, since: datetime, limit: int) -> Endings:
        """How questions ended; see the port."""
        return await self._router.read(
            workspace, lambda ports: ports.store.endings(workspace, since=since, limit=limit)
        )

    async def run_due(self, *, limit: int, workspace: str | None = None) -> Sequence[Ref]:
        """Do what is due, on every shard that answers; see the port."""
        if workspace is not None:
            return await self._router.write(
                workspace,
                lambda ports: ports.store.run_due(limit=limit, workspace=workspace),
                is_noop=lambda refs: not refs,
                place=False,
            )
        swept = await self._router.call_each("sweep", lambda ports: ports.store.run_due(limit=limit))
        return [ref for refs in swept for ref in refs]

    async def beat(self, refs: Sequence[Ref], *, by: str) -> Mapping[Ref, float]:
        """Store that an asker still waits; see the port."""
        by_workspace: dict[str, list[Ref]] = {}
        for ref in refs:
            by_workspace.setdefault(ref.workspace, []).append(ref)
        found: dict[Ref, float] = {}
        for workspace, own in by_workspace.items():
            found |= await self._router.write(
                workspace,
                lambda ports, own=own: ports.store.beat(own, by=by),  # type: ignore[misc]  # a lambda's default has no type
                is_noop=lambda _: True,
                place=False,
            )
        return found

    async def tidy(self, *, rest: timedelta, keep: timedelta | None, limit: int) -> int:
        """Make room, on every shard that can; see the port."""
        done = await self._router.call_all(lambda ports: ports.store.tidy(rest=rest, keep=keep, limit=limit))
        return max(done, default=0)

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """Expire what is too old; see the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.store.expire_older(workspace, asker, max_age, limit=limit),
            is_noop=lambda refs: not refs,
        )

    async def count_pending(self, workspace: str, asker: str) -> int:
        """How many are pending; see the port."""
        return await self._router.read(workspace, lambda ports: ports.store.count_pending(workspace, asker))

    async def covering_stop(self, question: Question) -> Stop | None:
        """The stop that covers a question; see the port."""
        return await self._router.read(question.workspace, lambda ports: ports.store.covering_stop(question))

    async def consume(
        self, ref: Ref, *, digest: str, by: str, request: str, decided_by: Ruling | None = None
    ) -> bool:
        """Use up an approval; see the port."""
        return await self._router.write(
            ref.workspace,
            lambda ports: ports.store.consume(
                ref, digest=digest, by=by, request=request, decided_by=decided_by
            ),
            is_noop=lambda consumed: not consumed,
        )

    async def find_usable(
        self, ref: Ref, *, digest: str, by: str, decided_by: Ruling | None = None
    ) -> UsableApproval | None:
        """An approval that could be used up; see the port."""
        return await self._router.read(
            ref.workspace,
            lambda ports: ports.store.find_usable(ref, digest=digest, by=by, decided_by=decided_by),
        )

    async def join(self, ref: Ref, *, by: str, key: str) -> bool:
        """Have another key stand for a question; see the port."""
        return await self._router.write(
            ref.workspace,
            lambda ports: ports.store.join(ref, by=by, key=key),
            is_noop=lambda joined: not joined,
        )

    async def claim_sending(self, ref: Ref, *, by: str, lease: timedelta) -> bool:
        """Claim the task of showing a question; see the port."""
        return await self._router.write(
            ref.workspace,
            lambda ports: ports.store.claim_sending(ref, by=by, lease=lease),
            is_noop=lambda _: True,  # a lease on the shard that a workspace has left does not count
        )

    async def mark_sent(self, ref: Ref, *, by: str, channel: str | None) -> bool:
        """Record that a question was shown; see the port."""
        return await self._router.write(
            ref.workspace,
            lambda ports: ports.store.mark_sent(ref, by=by, channel=channel),
            is_noop=lambda marked: not marked,
        )

    async def take_back(self, ref: Ref, *, by: str, reason: str | None) -> bool:
        """Take back an approval; see the port."""
        return await self._router.write(
            ref.workspace,
            lambda ports: ports.store.take_back(ref, by=by, reason=reason),
            is_noop=lambda taken: not taken,
        )

    async def report(self, ref: Ref, *, by: str, record: dict[str, Json]) -> bool:
        """Record what came of an answer; see the port."""
        return await self._router.write(
            ref.workspace,
            lambda ports: ports.store.report(ref, by=by, record=record),
            is_noop=lambda reported: not reported,
        )

    async def find_grant(self, question: Question) -> Grant | None:
        """The grant that holds; see the port."""
        return await self._router.read(question.workspace, lambda ports: ports.store.find_grant(question))

    async def grants(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Grant]:
        """All grants; see the port."""
        return await self._router.read(
            workspace, lambda ports: ports.store.grants(workspace, after=after, limit=limit)
        )

    async def revoke(self, workspace: str, grant_id: str, *, by: str) -> Grant | None:
        """End a grant; see the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.store.revoke(workspace, grant_id, by=by),
            is_noop=lambda _: True,  # a second time changes nothing
        )

    async def followers(self, ref: Ref, *, limit: int) -> Sequence[Question]:
        """Questions that follow one; see the port."""
        return await self._router.read(ref.workspace, lambda ports: ports.store.followers(ref, limit=limit))

    async def history(self, ref: Ref) -> Sequence[Event]:
        """One question's events; see the port."""
        return await self._router.read(ref.workspace, lambda ports: ports.store.history(ref))

    async def histories(
        self, workspace: str, question_ids: Collection[str], *, kinds: Collection[EventKind], limit: int
    ) -> Sequence[Event]:
        """Several questions' events; see the port."""
        return await self._router.read(
            workspace,
            lambda ports: ports.store.histories(workspace, question_ids, kinds=kinds, limit=limit),
        )

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """A workspace's events; see the port."""
        return await self._router.read(
            workspace, lambda ports: ports.store.feed(workspace, after=after, limit=limit)
        )

    async def trail(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[Event | WorkspaceEvent]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.store.trail(workspace, after=after, limit=limit)
        )

    async def workspace_events(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.store.workspace_events(workspace, after=after, limit=limit)
        )

    async def search_workspace_events(
        self, workspace: str, search: WorkspaceEventSearch, *, before: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """See the port."""
        return await self._router.read(
            workspace,
            lambda ports: ports.store.search_workspace_events(workspace, search, before=before, limit=limit),
        )

    async def feed_end(self, workspace: str) -> str:
        """Where the events end now; see the port."""
        return await self._router.read(workspace, lambda ports: ports.store.feed_end(workspace))

    async def settled_since(
        self, workspace: str, mark: str | None, *, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """What was settled lately; see the port. A workspace that moves takes its events along, and new ones are after them."""
        return await self._router.read(
            workspace, lambda ports: ports.store.settled_since(workspace, mark, limit=limit)
        )

    async def queue_stats(self, workspace: str | None = None) -> QueueStats:
        """How many questions and deliveries wait, on every shard that answers; see the port."""
        if workspace is not None:
            return await self._router.read(workspace, lambda ports: ports.store.queue_stats(workspace))
        pending: Counter[float] = Counter()
        deliveries: Counter[str] = Counter()
        for each in await self._router.call_each("queue_stats", lambda ports: ports.store.queue_stats()):
            pending.update(each.pending)
            deliveries.update(each.deliveries)
        return QueueStats(pending=dict(pending), deliveries=dict(deliveries))

    async def durability(self) -> Durability:
        """What an acknowledged write survives, on every shard that answers; see the port."""
        known = await self._router.call_each("durability", lambda ports: ports.store.durability(), grace=None)
        settings = {
            name: ", ".join(dict.fromkeys(each.settings[name] for each in known if name in each.settings))
            for name in known[0].settings
        }
        return Durability(
            survives=" / ".join(dict.fromkeys(each.survives for each in known)), settings=settings
        )

    async def _outcomes_at(self, shard: Shard, parts: dict[str, list[Ref]]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled of these workspaces, on this shard or wherever they have gone."""
        refs = [ref for each in parts.values() for ref in each]
        found = await shard.call_briefly(lambda ports: ports.store.outcomes(refs))
        for workspace in await shard.moved_away(parts):
            own = parts[workspace]
            for ref in own:
                found.pop(ref, None)
            found.update(
                await self._router.read(workspace, lambda ports, own=own: ports.store.outcomes(own))  # type: ignore[misc]  # a lambda's default has no type
            )
        return found


def _rounds(moves: Sequence[Move]) -> list[list[int]]:
    """Places of moves, in rounds that touch each question once."""
    rounds: list[list[int]] = []
    seen: Counter[Ref] = Counter()
    for place, move in enumerate(moves):
        turn = seen[move.question.ref]
        seen[move.question.ref] += 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(place)
    return rounds
