"""Signs of the askers that wait: one task of a desk says for all of its waits that somebody still waits.

Most questions have no heartbeat. For those a wait costs nothing here, or if it is not known that they have none, their
place in one statement after the first moment of the wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from handraise.model.errors import DeskClosed, StoreUnavailable, TooManyRequests
from handraise.model.problems import HandraiseError
from handraise.model.questions import Ref

Beat: TypeAlias = Callable[[Sequence[Ref], str], Awaitable[Mapping[Ref, float]]]
"""Says that an asker still waits for these questions, all of one workspace, as `Store.beat` does."""

_log = logging.getLogger(__name__)

MOST_BEATS = 1_000
"""How many questions one call is about at most."""
_EACH = 3
"""How many signs there are in the time of one heartbeat."""
_TRIES = 2
"""A question that is left out this often has no heartbeat; once, it may only have been locked."""
_AGAIN = 5.0
"""After how many seconds to try again if the store cannot be reached."""


class _Key(NamedTuple):
    """A question, and the asker that waits for it."""

    ref: Ref
    asker: str


@dataclass(slots=True)
class _Wait:
    """The waits for one question: how many they are, when the next sign is due, and its heartbeat, as far as is known."""

    count: int
    due: int
    heartbeat: float | None = None
    left_out: int = 0


class Heartbeats:
    """All waits that may need a sign, and the one task that gives it.

    Signs that are due within the same moment go together: one call for each workspace and asker.
    """

    def __init__(self, beat: Beat, *, first: float) -> None:
        """`first` is after how many seconds a wait gives its first sign; a shorter wait gives none."""
        self._beat = beat
        self._first = max(first, 0.01)
        self._waits: dict[_Key, _Wait] = {}
        self._due: dict[int, set[_Key]] = {}
        self._task: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        """How many questions a sign is planned for."""
        return sum(map(len, self._due.values()))

    @contextmanager
    def waiting_for(
        self, refs: Sequence[Ref], asker: str, known: Mapping[Ref, float] | None = None
    ) -> Iterator[None]:
        """Give signs of this asker inside this context; `known` are the heartbeats that are known already."""
        keys = [_Key(ref, asker) for ref in refs]
        for key in keys:
            self._enter(key, None if known is None else known.get(key.ref))
        try:
            yield
        finally:
            for key in keys:
                self._leave(key)

    async def close(self) -> None:
        """Give no more signs."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _enter(self, key: _Key, heartbeat: float | None) -> None:
        if self._closed:
            return
        if (wait := self._waits.get(key)) is not None:
            wait.count += 1
            if heartbeat is not None and wait.heartbeat is None:
                wait.heartbeat = heartbeat
                if key not in self._due.get(wait.due, ()):  # it was taken for a question without one
                    wait.due = self._plan(key, self._first)
            return
        self._waits[key] = _Wait(1, self._plan(key, self._first), heartbeat)
        if self._task is None:
            self._task = asyncio.create_task(self._give_signs(), name="handraise heartbeats")

    def _leave(self, key: _Key) -> None:
        wait = self._waits.get(key)
        if wait is None:
            return
        wait.count -= 1
        if not wait.count:
            del self._waits[key]
            self._unplan(key, wait)

    def _plan(self, key: _Key, seconds: float) -> int:
        """Plan the next sign of a question; moments are as long as the first delay."""
        moment = int((time.monotonic() + seconds) / self._first) + 1
        if moment not in self._due:
            self._due[moment] = set()
            self._wakeup.set()  # perhaps it comes before all others
        self._due[moment].add(key)
        return moment

    def _unplan(self, key: _Key, wait: _Wait) -> None:
        if (others := self._due.get(wait.due)) is not None:
            others.discard(key)
            if not others:
                del self._due[wait.due]

    async def _give_signs(self) -> None:
        with suppress(DeskClosed):
            while True:
                await self._sleep()
                now = int(time.monotonic() / self._first)
                keys = [key for moment in [m for m in self._due if m <= now] for key in self._due.pop(moment)]
                together: dict[tuple[str, str], list[_Key]] = {}
                for key in keys:
                    together.setdefault((key.ref.workspace, key.asker), []).append(key)
                for own in together.values():
                    for start in range(0, len(own), MOST_BEATS):
                        await self._give_sign(own[start : start + MOST_BEATS])

    async def _sleep(self) -> None:
        """Sleep until the next sign is due; without any, until there is a wait again."""
        while True:
            self._wakeup.clear()
            soonest = min(self._due, default=None)
            left = None if soonest is None else soonest * self._first - time.monotonic()
            if left is not None and left <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wakeup.wait()

    async def _give_sign(self, keys: Sequence[_Key]) -> None:
        """Give a sign for questions of one workspace and asker, and plan the next one of those that still wait."""
        try:
            found: Mapping[Ref, float] | None = await self._beat([key.ref for key in keys], keys[0].asker)
        except DeskClosed:
            raise
        except (StoreUnavailable, TooManyRequests) as error:
            _log.warning(
                "the store could not be told who still waits; trying again: %s",
                error,
                extra={"event": "store_unreachable"},
            )
            found = None
        except HandraiseError as error:
            _log.info(
                "no heartbeats: %s", error, extra={"event": "heartbeats_off"}
            )  # for example, people wait too, and have none
            found = {}
        except Exception as error:  # noqa: BLE001 -- all waits depend on this task
            _log.error(
                "the store could not be told who still waits; trying again",
                exc_info=error,
                extra={"event": "heartbeats_failed"},
            )
            found = None
        for key in keys:
            wait = self._waits.get(key)
            if wait is None or key in self._due.get(wait.due, ()):
                continue  # nobody waits any more, or another wait has begun meanwhile
            if found is None:
                wait.due = self._plan(key, min(_AGAIN, (wait.heartbeat or _AGAIN) / _EACH))
                continue
            if key.ref in found:
                wait.heartbeat = found[key.ref]
            elif wait.heartbeat is None:
                wait.left_out += 1
                if wait.left_out >= _TRIES:
                    continue  # it has none, or has ended, or is another asker's
            wait.due = self._plan(key, self._first if wait.heartbeat is None else wait.heartbeat / _EACH)
