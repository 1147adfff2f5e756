"""The desk on a store: follow a question from `post` to the woken wait by reading this file downwards."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import TypeVar, Unpack

from handraise.desk.engine import Engine
from handraise.model.checking import check_answer
from handraise.model.composing import Limits, QuestionOptions
from handraise.model.errors import (
    AlreadyConsumed,
    AlreadySettled,
    GrantNotFound,
    InvalidAnswer,
    KeyConflict,
    NotApproved,
    NotEntitled,
    Problem,
    QuestionNotFound,
    StoreUnavailable,
)
from handraise.model.events import Event
from handraise.model.forms import Action, Approval
from handraise.model.grants import Grant
from handraise.model.json_values import Json, text_problem
from handraise.model.keeping import check_kept, check_problems, keepable
from handraise.model.lifecycle import (
    Move,
    answering,
    attempting,
    declining,
    using,
    wants_grant,
    withdrawing,
)
from handraise.model.outcomes import Answered, Outcome
from handraise.model.people import (
    Responder,
    check_evidence,
    check_may_respond,
    may_respond,
    responder_of,
)
from handraise.model.questions import Question, Ref
from handraise.ports import Durability, Filter, IdFactory, Recovered
from handraise.ports.desk import PAGE, Desk, Page, check_limit, check_max_age

T = TypeVar("T")

_PATIENCE = 10.0
_RECOVER = 500


class LocalDesk(Desk):
    """The verbs, on a store in reach of this process. `Desk` says what each promises."""

    def __init__(
        self, engine: Engine, *, workspace: str, asker: str, new_id: IdFactory, limits: Limits
    ) -> None:
        super().__init__(workspace=workspace, asker=asker, new_id=new_id, limits=limits)
        self._engine = engine

    def at(
        self, workspace: str | None = None, *, asker: str | None = None, new_id: IdFactory | None = None
    ) -> LocalDesk:
        """See `Desk.at`; `new_id` makes the ids of what is posted there."""
        return LocalDesk(
            self._engine,
            workspace=self._workspace if workspace is None else workspace,
            asker=self._asker if asker is None else asker,
            new_id=new_id or self._new_id,
            limits=self._limits,
        )

    async def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """See `Desk.post`."""
        draft = self._draft(prompt, options)
        result = await self._engine.insert.soon(draft)
        if isinstance(result, KeyConflict):
            raise result
        if result.overdue:
            return await self.get(result.id)
        self._engine.remember(result)
        self._engine.stir_feed(self._workspace)
        return result

    def _outcome_of(self, ref: Ref, *, timeout: float | None) -> Awaitable[Outcome]:
        return self._engine.room.outcome_of(ref, timeout=timeout)

    async def _first_of(self, refs: Sequence[Ref], *, timeout: float | None) -> tuple[str, Outcome]:
        ref, outcome = await self._engine.room.first_of(refs, timeout=timeout)
        return ref.id, outcome

    async def answer(
        self,
        question_id: str,
        value: Json,
        *,
        by: str | Responder,
        channel: str | None = None,
        evidence: str | None = None,
        shown: str | None = None,
        details: Json = None,
    ) -> Question:
        """See `Desk.answer`."""
        question, responder = await self._answerable(question_id, by, evidence)
        check_kept(self._limits, channel=channel, evidence=evidence, shown=shown, details=details)
        try:
            canonical = check_answer(question.form, value)
        except InvalidAnswer as misfit:
            kept = keepable(self._limits, value)
            tried = await self._move(attempting(question, responder, kept, misfit.problems, channel=channel))
            raise InvalidAnswer(misfit.problems, outcome=tried.outcome) from None
        return await self._move(
            answering(
                question,
                responder,
                canonical,
                channel=channel,
                evidence=evidence,
                shown=shown,
                details=details,
                grant_id=self._new_id() if wants_grant(question.form, canonical) else None,
            )
        )

    async def attempt(
        self,
        question_id: str,
        value: Json,
        problems: Sequence[Problem],
        *,
        by: str | Responder,
        channel: str | None = None,
    ) -> Question:
        """See `Desk.attempt`."""
        question, responder = await self._answerable(question_id, by)
        check_problems(self._limits, problems, channel=channel)
        return await self._move(
            attempting(question, responder, keepable(self._limits, value), problems, channel=channel)
        )

    async def decline(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str | None = None,
        channel: str | None = None,
        evidence: str | None = None,
        shown: str | None = None,
        details: Json = None,
    ) -> Question:
        """See `Desk.decline`."""
        question, responder = await self._answerable(question_id, by, evidence)
        check_kept(
            self._limits, reason=reason, channel=channel, evidence=evidence, shown=shown, details=details
        )
        return await self._move(
            declining(
                question,
                responder,
                reason=reason,
                channel=channel,
                evidence=evidence,
                shown=shown,
                details=details,
            )
        )

    async def withdraw(self, question_id: str, *, reason: str | None = None) -> Question:
        """See `Desk.withdraw`."""
        question = await self._pending(question_id)
        if question.asker != self._asker:
            raise NotEntitled(self._asker, "only whoever asked can withdraw")
        check_kept(self._limits, reason=reason)
        return await self._move(withdrawing(question, self._asker, reason=reason))

    async def apply_grant(self, question_id: str) -> Question | None:
        """See `Desk.apply_grant`."""
        question = await self.get(question_id)
        if question.asker != self._asker:
            raise NotEntitled(self._asker, "only whoever asked can use a grant")
        if question.outcome is not None:
            return question
        if not isinstance(question.form, Approval):
            return None
        grant = await self._engine.store.find_grant(
            self._workspace,
            asker=question.asker,
            tool=question.form.action.tool,
            digest=question.form.grant_digest(question.form.action, question.recipients),
            conversation=question.conversation,
        )
        if grant is None or grant.scope not in question.form.scopes:
            return None
        moved = self._told(await self._engine.settle(using(question, grant)))
        if moved is None:  # somebody was first, or the grant holds no more
            question = await self.get(question_id)
            return question if question.outcome is not None else None
        return moved

    async def consume(self, question_id: str, *, request: str | None = None) -> Action:
        """See `Desk.consume`."""
        check_kept(self._limits, request=request)
        question = await self.get(question_id)
        if question.asker != self._asker:
            raise NotEntitled(self._asker, "only whoever asked can execute the action")
        decision = question.decision
        if decision is None or not isinstance(question.outcome, Answered):
            how = str(question.outcome or "nobody has decided yet")
            raise NotApproved(question_id, question.outcome, how)
        if not decision.approved:
            raise NotApproved(question_id, question.outcome, decision.reason or "it was denied")
        digest = question.outcome.value["digest"]
        if decision.action.digest != digest:
            raise NotApproved(question_id, question.outcome, "the stored action is not the one approved")
        # Not from the factory of ids, which a caller may choose: no two requests may ever have the same.
        request = uuid.uuid4().hex if request is None else request
        if not await self._engine.store.consume(question.ref, digest=digest, by=self._asker, request=request):
            await self.get(question_id)  # where it is not kept any more, nobody has consumed it
            raise AlreadyConsumed(question_id)
        self._engine.stir_feed(self._workspace)
        return decision.action

    async def grants(self, *, after: str | None = None, limit: int = PAGE) -> Sequence[Grant]:
        """See `Desk.grants`."""
        check_limit(limit)
        return await self._engine.store.grants(self._workspace, after=after, limit=limit)

    async def revoke(self, grant_id: str, *, by: str) -> Grant:
        """See `Desk.revoke`."""
        responder = responder_of(by)
        found = None
        if not text_problem(grant_id):
            found = await self._engine.store.revoke(self._workspace, grant_id, by=responder.id)
        if found is None:
            raise GrantNotFound(grant_id, self._workspace)
        self._engine.stir_feed(self._workspace)
        return found

    async def get(self, question_id: str) -> Question:
        """See `Desk.get`."""
        ref = self._ref(question_id)
        found = await self._swept(
            lambda: self._engine.read(ref), lambda found: found is not None and found.overdue
        )
        if found is None:
            raise QuestionNotFound(question_id, self._workspace)
        self._engine.remember(found)
        return found

    async def find_by_key(self, key: str) -> Question | None:
        """See `Desk.find_by_key`."""
        if text_problem(key):
            return None
        return await self._swept(
            lambda: self._engine.store.find_by_key(self._workspace, key),
            lambda found: found is not None and found.overdue,
        )

    async def pending(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page:
        """See `Desk.pending`."""
        check_limit(limit)
        if any(map(text_problem, filter(None, (conversation, asker, after)))):
            return Page([], None)
        narrow = self._filter(conversation, recipient, asker)
        questions = await self._swept(
            lambda: self._engine.store.pending(narrow, after=after, limit=limit + 1),
            lambda page: any(question.overdue for question in page),
        )
        page = questions[:limit]
        self._engine.remember_page(page)
        return Page(page, page[-1].id if page and len(questions) > limit else None)

    async def settled(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page:
        """See `Desk.settled`."""
        check_limit(limit)
        if any(map(text_problem, filter(None, (conversation, asker)))):
            return Page([], None)
        narrow = self._filter(conversation, recipient, asker)
        if after is None:
            await self.sweep()  # what the clock has ended is settled, whether somebody has noticed or not
        page = await self._engine.store.settled(narrow, after=after, limit=limit)
        return Page(page.questions, page.after)

    async def history(self, question_id: str) -> Sequence[Event]:
        """See `Desk.history`."""
        events = await self._engine.store.history(self._ref(question_id))
        if not events:
            raise QuestionNotFound(question_id, self._workspace)
        return events

    async def feed(self, *, after: str | None = None, limit: int = 500) -> Sequence[Event]:
        """See `Desk.feed`."""
        check_limit(limit)
        return await self._engine.store.feed(self._workspace, after=after, limit=limit)

    async def follow(self, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """See `Desk.follow`."""
        async with aclosing(self.follow_pages(after=after)) as pages:
            async for page in pages:
                for event in page:
                    yield event

    def follow_pages(self, *, after: str | None = None) -> AsyncGenerator[Sequence[Event], None]:
        """What `follow` gives, as many at a time as there are."""
        return self._engine.feeds.follow(self._workspace, after=after)

    async def sweep(self) -> int:
        """See `Desk.sweep`."""
        return await self._engine.sweep(self._workspace)

    async def tend(self) -> int:
        """Do what the timelines of every workspace say is due; give back how many questions that settled."""
        return await self._engine.tend()

    async def recover(self, max_age: timedelta) -> Recovered:
        """See `Desk.recover`."""
        check_max_age(max_age)
        expired = 0
        store = self._engine.store
        await self.sweep()
        while refs := await store.expire_older(self._workspace, self._asker, max_age, limit=_RECOVER):
            expired += len(refs)
            await self._engine.tell_settled(refs)
        return Recovered(expired=expired, live=await store.count_pending(self._workspace, self._asker))

    async def durability(self) -> Durability:
        """See `Desk.durability`."""
        return await self._engine.store.durability()

    def _filter(
        self, conversation: str | None, recipient: str | Responder | None, asker: str | None
    ) -> Filter:
        return Filter(
            workspace=self._workspace,
            conversation=conversation,
            recipient=None if recipient is None else responder_of(recipient),
            asker=asker,
        )

    async def _pending(self, question_id: str) -> Question:
        question = await self.get(question_id)
        if question.outcome is not None:
            raise AlreadySettled(question_id, question.outcome)
        return question

    async def _answerable(
        self, question_id: str, by: str | Responder, evidence: str | None = None
    ) -> tuple[Question, Responder]:
        """The pending question and the person, where that person may answer it on this evidence."""
        responder = responder_of(by)
        question = self._engine.recall(self._ref(question_id))
        if question is None or not may_respond(question, responder):
            question = await self.get(question_id)
            check_may_respond(question, responder)
            if question.outcome is not None:
                raise AlreadySettled(question_id, question.outcome)
        check_evidence(question, responder, evidence)
        return question, responder

    async def _move(self, move: Move) -> Question:
        """Let the store decide; then tell whoever waits, or find out why it was refused."""
        moved = self._told(await self._engine.settle.soon(move))
        if moved is None:
            question = await self._pending(move.question.id)
            check_may_respond(question, move.responder)
            raise NotEntitled(move.by, "the question changed meanwhile; look at it again")
        return moved

    def _told(self, moved: Question | None) -> Question | None:
        """The same question, after telling whoever waits for it that it is settled."""
        if moved is None:
            return None
        self._engine.remember(moved)
        self._engine.stir_feed(self._workspace)
        if moved.outcome is not None:
            ref = moved.ref
            self._engine.room.tell(ref, moved.outcome)
            self._engine.hints.add(ref)
        return moved

    async def _swept(self, load: Callable[[], Awaitable[T]], stale: Callable[[T], bool]) -> T:
        """What `load` gives, after doing first what its timelines say is due."""
        began, pause = time.monotonic(), 0.0
        while stale(found := await load()):
            if time.monotonic() - began > _PATIENCE:
                raise StoreUnavailable(
                    "An expired question is locked by somebody else and cannot be settled."
                )
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 2 + 0.005)
            await self.sweep()
        return found
