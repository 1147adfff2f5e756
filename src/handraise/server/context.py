"""What a server works with: one desk for every workspace, the directory, and the chores that go on beside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from handraise.channels import Replies
from handraise.channels.custom_channels import Opener
from handraise.desk.dispatcher import dispatching
from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk.recipient_check import Recipients
from handraise.desk.sealer import Sealer
from handraise.desk_factory import open_backend
from handraise.model.drafting import Limits
from handraise.model.errors import HandraiseError
from handraise.model.seals import Signer
from handraise.ports import Clock, Directory, IdFactory, Ledger, Outbox, SignedHeads, Store
from handraise.ports.channel import Channel
from handraise.server.channel_setup import Links, open_channels
from handraise.server.observability import Metrics, Traces, WatchedEngine, watched_directory
from handraise.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_FORGET_AFTER = timedelta(days=1)
_FORGET_AT_ONCE = 1_000
_FORGET_EVERY = 600.0
_QUEUE_STATS_EVERY = 15.0


@dataclass(slots=True)
class ServerContext:
    """Everything that a request may need.

    `leaving` says that newcomers should go elsewhere; `stopping` is set when long answers should come to an
    end.
    """

    settings: ServerSettings
    engine: Engine
    desk: LocalDesk
    store: Store
    directory: Directory
    outbox: Outbox
    ledger: Ledger
    signer: Signer | None
    signed_heads: SignedHeads | None
    new_id: IdFactory
    metrics: Metrics
    traces: Traces
    channels: Mapping[str, Channel] = field(default_factory=dict)
    leaving: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    errands: set[asyncio.Task[None]] = field(default_factory=set)

    def beside(self, errand: Coroutine[Any, Any, None]) -> None:
        """Do something small beside a request; the server does not close before it is done."""
        task = asyncio.create_task(errand)
        self.errands.add(task)
        task.add_done_callback(self.errands.discard)


@asynccontextmanager
async def open_server(
    settings: ServerSettings,
    *,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    traces: Traces | None = None,
    channels: Sequence[Opener] = (),
) -> AsyncIterator[ServerContext]:
    """Open the store as the settings say, and do the chores for as long as this context lasts.

    `channels` are functions that open channels of one's own, besides those of the settings; see
    `handraise.channels.custom_channels`.

    On PostgreSQL, the database itself must keep workspaces apart: where it would not, this raises
    `UnsafeStore`.
    """
    async with (
        open_context(settings, clock=clock, metrics=metrics, traces=traces) as ctx,
        open_channels(settings, Replies(ctx.desk, ctx.directory, ctx.outbox), ctx.outbox, channels) as opened,
        _telling(ctx, opened),
    ):
        chores = [
            asyncio.create_task(_every(settings.seal_interval, _sealing(ctx)), name="handraise seals"),
            asyncio.create_task(_every(settings.poll_interval, ctx.desk.tend), name="handraise sweeps"),
            asyncio.create_task(_every(_FORGET_EVERY, lambda: _forget(ctx)), name="handraise forgets"),
            asyncio.create_task(
                _every(_QUEUE_STATS_EVERY, lambda: _update_queue_stats(ctx)), name="handraise queue stats"
            ),
        ]
        try:
            yield ctx
        finally:
            ctx.leaving = True
            ctx.stopping.set()
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, *ctx.errands, return_exceptions=True)


@asynccontextmanager
async def _telling(ctx: ServerContext, channels: Mapping[str, Channel]) -> AsyncIterator[None]:
    """Tell people through the channels; without any, what should have been told has failed in the end."""
    ctx.channels = channels
    async with AsyncExitStack() as stack:
        # Over several shards, each has a dispatcher of its own: one that does not answer holds up no other.
        for outbox in getattr(ctx.outbox, "apart", [ctx.outbox]):
            await stack.enter_async_context(
                dispatching(
                    ctx.engine,
                    outbox,
                    ctx.directory,
                    list(channels.values()),
                    link_to=Links(ctx.settings, ctx.directory, channels),
                    tried=ctx.metrics.delivery_tried,
                )
            )
        yield


@asynccontextmanager
async def open_context(
    settings: ServerSettings,
    *,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    traces: Traces | None = None,
) -> AsyncIterator[ServerContext]:
    """The same without the chores, for a command that comes and goes."""
    metrics, traces, new_id = metrics or Metrics(), traces or Traces(), uuid7_ids()
    signer, heads = (
        await asyncio.to_thread(_signer, settings.audit_key, settings.audit_heads)
        if settings.audit_key
        else (None, None)
    )
    async with open_backend(
        settings.url,
        clock=clock,
        connections=settings.connections,
        confined=True,
        listen=settings.listen_url,
        bus=settings.bus,
    ) as backend:
        directory = watched_directory(backend.directory, metrics)
        engine = WatchedEngine(
            backend.store,
            backend.bus,
            poll_interval=settings.poll_interval,
            public_url=settings.base_url,
            metrics=metrics,
            rest=timedelta(days=settings.archive_after_days),
            keep=None if settings.keep_settled_days is None else timedelta(days=settings.keep_settled_days),
            quota=settings.pending_quota or None,
            recipients=_recipients(settings, directory),
        )
        metrics.count_waits(lambda: len(engine.room))
        try:
            yield ServerContext(
                settings=settings,
                engine=engine,
                desk=LocalDesk(
                    engine, workspace=settings.workspace, asker="agent", new_id=new_id, limits=Limits()
                ),
                store=engine.store,
                directory=directory,
                outbox=backend.outbox,
                ledger=backend.ledger,
                signer=signer,
                signed_heads=heads,
                new_id=new_id,
                metrics=metrics,
                traces=traces,
            )
        finally:
            await engine.close()


def _recipients(settings: ServerSettings, directory: Directory) -> Recipients | None:
    """Who can be asked: people who may join count before they have come."""
    return Recipients(directory, settings.may_join) if settings.check_recipients else None


def _signer(key: Path, heads: Path | None) -> tuple[Signer, SignedHeads]:
    """The key that seals are signed with, and what it has signed last."""
    from handraise.server.audit_heads import HeadsFile, heads_path  # noqa: PLC0415 -- only with a key
    from handraise.server.audit_keys import load_signer  # noqa: PLC0415 -- cryptography is an extra

    return load_signer(key), HeadsFile.prepare(heads_path(key, heads))


def _sealing(ctx: ServerContext) -> Callable[[], Awaitable[None]]:
    """The chore that seals, and says in the metrics what it refuses to sign."""
    sealer = Sealer(ctx.store, ctx.ledger, ctx.signer, ctx.signed_heads)

    async def seal() -> None:
        await sealer.run()
        ctx.metrics.audit_refused(len(sealer.refused))

    return seal


async def _forget(ctx: ServerContext) -> None:
    """Let go of requests, links and sessions that nobody can use any more."""
    while await ctx.directory.forget(older_than=_FORGET_AFTER, limit=_FORGET_AT_ONCE) >= _FORGET_AT_ONCE:
        pass


async def _update_queue_stats(ctx: ServerContext) -> None:
    """Count how much waits in the store: here, so that nobody who looks at the metrics makes it count."""
    ctx.metrics.beat(await ctx.store.queue_stats())


async def _every(interval: float, chore: Callable[[], Awaitable[object]]) -> None:
    """Do a chore at intervals; one that fails is done again the next time."""
    while True:
        try:
            await chore()
        except HandraiseError as error:
            _log.warning("a chore failed and will be done again: %s", error)
        except Exception as error:  # noqa: BLE001 -- a server without its chores would be worse
            _log.error("a chore failed and will be done again", exc_info=error)
        await asyncio.sleep(interval)
