"""Answers that people keep for a topic, over several shards: they are on the shard of their workspace's questions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from handraise.backends.shards.placement import ShardRouter
from handraise.model.people import Responder
from handraise.model.questions import Draft, Ref
from handraise.model.standing_answers import StandingAnswer


class ShardedStandingAnswers:
    """The part of the policies for standing answers. See `handraise.ports.standing_answers` for the promises."""

    _router: ShardRouter

    async def find_standing_answer(self, draft: Draft) -> StandingAnswer | None:
        """See the port."""
        return await self._router.read(
            draft.workspace, lambda ports: ports.policies.find_standing_answer(draft)
        )

    async def keep_answer(
        self, ref: Ref, responder: Responder, *, standing_id: str, until: datetime, spot_check: float
    ) -> StandingAnswer | None:
        """See the port."""
        return await self._router.write(
            ref.workspace,
            lambda ports: ports.policies.keep_answer(
                ref, responder, standing_id=standing_id, until=until, spot_check=spot_check
            ),
            is_noop=lambda stored: stored is None,
        )

    async def standing_answers(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[StandingAnswer]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.policies.standing_answers(workspace, after=after, limit=limit)
        )

    async def revoke_standing_answer(
        self, workspace: str, standing_id: str, *, by: str
    ) -> StandingAnswer | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.policies.revoke_standing_answer(workspace, standing_id, by=by),
            is_noop=lambda _: True,  # it wrote nothing if it had ended before
        )
