"""Wake-ups over NATS: one connection for a process, a subject for what is settled and one for feeds.

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
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error, SlowConsumerError

from handraise.backends.hint_codec import decoded, encoded
from handraise.model.errors import UnknownAddress
from handraise.model.questions import Ref
from handraise.ports import HintHandler

_log = logging.getLogger(__name__)

_NATS_ERRORS = (OSError, Error, ValueError, asyncio.IncompleteReadError)
"""What a call to the driver may raise; a timeout is an OSError."""

_ADDRESS = re.compile(
    r"nats://(?:([^@/\s]+)@)?([^@/,\s]+(?:,[^@/,\s]+)*)(?:/((?:[\w-]+(?:\.[\w-]+)*)?))?", re.ASCII
)
_RETRY = 0.2
_RETRY_AT_MOST = 5.0
_PATIENCE = 2
_PING = 5
_QUEUED, _QUEUED_BYTES = 4_096, 2**20
_LONGEST = 65_536
_EACH, _AT_ONCE = 256, 65_536
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
        while not connecting.done():  # more than once: the driver sometimes swallows a cancellation
            connecting.cancel()
            await asyncio.wait([connecting], timeout=_RETRY)


class NatsBus:
    """Hints over NATS. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self, address: NatsAddress) -> None:
        self._address = address
        self._client: Client | None = None
        self._listeners: list[_Listener] = []
        self._unsent: dict[Ref, None] = {}
        self._tried = asyncio.Event()
        self._missed: asyncio.TimerHandle | None = None
        self._why: Exception | None = None

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints; see the port."""
        if self._client is None or not await self._sent(self._client, topics):
            # Processes on another server of the same NATS do not know that we were disconnected.
            self._unsent.update(dict.fromkeys(itertools.islice(topics, _UNSENT - len(self._unsent))))

    @asynccontextmanager
    async def listen(self, on_hint: HintHandler, *, feeds: bool = False) -> AsyncIterator[None]:
        """Receive hints; see the port."""
        below = self._address.subject
        listener = _Listener(
            on_hint, [f"{below}.settled", f"{below}.feed"] if feeds else [f"{below}.settled"]
        )
        self._listeners.append(listener)
        try:
            await self.tried()
            if self._client is not None:
                with suppress(*_NATS_ERRORS):  # the client is lost, and the next one receives hints
                    await listener.subscribe(self._client)
            yield
        finally:
            self._listeners.remove(listener)
            await listener.close()

    async def tried(self) -> None:
        """Wait until there is a connection, or until the first try has failed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._tried.wait()

    async def keep_connected(self) -> None:
        """Stay connected forever, and reconnect whenever a connection is lost."""
        pause = _RETRY
        for server in itertools.cycle(self._address.servers):
            try:
                async with self._connected(server) as lost:
                    pause = _RETRY
                    self._tried.set()
                    await lost.wait()
                    _log.warning("the connection to NATS is lost; polling until it is back")
            except _NATS_ERRORS as error:
                _log.warning("NATS cannot be reached (%s); polling until it is back", self._why or error)
            self._tried.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_AT_MOST)

    @asynccontextmanager
    async def _connected(self, server: str) -> AsyncIterator[asyncio.Event]:
        """Open one connection for all listeners; the event is set when it is lost."""
        lost = asyncio.Event()

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
                connect_timeout=_PATIENCE,
                ping_interval=_PING,  # which also detects a connection that died without a sign
                flush_timeout=_PATIENCE,
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
            with suppress(*_NATS_ERRORS):
                async with asyncio.timeout(_PATIENCE):
                    await client.close()

    async def _sent(self, client: Client, topics: Collection[Ref]) -> bool:
        below = self._address.subject
        hints = [(f"{below}.settled", text) for text in encoded(topic for topic in topics if topic.id)]
        hints += [(f"{below}.feed", text) for text in encoded(topic for topic in topics if not topic.id)]
        try:
            async with asyncio.timeout(_PATIENCE):
                for subject, text in hints:
                    await client.publish(subject, text.encode())
        except _NATS_ERRORS as error:
            _log.warning("a wake-up could not be sent (%s); waits elsewhere will find out by polling", error)
            return False
        return True

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


class _Listener:
    """One listener, subscribed on one connection after another."""

    def __init__(self, on_hint: HintHandler, subjects: Sequence[str]) -> None:
        self.on_hint = on_hint
        self._subjects = subjects
        self._client: Client | None = None
        self._subscriptions: list[Subscription] = []
        self._work = 0

    async def subscribe(self, client: Client) -> None:
        """Listen on a connection: when this returns, hints already arrive."""
        if self._client is client:
            return
        self._client, self._subscriptions = client, []
        for subject in self._subjects:
            self._subscriptions.append(
                await client.subscribe(
                    subject,
                    cb=self._on_message,
                    pending_msgs_limit=_QUEUED,
                    pending_bytes_limit=_QUEUED_BYTES,
                )
            )
        # Twice: the driver's ping may overtake what was written before it, but not what another one has waited for.
        await client.flush(_PATIENCE)
        await client.flush(_PATIENCE)
        self.on_hint(None)

    async def close(self) -> None:
        """Stop listening."""
        for subscription in self._subscriptions:
            with suppress(*_NATS_ERRORS):  # if its connection is lost, the subscription is gone anyway
                await subscription.unsubscribe()

    async def _on_message(self, message: Msg) -> None:
        """Pass a hint on; ignore what is not one."""
        topics = None if len(message.data) > _LONGEST else decoded(message.data.decode(errors="replace"))
        if topics:
            self.on_hint(topics)
        self._work += _EACH + len(message.data)
        if self._work > _AT_ONCE:  # some milliseconds; the driver gives one after another without a pause
            self._work = 0
            await asyncio.sleep(0)
