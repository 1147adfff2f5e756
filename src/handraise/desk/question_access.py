"""What all verbs of a local desk use: read a question, check who may do something with it, and let the store decide."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from urllib.parse import quote

from handraise.desk.engine import Engine
from handraise.model.agreement import with_votes_told
from handraise.model.drafting import Limits
from handraise.model.errors import (
    AlreadySettled,
    AlreadyTaken,
    CannotAskBack,
    InvalidAnswer,
    NothingToReply,
    PermissionDenied,
    QuestionNotFound,
    Stopped,
    StoreUnavailable,
    ThreadMoved,
)
from handraise.model.evidence import check_evidence
from handraise.model.lifecycle import VOTES, Move, Refusal
from handraise.model.move_decisions import Refused
from handraise.model.people import Responder, check_may_respond, may_respond, responder_of, why_not_asked
from handraise.model.problems import HandraiseError, Problem
from handraise.model.questions import Question, Ref, changed
from handraise.ports import IdFactory
from handraise.ports.desk import Close, Desk

T = TypeVar("T")

_SHORT_PATIENCE = 0.5
PATIENCE = 10.0
"""For how many seconds a desk tries again if the store has not decided."""
_PAST = Problem("until", "is in the past: give a time in the future, or leave it out")
_FOLLOWERS = 1_000
"""How many waits of equal questions are woken at once; the others find out by themselves."""


class QuestionAccess(Desk):
    """A desk's questions in its store: reading one, checking who may do something with it, and one move."""

    def __init__(
        self,
        engine: Engine,
        *,
        workspace: str,
        asker: str,
        new_id: IdFactory,
        limits: Limits,
        close: Close | None = None,
    ) -> None:
        super().__init__(workspace=workspace, asker=asker, new_id=new_id, limits=limits, close=close)
        self._shared = engine

    @property
    def _engine(self) -> Engine:
        """The engine, after checking that this is the process and event loop where the desk was opened."""
        self._shared.opened_in.check()
        return self._shared

    async def get(self, question_id: str) -> Question:
        """See `Desk.get`."""
        ref = self._ref(question_id)
        found = await self._after_due_steps(lambda: self._engine.read(ref), lambda found: [found])
        if found is None:
            raise QuestionNotFound(question_id, self._workspace)
        self._engine.remember(found)
        return self._with_url(await self._with_votes_told(found))

    async def _with_votes_told(self, question: Question) -> Question:
        """The question with what each person voted, once it has ended."""
        if not question.votes or question.outcome is None:
            return question
        return with_votes_told(question, await self._engine.store.history(question.ref))

    async def _own_question(self, question_id: str, reason: str) -> Question:
        """Return this asker's question. Another asker's is not found, on every desk, unless it is shared."""
        question = await self.get(question_id)
        if question.asker == self._asker:
            return question
        if question.shared:
            raise PermissionDenied(self._asker, reason)
        raise QuestionNotFound(question_id, self._workspace, self._asker)

    async def _pending_question(self, question_id: str) -> Question:
        question = await self.get(question_id)
        if question.outcome is not None:
            raise AlreadySettled(question_id, question.outcome)
        return question

    async def _answerable(
        self, question_id: str, by: str | Responder, evidence: str | None = None
    ) -> tuple[Question, Responder]:
        """Return the pending question and the person, if that person may answer it with this evidence."""
        responder = responder_of(by)
        question = self._engine.recall(self._ref(question_id))
        if question is None or not may_respond(question, responder):
            question, responder = await self.get(question_id), await self._with_groups(by)
            check_may_respond(question, responder)
            if question.outcome is not None:
                raise AlreadySettled(question_id, question.outcome)
        check_evidence(question, responder, evidence, refuses=True)  # what it takes to answer at all
        return question, responder

    async def _with_groups(self, by: str | Responder) -> Responder:
        """Return the person, with their groups from the directory unless the caller gave them."""
        responder, directory = responder_of(by), self._engine.directory
        if not isinstance(by, str) or directory is None:
            return responder
        person = await directory.find_person(self._workspace, responder.id)
        return responder if person is None else person.responder

    async def _move(self, move: Move) -> Question:
        """Let the store decide; then notify waits, or raise why the move was refused."""
        followers = () if move.question.topic is None else await self._followers(move)
        began, pause = time.monotonic(), 0.0
        while isinstance(moved := await self._shared.settle.submit(move), Refused):
            if moved.why is Refusal.UNCHANGED:
                return self._with_url(moved.question)
            if moved.why not in (Refusal.SETTLED, Refusal.EXPIRED):
                raise _error_of(moved, move)
            # It raises that it has ended, unless another process is about to note that it has expired.
            await self._pending_question(move.question.id)
            if time.monotonic() - began > PATIENCE:
                raise StoreUnavailable(f"Question {move.question.id!r} kept changing meanwhile. Try again.")
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 2 + 0.005)
        if followers and moved.outcome is not None:
            await self._shared.notify_settled(followers)
        return self._notify_moved(moved)

    async def _followers(self, move: Move) -> Sequence[Ref]:
        """The questions that end with this one, if it ends. A wait for one that comes later finds out by itself."""
        if move.kind not in VOTES:
            return ()
        return [each.ref for each in await self._engine.store.followers(move.question.ref, limit=_FOLLOWERS)]

    def _notify_moved(self, moved: Question) -> Question:
        """Notify waits and followers of a moved question; return it with its URL."""
        engine = self._shared
        engine.remember(moved)
        engine.notify_feed(self._workspace)
        if moved.outcome is not None:
            ref = moved.ref
            engine.waiters.resolve(ref, moved.outcome)
            engine.hints.add(ref)
        return self._with_url(moved)

    def _with_url(self, question: Question) -> Question:
        """Return the question with the URL of its page, if a server's address is known."""
        base = self._shared.public_url
        return question if base is None else changed(question, url=f"{base}/questions/{quote(question.id)}")

    async def _after_due_steps(
        self, load: Callable[[], Awaitable[T]], questions: Callable[[T], Iterable[Question | None]]
    ) -> T:
        """Return what `load` returns, after doing the due steps of its questions' timelines.

        Another process may have locked a question. This waits for an expiry; for a reminder or an escalation only briefly.
        """
        began, pause = time.monotonic(), 0.0
        while True:
            found = await load()
            due = [each for each in questions(found) if each is not None and each.overdue]
            if not due:
                return found
            waited = time.monotonic() - began
            if not any(each.next_step.ends for each in due) and waited > _SHORT_PATIENCE:
                return found
            if waited > PATIENCE:
                raise StoreUnavailable("A question that has expired is locked by another process. Try again.")
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 2 + 0.005)
            await self.run_due()


def _error_of(refused: Refused, move: Move) -> HandraiseError:
    """Why a pending question does not take a move."""
    question = refused.question
    match refused.why:
        case Refusal.STOPPED if refused.stop is not None:
            return Stopped(refused.stop)
        case Refusal.DISABLED:
            return PermissionDenied(move.by, "an administrator has disabled this person")
        case Refusal.THREAD_MOVED_ON:
            return ThreadMoved(question.id, seen=move.seen or 0, thread=question.thread)
        case Refusal.NOBODY_REPLIES:
            return CannotAskBack(question.id)
        case Refusal.NOTHING_TO_REPLY:
            return NothingToReply(question.id)
        case Refusal.TAKEN if question.taken_by is not None:
            return AlreadyTaken(question.id, taken_by=question.taken_by, until=question.taken_until)
        case Refusal.GRANT_IS_PAST:
            return InvalidAnswer([_PAST])
        case _:
            return PermissionDenied(move.by, why_not_asked(question, move.responder))
