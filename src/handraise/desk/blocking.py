"""The same verbs for threads: each runs on one event loop in a thread of its own. No logic lives here."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, Unpack, overload

from handraise.desk.local import PAGE, LocalDesk, Page
from handraise.model.composing import QuestionOptions, Span
from handraise.model.errors import DeskClosed, Problem
from handraise.model.events import Event
from handraise.model.forms import Action, Approval
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.outcomes import Outcome
from handraise.model.people import Responder
from handraise.model.questions import Question
from handraise.ports import Durability, Recovered

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, so that a pending wait does not keep a process from exiting."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="handraise", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is cancelled where the calling thread is interrupted."""
        # At the end of the process daemon threads have stopped, perhaps with the lock in their hands.
        if self._closed or sys.is_finalizing():
            work.close()
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
        """Stop the loop and its thread; calls that other threads have under way end with `DeskClosed`."""
        if sys.is_finalizing():
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


class BlockingDesk:
    """A desk for threads; every verb is `LocalDesk`'s, and blocks. Safe to share between threads."""

    def __init__(self, desk: LocalDesk, loop: LoopThread) -> None:
        self._desk = desk
        self._loop = loop

    @property
    def workspace(self) -> str:
        """The workspace that this desk sees."""
        return self._desk.workspace

    @property
    def asker(self) -> str:
        """In whose name this desk asks."""
        return self._desk.asker

    def at(self, workspace: str | None = None, *, asker: str | None = None) -> BlockingDesk:
        """See `LocalDesk.at`."""
        return BlockingDesk(self._desk.at(workspace, asker=asker), self._loop)

    def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """See `LocalDesk.post`."""
        return self._loop.run(self._desk.post(prompt, **options))

    @overload
    def ask(
        self, prompt: str, *, into: type[T], timeout: Span | None = None, **options: Unpack[QuestionOptions]
    ) -> T: ...

    @overload
    def ask(self, prompt: str, *, timeout: Span | None = None, **options: Unpack[QuestionOptions]) -> Any: ...

    def ask(
        self,
        prompt: str,
        *,
        into: Any = None,
        timeout: Span | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Any:
        """See `LocalDesk.ask`."""
        return self._loop.run(self._desk.ask(prompt, into=into, timeout=timeout, **options))

    def wait(self, question_id: str, *, timeout: Span | None = None) -> Outcome:
        """See `LocalDesk.wait`."""
        return self._loop.run(self._desk.wait(question_id, timeout=timeout))

    def wait_any(self, question_ids: Iterable[str], *, timeout: Span | None = None) -> tuple[str, Outcome]:
        """See `LocalDesk.wait_any`."""
        return self._loop.run(self._desk.wait_any(question_ids, timeout=timeout))

    def answer(
        self,
        question_id: str,
        value: Json,
        *,
        by: str | Responder,
        channel: str | None = None,
        evidence: str | None = None,
        details: Json = None,
    ) -> Question:
        """See `LocalDesk.answer`."""
        return self._loop.run(
            self._desk.answer(question_id, value, by=by, channel=channel, evidence=evidence, details=details)
        )

    def attempt(
        self,
        question_id: str,
        value: Json,
        problems: Sequence[Problem],
        *,
        by: str | Responder,
        channel: str | None = None,
    ) -> Question:
        """See `LocalDesk.attempt`."""
        return self._loop.run(self._desk.attempt(question_id, value, problems, by=by, channel=channel))

    def decline(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str | None = None,
        channel: str | None = None,
        evidence: str | None = None,
        details: Json = None,
    ) -> Question:
        """See `LocalDesk.decline`."""
        return self._loop.run(
            self._desk.decline(
                question_id, by=by, reason=reason, channel=channel, evidence=evidence, details=details
            )
        )

    def withdraw(self, question_id: str, *, reason: str | None = None) -> Question:
        """See `LocalDesk.withdraw`."""
        return self._loop.run(self._desk.withdraw(question_id, reason=reason))

    def approve(
        self,
        approval: Approval,
        *,
        prompt: str | None = None,
        timeout: Span | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Action:
        """See `LocalDesk.approve`."""
        return self._loop.run(self._desk.approve(approval, prompt=prompt, timeout=timeout, **options))

    def apply_grant(self, question_id: str) -> Question | None:
        """See `LocalDesk.apply_grant`."""
        return self._loop.run(self._desk.apply_grant(question_id))

    def consume(self, question_id: str) -> Action:
        """See `LocalDesk.consume`."""
        return self._loop.run(self._desk.consume(question_id))

    def grants(self, *, after: str | None = None, limit: int = PAGE) -> Sequence[Grant]:
        """See `LocalDesk.grants`."""
        return self._loop.run(self._desk.grants(after=after, limit=limit))

    def revoke(self, grant_id: str, *, by: str) -> Grant:
        """See `LocalDesk.revoke`."""
        return self._loop.run(self._desk.revoke(grant_id, by=by))

    def get(self, question_id: str) -> Question:
        """See `LocalDesk.get`."""
        return self._loop.run(self._desk.get(question_id))

    def find_by_key(self, key: str) -> Question | None:
        """See `LocalDesk.find_by_key`."""
        return self._loop.run(self._desk.find_by_key(key))

    def pending(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page:
        """See `LocalDesk.pending`."""
        return self._loop.run(
            self._desk.pending(
                conversation=conversation, recipient=recipient, asker=asker, after=after, limit=limit
            )
        )

    def history(self, question_id: str) -> Sequence[Event]:
        """See `LocalDesk.history`."""
        return self._loop.run(self._desk.history(question_id))

    def feed(self, *, after: str | None = None, limit: int = 500) -> Sequence[Event]:
        """See `LocalDesk.feed`."""
        return self._loop.run(self._desk.feed(after=after, limit=limit))

    def sweep(self) -> int:
        """See `LocalDesk.sweep`."""
        return self._loop.run(self._desk.sweep())

    def recover(self, max_age: timedelta) -> Recovered:
        """See `LocalDesk.recover`."""
        return self._loop.run(self._desk.recover(max_age))

    def durability(self) -> Durability:
        """See `LocalDesk.durability`."""
        return self._loop.run(self._desk.durability())
