"""The same verbs for threads: each runs on an event loop in a separate thread. This module adds no logic."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack, overload

from handraise.model.attachments import Attachment
from handraise.model.bulk_answers import BulkItem, BulkResult
from handraise.model.call_hints import usage
from handraise.model.drafting import QuestionOptions
from handraise.model.durations import Span
from handraise.model.errors import DeskClosed, WrongLoop
from handraise.model.events import Event
from handraise.model.forms import Action, Approval
from handraise.model.grants import Grant
from handraise.model.json_values import JsonValue
from handraise.model.outcomes import Outcome
from handraise.model.pending_views import Order, PendingFilters, ViewCounts
from handraise.model.people import Responder
from handraise.model.problems import Problem
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.standing_answers import SPOT_CHECK, StandingAnswer
from handraise.model.thread_messages import ThreadMessage
from handraise.ports import Durability, Recovered
from handraise.ports.desk import (
    PAGE,
    SENDING_LEASE,
    Desk,
    OpenedIn,
    Page,
    ReplyWith,
    running_loop,
)
from handraise.ports.settled_filter import Ended

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, so that a pending wait does not keep a process from exiting."""

    def __init__(self) -> None:
        self._opened_in = OpenedIn()
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="handraise", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is cancelled if the calling thread is interrupted."""
        if self._opened_in.forked or not (self._closed or self._is_here or running_loop() is None):
            work.close()
            self._opened_in.check()
            raise WrongLoop(
                "A blocking desk would stop this event loop until a person answers. Write "
                "`async with handraise.open_desk(…) as desk:` and `await desk.ask(…)` here, or call the blocking "
                "desk in a thread: `await asyncio.to_thread(desk.ask, …)`."
            )
        return self._result(work)

    def open(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a function that opens something, also inside a coroutine: it does not wait for a person."""
        return self._result(work)

    def finish(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a function that closes something, also inside a coroutine; a forked child leaves it to its parent."""
        if self._opened_in.forked:
            work.close()
            return
        with suppress(DeskClosed):  # at the end of the process nothing is left to close
            self._result(work)

    @property
    def _is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def _result(self, work: Coroutine[Any, Any, T]) -> T:
        # At the end of the process daemon threads have stopped, perhaps while holding the lock.
        if self._closed or sys.is_finalizing():
            work.close()
            raise DeskClosed
        if self._is_here:
            # A generator may be garbage collected in this very thread, which must not wait for itself.
            self._loop.create_task(work)
            raise DeskClosed
        with self._lock:
            if self._closed:
                work.close()
                raise DeskClosed
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise DeskClosed from None
        except BaseException:
            future.cancel()
            concurrent.futures.wait([future], timeout=1)
            raise

    def close(self) -> None:
        """Stop the loop and its thread; running calls of other threads end with `DeskClosed`."""
        if sys.is_finalizing() or self._opened_in.forked:
            return
        with self._lock:
            self._closed = True
        asyncio.run_coroutine_threadsafe(_cancel_the_rest(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_the_rest() -> None:
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


BlockingReply = Callable[[ThreadMessage], str | None]
"""Gives the reply to what a person asked back; None replies nothing."""


def _in_a_thread(reply_with: BlockingReply | None) -> ReplyWith | None:
    """The same function, for the loop: it may block, and may use the desk."""
    if reply_with is None:
        return None
    reply = reply_with
    return lambda message: asyncio.to_thread(reply, message)


class BlockingDesk:
    """A desk for threads; every verb is `Desk`'s, and blocks. Safe to share between threads."""

    def __init__(self, desk: Desk, loop: LoopThread) -> None:
        self._desk = desk
        self._loop = loop

    @property
    def workspace(self) -> str:
        """The workspace that this desk sees."""
        return self._desk.workspace

    @property
    def asker(self) -> str:
        """The asker in whose name this desk asks."""
        return self._desk.asker

    def scoped(self, workspace: str | None = None, *, asker: str | None = None) -> BlockingDesk:
        """See `Desk.scoped`."""
        return BlockingDesk(self._desk.scoped(workspace, asker=asker), self._loop)

    @usage('post("Which?", choices=["a", "b"])')
    def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """See `Desk.post`."""
        return self._loop.run(self._desk.post(prompt, **options))

    @overload
    def ask(
        self,
        prompt: str,
        *,
        into: type[T],
        timeout: Span | None = None,
        reply_with: BlockingReply | None = None,
        **options: Unpack[QuestionOptions],
    ) -> T: ...

    @overload
    def ask(
        self,
        prompt: str,
        *,
        timeout: Span | None = None,
        reply_with: BlockingReply | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Any: ...

    @usage('ask("Which?", choices=["a", "b"])')
    def ask(
        self,
        prompt: str,
        *,
        into: Any = None,
        timeout: Span | None = None,
        reply_with: BlockingReply | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Any:
        """See `Desk.ask`; `reply_with` is called in a thread of its own."""
        return self._loop.run(
            self._desk.ask(prompt, into=into, timeout=timeout, reply_with=_in_a_thread(reply_with), **options)
        )

    def close(self) -> None:
        """See `Desk.close`."""
        self._loop.run(self._desk.close())

    def wait(
        self, question_id: str, *, timeout: Span | None = None, reply_with: BlockingReply | None = None
    ) -> Outcome:
        """See `Desk.wait`; `reply_with` is called in a thread of its own."""
        return self._loop.run(
            self._desk.wait(question_id, timeout=timeout, reply_with=_in_a_thread(reply_with))
        )

    def wait_any(self, question_ids: Iterable[str], *, timeout: Span | None = None) -> tuple[str, Outcome]:
        """See `Desk.wait_any`."""
        return self._loop.run(self._desk.wait_any(question_ids, timeout=timeout))

    def heartbeat(self, question_ids: Iterable[str]) -> int:
        """See `Desk.heartbeat`."""
        return self._loop.run(self._desk.heartbeat(question_ids))

    @usage('answer(question.id, value, by="ana")')
    def answer(
        self,
        question_id: str,
        value: JsonValue,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.answer`."""
        return self._loop.run(self._desk.answer(question_id, value, by=by, provenance=provenance))

    def reject_answer(
        self,
        question_id: str,
        value: JsonValue,
        problems: Sequence[Problem],
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.reject_answer`."""
        return self._loop.run(
            self._desk.reject_answer(question_id, value, problems, by=by, provenance=provenance)
        )

    def decline(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.decline`."""
        return self._loop.run(self._desk.decline(question_id, by=by, reason=reason, provenance=provenance))

    def send_back(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.send_back`."""
        return self._loop.run(self._desk.send_back(question_id, by=by, reason=reason, provenance=provenance))

    def answer_all(self, items: Sequence[BulkItem], *, by: str | Responder) -> Sequence[BulkResult]:
        """See `Desk.answer_all`."""
        return self._loop.run(self._desk.answer_all(items, by=by))

    def withdraw(
        self, question_id: str, *, reason: str | None = None, by: str | Responder | None = None
    ) -> Question:
        """See `Desk.withdraw`."""
        return self._loop.run(self._desk.withdraw(question_id, reason=reason, by=by))

    def withdraw_all(self, asker: str, *, by: str | Responder, reason: str | None = None) -> int:
        """See `Desk.withdraw_all`."""
        return self._loop.run(self._desk.withdraw_all(asker, by=by, reason=reason))

    @usage("request_approval(Approval.of(tool, arguments), prompt=…)")
    def request_approval(
        self,
        approval: Approval,
        *,
        prompt: str | None = None,
        timeout: Span | None = None,
        reply_with: BlockingReply | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Action:
        """See `Desk.request_approval`; `reply_with` is called in a thread of its own."""
        return self._loop.run(
            self._desk.request_approval(
                approval, prompt=prompt, timeout=timeout, reply_with=_in_a_thread(reply_with), **options
            )
        )

    def apply_grant(self, question_id: str) -> Question | None:
        """See `Desk.apply_grant`."""
        return self._loop.run(self._desk.apply_grant(question_id))

    def consume_approval(self, question_id: str, *, request: str | None = None) -> Action:
        """See `Desk.consume_approval`."""
        return self._loop.run(self._desk.consume_approval(question_id, request=request))

    def receipt(self, question_id: str) -> str:
        """See `Desk.receipt`."""
        return self._loop.run(self._desk.receipt(question_id))

    def claim_sending(self, question_id: str, *, lease: Span = SENDING_LEASE) -> bool:
        """See `Desk.claim_sending`."""
        return self._loop.run(self._desk.claim_sending(question_id, lease=lease))

    def mark_sent(self, question_id: str, *, channel: str | None = None) -> Question:
        """See `Desk.mark_sent`."""
        return self._loop.run(self._desk.mark_sent(question_id, channel=channel))

    def take_back(self, question_id: str, *, by: str | Responder, reason: str | None = None) -> Question:
        """See `Desk.take_back`."""
        return self._loop.run(self._desk.take_back(question_id, by=by, reason=reason))

    def report(
        self,
        question_id: str,
        *,
        ok: bool,
        text: str,
        link: str | None = None,
        details: JsonValue = None,
    ) -> Question:
        """See `Desk.report`."""
        return self._loop.run(self._desk.report(question_id, ok=ok, text=text, link=link, details=details))

    def ask_back(
        self,
        question_id: str,
        text: str,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.ask_back`."""
        return self._loop.run(self._desk.ask_back(question_id, text, by=by, provenance=provenance))

    def note(
        self,
        question_id: str,
        text: str,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.note`."""
        return self._loop.run(self._desk.note(question_id, text, by=by, provenance=provenance))

    def take(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.take`."""
        return self._loop.run(self._desk.take(question_id, by=by, provenance=provenance))

    def release(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.release`."""
        return self._loop.run(self._desk.release(question_id, by=by, provenance=provenance))

    def bring_in(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.bring_in`."""
        return self._loop.run(
            self._desk.bring_in(question_id, people, by=by, reason=reason, provenance=provenance)
        )

    def hand_over(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.hand_over`."""
        return self._loop.run(
            self._desk.hand_over(question_id, people, by=by, reason=reason, provenance=provenance)
        )

    def set_aside(
        self,
        question_id: str,
        *,
        by: str | Responder,
        until: datetime | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.set_aside`."""
        return self._loop.run(self._desk.set_aside(question_id, by=by, until=until, provenance=provenance))

    def put_back(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.put_back`."""
        return self._loop.run(self._desk.put_back(question_id, by=by, provenance=provenance))

    def attach(
        self,
        data: bytes | os.PathLike[str],
        *,
        name: str | None = None,
        media_type: str | None = None,
        by: str | Responder | None = None,
    ) -> Attachment:
        """See `Desk.attach`."""
        return self._loop.run(self._desk.attach(data, name=name, media_type=media_type, by=by))

    def read_attachment(self, question_id: str, digest: str) -> bytes:
        """See `Desk.read_attachment`."""
        return self._loop.run(self._desk.read_attachment(question_id, digest))

    def reply(
        self,
        question_id: str,
        text: str,
        *,
        to: int | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Question:
        """See `Desk.reply`."""
        return self._loop.run(self._desk.reply(question_id, text, to=to, attachments=attachments))

    def thread(self, question_id: str) -> Sequence[ThreadMessage]:
        """See `Desk.thread`."""
        return self._loop.run(self._desk.thread(question_id))

    def messages(self, question_id: str, *, after: int = 0) -> Iterator[ThreadMessage]:
        """See `Desk.messages`."""
        messages = self._desk.messages(question_id, after=after)

        async def next_message() -> ThreadMessage | None:
            return await anext(messages, None)

        try:
            while (message := self._loop.run(next_message())) is not None:
                yield message
        finally:
            self._loop.finish(messages.aclose())

    def list_grants(self, *, after: str | None = None, limit: int = PAGE) -> Page[Grant]:
        """See `Desk.list_grants`."""
        return self._loop.run(self._desk.list_grants(after=after, limit=limit))

    def revoke_grant(self, grant_id: str, *, by: str) -> Grant:
        """See `Desk.revoke_grant`."""
        return self._loop.run(self._desk.revoke_grant(grant_id, by=by))

    def keep_answer(
        self, question_id: str, *, until: datetime, by: str | Responder, spot_check: float = SPOT_CHECK
    ) -> StandingAnswer:
        """See `Desk.keep_answer`."""
        return self._loop.run(self._desk.keep_answer(question_id, until=until, by=by, spot_check=spot_check))

    def list_standing_answers(self, *, after: str | None = None, limit: int = PAGE) -> Page[StandingAnswer]:
        """See `Desk.list_standing_answers`."""
        return self._loop.run(self._desk.list_standing_answers(after=after, limit=limit))

    def revoke_standing_answer(self, standing_id: str, *, by: str) -> StandingAnswer:
        """See `Desk.revoke_standing_answer`."""
        return self._loop.run(self._desk.revoke_standing_answer(standing_id, by=by))

    def get(self, question_id: str) -> Question:
        """See `Desk.get`."""
        return self._loop.run(self._desk.get(question_id))

    def join(self, question_id: str, *, key: str) -> Question:
        """See `Desk.join`."""
        return self._loop.run(self._desk.join(question_id, key=key))

    def find_by_key(self, key: str) -> Question | None:
        """See `Desk.find_by_key`."""
        return self._loop.run(self._desk.find_by_key(key))

    def list_pending(
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
        """See `Desk.list_pending`."""
        return self._loop.run(
            self._desk.list_pending(
                conversation=conversation,
                recipient=recipient,
                asker=asker,
                aside=aside,
                filters=filters,
                order=order,
                after=after,
                limit=limit,
            )
        )

    def count_views(self, recipient: str | Responder) -> ViewCounts:
        """See `Desk.count_views`."""
        return self._loop.run(self._desk.count_views(recipient))

    def list_settled(
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
        """See `Desk.list_settled`."""
        return self._loop.run(
            self._desk.list_settled(
                conversation=conversation,
                recipient=recipient,
                asker=asker,
                since=since,
                until=until,
                outcome=outcome,
                by=by,
                after=after,
                limit=limit,
            )
        )

    def search(
        self,
        text: str,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """See `Desk.search`."""
        return self._loop.run(
            self._desk.search(
                text, conversation=conversation, recipient=recipient, asker=asker, after=after, limit=limit
            )
        )

    def list_followers(self, question_id: str, *, limit: int = PAGE) -> Sequence[Question]:
        """See `Desk.list_followers`."""
        return self._loop.run(self._desk.list_followers(question_id, limit=limit))

    def history(self, question_id: str) -> Sequence[Event]:
        """See `Desk.history`."""
        return self._loop.run(self._desk.history(question_id))

    def feed(self, *, after: str | None = None, limit: int = 500) -> Page[Event]:
        """See `Desk.feed`."""
        return self._loop.run(self._desk.feed(after=after, limit=limit))

    def follow(self, *, after: str | None = None) -> Iterator[Event]:
        """See `Desk.follow`."""
        events = self._desk.follow(after=after)

        async def next_event() -> Event:
            return await anext(events)

        try:
            while True:
                yield self._loop.run(next_event())
        finally:
            self._loop.finish(events.aclose())

    def run_due(self) -> int:
        """See `Desk.run_due`."""
        return self._loop.run(self._desk.run_due())

    def recover(self, max_age: timedelta, *, show: Callable[[Question], None] | None = None) -> Recovered:
        """See `Desk.recover`; `show` is called in this thread."""
        if show is None:
            return self._loop.run(self._desk.recover(max_age))
        live: list[Question] = []
        recovered = self._loop.run(self._desk.recover(max_age, show=live.append))
        for question in live:
            show(question)
        return recovered

    def durability(self) -> Durability:
        """See `Desk.durability`."""
        return self._loop.run(self._desk.durability())
