"""Sharing the work on a local desk: take, bring in, hand over, set aside."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from handraise.desk.question_access import QuestionAccess
from handraise.model.errors import CannotShare
from handraise.model.lifecycle import bring_in_move, put_back_move, set_aside_move, take_move
from handraise.model.people import Responder
from handraise.model.provenance import UNKNOWN, Provenance, check_provenance, check_texts
from handraise.model.questions import Question
from handraise.model.sharing_rules import check_aside, check_people


class SharingVerbs(QuestionAccess):
    """The verbs with which people share a question. `Desk` says what each promises."""

    async def take(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.take`."""
        question, responder = await self._shareable(question_id, by, provenance)
        return await self._move(take_move(question, responder, provenance=provenance or UNKNOWN))

    async def release(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.release`."""
        question, responder = await self._shareable(question_id, by, provenance)
        return await self._move(
            take_move(question, responder, release=True, provenance=provenance or UNKNOWN)
        )

    async def bring_in(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.bring_in`."""
        return await self._bring_in(question_id, people, by, reason, provenance, leave=False)

    async def hand_over(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.hand_over`."""
        return await self._bring_in(question_id, people, by, reason, provenance, leave=True)

    async def _bring_in(
        self,
        question_id: str,
        people: Sequence[str],
        by: str | Responder,
        reason: str | None,
        provenance: Provenance | None,
        *,
        leave: bool,
    ) -> Question:
        check_texts(self._limits, reason=reason)
        question, responder = await self._shareable(question_id, by, provenance)
        check_people(question, people, self._limits, by=responder.id, leave=leave)
        if self._engine.recipients is not None:
            named = [(f"people[{place}]", name) for place, name in enumerate(people)]
            # The person who hands over leaves: a name that was known some seconds ago is not enough.
            if problems := await self._engine.recipients.unknown(self._workspace, named, again=leave):
                raise CannotShare(problems)
        move = bring_in_move(
            question,
            responder,
            tuple(dict.fromkeys(people)),
            leave=leave,
            reason=reason,
            provenance=provenance or UNKNOWN,
        )
        return await self._move(move)

    async def set_aside(
        self,
        question_id: str,
        *,
        by: str | Responder,
        until: datetime | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.set_aside`."""
        question, responder = await self._shareable(question_id, by, provenance)
        check_aside(question, responder.id, until)
        return await self._move(
            set_aside_move(question, responder, until=until, provenance=provenance or UNKNOWN)
        )

    async def put_back(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.put_back`."""
        question, responder = await self._shareable(question_id, by, provenance)
        return await self._move(put_back_move(question, responder, provenance=provenance or UNKNOWN))

    async def _shareable(
        self, question_id: str, by: str | Responder, provenance: Provenance | None
    ) -> tuple[Question, Responder]:
        """Return the pending question and the person, if that person may share it: who may answer may share."""
        provenance = provenance or UNKNOWN
        check_provenance(self._limits, provenance)
        return await self._answerable(question_id, by, provenance.evidence)
