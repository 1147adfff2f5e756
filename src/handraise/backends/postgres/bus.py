"""Wake-ups by NOTIFY: sent after the commit they tell of, one for a whole batch, on one shared channel.

Nothing is sent where no other process could be listening, and no more than one connection of a process
listens, however many waits it has.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from handraise.backends.hints import decoded, encoded
from handraise.backends.postgres.connecting import Pool, connection, open_listener
from handraise.backends.statements import load_statements
from handraise.model.errors import StoreUnavailable
from handraise.model.questions import Ref
from handraise.ports import Heard

CHANNEL = "handraise"
STATEMENTS = load_statements("handraise.backends.postgres")

_log = logging.getLogger(__name__)
_HEARTBEAT = 10.0
_RETRY = 0.2
_RETRY_AT_MOST = 5.0


class PostgresBus:
    """Hints over PostgreSQL. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self, pool: Pool, address: str) -> None:
        self._pool = pool
        self._address = address
        self._process = uuid.uuid4().hex

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints; see the port."""
        statement = STATEMENTS["notify"]
        arguments = statement.arguments(payloads=list(encoded(topics)), process=self._process)
        try:
            async with connection(self._pool) as acquired:
                await acquired.execute(statement.numbered, *arguments)
        except StoreUnavailable:
            _log.warning("a wake-up could not be sent; waits elsewhere will find out by polling")

    @asynccontextmanager
    async def listen(self, heard: Heard) -> AsyncIterator[None]:
        """Hear hints; see the port."""
        listening = asyncio.Event()
        task = asyncio.create_task(self._keep_listening(heard, listening), name="handraise listener")
        ready = asyncio.create_task(listening.wait())
        try:
            await asyncio.wait((ready, task), timeout=_RETRY_AT_MOST, return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            for each in (ready, task):
                each.cancel()
            await asyncio.gather(ready, task, return_exceptions=True)

    async def _keep_listening(self, heard: Heard, listening: asyncio.Event) -> None:
        """Listen for ever, on a new connection whenever one is lost."""
        pause = _RETRY
        while True:
            try:
                async with self._listener(heard) as lost:
                    heard(None)
                    listening.set()
                    pause = _RETRY
                    await lost.wait()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                _log.warning("the listener lost its connection (%s); polling until it is back", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_AT_MOST)

    @asynccontextmanager
    async def _listener(self, heard: Heard) -> AsyncIterator[asyncio.Event]:
        """One listening connection, announced so that writers notify; the event is set when it is lost."""
        lost = asyncio.Event()
        acquired = await open_listener(self._address)
        beating: asyncio.Task[None] | None = None
        try:
            acquired.add_termination_listener(lambda *_: lost.set())
            await acquired.add_listener(CHANNEL, lambda *args: heard(decoded(str(args[-1]))))
            await self._announce(acquired)
            beating = asyncio.create_task(self._keep_announcing(acquired, lost))
            yield lost
        finally:
            if beating is not None:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                statement = STATEMENTS["unhear"]
                await acquired.execute(statement.numbered, *statement.arguments(process=self._process))
                await acquired.close(timeout=2)
            acquired.terminate()

    async def _announce(self, acquired: Any) -> None:
        statement = STATEMENTS["hear"]
        await acquired.execute(statement.numbered, *statement.arguments(process=self._process))

    async def _keep_announcing(self, acquired: Any, lost: asyncio.Event) -> None:
        """Say at intervals that this process listens, which also finds a connection that died in silence."""
        try:
            while True:
                await asyncio.sleep(_HEARTBEAT)
                await self._announce(acquired)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            lost.set()
