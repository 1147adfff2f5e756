"""An engine that counts what goes through its store and its bus.

The desk does not know about it. Everything that settles a question in this process goes through here.
"""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from typing import Any, cast

from handraise.desk.attachment_store import AttachmentStore
from handraise.desk.engine import Engine
from handraise.desk.policy_cache import PolicyCache
from handraise.desk.recipient_check import Recipients
from handraise.model.durations import Span
from handraise.model.errors import StoreUnavailable
from handraise.model.lifecycle import Move
from handraise.model.move_decisions import Refused
from handraise.model.outcomes import Outcome, Status
from handraise.model.questions import Draft, Question, Ref
from handraise.model.receipts import ReceiptSigner
from handraise.ports import Bus, Directory, HintHandler, Inserted, Interest, Store
from handraise.server.observability.metrics import Metrics
from handraise.server.observability.request_log import note_question

_KEPT = 10_000


class InstrumentedEngine(Engine):
    """An engine that records questions in the request log, and measures how soon waits get outcomes."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        *,
        poll_interval: Span,
        public_url: str | None = None,
        metrics: Metrics,
        keep: timedelta | None = None,
        quota: int | None = None,
        recipients: Recipients | None = None,
        directory: Directory | None = None,
        policies: PolicyCache | None = None,
        receipt_signer: ReceiptSigner | None = None,
        attachments: AttachmentStore | None = None,
    ) -> None:
        self._metrics = metrics
        self.on_denied_check: Callable[[Question], None] = lambda _: None
        """Is called with each spot check of a rule that was denied in this process."""
        self._recorded: dict[Ref, float] = {}
        self._heard: dict[Ref, float] = {}
        # The instrumented store passes on what it does not define, which no type can say.
        instrumented = cast("Store", _InstrumentedStore(store, metrics, self))
        super().__init__(
            instrumented,
            _InstrumentedBus(bus, self),
            poll_interval=poll_interval,
            public_url=public_url,
            keep=keep,
            quota=quota,
            recipients=recipients,
            directory=directory,
            policies=policies,
            receipt_signer=receipt_signer,
            attachments=attachments,
        )

    def remember(self, question: Question) -> None:
        """See `Engine`: every question passes here, in the context of its request.

        A question that was settled here passes in the same turn in which its waits are resolved.
        """
        super().remember(question)
        note_question(question)
        if question.outcome is not None and (since := self._recorded.pop(question.ref, None)) is not None:
            self._metrics.observe_local_wake_up(time.perf_counter() - since)

    def note_recorded(self, ref: Ref) -> None:
        """This process has just recorded an outcome."""
        self._note(self._recorded, ref)

    def note_heard(self, ref: Ref) -> None:
        """A hint from another process has just come."""
        self._note(self._heard, ref)

    def note_read(self, ref: Ref) -> None:
        """An outcome has just been read; its waits are resolved in the same turn."""
        if (since := self._heard.pop(ref, None)) is not None:
            self._metrics.observe_remote_wake_up(time.perf_counter() - since)

    def _note(self, instants: dict[Ref, float], ref: Ref) -> None:
        if ref in self.waiters.waited_for:
            instants.setdefault(ref, time.perf_counter())
            if len(instants) > _KEPT:
                del instants[next(iter(instants))]


def instrumented_directory(directory: Directory, metrics: Metrics) -> Directory:
    """Wrap a directory, so that its failed calls are counted."""
    return cast("Directory", _InstrumentedCalls(directory, metrics))


class _InstrumentedCalls:
    """Passes every call on, and counts those that fail because the store is unavailable."""

    def __init__(self, inner: object, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found
        counted = self._counted(name, found)
        setattr(self, name, counted)  # the next lookup does not come here
        return counted

    def _counted(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*given: Any, **named: Any) -> Any:
            try:
                return await call(*given, **named)
            except StoreUnavailable:
                self._metrics.count_store_error(name)
                raise

        return counted


class _InstrumentedStore(_InstrumentedCalls):
    """Also counts what was asked, attempted and settled."""

    def __init__(self, store: Store, metrics: Metrics, engine: InstrumentedEngine) -> None:
        super().__init__(store, metrics)
        self._engine = engine
        self._insert = self._counted("insert", store.insert)
        self._settle = self._counted("settle", store.settle)
        self._sweep = self._counted("sweep", store.run_due)
        self._expire_older = self._counted("expire_older", store.expire_older)
        self._outcomes = self._counted("outcomes", store.outcomes)

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """See the port."""
        results: Sequence[Inserted] = await self._insert(drafts, quota=quota)
        for draft, result in zip(drafts, results, strict=True):
            # With another id, it is an older question with the same key.
            if isinstance(result, Question) and result.id == draft.id:
                self._metrics.count_asked()
        return results

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        """See the port."""
        results: Sequence[Question | Refused] = await self._settle(moves)
        for move, question in zip(moves, results, strict=True):
            if isinstance(question, Refused):
                continue
            if move.kind == "attempt":
                self._metrics.count_attempt()
            if question.outcome is not None:
                self._metrics.count_settled(question)
                self._engine.note_recorded(question.ref)
                if move.negative and question.ruling is not None and question.ruling.checked is not None:
                    self._metrics.count_check_denied()
                    self._engine.on_denied_check(question)
        return results

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """See the port."""
        found: dict[Ref, Outcome | None] = await self._outcomes(refs)
        for ref, outcome in found.items():
            if outcome is not None:
                self._engine.note_read(ref)
        return found

    async def run_due(self, *, limit: int, workspace: str | None = None) -> Sequence[Ref]:
        """See the port."""
        refs: Sequence[Ref] = await self._sweep(limit=limit, workspace=workspace)
        if refs:
            with suppress(StoreUnavailable):  # they must be announced, counted or not
                outcomes: dict[Ref, Outcome | None] = await self._outcomes(refs)
                for status, number in Counter(each.status for each in outcomes.values() if each).items():
                    self._metrics.count_settled_as(status, number)
                self._metrics.count_defaults(
                    sum(getattr(each, "source", None) == "default" for each in outcomes.values())
                )
        return refs

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """See the port."""
        refs: Sequence[Ref] = await self._expire_older(workspace, asker, max_age, limit=limit)
        self._metrics.count_settled_as(Status.EXPIRED, len(refs))
        return refs


class _InstrumentedBus:
    """Reports incoming hints to the engine."""

    def __init__(self, bus: Bus, engine: InstrumentedEngine) -> None:
        self._bus = bus
        self._engine = engine

    async def wake(self, topics: Collection[Ref]) -> None:
        """See the port."""
        await self._bus.wake(topics)

    def listen(
        self,
        on_hint: HintHandler,
        *,
        feeds: bool = False,
        shared_feeds: bool = False,
        interest: Interest | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """See the port."""

        def noted(topics: Collection[Ref] | None) -> None:
            for ref in topics or ():
                self._engine.note_heard(ref)
            on_hint(topics)

        return self._bus.listen(noted, feeds=feeds, shared_feeds=shared_feeds, interest=interest)
