"""Wake-ups by NOTIFY: sent after the commit that they report, one for a whole batch, on one shared channel.

Nothing is sent if no other process could be listening. Only one connection of a process listens, however many waits
it has.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress

from handraise.backends.hint_codec import decoded, encoded
from handraise.backends.postgres.connections import DRIVER_ERRORS, Connection, alone
from handraise.backends.postgres.database import Database
from handraise.backends.sql_files import load_statements
from handraise.model.errors import StoreUnavailable
from handraise.model.questions import Ref
from handraise.ports import HintHandler, Interest

CHANNEL = "handraise"
STATEMENTS = load_statements("handraise.backends.postgres")

_log = logging.getLogger(__name__)
_HEARTBEAT = 10.0
_RETRY = 0.2
_RETRY_AT_MOST = 5.0
_UNFOLLOWED = 1.0


class PostgresBus:
    """Hints over PostgreSQL. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self, database: Database, address: str) -> None:
        self._database = database
        self._address = address
        self._listener_ids: set[str] = set()
        self._unfollowed_until = 0.0

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints; see the port."""
        settled = [topic for topic in topics if topic.id]
        feeds = [topic for topic in topics if not topic.id]
        # Every post changes a feed, and must not cost a round trip for feeds that nobody follows.
        if not settled and (not feeds or time.monotonic() < self._unfollowed_until):
            return
        payloads = {"payloads": list(encoded(settled)), "feeds": list(encoded(feeds))}
        try:
            sent = await self._database.fetch(
                STATEMENTS["notify"], listeners=list(self._listener_ids), **payloads
            )
        except StoreUnavailable:
            _log.warning(
                "a wake-up could not be sent; waits elsewhere will find out by polling",
                extra={"event": "hint_not_sent"},
            )
        else:
            if feeds and not any(row["feed"] for row in sent):
                self._unfollowed_until = time.monotonic() + _UNFOLLOWED

    @asynccontextmanager
    async def listen(
        self,
        on_hint: HintHandler,
        *,
        feeds: bool = False,
        shared_feeds: bool = False,
        interest: Interest | None = None,
    ) -> AsyncIterator[None]:
        """Receive hints; see the port."""
        del interest  # one channel for all workspaces: PostgreSQL wakes every listener at each NOTIFY anyway
        listener = _Listener(self._address, on_hint, feeds=feeds or shared_feeds)
        listening = asyncio.Event()
        task = asyncio.create_task(listener.keep_listening(listening), name="handraise listener")
        ready = asyncio.create_task(listening.wait())
        self._listener_ids.add(listener.name)
        try:
            await asyncio.wait((ready, task), timeout=_RETRY_AT_MOST, return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            for each in (ready, task):
                each.cancel()
            await asyncio.gather(ready, task, return_exceptions=True)
            self._listener_ids.discard(listener.name)


class _Listener:
    """One listener, with a name by which writers find it."""

    def __init__(self, address: str, on_hint: HintHandler, *, feeds: bool) -> None:
        self.name = uuid.uuid4().hex
        self._address = address
        self._on_hint = on_hint
        self._feeds = feeds

    async def keep_listening(self, listening: asyncio.Event) -> None:
        """Listen forever, on a new connection whenever one is lost."""
        pause = _RETRY
        is_lost = False
        while True:
            why = "it was closed"
            try:
                async with self._connection() as lost:
                    self._on_hint(None)
                    listening.set()
                    if is_lost:
                        _log.warning("the listener has a connection again", extra={"event": "hints_back"})
                    is_lost, pause = False, _RETRY
                    await lost.wait()
            except DRIVER_ERRORS as error:
                why = str(error) or type(error).__name__
            if not is_lost:
                _log.warning(
                    "the listener lost its connection (%s); polling until it is back",
                    why,
                    extra={"event": "hints_lost"},
                )
            is_lost = True
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_AT_MOST)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncio.Event]:
        """One listening connection, announced so that writers notify; the event is set when it is lost."""
        lost = asyncio.Event()
        async with alone(self._address, "listener") as acquired:
            acquired.add_termination_listener(lambda *_: lost.set())
            await acquired.add_listener(CHANNEL, lambda *args: self._on_hint(decoded(str(args[-1]))))
            await self._run(acquired, "announce_listener")
            beating = asyncio.create_task(self._keep_announcing(acquired, lost))
            try:
                yield lost
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
                if lost.is_set():
                    acquired.terminate()  # it may never respond again
                else:
                    with suppress(*DRIVER_ERRORS):
                        await self._run(acquired, "forget_listener")

    async def _keep_announcing(self, acquired: Connection, lost: asyncio.Event) -> None:
        """Say at intervals that this process listens, which also detects a connection that died without a sign."""
        try:
            while True:
                await asyncio.sleep(_HEARTBEAT)
                await self._run(acquired, "announce_listener")
        except DRIVER_ERRORS:
            lost.set()

    async def _run(self, acquired: Connection, what: str) -> None:
        statement = STATEMENTS[what]
        await acquired.execute(
            statement.numbered, *statement.arguments(listener=self.name, feeds=self._feeds)
        )
