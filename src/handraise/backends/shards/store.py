"""The store over several shards: what is not about one workspace is done on each of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from functools import partial

from handraise.backends.postgres.store import PostgresStore
from handraise.backends.shards.shard import Shard, refusal
from handraise.backends.shards.shard_router import ShardRouter
from handraise.backends.shards.sharded_database import ShardedDatabase
from handraise.model.errors import StoreUnavailable
from handraise.model.outcomes import Outcome
from handraise.model.questions import Ref
from handraise.ports import Durability, QueueStats


class ShardedStore(PostgresStore):
    """Questions on several shards. See `handraise.ports.Store` for what each method promises."""

    def __init__(self, router: ShardRouter, database: ShardedDatabase) -> None:
        super().__init__(database)
        self._router = router

    def batch_key(self, workspace: str) -> int | str:
        """Return the key of calls that may share a batch; see `ShardRouter.batch_key`."""
        return self._router.batch_key(workspace)

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled; see the port. On a shard that does not answer, all is still pending."""
        by_workspace: dict[str, list[Ref]] = {}
        for ref in refs:
            by_workspace.setdefault(ref.workspace, []).append(ref)
        homes = await asyncio.gather(*map(self._router.find_shard, by_workspace), return_exceptions=True)
        by_shard: dict[Shard, list[Ref]] = {}
        found: dict[Ref, Outcome | None] = {}
        for own, shard in zip(by_workspace.values(), homes, strict=True):
            if isinstance(shard, Shard):
                by_shard.setdefault(shard, []).extend(own)
            elif shard is None:  # without a home there are no questions
                found.update(dict.fromkeys(own))
            elif not isinstance(shard, StoreUnavailable) or len(by_workspace) == 1:
                raise shard
        calls = {shard: partial(self._outcomes_at, shard, own) for shard, own in by_shard.items()}
        try:
            for each in await self._router.call_shards("waits", calls) if calls else ():
                found.update(each)
        except StoreUnavailable:
            if len(self._router.shards) == 1:
                raise  # if there are other shards, the waits for them matter more
        return found

    async def unindexed(self, *, limit: int) -> Sequence[str]:
        """Workspaces that are not indexed up to their ends, of every shard that answers; see the port."""
        found = await self._router.call_each("search", lambda shard: shard.store.unindexed(limit=limit))
        return [workspace for each in found for workspace in each]

    async def run_due(self, *, limit: int, workspace: str | None = None) -> Sequence[Ref]:
        """Do what is due, on every shard that answers; see the port."""
        if workspace is not None:
            if await self._router.find_shard(workspace) is None:
                return []  # it has no questions, and gets no home for being looked at
            return await super().run_due(limit=limit, workspace=workspace)
        swept = await self._router.call_each("sweep", lambda shard: shard.store.run_due(limit=limit))
        return [ref for refs in swept for ref in refs]

    async def tidy(self, *, rest: timedelta, keep: timedelta | None, limit: int) -> int:
        """Make room, on every shard that can; see the port."""
        done = await self._router.call_all(lambda shard: shard.store.tidy(rest=rest, keep=keep, limit=limit))
        return max(done, default=0)

    async def queue_stats(self, workspace: str | None = None, *, quota: int | None = None) -> QueueStats:
        """How many questions and deliveries wait, on every shard that answers; see the port."""
        if workspace is not None:
            return await super().queue_stats(workspace)
        pending: Counter[float] = Counter()
        deliveries: Counter[str] = Counter()
        found = await self._router.call_each(
            "queue_stats", lambda shard: shard.store.queue_stats(quota=quota)
        )
        for each in found:
            pending.update(each.pending)
            deliveries.update(each.deliveries)
        return QueueStats(
            pending=dict(pending),
            deliveries=dict(deliveries),
            oldest_due=max((each.oldest_due for each in found), default=0.0),
            askers_at_quota=sum(each.askers_at_quota for each in found),
            unanswerable=sum(each.unanswerable for each in found),
        )

    async def durability(self) -> Durability:
        """What an acknowledged write survives, on every shard that answers; see the port."""
        known = await self._router.call_each("durability", lambda shard: shard.store.durability(), grace=None)
        settings = {
            name: ", ".join(dict.fromkeys(each.settings[name] for each in known if name in each.settings))
            for name in known[0].settings
        }
        return Durability(
            survives=" / ".join(dict.fromkeys(each.survives for each in known)), settings=settings
        )

    async def _outcomes_at(self, shard: Shard, refs: Sequence[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled of these, on this shard or wherever their workspaces have gone."""
        try:
            return await shard.call_briefly(lambda opened: opened.store.outcomes(refs))
        except StoreUnavailable as error:
            if refusal(error) is None:
                raise
        return await super().outcomes(refs)
