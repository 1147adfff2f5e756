"""Sharing the work on a local desk: take, bring in, hand over, set aside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from handraise.desk.question_access import QuestionAccess
from handraise.model.errors import CannotShare
from handraise.model.evidence import check_may_widen
from handraise.model.lifecycle import (
    Move,
    bring_in_move,
    put_back_move,
    set_aside_move,
    take_move,
    with_aside,
    with_people,
)
from handraise.model.people import GROUP, Responder
from handraise.model.provenance import UNKNOWN, Provenance, check_provenance, check_texts
from handraise.model.questions import Question
from handraise.model.sharing_rules import check_aside_until, check_left, check_people


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
        check_may_widen(question, responder, (provenance or UNKNOWN).evidence)
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
        if not leave:
            return await self._move(move)
        handed = with_aside(with_people(question, move.to), responder.id)
        return await self._leave(move, handed, provenance or UNKNOWN)

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
        check_aside_until(until)
        move = set_aside_move(question, responder, until=until, provenance=provenance or UNKNOWN)
        if until is not None:
            return await self._move(move)
        return await self._leave(move, with_aside(question, responder.id), provenance or UNKNOWN)

    async def _leave(self, move: Move, after: Question, provenance: Provenance) -> Question:
        """Make a move after which a person does not have a question any more, if somebody else has it then."""
        people = await self._people_asked(after)
        check_left(after, *people)
        moved = await self._move(move)
        try:
            check_left(moved, *people)  # another one may have done the same meanwhile
        except CannotShare:
            await self._move(put_back_move(moved, move.responder, provenance=provenance))
            raise
        return moved

    async def put_back(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.put_back`."""
        question, responder = await self._shareable(question_id, by, provenance)
        return await self._move(put_back_move(question, responder, provenance=provenance or UNKNOWN))

    async def _people_asked(
        self, question: Question
    ) -> tuple[Mapping[str, Collection[str]], Collection[str] | None]:
        """The enabled people of each group, and all of them if the question names nobody; None without a directory."""
        directory, names = self._engine.directory, question.audience
        if directory is None or (names and not any(name.startswith(GROUP) for name in names)):
            return {}, None
        gone = await directory.disabled_people(self._workspace)
        if names:
            groups = await directory.groups(self._workspace)
            return {name: set(people) - gone for name, people in groups.items()}, None
        # So many that one is left if anybody is.
        most = len(gone) + len(question.aside) + 3
        people = {each.id for each in await directory.people(self._workspace, after=None, limit=most)}
        return {}, people - gone or None

    async def _shareable(
        self, question_id: str, by: str | Responder, provenance: Provenance | None
    ) -> tuple[Question, Responder]:
        """Return the pending question and the person, if that person may share it: who may answer may share."""
        provenance = provenance or UNKNOWN
        check_provenance(self._limits, provenance)
        return await self._answerable(question_id, by, provenance.evidence)
