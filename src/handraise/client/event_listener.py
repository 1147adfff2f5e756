"""Hints from a server: one event stream for all waits, or long polls if no stream gets through.

Waits poll the server only while it is not known that hints arrive. A stream is known to work from its first heartbeat
on, for as long as heartbeats come. When one is late, everything is read at once, and polls begin again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from itertools import islice

from handraise.client.http_transport import HEARTBEAT, HttpTransport, heartbeat_of
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
_RETRY = 1.0

_TRUSTED_STREAM = 300.0
"""How often to poll while a stream is known to work."""
_TRUSTED_LONG_POLL = 60.0
"""The same for long polls, of which a broken connection shows nothing until they end."""
_LATE = 1.5
"""After how many heartbeats without one a stream is no longer known to work."""

_FIRST_LONG_POLL = 25.0
_SHORTEST_LONG_POLL = 5.0
_LONGEST_LONG_POLL = 300.0
_ANOTHER_STREAM = 1_200.0
"""After how many seconds of long polls to try a stream again."""
_NEW_WAITS = 5.0
"""How often to look for new waits while a long poll is under way."""


class ServerHints:
    """The source of hints for `Waiters`: about one workspace's questions, for one token."""

    def __init__(
        self,
        transport: HttpTransport,
        token: Callable[[], Awaitable[str]],
        waited_for: Callable[[], Collection[Ref]],
        *,
        poll_interval: float,
    ) -> None:
        """`poll_interval` is how often to poll while it is not known that hints arrive."""
        self._transport = transport
        self._token = token
        self._waited_for = waited_for
        self._poll_interval = poll_interval
        self._trusted_for = 0.0
        self._covered: Collection[Ref] | None = None
        self._is_late: asyncio.TimerHandle | None = None

    def poll_interval(self) -> float:
        """How long the next poll can wait now."""
        if self._covered is not None and any(ref not in self._covered for ref in self._waited_for()):
            return self._poll_interval
        return max(self._trusted_for, self._poll_interval)

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
            finally:
                self._distrust()
            listening.set()
            try:
                await self._long_polls(on_hint)
            except DeskClosed:
                return
            except HandraiseError as error:
                _log.warning("no long poll either (%s); waits find out by polling", error)
                await asyncio.sleep(_RETRY)
            finally:
                self._distrust()

    async def _stream(self, on_hint: HintHandler, listening: asyncio.Event) -> None:
        token = await self._token()
        heartbeat = HEARTBEAT
        messages = self._transport.stream("/v1/events", token=token, after=None, first_within=_FIRST_WITHIN)
        async with aclosing(messages):
            async for kind, data in messages:
                if kind == "ready":
                    heartbeat = heartbeat_of(data)
                    listening.set()
                    on_hint(None)
                elif not data:
                    # Not from `ready` on: a proxy may pass the first bytes and keep the others.
                    self._trusted_for = _TRUSTED_STREAM
                elif kind in SETTLED:
                    event = EventRecord.model_validate_json(data)
                    on_hint([Ref(event.workspace, event.question_id)])
                self._expect(heartbeat, on_hint)

    def _expect(self, heartbeat: float, on_hint: HintHandler) -> None:
        """Trust the stream no more if its next message does not come in time."""
        if self._is_late is not None:
            self._is_late.cancel()
        self._is_late = asyncio.get_running_loop().call_later(_LATE * heartbeat, self._on_late, on_hint)

    def _on_late(self, on_hint: HintHandler) -> None:
        self._distrust()
        on_hint(None)

    def _distrust(self) -> None:
        self._trusted_for, self._covered = 0.0, None
        if self._is_late is not None:
            self._is_late.cancel()
            self._is_late = None

    async def _long_polls(self, on_hint: HintHandler) -> None:
        """Poll until it is time to try a stream again. Polls become longer until a proxy cuts one, and stay shorter then."""
        until = time.monotonic() + _ANOTHER_STREAM
        length, longest = _FIRST_LONG_POLL, _LONGEST_LONG_POLL
        while time.monotonic() < until:
            refs = list(islice(self._waited_for(), MOST_IDS))
            if not refs:
                await asyncio.sleep(_RETRY)
                continue
            began = time.monotonic()
            try:
                states = await self._long_poll(refs, length)
            except DeskClosed:
                raise
            except HandraiseError:
                self._distrust()
                lasted = time.monotonic() - began
                if lasted < _SHORTEST_LONG_POLL:
                    raise
                longest = length = max(_SHORTEST_LONG_POLL, min(0.8 * lasted, length / 2))
                on_hint(None)
                continue
            if states is None:
                continue
            found = [*(state.id for state in states.settled), *states.unknown]
            on_hint([Ref(refs[0].workspace, each) for each in found])
            lasted = time.monotonic() - began
            if not found:
                self._trusted_for = min(lasted, _TRUSTED_LONG_POLL)
                length = min(2 * length, longest)
                await asyncio.sleep(max(0.0, _RETRY - lasted))  # a server that stops answers at once

    async def _long_poll(self, refs: Collection[Ref], length: float) -> OutcomeStates | None:
        """Return what a long poll says; None if it was given up because there are new waits."""
        self._covered = frozenset(refs)
        call = asyncio.ensure_future(
            self._transport.call(
                "GET",
                "/v1/outcomes",
                token=await self._token(),
                query={"id": [ref.id for ref in refs], "wait": f"{length}s"},
                wait=length,
                patience=0.0,
            )
        )
        try:
            while not (await asyncio.wait((call,), timeout=_NEW_WAITS))[0]:
                waited_for = self._waited_for()
                if len(self._covered) < MOST_IDS and any(ref not in self._covered for ref in waited_for):
                    return None
            return OutcomeStates.model_validate_json(call.result() or b"{}")
        finally:
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
