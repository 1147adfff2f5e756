"""All waits of a desk, with one listener and one poll for all of them.

Subscribe, read, then sleep. A wake-up only says what to read again; the poll reads everything now and then,
because a wake-up gets lost sooner or later. The desk says where to read outcomes and to listen for hints: at a
store and its bus, or at a server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from handraise.model.errors import DeskClosed, QuestionNotFound, StillPending, StoreUnavailable
from handraise.model.outcomes import Outcome
from handraise.model.problems import HandraiseError
from handraise.model.questions import Ref
from handraise.ports import HintHandler, Interest

Read: TypeAlias = Callable[[Collection[Ref]], Awaitable[dict[Ref, Outcome | None]]]
"""Reads outcomes as `Store.outcomes` does: pending questions are left out, None means that there is no such question."""

SettledSince: TypeAlias = Callable[..., Awaitable[tuple[Sequence[str], str | None]]]
"""Finds what was settled since a mark, as `Store.settled_since` does."""

Wait: TypeAlias = "asyncio.Future[Outcome | None]"
"""Gets the outcome, or None if the wait timed out."""

_log = logging.getLogger(__name__)

_AT_ONCE = 1_000
"""How many waits are read together: a thousand block the event loop for a few milliseconds."""
_POLLED_AT_ONCE = 500
_MANY = 500
"""If a workspace has more waits, a poll asks what was settled there, and not for each of them."""
_MANY_SETTLED = 1_000
_MARK_WITHIN = 2.0
"""For how many seconds a poll waits to hear what was settled in a workspace; it must not keep others waiting."""
_POLL_ALL = 60.0
"""How often a poll reads every wait all the same."""
_LAST_LOOK = 5.0
_TOGETHER = 0.005
"""Waits that time out within so many seconds are read together."""
_SPARE = 4  # a poll that takes a second comes again after four


class Waiters:
    """All waits, and the one task that reads for them."""

    def __init__(
        self,
        read: Read,
        listen: Callable[[HintHandler], AbstractAsyncContextManager[None]],
        *,
        poll_interval: float | Callable[[], float],
        on_poll: Callable[[], Awaitable[object]] | None = None,
        settled_since: SettledSince | None = None,
        interest: Interest | None = None,
    ) -> None:
        """`on_poll` is called at each poll. With `settled_since`, a poll need not read every wait.

        `interest` is kept in step with the workspaces that have waits.

        A function as `poll_interval` says how long a poll can wait now. It is called again after each hint and poll.
        """
        self._read = read
        self._listen = listen
        self._on_poll = on_poll
        self._settled_since = settled_since
        self._interest = Interest() if interest is None else interest
        self._by_workspace: dict[str, set[Ref]] = {}
        self._marks: dict[str, _Mark] = {}
        self._owed: set[Ref] = set()
        """What was settled, as a poll found, and has not been read yet."""
        # Nearly always there is one wait for a question; a set of one would be a sixth of its cost.
        self._waits: dict[Ref, Wait | set[Wait]] = {}
        self._unread: set[Ref] = set()
        self._poll = _Poll(poll_interval if callable(poll_interval) else lambda: poll_interval)
        self._wakeup = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._timed_out: set[Ref] = set()
        self._last_read: asyncio.Task[dict[Ref, Outcome | None]] | None = None
        self._last_reads: set[asyncio.Task[dict[Ref, Outcome | None]]] = set()
        self._closed = False

    @property
    def waited_for(self) -> Collection[Ref]:
        """The questions that have a wait."""
        return self._waits.keys()

    def __len__(self) -> int:
        """The number of waits."""
        return sum(len(waits) if isinstance(waits, set) else 1 for waits in self._waits.values())

    async def outcome_of(self, ref: Ref, *, timeout: float | None) -> Outcome:
        """Wait for the outcome. A timeout raises `StillPending`."""
        wait = self._enter(ref)
        try:
            if timeout is None:
                outcome = await wait
            else:
                over = asyncio.get_running_loop().call_later(timeout, _give_up, wait)
                try:
                    outcome = await wait
                finally:
                    over.cancel()
        finally:
            self._leave(ref, wait)
        return (await self._settled_after_all([ref]))[1] if outcome is None else outcome

    async def first_of(self, refs: Sequence[Ref], *, timeout: float | None) -> tuple[Ref, Outcome]:
        """Wait until one of these is settled. A timeout raises `StillPending`."""
        waits = {self._enter(ref): ref for ref in refs}
        try:
            done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if done:
                first = next(wait for wait in waits if wait in done)
                if (outcome := first.result()) is not None:
                    return waits[first], outcome
        finally:
            for wait, ref in waits.items():
                self._leave(ref, wait)
        return await self._settled_after_all(refs)

    def mark_dirty(self, refs: Collection[Ref] | None) -> None:
        """Read again soon the questions among these that have a wait; None means all."""
        if refs is None:
            self._poll.hurry()
            self._wakeup.set()
        elif heard := self._waits.keys() & set(refs):
            self._unread |= heard
            self._wakeup.set()

    def _mark_workspace_dirty(self, workspace: str) -> None:
        """Read its waits again: they may have been settled before their hints arrived."""
        self.mark_dirty(self._by_workspace.get(workspace, ()))

    def resolve(self, ref: Ref, outcome: Outcome) -> None:
        """Give a recorded outcome to the waits in this process, without reading it again."""
        for wait in self._waiting_for(ref):
            if not wait.done():
                wait.set_result(outcome)

    async def close(self) -> None:
        """End all waits with `DeskClosed`; their questions stay pending."""
        self._closed = True
        tasks = [*self._last_reads, *([] if self._reader is None else [self._reader])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for ref in list(self._waits):
            self._refuse(ref, DeskClosed())

    def _enter(self, ref: Ref) -> Wait:
        """Return a future that gets the question's outcome or `QuestionNotFound`. The caller must pass it to `_leave`."""
        if self._closed:
            raise DeskClosed
        wait: Wait = asyncio.get_running_loop().create_future()
        others = self._waits.setdefault(ref, wait)
        if others is wait:
            if (same := self._by_workspace.get(ref.workspace)) is None:
                same = self._by_workspace[ref.workspace] = set()
                self._interest.add(ref.workspace, partial(self._mark_workspace_dirty, ref.workspace))
            same.add(ref)
        if isinstance(others, set):
            others.add(wait)
        elif others is not wait:
            self._waits[ref] = {others, wait}
        self._unread.add(ref)
        self._wakeup.set()
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_for_all(), name="handraise waits")
        return wait

    def _leave(self, ref: Ref, wait: Wait) -> None:
        waits = self._waits[ref]
        if isinstance(waits, set):
            waits.discard(wait)
        if waits is wait or not waits:
            del self._waits[ref]
            same = self._by_workspace[ref.workspace]
            same.discard(ref)
            if not same:
                del self._by_workspace[ref.workspace]
                self._interest.discard(ref.workspace)
                self._marks.pop(ref.workspace, None)
        if not wait.cancel() and not wait.cancelled():
            wait.exception()  # retrieved: a caller that was cancelled meanwhile does not need it

    def _waiting_for(self, ref: Ref) -> Collection[Wait]:
        waits = self._waits.get(ref, ())
        return (waits,) if isinstance(waits, asyncio.Future) else waits

    async def _settled_after_all(self, refs: Sequence[Ref]) -> tuple[Ref, Outcome]:
        """Read once more after a timeout: it may have been too short for a first read."""
        try:
            async with asyncio.timeout(_LAST_LOOK):
                together = await self._read_together(refs)
        except TimeoutError:
            raise StoreUnavailable(
                f"The wait timed out, and the store did not say within {_LAST_LOOK:g} seconds whether there is an "
                "answer. Wait again when it can be reached; nothing is lost."
            ) from None
        found = {ref: together[ref] for ref in refs if ref in together}
        for ref, outcome in found.items():
            if outcome is None:
                raise QuestionNotFound(ref.id, ref.workspace)
            return ref, outcome
        raise StillPending([ref.id for ref in refs])

    async def _read_together(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """Read with everybody else whose wait times out about now. Returns at least what was found of these."""
        self._timed_out.update(refs)
        if self._last_read is None:
            self._last_read = asyncio.create_task(self._read_timed_out(), name="handraise last read")
            self._last_reads.add(self._last_read)
            self._last_read.add_done_callback(self._on_last_read)
        reading = self._last_read
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            if self._closed and reading.cancelled():
                raise DeskClosed from None
            raise

    def _on_last_read(self, task: asyncio.Task[dict[Ref, Outcome | None]]) -> None:
        self._last_reads.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: all who waited for it may have given up

    async def _read_timed_out(self) -> dict[Ref, Outcome | None]:
        await asyncio.sleep(_TOGETHER)
        refs, self._timed_out, self._last_read = list(self._timed_out), set(), None
        found: dict[Ref, Outcome | None] = {}
        for start in range(0, len(refs), _AT_ONCE):
            found |= await self._read(refs[start : start + _AT_ONCE])
        return found

    async def _read_for_all(self) -> None:
        """Listen, read what is marked dirty, and poll everything at intervals, until the desk closes."""
        with suppress(DeskClosed):  # the store is closed, so there is nothing left to read
            await self._listen_and_read()

    async def _listen_and_read(self) -> None:
        async with AsyncExitStack() as listening:
            try:
                await listening.enter_async_context(self._listen(self.mark_dirty))
            except DeskClosed:
                raise
            except Exception as error:  # noqa: BLE001 -- a bus only makes waits faster; its errors change nothing else
                _log.warning(
                    "no hints can be received; waits find out by polling",
                    exc_info=error,
                    extra={"event": "hints_off"},
                )
            while True:
                try:
                    await self._wait_for_wakeup()
                    await self._read_some()
                    if self._waits and self._poll.due:
                        if self._on_poll is not None and self._poll.regular:
                            await self._on_poll()
                        began = time.monotonic()
                        is_hurried, self._poll.hurried = self._poll.hurried, False
                        waits = self._waits if is_hurried else await self._to_read()
                        self._poll.begin(waits, began)
                except DeskClosed:
                    raise
                except StoreUnavailable as error:
                    _log.warning(
                        "the store cannot be reached (%s); waiting for it to come back",
                        error,
                        extra={"event": "store_unreachable"},
                    )
                    await self._try_again_later()
                except Exception as error:  # noqa: BLE001 -- everybody's waits depend on this task
                    _log.error(
                        "reading for all waits failed; trying again",
                        exc_info=error,
                        extra={"event": "waits_failed"},
                    )
                    await self._try_again_later()

    async def _to_read(self) -> Collection[Ref]:
        """The waits that a regular poll reads: those that were settled, and all in workspaces that have few or their turn."""
        if self._settled_since is None:
            return self._waits
        refs: list[Ref] = []
        self._owed &= self._waits.keys()
        for workspace, waits in list(self._by_workspace.items()):
            if len(waits) <= _MANY:
                self._marks.pop(workspace, None)
                refs += waits
                continue
            # The next mark is taken before anything is read, so that nothing is settled in between.
            mark = self._marks.get(workspace)
            try:
                async with asyncio.timeout(_MARK_WITHIN):
                    ids, following = await self._settled_since(
                        workspace, mark.text if mark else None, limit=_MANY_SETTLED
                    )
            except (StoreUnavailable, TimeoutError):
                # Read every wait instead: of several databases, those that answer are read.
                self._marks.pop(workspace, None)
                refs += self._by_workspace.get(workspace, ())
                continue
            now = time.monotonic()
            if mark is None or following is None or now >= mark.read_all_at:
                refs += self._by_workspace.get(workspace, ())
                read_all_at = now + _POLL_ALL
            else:
                self._owed |= {Ref(workspace, each) for each in ids} & self._by_workspace.get(
                    workspace, set()
                )
                read_all_at = mark.read_all_at
            if workspace in self._by_workspace and following is not None:
                self._marks[workspace] = _Mark(following, read_all_at)
            else:
                self._marks.pop(workspace, None)
        return [*refs, *self._owed]

    async def _try_again_later(self) -> None:
        await asyncio.sleep(self._poll.interval)
        self._marks.clear()  # what was found since may not have been read
        self._poll.begin_anew()

    async def _wait_for_wakeup(self) -> None:
        """Sleep until a wake-up or the next poll. Without waits there is no poll."""
        self._wakeup.clear()
        if self._unread or self._poll.under_way:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll.in_seconds if self._waits else None):
                await self._wakeup.wait()

    async def _read_some(self) -> None:
        """Read some of what is marked dirty and the next part of a poll, so that hints need not wait for the end of a poll."""
        refs = set(islice(self._unread, _AT_ONCE))
        if len(refs) == len(self._unread):
            self._unread = set()  # a set that is emptied keeps the memory of all that was ever in it
        else:
            self._unread -= refs
        with self._poll.next_part() as polled:
            refs.update(polled)
            refs = self._waits.keys() & refs
            for ref, outcome in (await self._read(refs)).items() if refs else ():
                if outcome is None:
                    self._refuse(ref, QuestionNotFound(ref.id, ref.workspace))
                else:
                    self.resolve(ref, outcome)

    def _refuse(self, ref: Ref, error: HandraiseError) -> None:
        for wait in self._waiting_for(ref):
            if not wait.done():
                wait.set_exception(error)


