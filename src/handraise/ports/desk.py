"""The desk: the verbs that every desk has, wherever its store is. The docstrings are the contract."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import isawaitable
from typing import Any, Generic, TypeAlias, TypeVar, Unpack, overload

from handraise.model.answer_types import python_value, typed
from handraise.model.attachments import Attachment
from handraise.model.bulk_answers import BulkAnswer, BulkDecline, BulkItem, BulkResult
from handraise.model.call_hints import usage
from handraise.model.drafting import Limits, QuestionOptions, check_into, compose
from handraise.model.durations import Span, seconds_of, timeout_of
from handraise.model.errors import (
    AlreadySettled,
    ForkedDesk,
    NotAnswered,
    NothingToReply,
    QuestionNotFound,
    WrongLoop,
)
from handraise.model.events import Event
from handraise.model.forms import Action, Approval
from handraise.model.grants import Grant
from handraise.model.json_values import JsonValue, text_problem
from handraise.model.outcomes import Answered, Outcome
from handraise.model.pending_views import Order, PendingFilters, ViewCounts
from handraise.model.people import Responder
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.provenance import Provenance
from handraise.model.questions import Draft, Question, Ref
from handraise.model.replay import ENDINGS
from handraise.model.standing_answers import SPOT_CHECK, StandingAnswer
from handraise.model.thread_messages import ThreadMessage, messages_of, replied_to
from handraise.model.visible import visible_line
from handraise.ports.ambient_trace import current_traceparent
from handraise.ports.attached_file import read_file
from handraise.ports.clock import IdFactory
from handraise.ports.settled_filter import Ended
from handraise.ports.store import Durability, Recovered

_log = logging.getLogger(__name__)

T = TypeVar("T")

Show: TypeAlias = Callable[[Question], Awaitable[None] | None]
"""Shows a question to people."""

ReplyWith: TypeAlias = Callable[[ThreadMessage], Awaitable[str | None] | str | None]
"""Gives the reply to what a person asked back; None replies nothing, and they go on waiting."""

Close: TypeAlias = Callable[[], Awaitable[None]]
"""Closes a desk and everything that was opened for it."""

SENDING_LEASE = 30.0
"""The longest lease, in seconds, for showing a question."""

PAGE = 50
MOST_ON_A_PAGE = 500
MAX_PAGE_BYTES = 1_000_000
"""A page of questions ends with the one that reaches this size."""
LONGEST_LEASE = 3_600
_USE_APPROVE = (
    "ask() would return an approved action again and again: write `action = await desk.request_approval(Approval.of(…), "
    "prompt=…, key=…)`, or post(…) and later consume_approval(question.id)"
)


def check_limit(limit: int) -> None:
    """Raise `ValueError` unless a page may have this many entries."""
    if not 1 <= limit <= MOST_ON_A_PAGE:
        raise ValueError(f"limit must be from 1 to {MOST_ON_A_PAGE}, not {limit}. Use `after` to get more.")


def check_lease(lease: Span) -> timedelta:
    """The length of a lease. Raises `ValueError` unless it is more than zero and at most an hour."""
    seconds = seconds_of(lease)
    if not 0 < seconds <= LONGEST_LEASE:
        raise ValueError(f"lease must be more than 0 and at most {LONGEST_LEASE} seconds, not {seconds:g}")
    return timedelta(seconds=seconds)


def check_id(question_id: str) -> None:
    """Raise `TypeError` for anything but an id, above all for the question itself."""
    if isinstance(question_id, str):
        return
    if isinstance(question_id, Question):
        raise TypeError("This takes the id of a question, not the question: write question.id.")
    raise TypeError(f"This takes the id of a question, which is a text, not {type(question_id).__name__}.")


def check_bulk_items(items: Iterable[BulkItem]) -> None:
    """Raise `TypeError` for anything but answers, and `ValueError` if two are to the same question."""
    seen: set[str] = set()
    for item in items:
        if not isinstance(item, BulkAnswer | BulkDecline):
            raise TypeError(
                "answer_all takes answers to several questions: write "
                f"answer_all([BulkAnswer(question.id, value), …]), not {type(item).__name__}."
            )
        check_id(item.question_id)
        if item.question_id in seen:
            raise ValueError(f"There are two answers to question {item.question_id!r}: give one.")
        seen.add(item.question_id)


def check_max_age(max_age: timedelta) -> None:
    """Raise `ValueError` if this is negative."""
    if max_age < timedelta(0):
        raise ValueError(f"max_age must not be negative, as {max_age} is")


def _with_replies(options: QuestionOptions, reply_with: ReplyWith | None) -> QuestionOptions:
    """The same options; if a function replies, people may ask back."""
    return options if reply_with is None or "replies" in options else {**options, "replies": "program"}


class OpenedIn:
    """The process and the event loop in which a desk was opened: its connections work nowhere else."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = running_loop()

    @property
    def forked(self) -> bool:
        """Whether this is another process: a child of the one in which the desk was opened."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Raise `ForkedDesk` in a forked child, and `WrongLoop` on another event loop."""
        if self.forked:
            raise ForkedDesk(self._process, os.getpid())
        loop = running_loop()
        if loop is not None and self._loop is not None and loop is not self._loop:
            raise WrongLoop(
                "This desk was opened in another event loop. Write `async with open_desk(…) as desk:` inside the "
                "coroutine that you give to asyncio.run(), once for each asyncio.run()."
            )


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list. Pass `next` as `after` to get the next page; it is None if there are no more.

    A page can be iterated and has a length.
    """

    items: Sequence[T]
    next: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Desk(ABC):
    """The verbs. `handraise.open_desk` makes one: a `LocalDesk` on a store, a `RemoteDesk` over HTTP.

    A desk asks in the name of one asker and sees one workspace; `scoped` returns another view of the same desk.
    """

    def __init__(
        self,
        *,
        workspace: str,
        asker: str,
        new_id: IdFactory,
        limits: Limits,
        close: Close | None = None,
    ) -> None:
        for what, name in (("a workspace", workspace), ("an asker", asker)):
            # Calls of all workspaces go to the store together, so one name that it cannot keep would make the
            # others fail.
            if not name.strip() or len(name) > limits.name or text_problem(name):
                raise ValueError(f"{name[: limits.name]!r} cannot be the name of {what}")
        self._workspace = workspace
        self._asker = asker
        self._new_id = new_id
        self._limits = limits
        self._close = close
        self._address: str | None = None

    async def close(self) -> None:
        """Close a desk that was opened with `await open_desk(…)`, and all desks that `scoped` made from it.

        `async with` does this by itself. Closing it again does nothing.
        """
        if self._close is not None:
            await self._close()

    @property
    def workspace(self) -> str:
        """The workspace that this desk sees."""
        return self._workspace

    @property
    def asker(self) -> str:
        """The asker in whose name this desk asks."""
        return self._asker

    @abstractmethod
    def scoped(self, workspace: str | None = None, *, asker: str | None = None) -> Desk:
        """The same desk for another workspace or asker; it is closed with this one."""

    @abstractmethod
    async def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """Store a question and return its record at once.

        With a `key`, posting again returns the first question, settled or not. The same key for a different
        question raises `KeyConflict`, or with `if_exists="keep"` returns the first question as it was asked.
        A question that cannot be asked raises `InvalidQuestion`.
        """

    @overload
    async def ask(
        self,
        prompt: str,
        *,
        into: type[T],
        timeout: Span | None = None,
        reply_with: ReplyWith | None = None,
        **options: Unpack[QuestionOptions],
    ) -> T: ...

    @overload
    async def ask(
        self,
        prompt: str,
        *,
        timeout: Span | None = None,
        reply_with: ReplyWith | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Any: ...

    @usage('ask("Which?", choices=["a", "b"])')
    async def ask(
        self,
        prompt: str,
        *,
        into: Any = None,
        timeout: Span | None = None,
        reply_with: ReplyWith | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Any:
        """Store a question, wait, and return the value of its answer.

        `into` is the type to return; the form is made from it unless you give `form` or `choices`. If the
        question ends without an answer, this raises `NotAnswered`; the wait's own `timeout` raises
        `StillPending` and leaves the question unchanged. An approval is refused with `InvalidQuestion`: use
        `request_approval`, which returns the action only once. `reply_with` lets people ask back; see `wait`.
        """
        if isinstance(options.get("form"), Approval):
            raise InvalidQuestion([Problem("form", _USE_APPROVE)])
        reading = None if into is None else typed(into)
        if reading is not None and "form" not in options and "choices" not in options:
            options["form"] = reading.form
        elif reading is not None:
            check_into(reading, options)
        seconds = timeout_of(timeout)  # checked before anybody is asked
        question = await self.post(prompt, **_with_replies(options, reply_with))
        if isinstance(question.form, Approval):  # the key named a stored approval
            raise InvalidQuestion([Problem("key", _USE_APPROVE)])
        self._say_what_waits(question)
        outcome = await self.wait(question.id, timeout=seconds, reply_with=reply_with)
        if not isinstance(outcome, Answered):
            raise NotAnswered(question.id, outcome)
        return reading.read(outcome.value) if reading else python_value(question.form, outcome.value)

    async def wait(
        self, question_id: str, *, timeout: Span | None = None, reply_with: ReplyWith | None = None
    ) -> Outcome:
        """Return the outcome as soon as there is one. A `timeout` raises `StillPending` and changes nothing.

        If it is unknown then whether there is an answer, it raises `StoreUnavailable`. `reply_with` is called with each
        message that a person asks back, and its result is the reply. What it raises ends the wait.
        """
        ref = self._ref(question_id)
        outcome = self._outcome_of(ref, timeout=timeout_of(timeout))
        with self._waiting_for([ref]):
            if reply_with is None:
                return await outcome
            return await self._while_replying(question_id, outcome, reply_with)

    def _say_what_waits(self, question: Question) -> None:
        """Say who must answer and where, and nothing of the question's text: in the log, and to a person at a terminal."""
        if question.outcome is not None:
            return
        who = ", ".join(question.recipients[:5]) or "anyone"
        store = "" if self._address is None else f"HANDRAISE_URL={self._address} "
        where = question.url or f"answer it with: {store}handraise answer {question.id}"
        _log.info("question %s waits for %s: %s", question.id, who, where, extra={"event": "question_waits"})
        if self._address is not None and sys.stderr is not None and sys.stderr.isatty():
            print(visible_line(f"Waiting for {who}: {where}"), file=sys.stderr)  # noqa: T201 -- or it seems to hang

    async def _while_replying(
        self, question_id: str, outcome: Awaitable[Outcome], reply_with: ReplyWith
    ) -> Outcome:
        waiting = asyncio.ensure_future(outcome)
        replying = asyncio.create_task(self._reply_to_all(question_id, reply_with))
        try:
            await asyncio.wait({waiting, replying}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                # It raises what the function raised. It ends by itself if the question is settled.
                await replying
            return await waiting
        finally:
            waiting.cancel()
            replying.cancel()
            await asyncio.gather(waiting, replying, return_exceptions=True)

    async def _reply_to_all(self, question_id: str, reply_with: ReplyWith) -> None:
        """Reply to what people ask back, and have asked back before, until the question is settled."""
        last = replied_to(await self.history(question_id))
        async with aclosing(self.messages(question_id, after=last)) as messages:
            async for message in messages:
                given = reply_with(message)
                text = await given if isawaitable(given) else given
                if text is not None:
                    # An answer, or another process, may be faster.
                    with suppress(AlreadySettled, NothingToReply):
                        await self.reply(question_id, text, to=message.number)

    async def wait_any(
        self,
        question_ids: Iterable[str],
        *,
        timeout: Span | None = None,
    ) -> tuple[str, Outcome]:
        """Return the id and the outcome of the one that is settled first."""
        if isinstance(question_ids, (str, Question)):
            raise TypeError(
                "wait_any takes several ids: write wait_any([question.id, …]), or wait(question.id)."
            )
        refs = list(dict.fromkeys(self._ref(each) for each in question_ids))
        if not refs:
            raise ValueError("wait_any needs at least one question")
        with self._waiting_for(refs):
            return await self._first_of(refs, timeout=timeout_of(timeout))

    async def heartbeat(self, question_ids: Iterable[str]) -> int:
        """Say that this asker still waits for the answers to its questions that were posted with a `heartbeat`.

        `ask`, `wait`, `wait_any` and `messages` do this by themselves, about every third of the heartbeat. Call it in a program
        that finds out about answers in another way. Returns how many of these are pending, are yours, and have a heartbeat;
        the others stay as they are.
        """
        if isinstance(question_ids, (str, Question)):
            raise TypeError("heartbeat takes several ids: write heartbeat([question.id, …]).")
        for question_id in (ids := list(dict.fromkeys(question_ids))):
            check_id(question_id)
        refs = [Ref(self._workspace, each) for each in ids if not text_problem(each)]
        return len(await self._beat(refs))

    @abstractmethod
    async def _beat(self, refs: Sequence[Ref]) -> Mapping[Ref, float]:
        """See `heartbeat`. Returns the heartbeats of those that were heard, in seconds."""

    @abstractmethod
    def _waiting_for(self, refs: Sequence[Ref]) -> AbstractContextManager[None]:
        """Say that this asker still waits for these, now and then, inside this context."""

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
        value: JsonValue,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """Answer a question and return it as it is then: answered, or still pending if more votes are needed.

        An answer that does not fit raises `InvalidAnswer`, is kept as an attempt, and leaves the question
        pending. A question that has already ended raises `AlreadySettled` with its outcome. `provenance` says
        where the answer came from.
        """

    @abstractmethod
    async def reject_answer(
        self,
        question_id: str,
        value: JsonValue,
        problems: Sequence[Problem],
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """Reject an answer that fits the form but not the asker's needs; return the question as it is then.

        It counts like an answer that does not fit: the question stays pending, or is exhausted.
        """

    @abstractmethod
    async def decline(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """Decline to answer, and return the question as it is then. This ends it for everyone; see also `set_aside`."""

    @abstractmethod
    async def send_back(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str,
        provenance: Provenance | None = None,
    ) -> Question:
        """Send a question back to be changed and asked again, and return it as it is then: returned, or one vote more.

        `reason` says what to change. This is never an approval. The asker asks again with `post(replaces=…)`.
        """

    @abstractmethod
    async def answer_all(self, items: Sequence[BulkItem], *, by: str | Responder) -> Sequence[BulkResult]:
        """Answer or decline several questions, and return what came of each, in the same order.

        Each is decided by itself, as `answer` and `decline` do it: one that is refused changes nothing for the others,
        and its result has the error. The approval of an action of high risk is always refused, with `NotInBulk`: answer
        it by itself. Two answers to one question raise `ValueError`, and then none is given.
        """

    @abstractmethod
    async def withdraw(
        self, question_id: str, *, reason: str | None = None, by: str | Responder | None = None
    ) -> Question:
        """Withdraw a question of this desk's asker.

        `by` names an administrator who withdraws it for its asker, and the outcome says so. A server checks
        that they are an administrator; a desk on a store trusts its caller, as `answer` does.
        """

    @abstractmethod
    async def withdraw_all(self, asker: str, *, by: str | Responder, reason: str | None = None) -> int:
        """Withdraw every pending question of an asker, as an administrator.

        Returns their number. Each is withdrawn separately, and a question that is answered first stays answered.
        """

    @usage("request_approval(Approval.of(tool, arguments), prompt=…)")
    async def request_approval(
        self,
        approval: Approval,
        *,
        prompt: str | None = None,
        timeout: Span | None = None,
        reply_with: ReplyWith | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Action:
        """Ask for the approval of an action, wait, and return the action: execute it now, it is returned only once.

        A valid grant answers at once. Any ending but an approval raises `NotApproved`; the wait's own
        `timeout` raises `StillPending` and leaves the question unchanged. `reply_with` lets people ask back; see `wait`.
        """
        if not isinstance(approval, Approval):
            raise TypeError(
                f"request_approval() takes an Approval first, not {type(approval).__name__}: write "
                "request_approval(Approval.of(tool, arguments), prompt=…)"
            )
        options["form"] = approval
        seconds = timeout_of(timeout)  # checked before anybody is asked
        question = await self.post(
            prompt or f"May I run {approval.action.tool}?", **_with_replies(options, reply_with)
        )
        if not (isinstance(question.form, Approval) and question.form.digest == approval.digest):
            raise InvalidQuestion(
                [Problem("key", "it names the approval of another action: choose another key")]
            )
        if question.outcome is None and await self.apply_grant(question.id) is None:
            self._say_what_waits(question)
            await self.wait(question.id, timeout=seconds, reply_with=reply_with)
        return await self.consume_approval(question.id)

    @abstractmethod
    async def apply_grant(self, question_id: str) -> Question | None:
        """Answer this asker's approval from a grant that applies to it; None if a person must decide.

        A settled question is returned unchanged.
        """

    @abstractmethod
    async def consume_approval(self, question_id: str, *, request: str | None = None) -> Action:
        """Return the approved action, to be executed now: an approval is used at most once.

        The action comes from the record, and its digest is computed again. Raises `NotApproved` if nobody
        approved exactly this action, and `AlreadyConsumed` for everybody but the first caller. Two kinds of
        `NotApproved` are `ApprovalLapsed`, if the approval's `valid_for` is over or its grant has ended, and
        `ApprovalTakenBack`.

        `request` is an id of your own for this one use: the same id again returns the same action again. If
        you were cut off before you got the action, call again with the same id. Never share it: two callers
        with the same id both get the action. It cannot begin with `receipt:`, as the uses of receipts do.
        """

    @abstractmethod
    async def receipt(self, question_id: str) -> str:
        """Return a signed receipt of this asker's approval, for the place where the action is executed.

        That place checks it with `handraise.gate` and uses the approval up: do not call `consume_approval` as
        well. A receipt is valid for 15 minutes at most, and never longer than the approval. Until the approval is used you
        can get a new one, and all of them together allow one use. Raises what `consume_approval` raises if the
        approval cannot be used now, and `NoReceiptKey` if there is no key to sign with.
        """

    @abstractmethod
    async def claim_sending(self, question_id: str, *, lease: Span = SENDING_LEASE) -> bool:
        """Claim the task of showing this asker's question to people in a chat of its own.

        One caller gets True: show it, then call `mark_sent`. False if it was marked, has ended, or somebody
        else is showing it. A caller that has not called `mark_sent` when the `lease` is over is considered
        dead, and the next caller gets True: a question may be shown twice, but it is always shown.
        """

    @abstractmethod
    async def mark_sent(self, question_id: str, *, channel: str | None = None) -> Question:
        """Record that this asker's question was shown in a chat, and return it as it is then.

        The first time counts. A question that has ended stays as it is.
        """

    @abstractmethod
    async def take_back(
        self, question_id: str, *, by: str | Responder, reason: str | None = None
    ) -> Question:
        """Take an approval back, if it is not consumed yet, and return the question as it is then.

        For people who approved and for administrators of the directory; anybody else gets `PermissionDenied`.
        The outcome stays in the record, and `taken_back_at` says that it is no longer valid. Calling it again
        changes nothing. Raises `AlreadyConsumed` if the action was already returned to its asker, and
        `NotApproved` if there is no approval.
        """

    @abstractmethod
    async def report(
        self,
        question_id: str,
        *,
        ok: bool,
        text: str,
        link: str | None = None,
        details: JsonValue = None,
    ) -> Question:
        """Report what came of the answer to this asker's question, and return the question as it is then.

        `text` is for people: "182,441 rows" or "the disk is full". `link` is a web address with more, and `details` is
        any JSON. People see all of it as your words, everywhere the question is shown.

        A report is final. The same one again changes nothing; another one raises `AlreadyReported`. A question that was
        not answered, and an approval that was not consumed, raise `NothingToReport`.
        """

    @abstractmethod
    async def ask_back(
        self,
        question_id: str,
        text: str,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """Ask the asker something about its question, which stays pending; return the question as it is then.

        It is the asker's turn then: reminders and escalations pause until it replies. The expiry does not. Raises
        `CannotAskBack` if the asker said that nobody can reply.
        """

    @abstractmethod
    async def note(
        self,
        question_id: str,
        text: str,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """Note something for the other people who may answer; return the question as it is then.

        An agent does not see the text of a note.
        """

    async def attach(
        self,
        data: bytes | os.PathLike[str],
        *,
        name: str | None = None,
        media_type: str | None = None,
        by: str | Responder | None = None,
    ) -> Attachment:
        """Store a file, and return its description for `post`, `reply`, or an answer to a `File`.

        `data` are its bytes, or a path; a path has a name already. Without a media type, it is guessed from the name. The file
        belongs to this desk's asker, or with `by` to the person who answers: nobody else can refer to it. A file that no
        question refers to is removed after a day. Raises `InvalidAttachment`, or `AttachmentTooLarge`.
        """
        attachment, content = await read_file(data, name=name, media_type=media_type, limits=self._limits)
        await self._store_attachment(attachment, content, by)
        return attachment

    @abstractmethod
    async def _store_attachment(
        self, attachment: Attachment, data: bytes, by: str | Responder | None
    ) -> None: ...

    @abstractmethod
    async def read_attachment(self, question_id: str, digest: str) -> bytes:
        """Return the bytes of a file that belongs to a question, to one of its messages, or to an answer.

        They are exactly those that were uploaded, and untrusted. Raises `AttachmentNotFound` if there is no such file.
        """

    @abstractmethod
    async def take(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """Say that this person is working on the answer, for ten minutes; return the question as it is then.

        Others see it and may still answer. Taking it again starts the ten minutes anew. Raises `AlreadyTaken` if somebody
        else has taken it.
        """

    @abstractmethod
    async def release(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """Say that this person is not working on the answer any more. Nothing happens if they were not."""

    @abstractmethod
    async def bring_in(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """Have these people and groups asked too, and return the question as it is then.

        They may answer like the others. Raises `CannotShare` if nobody has such a name, or if the policy named who
        answers.
        """

    @abstractmethod
    async def hand_over(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """Bring these people and groups in, and take the question out of this person's own inbox.

        Raises `CannotShare` also if the policy needs certain people for this question.
        """

    @abstractmethod
    async def set_aside(
        self,
        question_id: str,
        *,
        by: str | Responder,
        until: datetime | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """Take the question out of this person's inbox until a time, or for good; return it as it is then.

        Nobody else notices, and this person may still answer. Raises `CannotShare` if it is for good and nobody else has it
        in their inbox.
        """

    @abstractmethod
    async def put_back(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """Put a question that this person set aside back into their inbox. Nothing happens if they did not."""

    @abstractmethod
    async def reply(
        self,
        question_id: str,
        text: str,
        *,
        to: int | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Question:
        """Reply to what people asked this desk's asker, and return the question as it is then.

        `to` is the number of the message that you reply to, and of all before it; without it, all that were written so far.
        If nobody waits for a reply, this raises `NothingToReply`. People who had approved before must approve again.
        `attachments` are files that `attach` has stored.
        """

    async def thread(self, question_id: str) -> Sequence[ThreadMessage]:
        """Return all messages that people and the asker have written about a question, oldest first."""
        return messages_of(await self.history(question_id))

    async def messages(self, question_id: str, *, after: int = 0) -> AsyncGenerator[ThreadMessage, None]:
        """Yield what people ask back, as it comes, until the question is settled. Notes and replies are left out.

        `after` is the number of the last message that you have seen.
        """
        with self._waiting_for([self._ref(question_id)]):
            async with aclosing(self._changes_of(question_id)) as changes:
                async for _ in changes:
                    history = await self.history(question_id)
                    for message in messages_of(history)[after:]:
                        after = message.number
                        if message.kind == "asked_back":
                            yield message
                    if any(event.kind in ENDINGS for event in history):
                        return

    @abstractmethod
    def _changes_of(self, question_id: str) -> AsyncGenerator[None, None]:
        """Yield once no later change can be missed, then whenever something has happened to the question."""

    @abstractmethod
    async def list_grants(self, *, after: str | None = None, limit: int = PAGE) -> Page[Grant]:
        """Return a page of the workspace's grants, also those that have ended.

        `limit` is from 1 to 500, here and below.
        """

    @abstractmethod
    async def revoke_grant(self, grant_id: str, *, by: str) -> Grant:
        """End a grant now. Calling it again changes nothing."""

    @abstractmethod
    async def keep_answer(
        self, question_id: str, *, until: datetime, by: str | Responder, spot_check: float = SPOT_CHECK
    ) -> StandingAnswer:
        """Keep the answer to a question with a topic: until then, new questions of that topic get it at once.

        Only the person who answered can keep the answer, and each new question must ask the same people the same. One in
        twenty of them still goes to people, or the share that `spot_check` says; an answer that differs ends the standing
        answer, unless people were already asked the same and it follows that question. What was kept before for the same
        question ends too. Raises `CannotKeep` if it is impossible.
        """

    @abstractmethod
    async def list_standing_answers(
        self, *, after: str | None = None, limit: int = PAGE
    ) -> Page[StandingAnswer]:
        """Return a page of the workspace's standing answers, also those that have ended."""

    @abstractmethod
    async def revoke_standing_answer(self, standing_id: str, *, by: str) -> StandingAnswer:
        """End a standing answer now. Calling it again changes nothing."""

    @abstractmethod
    async def get(self, question_id: str) -> Question:
        """Return the question as it is now; raises `QuestionNotFound`."""

    @abstractmethod
    async def find_by_key(self, key: str) -> Question | None:
        """Return the question that this asker has asked or joined with this key, or None."""

    @abstractmethod
    async def join(self, question_id: str, *, key: str) -> Question:
        """Let another key of this asker name its pending question too, and return the question that the key names.

        For a call that waits for the question of another call: `post` and `find_by_key` with its key return
        this question from now on, also after it has ended. A key that already names a question keeps naming
        that one. Raises `AlreadySettled` if the question has already ended.
        """

    @abstractmethod
    async def list_pending(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        aside: bool = False,
        filters: PendingFilters | None = None,
        order: Order = "age",
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """Return a page of pending questions, oldest first; `next` of a page is the `after` of the next one.

        Every page of questions ends early, with a `next`, once its questions have about 1 MB.

        `recipient` limits it to questions that this person may answer: those in their inbox, or with `aside`, those that
        they set aside. With `order="urgency"` the most urgent come first, as in an inbox: escalated questions, what
        expires within an hour, high risk, then the others by expiry; last those that wait for their asker. Among
        themselves they are ordered by expiry, then by risk, then by age. A question that
        is escalated meanwhile moves to the beginning, so a program that must see every question should use
        the order by age. `order="newest"` and `order="expiry"` are for lists too. An `after` that is not the `next` of
        a page in this order raises `ValueError`.

        `filters` narrows it to a view or to a kind, a risk, a tool, what expires soon or is old; see
        `handraise.questions.PendingFilters`. A view of one person's questions needs a `recipient`, or raises `ValueError`.
        """

    @abstractmethod
    async def count_views(self, recipient: str | Responder) -> ViewCounts:
        """Return how many questions a person has in their inbox and in each built-in view, up to 500 each."""

    @abstractmethod
    async def list_settled(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        outcome: Ended | None = None,
        by: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """Return a page of settled questions, the latest first; `next` of a page is the `after` of the next one.

        `recipient` limits it to questions that this person may see: those they could have answered, answered,
        declined or voted on. `since` and `until` limit it to those that ended from one time until before another,
        `outcome` to those that ended in one way, such as `"approved"` or `"expired"`, and `by` to those that this
        person settled or voted on. Give the same limits for every page.

        A page covers a limited part of the past: it may be short or empty without being
        the last one. An `after` that is not the `next` of a page raises `ValueError`.
        """

    @abstractmethod
    async def search(
        self,
        text: str,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """Return a page of the questions that have these words, pending or settled, the newest first.

        All words must be in the prompt, the context, the arguments of an action, the names of options, the answer, the
        reason or the report. The last word may be the beginning of one; words in double quotes must follow each other.
        Accents and capital letters do not matter. Any text is a valid search; one without words finds nothing.

        `recipient` limits it to questions that this person may see, as in `list_settled`. A page may be short or empty
        without being the last one.
        """

    @abstractmethod
    async def list_followers(self, question_id: str, *, limit: int = PAGE) -> Sequence[Question]:
        """Return pending questions of the same topic that get the answer to this one, oldest first.

        Those that come after about 1 MB of questions are left out.
        """

    @abstractmethod
    async def history(self, question_id: str) -> Sequence[Event]:
        """Return everything that happened to a question, oldest first."""

    @abstractmethod
    async def feed(self, *, after: str | None = None, limit: int = 500) -> Page[Event]:
        """Return a page of the workspace's events in order; none is ever skipped.

        More may come at any time, so `next` is None only if nothing has ever happened: it is the cursor of the last event
        that you have seen.

        An `after` that is not the cursor of an event raises `ValueError`; an empty one means the beginning.
        """

    @abstractmethod
    def follow(self, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """Yield the workspace's events as they happen, starting after the cursor `after`, or from now on.

        An empty cursor means the beginning. No event is skipped and none comes twice, even if a connection is
        lost in between. It ends only when the desk is closed, with `DeskClosed`.
        """

    @abstractmethod
    async def run_due(self) -> int:
        """Do the due steps of this workspace's timelines; return how many questions they settled.

        A desk with waits does this by itself, for every workspace.
        """

    async def recover(self, max_age: timedelta, *, show: Show | None = None) -> Recovered:
        """At start-up: expire questions that this asker asked longer than `max_age` ago; count those still pending.

        `show` is called with each question that is still pending, oldest first, and awaited if it is
        asynchronous: questions that the previous process had shown can be shown again, with their `state` and
        `conversation`.
        """
        recovered = await self._recover(max_age)
        after: str | None = None
        while show is not None:
            page = await self.list_pending(asker=self._asker, after=after)
            for question in page:
                shown = show(question)
                if isawaitable(shown):
                    await shown
            after = page.next
            if after is None:
                break
        return recovered

    @abstractmethod
    async def _recover(self, max_age: timedelta) -> Recovered:
        """See `recover`."""

    @abstractmethod
    async def durability(self) -> Durability:
        """Which failures an acknowledged answer survives on this store."""

    def _draft(self, prompt: str, options: QuestionOptions) -> Draft:
        if "trace" not in options and (trace := current_traceparent()) is not None:
            options = {**options, "trace": trace}
        return compose(
            prompt,
            options,
            new_id=self._new_id(),
            workspace=self._workspace,
            asker=self._asker,
            limits=self._limits,
        )

    def _ref(self, question_id: str) -> Ref:
        check_id(question_id)
        if text_problem(question_id):  # no store can keep such an id, so there is no such question
            raise QuestionNotFound(question_id, self._workspace)
        return Ref(self._workspace, question_id)
