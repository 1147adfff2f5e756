"""Wake-ups over NATS: one connection for a process, and for each workspace a subject for what is settled and one for its feed.

Anyone on that NATS may publish there, so hints are never trusted: they only say what to read again, and invalid ones
are ignored. While NATS is unavailable, waits poll the store.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from nats.aio.client import Client
from nats.errors import SlowConsumerError

from handraise.backends.hint_codec import encoded_by_workspace
from handraise.backends.nats.listener import NATS_ERRORS, PATIENCE, RETRY, NatsListener, cancelled, token_of
from handraise.model.errors import UnknownAddress
from handraise.model.questions import Ref
from handraise.ports import HintHandler, Interest

_log = logging.getLogger(__name__)

_ADDRESS = re.compile(
    r"nats://(?:([^@/\s]+)@)?([^@/,\s]+(?:,[^@/,\s]+)*)(?:/((?:[\w-]+(?:\.[\w-]+)*)?))?", re.ASCII
)
_RETRY_AT_MOST = 5.0
_PING = 5
_UNSENT = 1_000
_GAP = 1.0


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """Which servers to try, in order, and the subject under which hints are sent."""

    servers: Sequence[str]
    subject: str

    @classmethod
    def parse(cls, address: str) -> NatsAddress:
        """The servers and the subject in an address: `nats://user:password@host:4222,other:4222/subject`."""
        found = _ADDRESS.fullmatch(address)
        if found is None:
            raise UnknownAddress(address, use="A bus is at 'nats://host:4222' or 'nats://host:4222/subject'.")
        secret, hosts, subject = found.groups()
        who = f"{secret}@" if secret else ""
        return cls([f"nats://{who}{host}" for host in hosts.split(",")], subject or "handraise")


@asynccontextmanager
async def open_nats(address: str) -> AsyncIterator[NatsBus]:
    """A bus on the NATS at an address, connected until this ends whenever NATS is available."""
    bus = NatsBus(NatsAddress.parse(address))
    connecting = asyncio.create_task(bus.keep_connected(), name="handraise nats")
    try:
        await bus.tried()
        yield bus
    finally:
        await cancelled(connecting)


class NatsBus:
    """Hints over NATS. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self, address: NatsAddress) -> None:
        self._address = address
        self._client: Client | None = None
        self._listeners: list[NatsListener] = []
        self._unsent: dict[Ref, None] = {}
        self._tried = asyncio.Event()
        self._missed: asyncio.TimerHandle | None = None
        self._lost = asyncio.Event()
        self._why: Exception | None = None

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints; see the port."""
        if self._client is None or not await self._sent(self._client, topics):
            # Processes on another server of the same NATS do not know that we were disconnected.
            self._unsent.update(dict.fromkeys(itertools.islice(topics, _UNSENT - len(self._unsent))))

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
        listener = NatsListener(
            self._address.subject,
            on_hint,
            feeds=feeds,
            shared_feeds=shared_feeds,
            interest=interest,
            give_up=self._give_up,
        )
        self._listeners.append(listener)
        try:
            await self.tried()
            async with listener.following():
                if (client := self._client) is not None:
                    try:
                        await listener.subscribe(client)
                    except NATS_ERRORS:
                        self._give_up(client)
                yield
        finally:
            self._listeners.remove(listener)
            await listener.close()

    async def tried(self) -> None:
        """Wait until there is a connection, or until the first try has failed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._tried.wait()

    async def keep_connected(self) -> None:
        """Stay connected forever, and reconnect whenever a connection is lost."""
        pause = RETRY
        is_lost = False
        for server in itertools.cycle(self._address.servers):
            try:
                async with self._connected(server) as lost:
                    pause = RETRY
                    self._tried.set()
                    if is_lost:
                        _log.warning("there is a connection to NATS again", extra={"event": "hints_back"})
                    await lost.wait()
                    _log.warning(
                        "the connection to NATS is lost; polling until it is back",
                        extra={"event": "hints_lost"},
                    )
            except NATS_ERRORS as error:
                _log.warning(
                    "NATS cannot be reached (%s); polling until it is back",
                    self._why or error,
                    extra={"event": "hints_lost"},
                )
            is_lost = True
            self._tried.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_AT_MOST)

    @asynccontextmanager
    async def _connected(self, server: str) -> AsyncIterator[asyncio.Event]:
        """Open one connection for all listeners; the event is set when it is lost."""
        lost = self._lost = asyncio.Event()

        async def closed() -> None:
            lost.set()

        client, self._why = Client(), None
        try:
            await client.connect(
                server,
                name="handraise",
                no_echo=True,  # a process knows what it has settled itself
                # We reconnect ourselves, see `keep_connected`; the driver still tries twice.
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=PATIENCE,
                ping_interval=_PING,  # which also detects a connection that died without a sign
                flush_timeout=PATIENCE,
                error_cb=self._failed,
                closed_cb=closed,
            )
            self._client = client
            for listener in list(self._listeners):
                await listener.subscribe(client)
            unsent, self._unsent = self._unsent, {}
            if unsent:
                await self.wake(unsent)
            yield lost
        finally:
            self._client = None
            with suppress(*NATS_ERRORS):
                async with asyncio.timeout(PATIENCE):
                    await client.close()

    async def _sent(self, client: Client, topics: Collection[Ref]) -> bool:
        below = self._address.subject
        hints = [
            (f"{below}.{kind}.{token_of(workspace)}", text)
            for kind, those in (
                ("settled", [topic for topic in topics if topic.id]),
                ("feed", [topic for topic in topics if not topic.id]),
            )
            for workspace, text in encoded_by_workspace(those)
        ]
        try:
            async with asyncio.timeout(PATIENCE):
                for subject, text in hints:
                    await client.publish(subject, text.encode())
        except NATS_ERRORS as error:
            _log.warning(
                "a wake-up could not be sent (%s); waits elsewhere will find out by polling",
                error,
                extra={"event": "hint_not_sent"},
            )
            return False
        return True

    def _give_up(self, client: Client) -> None:
        """Connect again: the next connection receives all hints, and every listener is told of the gap."""
        if self._client is client:
            self._lost.set()

    async def _failed(self, error: Exception) -> None:
        """Note why there is no connection, or that hints were lost because they came too fast."""
        self._why = error
        if isinstance(error, SlowConsumerError) and self._missed is None:
            # Not at once: more hints are coming, and somebody may send them only to make us read everything again.
            self._missed = asyncio.get_running_loop().call_later(_GAP, self._report_missed_hints)

    def _report_missed_hints(self) -> None:
        self._missed = None
        for listener in list(self._listeners):
            listener.on_hint(None)
