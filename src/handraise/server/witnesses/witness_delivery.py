"""Sends heads to a witness at an interval, and tries again if it fails. Nothing else waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from handraise.model.witnesses import ChainHead
from handraise.ports.channel import NotSent
from handraise.server.observability import Metrics
from handraise.server.settings import ServerSettings
from handraise.server.witness_addresses import WitnessAddress
from handraise.server.witnesses.witness_queue import WitnessQueue, WitnessState
from handraise.server.witnesses.witness_senders import WitnessSender, open_senders

_log = logging.getLogger(__name__)

_LOOK_EVERY = 5.0
_LEASE = 300.0
_FIRST_RETRY = 30.0
_LAST_RETRY = 3_600.0
_MOST_DOUBLINGS = 10


@asynccontextmanager
async def open_deliveries(
    settings: ServerSettings, queue: WitnessQueue | None, metrics: Metrics
) -> AsyncIterator[Sequence[WitnessDelivery]]:
    """A delivery for each witness of the settings, for as long as this context lasts."""
    if queue is None:
        yield ()
        return
    counts: Counter[str] = Counter()
    deliveries = []
    async with open_senders(settings) as senders:
        for address, sender in senders:
            counts[address.kind] += 1
            number = counts[address.kind]
            deliveries.append(
                WitnessDelivery(
                    address,
                    sender,
                    queue,
                    interval=settings.audit_witness_interval,
                    label=address.kind if number == 1 else f"{address.kind} {number}",
                    metrics=metrics,
                )
            )
        yield deliveries


class WitnessDelivery:
    """Sends the newest head of each workspace to one witness, at most once in `interval` seconds.

    `label` is the witness in the metrics, `look_interval` how often to call `run`, in seconds.
    """

    def __init__(
        self,
        address: WitnessAddress,
        sender: WitnessSender,
        queue: WitnessQueue,
        *,
        interval: float,
        label: str,
        metrics: Metrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.label = label
        self.name = address.name
        self.look_interval = min(_LOOK_EVERY, interval)
        self._address = address
        self._sender = sender
        self._queue = queue
        self._interval = interval
        self._metrics = metrics
        self._now = now
        self._stopping = False
        self._sending: asyncio.Task[tuple[str | None, float]] | None = None

    async def run(self) -> None:
        """Send what is due, unless another process does it or it is too soon."""
        work = asyncio.create_task(self._run())
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            # The claim must not stay behind. Before Python 3.12, `asyncio.wait_for`, which the mail client uses, can
            # swallow a cancellation.
            self._stopping = True
            if self._sending is not None:
                self._sending.cancel()
            await asyncio.wait([work])
            raise

    async def _run(self) -> None:
        longest = max(self._interval, _LEASE, _LAST_RETRY)
        if await self._queue.claim(self._address.id, now=self._now(), lease=_LEASE, longest=longest):
            await self._run_round()
        state = await self._queue.state(self._address.id)
        self._metrics.set_witness_failing(self.label, failing=state.failing_since is not None)

    async def send_now(self, head: ChainHead) -> str | None:
        """Send one head at once; return why it was not sent, or None."""
        await self._queue.put(head)
        try:
            await self._sender.send([head])
        except NotSent as error:
            return str(error)
        await self._queue.mark_sent(self._address.id, [head], now=self._now(), lease=0.0)
        await self._queue.succeeded(self._address.id, now=self._now(), next_at=self._now())
        return None

    async def _run_round(self) -> None:
        before = await self._queue.state(self._address.id)
        self._sending = asyncio.create_task(self._send_due())
        if self._stopping:
            self._sending.cancel()
        await asyncio.wait([self._sending])
        if self._stopping:
            await self._queue.release(self._address.id, next_at=self._now())
            return
        problem, wait = self._sending.result()
        self._metrics.count_witness_try(self.label, sent=problem is None)
        if problem is None:
            await self._succeeded(before)
        else:
            await self._failed(before, problem, wait)

    async def _send_due(self) -> tuple[str | None, float]:
        """Why not everything was sent, or None, and for how long the witness asks to be left alone."""
        after = ""
        try:
            while heads := await self._queue.due(self._address.id, after=after, limit=self._sender.batch):
                if self._stopping:
                    break  # its cancellation was swallowed
                await self._sender.send(heads)
                await self._queue.mark_sent(self._address.id, heads, now=self._now(), lease=_LEASE)
                after = heads[-1].workspace
        except NotSent as error:
            return str(error), 0.0 if error.after is None else error.after.total_seconds()
        except Exception as error:  # noqa: BLE001 -- it is tried again, and must not stay claimed
            _log.exception(
                "the witness %s failed in a way that nobody expected",
                self._address.name,
                extra={"event": "witness_failed"},
            )
            return type(error).__name__, 0.0
        return None, 0.0

    async def _succeeded(self, before: WitnessState) -> None:
        now = self._now()
        await self._queue.succeeded(self._address.id, now=now, next_at=now + self._interval)
        if before.failing_since is not None:
            _log.info(
                "the witness %s gets heads of the audit trail again",
                self._address.name,
                extra={"event": "witness_back"},
            )

    async def _failed(self, before: WitnessState, problem: str, wait: float) -> None:
        now = self._now()
        retry = min(_FIRST_RETRY * 2 ** min(before.failures, _MOST_DOUBLINGS), self._interval, _LAST_RETRY)
        next_at = now + max(retry, min(wait, _LAST_RETRY))
        await self._queue.failed(self._address.id, problem, now=now, next_at=next_at)
        if before.problem != problem:
            _log.warning(
                "the witness %s did not get heads of the audit trail, and is tried again: %s",
                self._address.name,
                problem,
                extra={"event": "witness_failed"},
            )
