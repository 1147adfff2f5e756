"""The desk on a store: follow a question from `post` to the woken wait by reading this file downwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, Unpack, overload

from handraise.desk.engine import Engine
from handraise.model.checking import check_answer
from handraise.model.composing import Limits, QuestionOptions, Span, compose, seconds_of
from handraise.model.errors import (
    AlreadyConsumed,
    AlreadySettled,
    GrantNotFound,
    InvalidAnswer,
    KeyConflict,
    NotAnswered,
    NotApproved,
    NotEntitled,
    Problem,
    QuestionNotFound,
    StillPending,
    StoreUnavailable,
)
from handraise.model.events import Event
from handraise.model.forms import Action, Approval
from handraise.model.grants import Grant
from handraise.model.json_values import Json, text_problem
from handraise.model.keeping import check_kept, keepable
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
from handraise.model.people import Responder, check_may_respond, may_respond, responder_of
from handraise.model.questions import Question, Ref
from handraise.model.typed import python_value, typed
from handraise.ports import Durability, Filter, IdFactory, Recovered

T = TypeVar("T")

PAGE = 50
_PATIENCE = 10.0
_RECOVER = 500


@dataclass(frozen=True, slots=True)
class Page:
    """Some pending questions, and the id to go on from where there are more."""

    questions: Sequence[Question]
    after: str | None


class LocalDesk:
    """The verbs, on a store in reach of this process. Made by `handraise.open_desk`.

    A desk asks in the name of one asker and sees one workspace; `at` gives another view of the same store.
    """

    def __init__(
        self, engine: Engine, *, workspace: str, asker: str, new_id: IdFactory, limits: Limits
    ) -> None:
        for what, name in (("a workspace", workspace), ("an asker", asker)):
            # Calls of all workspaces go to the store together: a name it cannot keep would fail the others.
            if not name.strip() or len(name) > limits.name or text_problem(name):
                raise ValueError(f"{name[: limits.name]!r} cannot be the name of {what}")
        self._engine = engine
        self._workspace = workspace
        self._asker = asker
        self._new_id = new_id
        self._limits = limits

    @property
    def workspace(self) -> str:
        """The workspace that this desk sees."""
        return self._workspace

    @property
    def asker(self) -> str:
        """In whose name this desk asks."""
        return self._asker

    def at(self, workspace: str | None = None, *, asker: str | None = None) -> LocalDesk:
        """The same desk for another workspace or asker; it is closed with this one."""
        return LocalDesk(
            self._engine,
            workspace=workspace or self._workspace,
            asker=asker or self._asker,
            new_id=self._new_id,
            limits=self._limits,
        )

    async def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """Leave a question and get its record at once.

        With a `key`, posting again gives back the first question, settled or not; the same key for a
        different question raises `KeyConflict`. What cannot be asked raises `InvalidQuestion`.
        """
        draft = compose(
            prompt,
            options,
            new_id=self._new_id(),
            workspace=self._workspace,
            asker=self._asker,
            limits=self._limits,
        )
        result = await self._engine.insert(draft)
        if isinstance(result, KeyConflict):
            raise result
        if result.overdue:
            return await self.get(result.id)
        self._engine.remember(result)
        return result

    @overload
    async def ask(
        self, prompt: str, *, into: type[T], timeout: Span | None = None, **options: Unpack[QuestionOptions]
    ) -> T: ...

    @overload
    async def ask(
        self, prompt: str, *, timeout: Span | None = None, **options: Unpack[QuestionOptions]
    ) -> Any: ...

    async def ask(
        self,
        prompt: str,
        *,
        into: Any = None,
        timeout: Span | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Any:
        """Leave a question, wait, and get the value.

        `into` names the type to get: it makes the form, unless `form` or `choices` do. An approval gives a
        `Decision`. Any other ending than an answer raises `NotAnswered`; the wait's own `timeout` raises
        `StillPending` and leaves the question alone.
        """
        reading = None if into is None else typed(into)
        if reading is not None and "form" not in options and "choices" not in options:
            options["form"] = reading.form
        question = await self.post(prompt, **options)
        outcome = await self.wait(question.id, timeout=timeout)
        if not isinstance(outcome, Answered):
            raise NotAnswered(question.id, outcome)
        return reading.read(outcome.value) if reading else python_value(question.form, outcome.value)

    async def wait(self, question_id: str, *, timeout: Span | None = None) -> Outcome:
        """The outcome, as soon as there is one. A `timeout` raises `StillPending` and changes nothing."""
        _, outcome = await self.wait_any([question_id], timeout=timeout)
        return outcome

    async def wait_any(
        self,
        question_ids: Iterable[str],
        *,
        timeout: Span | None = None,
    ) -> tuple[str, Outcome]:
        """The id and the outcome of whichever of these is settled first."""
        refs = [self._ref(each) for each in dict.fromkeys(question_ids)]
        if not refs:
            raise ValueError("wait_any needs at least one question")
        waits = {self._engine.room.enter(ref): ref.id for ref in refs}
        try:
            done, _ = await asyncio.wait(
                waits,
                timeout=None if timeout is None else seconds_of(timeout),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:
                return await self._settled_after_all(refs)
            first = next(wait for wait in waits if wait in done)
            return waits[first], first.result()
        finally:
            for wait in waits:
                if not wait.cancel() and not wait.cancelled():
                    wait.exception()  # seen: only the first one counts

    async def _settled_after_all(self, refs: Sequence[Ref]) -> tuple[str, Outcome]:
        """The time is over: look once more, for it may have been too short to look at all."""
        found = await self._engine.store.outcomes(refs)
        for ref, outcome in found.items():
            if outcome is None:
                raise QuestionNotFound(ref.id, ref.workspace)
            return ref.id, outcome
        raise StillPending([ref.id for ref in refs])

    async def answer(
        self,
        question_id: str,
        value: Json,
        *,
        by: str | Responder,
        channel: str | None = None,
        evidence: str | None = None,
        details: Json = None,
    ) -> Question:
        """Give an answer and get the question as it then stands: answered, or pending more votes.

        An answer that does not fit raises `InvalidAnswer`, is kept as an attempt, and leaves the question
        pending. A question that ended before raises `AlreadySettled` with its outcome. `details` are what the
        channel wants kept with the answer; they are in the question's history.
        """
        question, responder = await self._answerable(question_id, by)
        check_kept(self._limits, channel=channel, evidence=evidence, details=details)
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
        """Keep an answer that fits the form but not the asker's need; get the question as it then stands.

        It counts as `answer` counts what does not fit: the question stays pending, or is exhausted.
        """
        if not problems:
            raise ValueError("attempt needs at least one problem: say why the answer does not fit")
        question, responder = await self._answerable(question_id, by)
        check_kept(
            self._limits,
            channel=channel,
            **{f"problems[{place}]": str(each) for place, each in enumerate(problems)},
        )
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
        details: Json = None,
    ) -> Question:
        """Say that one will not answer, and get the question as it then stands."""
        question, responder = await self._answerable(question_id, by)
        check_kept(self._limits, reason=reason, channel=channel, evidence=evidence, details=details)
        return await self._move(
            declining(question, responder, reason=reason, channel=channel, evidence=evidence, details=details)
        )

    async def withdraw(self, question_id: str, *, reason: str | None = None) -> Question:
        """Take back a question that this desk's asker has asked."""
        question = await self._pending(question_id)
        if question.asker != self._asker:
            raise NotEntitled(self._asker, "only whoever asked can withdraw")
        check_kept(self._limits, reason=reason)
        return await self._move(withdrawing(question, self._asker, reason=reason))

    async def approve(
        self,
        approval: Approval,
        *,
        prompt: str | None = None,
        timeout: Span | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Action:
        """Ask for the approval of an action, wait, and get the action: execute it now, it is given out once.

        A grant that holds answers at once. Whatever is not an approval raises `NotApproved`; the wait's own
        `timeout` raises `StillPending` and leaves the question alone.
        """
        options["form"] = approval
        question = await self.post(prompt or f"May I run {approval.action.tool}?", **options)
        if question.outcome is None and await self.apply_grant(question.id) is None:
            await self.wait(question.id, timeout=timeout)
        return await self.consume(question.id)

    async def apply_grant(self, question_id: str) -> Question | None:
        """Answer this asker's approval from a grant that holds for it; None where a person must decide.

        A question that is settled comes back as it stands.
        """
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
        return self._told(await self._engine.settle(using(question, grant)))

    async def consume(self, question_id: str) -> Action:
        """The approved action, to be executed now: an approval is used at most once.

        The action comes from the record, and its digest is computed again. Raises `NotApproved` where nobody
        approved just this, and `AlreadyConsumed` for everybody but the first.
        """
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
        if not await self._engine.store.consume(question.ref, digest=digest, by=self._asker):
            raise AlreadyConsumed(question_id)
        return decision.action

    async def grants(self, *, after: str | None = None, limit: int = PAGE) -> Sequence[Grant]:
        """The workspace's grants, also those that have ended; go on from the last one's id."""
        return await self._engine.store.grants(self._workspace, after=after, limit=limit)

    async def revoke(self, grant_id: str, *, by: str) -> Grant:
        """End a grant now. A second time changes nothing."""
        responder = responder_of(by)
        found = None
        if not text_problem(grant_id):
            found = await self._engine.store.revoke(self._workspace, grant_id, by=responder.id)
        if found is None:
            raise GrantNotFound(grant_id, self._workspace)
        return found

    async def get(self, question_id: str) -> Question:
        """The question as it stands, or `QuestionNotFound`."""
        ref = self._ref(question_id)
        found = await self._swept(
            lambda: self._engine.read(ref), lambda found: found is not None and found.overdue
        )
        if found is None:
            raise QuestionNotFound(question_id, self._workspace)
        self._engine.remember(found)
        return found

    async def find_by_key(self, key: str) -> Question | None:
        """The question with this key, or None."""
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
        """A page of pending questions, oldest first; go on with `after` where the page has one.

        `recipient` narrows it to what that person may answer.
        """
        if any(map(text_problem, filter(None, (conversation, asker, after)))):
            return Page([], None)
        narrow = Filter(
            workspace=self._workspace,
            conversation=conversation,
            recipient=None if recipient is None else responder_of(recipient),
            asker=asker,
        )
        questions = await self._swept(
            lambda: self._engine.store.pending(narrow, after=after, limit=limit + 1),
            lambda page: any(question.overdue for question in page),
        )
        page = questions[:limit]
        return Page(page, page[-1].id if page and len(questions) > limit else None)

    async def history(self, question_id: str) -> Sequence[Event]:
        """Everything that happened to a question, oldest first."""
        events = await self._engine.store.history(self._ref(question_id))
        if not events:
            raise QuestionNotFound(question_id, self._workspace)
        return events

    async def feed(self, *, after: str | None = None, limit: int = 500) -> Sequence[Event]:
        """The workspace's events in order. Go on from the last one's `cursor`; none is ever skipped."""
        return await self._engine.store.feed(self._workspace, after=after, limit=limit)

    async def sweep(self) -> int:
        """Do what timelines say is due; give back how many questions that settled.

        A desk with waits does this by itself.
        """
        return await self._engine.sweep()

    async def recover(self, max_age: timedelta) -> Recovered:
        """At start-up: expire what this asker asked longer than `max_age` ago; count what is live again."""
        expired = 0
        store = self._engine.store
        await self.sweep()
        while refs := await store.expire_older(self._workspace, self._asker, max_age, limit=_RECOVER):
            expired += len(refs)
            self._engine.room.stir(refs)
            await self._engine.bus.wake(refs)
        return Recovered(expired=expired, live=await store.count_pending(self._workspace, self._asker))

    async def durability(self) -> Durability:
        """What an acknowledged answer survives on this store."""
        return await self._engine.store.durability()

    def _ref(self, question_id: str) -> Ref:
        if text_problem(question_id):  # no store could keep such an id, so none has
            raise QuestionNotFound(question_id, self._workspace)
        return Ref(self._workspace, question_id)

    async def _pending(self, question_id: str) -> Question:
        question = await self.get(question_id)
        if question.outcome is not None:
            raise AlreadySettled(question_id, question.outcome)
        return question

    async def _answerable(self, question_id: str, by: str | Responder) -> tuple[Question, Responder]:
        """The pending question and the person, where that person may answer it."""
        responder = responder_of(by)
        question = self._engine.recall(self._ref(question_id))
        if question is not None and may_respond(question, responder):
            return question, responder
        question = await self.get(question_id)
        check_may_respond(question, responder)
        if question.outcome is not None:
            raise AlreadySettled(question_id, question.outcome)
        return question, responder

    async def _move(self, move: Move) -> Question:
        """Let the store decide; then tell whoever waits, or find out why it was refused."""
        moved = self._told(await self._engine.settle(move))
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
        if moved.outcome is not None:
            self._engine.room.tell(moved.ref, moved.outcome)
            self._engine.wake.soon(moved.ref)
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