class _Mark(NamedTuple):
    """Since when to ask what was settled in a workspace, and when to read every wait there again."""

    text: str
    read_all_at: float


class _Poll:
    """When to read everything, in parts. The longer a poll takes, the less often it comes."""

    def __init__(self, interval: Callable[[], float]) -> None:
        self._interval = interval
        self._left: list[Ref] = []
        self._began = self._began_regularly = time.monotonic()
        self._soonest = 0.0
        self.hurried = False

    @property
    def interval(self) -> float:
        """How long a poll can wait now."""
        return self._interval()

    @property
    def under_way(self) -> bool:
        """Whether a poll is in progress."""
        return bool(self._left)

    @property
    def due(self) -> bool:
        """Whether it is time for a poll."""
        return not self._left and self.in_seconds <= 0

    @property
    def regular(self) -> bool:
        """Whether a poll is due by the interval alone."""
        return time.monotonic() >= self._regular_at

    @property
    def in_seconds(self) -> float:
        """Seconds until the next poll."""
        at = self._soonest if self.hurried else max(self._soonest, self._regular_at)
        return at - time.monotonic()

    def hurry(self) -> None:
        """Poll soon, but not right after the last one: a stranger can cause this, all the time."""
        self.hurried = True

    def begin_anew(self) -> None:
        """Start a new poll at once."""
        self._left, self._soonest, self.hurried = [], 0.0, True

    def begin(self, waits: Collection[Ref], began: float) -> None:
        """Start a poll of these. `began` is when it was begun to find out which they are."""
        is_regular = self.regular
        self._left, self._began = list(waits), began
        if is_regular:
            self._began_regularly = began
        if not self._left:
            self._soonest = began + _SPARE * (time.monotonic() - began)

    @contextmanager
    def next_part(self) -> Iterator[Sequence[Ref]]:
        """Give the next questions to read; none if no poll is in progress."""
        part = self._left[-_POLLED_AT_ONCE:]
        del self._left[-_POLLED_AT_ONCE:]
        yield part
        if part and not self._left:
            self._soonest = self._began + _SPARE * (time.monotonic() - self._began)

    @property
    def _regular_at(self) -> float:
        return self._began_regularly + self.interval


def _give_up(wait: Wait) -> None:
    if not wait.done():
        wait.set_result(None)
