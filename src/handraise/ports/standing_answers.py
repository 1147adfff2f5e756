"""Answers that people keep for a topic. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from handraise.model.people import Responder
from handraise.model.questions import Draft, Ref
from handraise.model.standing_answers import StandingAnswer


class StandingAnswers(Protocol):
    """A part of the policies: what answers a question when it is posted. Each change leaves one event of a question."""

    async def find_standing_answer(self, draft: Draft) -> StandingAnswer | None:
        """The standing answer that holds now for a draft with a `topic_key`, or None.

        It holds until it ends or is revoked, for other askers than its giver, and while the directory lets its giver
        answer for the draft's recipients, as a grant does. The statement that inserts the draft checks it again.
        """
        ...

    async def keep_answer(
        self, ref: Ref, responder: Responder, *, standing_id: str, until: datetime, spot_check: float
    ) -> StandingAnswer | None:
        """Keep the answer of a settled question for its topic, with one event of that question.

        What was kept before for equal questions ends, with an event too. None if this person did not give the answer, if
        the question is not there or has no `topic_key`, or if `until` is past by the clock of the store.
        """
        ...

    async def standing_answers(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[StandingAnswer]:
        """All standing answers of a workspace, also those that ended, in the order of their ids."""
        ...

    async def revoke_standing_answer(
        self, workspace: str, standing_id: str, *, by: str
    ) -> StandingAnswer | None:
        """End a standing answer now, with one event; calling it again changes nothing. None if there is none."""
        ...
