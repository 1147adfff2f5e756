"""Answers that people keep for a topic, in all SQL engines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from handraise.backends.sql.executor import SqlExecutor
from handraise.backends.sql.parameters import json_text
from handraise.backends.sql.rows import stored_standing_answer
from handraise.model.people import Responder
from handraise.model.questions import Draft, Ref
from handraise.model.standing_answers import StandingAnswer, kept_record


class SqlStandingAnswers:
    """The part of the policies for standing answers. See `handraise.ports.standing_answers` for the promises."""

    _executor: SqlExecutor

    async def find_standing_answer(self, draft: Draft) -> StandingAnswer | None:
        """The standing answer that holds; see the port."""
        about = {
            "asker": draft.asker,
            "topic_key": draft.topic_key,
            "recipients": json_text(draft.recipients),
        }
        rows = await self._executor.fetch(draft.workspace, "find_standing_answer", **about)
        return stored_standing_answer(rows[0]) if rows else None

    async def keep_answer(
        self, ref: Ref, responder: Responder, *, standing_id: str, until: datetime, spot_check: float
    ) -> StandingAnswer | None:
        """Keep an answer; see the port."""
        rows = await self._executor.fetch(
            ref.workspace,
            "keep_answer",
            id=ref.id,
            standing=standing_id,
            actor=responder.id,
            groups=json_text(responder.principals[1:]),
            expires_at=until,
            spot_check=spot_check,
            record=json_text(kept_record(standing_id, until, spot_check)),
        )
        return stored_standing_answer(rows[0]) if rows else None

    async def standing_answers(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[StandingAnswer]:
        """All standing answers; see the port."""
        rows = await self._executor.fetch(workspace, "standing_answers", after=after or "", limit=limit)
        return [stored_standing_answer(row) for row in rows]

    async def revoke_standing_answer(
        self, workspace: str, standing_id: str, *, by: str
    ) -> StandingAnswer | None:
        """End a standing answer; see the port."""
        record = json_text({"standing": standing_id})
        rows = await self._executor.fetch(
            workspace, "revoke_standing_answer", standing=standing_id, actor=by, record=record
        )
        rows = rows or await self._executor.fetch(workspace, "read_standing_answer", standing=standing_id)
        return stored_standing_answer(rows[0]) if rows else None
