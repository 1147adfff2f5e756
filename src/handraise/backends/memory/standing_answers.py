"""Answers that people keep for a topic, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from handraise.backends.memory.clock import now_by
from handraise.backends.memory.store import MemoryStore
from handraise.model.events import EventKind
from handraise.model.json_values import Json
from handraise.model.lifecycle import VOTES, Move
from handraise.model.outcomes import Answered
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question, Ref, posted, redrafted
from handraise.model.standing_answers import StandingAnswer, kept_record
from handraise.ports import Clock


class MemoryStandingAnswers:
    """The part of the policies for standing answers. See `handraise.ports.standing_answers` for the promises."""

    def __init__(self, store: MemoryStore, clock: Clock | None) -> None:
        self._store = store
        self._clock = clock
        self._topic_keys: dict[Ref, str] = {}
        store.stands = self._stands
        store.spot_checked = self._spot_checked

    async def find_standing_answer(self, draft: Draft) -> StandingAnswer | None:
        """The standing answer that holds; see the port."""
        fitting = [each for each in self._store.standing_answers.values() if self._fits(each, draft)]
        return max(fitting, key=lambda each: (each.created_at, each.id), default=None)

    async def keep_answer(
        self, ref: Ref, responder: Responder, *, standing_id: str, until: datetime, spot_check: float
    ) -> StandingAnswer | None:
        """Keep an answer; see the port."""
        (question,) = await self._store.read([ref])
        outcome = None if question is None else question.outcome
        if question is None or question.topic is None or question.topic_key is None:
            return None
        if not isinstance(outcome, Answered) or outcome.source != "person" or outcome.by != responder.id:
            return None
        now = now_by(self._clock)
        if until <= now:
            return None
        kept = StandingAnswer(
            id=standing_id,
            workspace=ref.workspace,
            topic=question.topic,
            value=outcome.value,
            given_by=responder.id,
            question_id=ref.id,
            created_at=now,
            expires_at=until,
            spot_check=spot_check,
        )
        for place, each in list(self._store.standing_answers.items()):
            is_same = place.workspace == ref.workspace and self._topic_keys[place] == question.topic_key
            if is_same and each.revoked_at is None:
                self._end(place, by=responder.id)
        place = Ref(ref.workspace, standing_id)
        self._store.standing_answers[place], self._topic_keys[place] = kept, question.topic_key
        self._store.give_right(place, question, responder)
        self._store.log(
            ref, EventKind.KEPT, by=responder.id, data=kept_record(standing_id, until, spot_check)
        )
        return kept

    async def standing_answers(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[StandingAnswer]:
        """All standing answers; see the port."""
        all_of_them = self._store.standing_answers
        places = sorted(ref for ref in all_of_them if ref.workspace == workspace and ref.id > (after or ""))
        return [all_of_them[place] for place in places[:limit]]

    async def revoke_standing_answer(
        self, workspace: str, standing_id: str, *, by: str
    ) -> StandingAnswer | None:
        """End a standing answer; see the port."""
        place = Ref(workspace, standing_id)
        if place in self._store.standing_answers and self._store.standing_answers[place].revoked_at is None:
            self._end(place, by=by)
        return self._store.standing_answers.get(place)

    def _end(self, place: Ref, *, by: str, contradicted_in: str | None = None) -> None:
        ended = replace(
            self._store.standing_answers[place],
            revoked_at=now_by(self._clock),
            revoked_by=by,
            contradicted_in=contradicted_in,
        )
        self._store.standing_answers[place] = ended
        data: dict[str, Json] = {"standing": ended.id}
        if contradicted_in is not None:
            data["question"] = contradicted_in
        self._store.log(Ref(place.workspace, ended.question_id), EventKind.REVOKED, by=by, data=data)

    def _fits(self, standing: StandingAnswer, draft: Draft) -> bool:
        place = Ref(standing.workspace, standing.id)
        if standing.workspace != draft.workspace or self._topic_keys[place] != draft.topic_key:
            return False
        if standing.given_by == draft.asker:  # the asker never answers
            return False
        now = now_by(self._clock)
        asked = posted(redrafted(draft, ruling=None, added=()), now)
        return standing.holds(now) and self._store.still_may(asked, place)

    def _stands(self, draft: Draft) -> bool:
        """Whether the standing answer that settles a draft holds; also if none does."""
        ending = None if draft.ruling is None else draft.ruling.ending
        if ending is None or ending.standing is None:
            return True
        standing = self._store.standing_answers.get(Ref(draft.workspace, ending.standing))
        return standing is not None and self._fits(standing, draft)

    def _spot_checked(self, question: Question, move: Move) -> None:
        """End the standing answer that a settled question was a spot check of, if it was answered differently."""
        if question.ruling is None or question.ruling.standing is None or move.kind not in VOTES:
            return
        place = Ref(question.workspace, question.ruling.standing)
        standing = self._store.standing_answers.get(place)
        if standing is None or standing.revoked_at is not None:
            return
        if not (isinstance(question.outcome, Answered) and question.outcome.value == standing.value):
            self._end(place, by=move.by, contradicted_in=question.id)
