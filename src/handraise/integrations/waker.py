"""The waker: it follows a desk's feed and wakes the workflows whose questions are settled, in any engine.

It stores only its place in the feed. Run one, or several at once: waking twice changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from handraise import Desk, Event, Question, QuestionNotFound, Status, StoreUnavailable, open_desk
from handraise.errors import TooManyRequests
from handraise.events import EventKind
from handraise.integrations.state_store import write_whole
from handraise.model.durations import Span, seconds_of

_log = logging.getLogger(__name__)

_SETTLING = frozenset(EventKind(status.value) for status in Status if status is not Status.PENDING)
_LONGEST_PAUSE = 30.0


class NobodyWaits(LookupError):
    """The engine no longer knows the workflow, so there is nothing to wake."""


class Engine(Protocol):
    """The engine in which workflows sleep."""

    name: str

    async def wake(self, question_id: str, to: Mapping[str, Any]) -> None:
        """Wake a workflow; doing so again must change nothing.

        Raises `NobodyWaits` if the workflow is gone. After any other error it is tried again.
        """
        ...


class Cursor(Protocol):
    """Stores a waker's place in the feed. If it is lost, the waker starts again, and wakes twice."""

    async def load(self) -> str:
        """The place to continue from; an empty one is the beginning."""
        ...

    async def save(self, place: str) -> None:
        """Store a place. Everything before it has been delivered."""
        ...


class FileCursor:
    """A place in a file. The file belongs to one engine and one workspace, and names them."""

    def __init__(self, path: Path, *, engine: str, workspace: str) -> None:
        self._path = path
        self._owner = {"engine": engine, "workspace": workspace}

    async def load(self) -> str:
        """The place in the file; the beginning if there is no file."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return ""
        if {name: kept.get(name) for name in self._owner} != self._owner:
            raise ValueError(f"{self._path} is the cursor of another waker; give each one its own file")
        return str(kept["place"])

    async def save(self, place: str) -> None:
        """Replace the file as a whole."""
        await asyncio.to_thread(write_whole, self._path, json.dumps({**self._owner, "place": place}))


async def keep_waking(
    desk: Desk, engine: Engine, *, cursor: Cursor | Path, at_once: int = 100, poll: Span = 1.0
) -> None:
    """Wake every workflow whose question is settled, until cancelled or until the desk closes.

    It stores the place before the oldest event that is not yet delivered: after a crash nothing is lost, and
    delivering twice changes nothing. A workflow that cannot be woken does not delay others, up to `at_once`
    of them. Only questions of this desk's asker are handled. The due steps of timelines are done too, every
    `poll` seconds.
    """
    if isinstance(cursor, Path):
        cursor = FileCursor(cursor, engine=engine.name, workspace=desk.workspace)
    begun = await cursor.load()
    waker = _Waker(desk, engine, cursor, at_once)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(waker.keep_place())
            tasks.create_task(_keep_time(desk, seconds_of(poll)))
            async for event in desk.follow(after=begun):
                await waker.take(event, tasks)
    except BaseExceptionGroup as failed:  # the error that ended it, not its consequences
        raise failed.exceptions[0] from None


def run_waker(
    parser: argparse.ArgumentParser, engine: Callable[[argparse.Namespace], Engine | Awaitable[Engine]]
) -> None:
    """Run the waker as a program, for the desk at `HANDRAISE_URL`. It may be killed at any time."""
    parser.add_argument(
        "--cursor", type=Path, required=True, help="the file that keeps the place in the feed"
    )
    parser.add_argument("--asker", help="in whose name the workflows ask; at a server, the key says it")
    parser.add_argument("--workspace", help="where they ask; at a server, the key says it")
    given = parser.parse_args()

    async def run() -> None:
        options = {name: value for name in ("asker", "workspace") if (value := getattr(given, name))}
        async with open_desk(**options) as desk:
            made = engine(given)
            await keep_waking(desk, await made if inspect.isawaitable(made) else made, cursor=given.cursor)

    with suppress(KeyboardInterrupt):
        asyncio.run(run())


class _Waker:
    def __init__(self, desk: Desk, engine: Engine, cursor: Cursor, at_once: int) -> None:
        self._desk = desk
        self._engine = engine
        self._cursor = cursor
        self._room = asyncio.Semaphore(at_once)
        self._under_way: deque[tuple[str, asyncio.Event]] = deque()
        self._moved = asyncio.Event()

    async def take(self, event: Event, tasks: asyncio.TaskGroup) -> None:
        """Deliver an event concurrently with others, as soon as there is a free slot."""
        done = asyncio.Event()
        self._under_way.append((event.cursor, done))
        if event.kind not in _SETTLING:
            self._finish(done)
            return
        await self._room.acquire()
        tasks.create_task(self._deliver(event.question_id, done))

    async def keep_place(self) -> None:
        """Save the place whenever it has moved."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            place = None
            while self._under_way and self._under_way[0][1].is_set():
                place, _ = self._under_way.popleft()
            if place is not None:
                await self._cursor.save(place)

    def _finish(self, done: asyncio.Event) -> None:
        done.set()
        self._moved.set()

    async def _deliver(self, question_id: str, done: asyncio.Event) -> None:
        pause = 0.1
        while True:
            try:
                with suppress(QuestionNotFound):
                    await self._wake(await self._desk.get(question_id))
                break
            except NobodyWaits:
                _log.info("nobody waits for question %s any more", question_id)
                break
            except Exception as error:  # noqa: BLE001 -- whatever an engine raises, the workflow still sleeps
                _log.warning(
                    "%s cannot be woken for %s (%s)", self._engine.name, question_id, type(error).__name__
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        self._room.release()
        self._finish(done)

    async def _wake(self, question: Question) -> None:
        to = question.state.get("wake") if isinstance(question.state, dict) else None
        # Askers may write anything into the state of their own questions, but they cannot ask in another
        # asker's name.
        if (
            isinstance(to, dict)
            and to.get("engine") == self._engine.name
            and question.asker == self._desk.asker
        ):
            await self._engine.wake(question.id, to)


async def _keep_time(desk: Desk, poll: float) -> None:
    """Do the due steps of timelines: there may be no other process to do them."""
    while True:
        try:
            await desk.run_due()
        except (StoreUnavailable, TooManyRequests) as error:
            _log.warning("timelines wait: %s", error)
        await asyncio.sleep(poll)
