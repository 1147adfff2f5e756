"""The desk: the verbs that every desk has, wherever its store is. The docstrings are the contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, Unpack, overload

from handraise.model.composing import Limits, QuestionOptions, Span, compose, seconds_of
from handraise.model.errors import NotAnswered, Problem, QuestionNotFound
from handraise.model.events import Event
from handraise.model.forms import Action, Approval
from handraise.model.grants import Grant
from handraise.model.json_values import Json, text_problem
from handraise.model.outcomes import Answered, Outcome
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question, Ref
from handraise.model.typed import python_value, typed
from handraise.ports.clock import IdFactory
from handraise.ports.store import Durability, Recovered

T = TypeVar("T")

PAGE = 50
MOST_ON_A_PAGE = 500


def check_limit(limit: int) -> None:
    """Raise `ValueError` unless a page may have so many entries."""
    if not 1 <= limit <= MOST_ON_A_PAGE:
        raise ValueError(
            f"limit must be from 1 to {MOST_ON_A_PAGE}, not {limit}. Go on with `after` for more."
        )


def check_max_age(max_age: timedelta) -> None:
    """Raise `ValueError` unless something can be older than this."""
    if max_age < timedelta(0):
        raise ValueError(f"max_age must not be negative, as {max_age} is")


@dataclass(frozen=True, slots=True)
class Page:
    """Some questions, and what to go on from where there are more, or may be."""

    questions: Sequence[Question]
    after: str | None


class Desk(ABC):
    """The verbs. Made by `handraise.open_desk`: a `LocalDesk` on a store, a `RemoteDesk` over HTTP.

    A desk asks in the name of one asker and sees one workspace; `at` gives another view of the same desk.
    """

    def __init__(self, *, workspace: str, asker: str, new_id: IdFactory, limits: Limits) -> None:
        for what, name in (("a workspace", workspace), ("an asker", asker)):
            # Calls of all workspaces go to the store together: a name it cannot keep would fail the others.
            if not name.strip() or len(name) > limits.name or text_problem(name):
                raise ValueError(f"{name[: limits.name]!r} cannot be the name of {what}")
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

    @abstractmethod
    def at(self, workspace: str | None = None, *, asker: str | None = None) -> Desk:
        """The same desk for another workspace or asker; it is closed with this one."""

    @abstractmethod
    async def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """Leave a question and get its record at once.

        With a `key`, posting again gives back the first question, settled or not; the same key for a
        different question raises `KeyConflict`. What cannot be asked raises `InvalidQuestion`.
        """

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
        return await self._outcome_of(
            self._ref(question_id), timeout=None if timeout is None else seconds_of(timeout)
        )

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
        return await self._first_of(refs, timeout=None if timeout is None else seconds_of(timeout))

    @abstractmethod
    def _outcome_of(self, ref: Ref, *, timeout: float | None) -> Awaitable[Outcome]:
        """See `wait`."""

    @abstractmethod
    async def _first_of(self, refs: Sequence[Ref], *, timeout: float | None) -> tuple[str, Outcome]:
        """See `wait_any`."""

    @abstractmethod
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
        """Give an answer and get the question as it then stands: answered, or pending more votes.

        An answer that does not fit raises `InvalidAnswer`, is kept as an attempt, and leaves the question
        pending. A question that ended before raises `AlreadySettled` with its outcome. `shown` is the SHA-256,
        in hexadecimal, of the question as the person saw it, where the channel knows that; `details` are what else it
        wants kept with the answer. Both are in the question's history, and sealed with it.
        """

    @abstractmethod
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

    @abstractmethod
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
        """Say that one will not answer, and get the question as it then stands."""

    @abstractmethod
    async def withdraw(self, question_id: str, *, reason: str | None = None) -> Question:
        """Take back a question that this desk's asker has asked."""

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

    @abstractmethod
    async def apply_grant(self, question_id: str) -> Question | None:
        """Answer this asker's approval from a grant that holds for it; None where a person must decide.

        A question that is settled comes back as it stands.
        """

    @abstractmethod
    async def consume(self, question_id: str, *, request: str | None = None) -> Action:
        """The approved action, to be executed now: an approval is used at most once.

        The action comes from the record, and its digest is computed again. Raises `NotApproved` where nobody
        approved just this, and `AlreadyConsumed` for everybody but the first.

        `request` is an id of your own for this one use: the same id again gives the same action again. Whoever was
        cut off before they were told keeps it and calls again with it. Never share it: two who do both get the action.
        """

    @abstractmethod
    async def grants(self, *, after: str | None = None, limit: int = PAGE) -> Sequence[Grant]:
        """The workspace's grants, also those that have ended; go on from the last one's id.

        `limit` is from 1 to 500, here and below.
        """

    @abstractmethod
    async def revoke(self, grant_id: str, *, by: str) -> Grant:
        """End a grant now. A second time changes nothing."""

    @abstractmethod
    async def get(self, question_id: str) -> Question:
        """The question as it stands, or `QuestionNotFound`."""

    @abstractmethod
    async def find_by_key(self, key: str) -> Question | None:
        """The question with this key, or None."""

    @abstractmethod
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

    @abstractmethod
    async def settled(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page:
        """A page of settled questions, the newest ending first; go on with `after` where the page has one.

        `recipient` narrows it to what that person may see: what they might have answered, answered, declined or
        voted on. A page looks back over a bounded part of the past: it may be short, or empty, and yet not the
        last one. An `after` that no page has given out raises `ValueError`.
        """

    @abstractmethod
    async def history(self, question_id: str) -> Sequence[Event]:
        """Everything that happened to a question, oldest first."""

    @abstractmethod
    async def feed(self, *, after: str | None = None, limit: int = 500) -> Sequence[Event]:
        """The workspace's events in order. Go on from the last one's `cursor`; none is ever skipped.

        An `after` that no event has as its cursor raises `ValueError`; an empty one is the beginning.
        """

    @abstractmethod
    def follow(self, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """The workspace's events as they happen, from behind the cursor `after`, else from now on.

        An empty cursor is the beginning. None is skipped and none comes twice, also where a connection is lost in between. Ends only with the
        desk, as `DeskClosed`.
        """

    @abstractmethod
    async def sweep(self) -> int:
        """Do what this workspace's timelines say is due; give back how many questions that settled.

        A desk with waits does this by itself, for every workspace.
        """

    @abstractmethod
    async def recover(self, max_age: timedelta) -> Recovered:
        """At start-up: expire what this asker asked longer than `max_age` ago; count what is live again."""

    @abstractmethod
    async def durability(self) -> Durability:
        """What an acknowledged answer survives on this store."""

    def _draft(self, prompt: str, options: QuestionOptions) -> Draft:
        return compose(
            prompt,
            options,
            new_id=self._new_id(),
            workspace=self._workspace,
            asker=self._asker,
            limits=self._limits,
        )

    def _ref(self, question_id: str) -> Ref:
        if text_problem(question_id):  # no store could keep such an id, so none has
            raise QuestionNotFound(question_id, self._workspace)
        return Ref(self._workspace, question_id)
