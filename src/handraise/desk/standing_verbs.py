"""Standing answers on a local desk: keep an answer for its topic, list what is kept, and revoke it."""

from __future__ import annotations

from datetime import datetime

from handraise.desk.question_access import QuestionAccess
from handraise.model.errors import CannotKeep, NotFound
from handraise.model.json_values import text_problem
from handraise.model.people import Responder, responder_of
from handraise.model.problems import Problem
from handraise.model.standing_answers import SPOT_CHECK, StandingAnswer, check_keep
from handraise.ports.desk import PAGE, Page, check_limit


class StandingVerbs(QuestionAccess):
    """The verbs of standing answers. `Desk` says what each promises."""

    async def keep_answer(
        self, question_id: str, *, until: datetime, by: str | Responder, spot_check: float = SPOT_CHECK
    ) -> StandingAnswer:
        """See `Desk.keep_answer`."""
        question, responder = await self.get(question_id), await self._with_groups(by)
        check_keep(question, responder, until, spot_check)
        kept = await self._engine.policies.port.keep_answer(
            question.ref, responder, standing_id=self._new_id(), until=until, spot_check=spot_check
        )
        if kept is None:
            raise CannotKeep(
                [Problem("until", "this time is past, or the question was answered too long ago")]
            )
        self._engine.notify_feed(self._workspace)
        return kept

    async def list_standing_answers(
        self, *, after: str | None = None, limit: int = PAGE
    ) -> Page[StandingAnswer]:
        """See `Desk.list_standing_answers`."""
        check_limit(limit)
        port = self._engine.policies.port
        found = await port.standing_answers(self._workspace, after=after, limit=limit)
        return Page(found, found[-1].id if len(found) == limit else None)

    async def revoke_standing_answer(self, standing_id: str, *, by: str) -> StandingAnswer:
        """See `Desk.revoke_standing_answer`."""
        responder, found = responder_of(by), None
        if not text_problem(standing_id):
            port = self._engine.policies.port
            found = await port.revoke_standing_answer(self._workspace, standing_id, by=responder.id)
        if found is None:
            raise NotFound(f"There is no standing answer {standing_id!r} in workspace {self._workspace!r}.")
        self._engine.notify_feed(self._workspace)
        return found
