"""Hints from a server: one event stream for all waits, or long polls if no stream gets through."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from itertools import islice

from handraise.client.http_transport import HttpTransport
from handraise.model.errors import DeskClosed
from handraise.model.outcomes import Status
from handraise.model.problems import HandraiseError
from handraise.model.questions import Ref
from handraise.ports import HintHandler
from handraise.wire.records import EventRecord, OutcomeStates

_log = logging.getLogger(__name__)

SETTLED = frozenset(status.value for status in Status if status is not Status.PENDING)
MOST_IDS = 200
"""How many questions one request to a server may ask about."""

_FIRST_WITHIN = 10.0
_LONG_POLL = 25.0
_POLLS_BEFORE_ANOTHER_TRY = 4
_RETRY = 1.0


class ServerHints:
    """The source of hints for `Waiters`: about one workspace's questions, for one token."""

    def __init__(
        self,
        transport: HttpTransport,
        token: Callable[[], Awaitable[str]],
        waited_for: Callable[[], Collection[Ref]],
        *,
        first_within: float = _FIRST_WITHIN,
    ) -> None:
        self._transport = transport
        self._token = token
        self._waited_for = waited_for
        self._first_within = first_within

    @asynccontextmanager
    async def listen(self, on_hint: HintHandler) -> AsyncIterator[None]:
        """Receive hints inside this context; see `Bus.listen`."""
        listening = asyncio.Event()
        task = asyncio.create_task(self._keep_listening(on_hint, listening), name="handraise hints")
        ready = asyncio.create_task(listening.wait())
        try:
            await asyncio.wait((ready, task), timeout=_RETRY, return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            for each in (ready, task):
                each.cancel()
            await asyncio.gather(ready, task, return_exceptions=True)

    async def _keep_listening(self, on_hint: HintHandler, listening: asyncio.Event) -> None:
        while True:
            try:
                await self._stream(on_hint, listening)
            except DeskClosed:
                return
            except HandraiseError as error:
                _log.warning("no event stream (%s); long polls instead", error)
            listening.set()
            try:
                for _ in range(_POLLS_BEFORE_ANOTHER_TRY):
                    await self._long_poll(on_hint)
            except DeskClosed:
                return
            except HandraiseError as error:
                _log.warning("no long poll either (%s); waits find out by polling", error)
                await asyncio.sleep(_RETRY)

    async def _stream(self, on_hint: HintHandler, listening: asyncio.Event) -> None:
        token = await self._token()
        messages = self._transport.stream(
            "/v1/events", token=token, after=None, first_within=self._first_within
        )
        async with aclosing(messages):
            async for kind, data in messages:
                if kind == "ready":
                    listening.set()
                    on_hint(None)
                elif kind in SETTLED:
                    event = EventRecord.model_validate_json(data)
                    on_hint([Ref(event.workspace, event.question_id)])

    async def _long_poll(self, on_hint: HintHandler) -> None:
        refs = list(islice(self._waited_for(), MOST_IDS))
        if not refs:
            await asyncio.sleep(_RETRY)
            return
        said = await self._transport.call(
            "GET",
            "/v1/outcomes",
            token=await self._token(),
            query={"id": [ref.id for ref in refs], "wait": f"{_LONG_POLL}s"},
            wait=_LONG_POLL,
        )
        states = OutcomeStates.model_validate_json(said or b"{}")
        on_hint([Ref(refs[0].workspace, each) for each in (*(s.id for s in states.settled), *states.unknown)])
