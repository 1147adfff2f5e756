"""One listener on NATS, which subscribes to the subjects of the workspaces that it needs.

A workspace has its own subjects, so a process gets the hints of the workspaces in which somebody waits or follows, and
no others. With very many of them it takes all hints: a wildcard costs less than so many subscriptions.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from handraise.backends.hint_codec import decoded
from handraise.ports import HintHandler, Interest
from handraise.ports.bus import OnReady

_log = logging.getLogger(__name__)

NATS_ERRORS = (OSError, Error, ValueError, asyncio.IncompleteReadError)
"""What a call to the driver may raise; a timeout is an OSError."""
PATIENCE = 2
RETRY = 0.2

_QUEUED, _QUEUED_BYTES = 4_096, 2**20
_LONGEST = 65_536
_EACH, _AT_ONCE = 256, 65_536
_MOST = 2_000
"""With more workspaces than this, a listener takes the hints of all."""
_LINGER = 30.0
"""A workspace that is not needed any more stays subscribed for this many seconds, or twice as many: it may be needed again."""
_ALL = None


@functools.lru_cache(maxsize=10_000)
def token_of(workspace: str) -> str:
    """The part of a subject that stands for a workspace, whose name may be any text."""
    return hashlib.blake2b(workspace.encode(errors="surrogatepass"), digest_size=8).hexdigest()


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended: the driver sometimes swallows a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=RETRY)


class NatsListener:
    """One listener, subscribed on one connection after another."""

    def __init__(
        self,
        subject: str,
        on_hint: HintHandler,
        *,
        feeds: bool,
        shared_feeds: bool,
        interest: Interest | None,
        give_up: Callable[[Client], None],
    ) -> None:
        """`give_up` is called with a connection that confirms nothing: the driver may hear nothing on it any more."""
        self.on_hint = on_hint
        self._subject = subject
        self._kinds = ("settled", "feed") if feeds else ("settled",)
        # A listener to all feeds gets those that are shared anyway.
        self._shares = shared_feeds and not (feeds and interest is None)
        self._interest = interest
        self._give_up = give_up
        self._client: Client | None = None
        self._shared: Subscription | None = None
        self._subscriptions: dict[str | None, list[Subscription]] = {}
        """By workspace; `_ALL` is for all of them."""
        self._ready: set[str | None] = set()
        """The workspaces whose hints arrive."""
        self._idle: set[str | None] = set()
        self._asked: dict[str, list[OnReady]] = {}
        self._wakeup = asyncio.Event()
        self._adding = asyncio.Lock()
        self._closed = False
        self._work = 0

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Subscribe to what is added to the interest inside this context."""
        if self._interest is None:
            yield
            return
        task = asyncio.create_task(self._follow(self._interest), name="handraise nats subscriptions")
        try:
            with self._interest.followed_by(self._ask):
                yield
        finally:
            await cancelled(task)

    async def subscribe(self, client: Client) -> None:
        """Listen on a connection: when this returns, hints already arrive."""
        if self._client is client:
            return
        self._client, self._shared, self._subscriptions = client, None, {}
        self._ready, self._idle = set(), set()
        if self._shares:
            self._shared = await self._subscribe(client, f"{self._subject}.feed.*", queue="shared")
        everything = self._interest is None or len(self._interest) > _MOST
        await self._add(client, [_ALL] if everything else [*(self._interest or ())])
        if self._closed:  # before or meanwhile: a connection subscribes all that it knows of
            await self.close()
        else:
            self.on_hint(None)

    async def close(self) -> None:
        """Stop listening."""
        self._closed = True
        await self._unsubscribe([each for same in self._subscriptions.values() for each in same])
        if self._shared is not None:
            await self._unsubscribe([self._shared])

    def _ask(self, workspace: str, on_ready: OnReady) -> None:
        """Subscribe to a workspace soon, if its hints do not arrive already."""
        if not self._ready.isdisjoint((workspace, _ALL)):
            return
        # Without a connection there is nothing to do: the next one gets all of the interest, and tells of a gap.
        if self._client is not None and not self._client.is_closed:
            self._asked.setdefault(workspace, []).append(on_ready)
            self._wakeup.set()

    async def _follow(self, interest: Interest) -> None:
        """Subscribe to what was asked for, and at intervals unsubscribe from what is not needed any more."""
        loop = asyncio.get_running_loop()
        due = loop.time() + _LINGER
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wakeup.wait()
            self._wakeup.clear()
            client = self._client
            if client is None or client.is_closed:
                self._asked.clear()
                due = loop.time() + _LINGER
                continue
            try:
                await self._add_asked(client)
                if loop.time() >= due:
                    due = loop.time() + _LINGER
                    await self._drop_unneeded(client, interest)
            except Exception as error:  # noqa: BLE001 -- everybody's waits depend on this task
                _log.warning(
                    "NATS does not confirm a subscription (%s); connecting again",
                    error,
                    extra={"event": "hints_lost"},
                )
                self._asked.clear()
                self._give_up(client)

    async def _add_asked(self, client: Client) -> None:
        asked = list(self._asked)
        if not asked:
            return
        too_many = len(self._subscriptions.keys() | set(asked)) > _MOST
        await self._add(client, [_ALL] if too_many else asked)
        for workspace in asked:
            for on_ready in self._asked.pop(workspace, ()):
                on_ready()

    async def _add(self, client: Client, workspaces: Collection[str | None]) -> None:
        """Subscribe to these: when this returns, their hints already arrive."""
        subscriptions = self._subscriptions  # a new connection begins with its own
        async with self._adding:
            for workspace in workspaces:
                if workspace in subscriptions:
                    continue
                token = "*" if workspace is _ALL else token_of(workspace)
                subscriptions[workspace] = [
                    await self._subscribe(client, f"{self._subject}.{kind}.{token}") for kind in self._kinds
                ]
        # Twice: the driver's ping may overtake what was written before it, but not what another one has waited for.
        await client.flush(PATIENCE)
        await client.flush(PATIENCE)
        if self._client is client:
            self._ready.update(workspaces)

    async def _drop_unneeded(self, client: Client, interest: Interest) -> None:
        """Unsubscribe from what was not needed the last time either."""
        known = self._subscriptions.keys()
        is_few_again = _ALL in known and len(interest) <= _MOST // 2
        unneeded: set[str | None]
        if is_few_again:
            unneeded = {_ALL}
        elif _ALL in known:
            unneeded = known - {_ALL}
        else:
            unneeded = known - set(interest)
        gone = unneeded & self._idle
        self._idle = unneeded - gone
        self._ready -= gone  # before anything is awaited: who needs one of these meanwhile must ask for it
        if is_few_again:
            await self._add(client, [*interest])
        for workspace in gone:
            await self._unsubscribe(self._subscriptions.pop(workspace, ()))

    async def _subscribe(self, client: Client, subject: str, *, queue: str = "") -> Subscription:
        return await client.subscribe(
            subject,
            queue,
            cb=self._on_message,
            pending_msgs_limit=_QUEUED,
            pending_bytes_limit=_QUEUED_BYTES,
        )

    async def _unsubscribe(self, subscriptions: Collection[Subscription]) -> None:
        for subscription in subscriptions:
            with suppress(*NATS_ERRORS):  # if its connection is lost, the subscription is gone anyway
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
