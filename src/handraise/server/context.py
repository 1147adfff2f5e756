"""The state that all requests share: one desk for every workspace, the directory, and the background tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from handraise.channels import Replies
from handraise.channels.custom_channels import Opener
from handraise.desk.attachment_store import AttachmentStore
from handraise.desk.dispatcher import run_dispatcher
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk.policy_cache import PolicyCache
from handraise.desk.recipient_check import Recipients
from handraise.desk.sealer import BrokenChain, Sealer
from handraise.desk.search_indexer import SearchIndexer
from handraise.desk_factory import open_backend
from handraise.model.drafting import Limits
from handraise.model.problems import HandraiseError
from handraise.model.seals import Signer
from handraise.ports import Clock, Directory, IdFactory, Ledger, Outbox, Policies, SignedHeads, Store
from handraise.ports.channel import Channel
from handraise.server.announced_changes import announce_changes
from handraise.server.channel_setup import Links, account_links, open_channels
from handraise.server.image_encoder import ImageEncoder
from handraise.server.observability import InstrumentedEngine, Metrics, Traces, instrumented_directory
from handraise.server.passkeys.passkey_use import PasskeyUse, open_passkeys
from handraise.server.rota_refresh import refresh_rotas
from handraise.server.settings import ServerSettings
from handraise.server.store_check import CHECK_INTERVAL, StoreCheck
from handraise.server.suspension_mails import SuspensionMails
from handraise.server.witnesses.witness_delivery import open_deliveries
from handraise.server.witnesses.witness_queue import WitnessQueue

if TYPE_CHECKING:
    from handraise.server.audit_heads import HeadsFile
    from handraise.signing.receipt_tokens import ReceiptKey

_log = logging.getLogger(__name__)

_DELETE_AFTER = timedelta(days=1)
_DELETE_BATCH = 1_000
_DELETE_INTERVAL = 600.0
_ROTA_INTERVAL = 60.0
_QUEUE_STATS_INTERVAL = 15.0
_LOOP_LAG_INTERVAL = 0.5
_OLD_HEADS_AT_ONCE = 100


class StopEvent(asyncio.Event):
    """An event that also calls back: thousands of long polls need no task each to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: set[Callable[[], object]] = set()

    def set(self) -> None:
        """Set it, and call everybody who asked for it."""
        super().set()
        for callback in list(self.callbacks):
            callback()


@dataclass(slots=True)
class ServerContext:
    """Everything that a request may need.

    While `is_draining`, the server is not ready for new clients. `stopping` is set when streams and long polls must end.
    `replaying` lets one replay of a policy run at a time.
    """

    settings: ServerSettings
    engine: InstrumentedEngine
    desk: LocalDesk
    store: Store
    directory: Directory
    outbox: Outbox
    ledger: Ledger
    policies: Policies
    signer: Signer | None
    signed_heads: SignedHeads | None
    witness_queue: WitnessQueue | None
    receipt_key: ReceiptKey | None
    new_id: IdFactory
    metrics: Metrics
    traces: Traces
    store_check: StoreCheck
    passkeys: PasskeyUse | None = None
    channels: Mapping[str, Channel] = field(default_factory=dict)
    image_encoder: ImageEncoder = field(default_factory=ImageEncoder)
    is_draining: bool = False
    is_set_up: bool = False
    """Whether an administrator is known to have signed in."""
    stopping: StopEvent = field(default_factory=StopEvent)
    replaying: asyncio.Lock = field(default_factory=asyncio.Lock)
    background_tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def sealer(self) -> Sealer:
        """A sealer of the store, whose seals go to the witnesses."""
        appended = None if self.witness_queue is None else self.witness_queue.take
        return Sealer(self.store, self.ledger, self.signer, self.signed_heads, appended)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a small task; the server waits for it before it closes."""
        task = asyncio.create_task(work)
        self.background_tasks.add(task)
        task.add_done_callback(self.background_tasks.discard)


@asynccontextmanager
async def open_server(
    settings: ServerSettings,
    *,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    traces: Traces | None = None,
    channels: Sequence[Opener] = (),
) -> AsyncIterator[ServerContext]:
    """Open the store and the channels of the settings, and run the background tasks while this context is open.

    `channels` are functions that open your own channels; see `handraise.channels.custom_channels`.

    On PostgreSQL, raises `UnsafeStore` if row security does not separate the workspaces.
    """
    async with (
        open_context(settings, clock=clock, metrics=metrics, traces=traces) as ctx,
        open_channels(
            settings,
            Replies(
                ctx.desk,
                ctx.directory,
                ctx.outbox,
                locale=settings.locale,
                base_url=settings.base_url,
                images=ctx.image_encoder,
                accounts=account_links(settings),
            ),
            ctx.outbox,
            channels,
        ) as opened,
        _run_dispatchers(ctx, opened),
        open_deliveries(settings, ctx.witness_queue, ctx.metrics) as deliveries,
    ):
        mails = SuspensionMails(
            ctx.policies,
            ctx.directory,
            ctx.outbox,
            opened,
            base_url=settings.base_url,
            locale=settings.locale,
        )
        ctx.engine.on_denied_check = lambda question: ctx.run_in_background(mails.tell(question))
        ctx.metrics.read_readiness(lambda: not ctx.is_draining)
        periodic: Sequence[tuple[str, float, Callable[[], Awaitable[object]]]] = [
            ("seal", settings.seal_interval, _seal_task(ctx)),
            ("index", settings.seal_interval, _index_task(ctx)),
            ("sweep", settings.poll_interval, ctx.desk.run_maintenance),
            ("forget", _DELETE_INTERVAL, lambda: _delete_expired(ctx)),
            ("rotas", _ROTA_INTERVAL, lambda: refresh_rotas(ctx.directory, settings)),
            ("count", _QUEUE_STATS_INTERVAL, lambda: _update_queue_stats(ctx)),
            ("check_store", CHECK_INTERVAL, ctx.store_check.run),
        ]
        tasks = [
            *(
                # A slow witness holds up no other.
                asyncio.create_task(
                    _run_periodically(f"witness {each.label}", each.look_interval, each.run),
                    name=f"handraise witness {each.label}",
                )
                for each in deliveries
            ),
            *(
                asyncio.create_task(
                    _run_periodically(name, interval, task, ctx.metrics.watch_task(name)),
                    name=f"handraise {name}",
                )
                for name, interval, task in periodic
            ),
            asyncio.create_task(_measure_loop_lag(ctx.metrics), name="handraise loop lag"),
        ]
        try:
            yield ctx
        finally:
            ctx.is_draining = True
            ctx.stopping.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *ctx.background_tasks, return_exceptions=True)


@asynccontextmanager
async def _run_dispatchers(ctx: ServerContext, channels: Mapping[str, Channel]) -> AsyncIterator[None]:
    """Send deliveries through the channels. Without a channel, deliveries fail in the end."""
    ctx.channels = channels
    async with run_dispatcher(
        ctx.engine,
        ctx.outbox,
        ctx.directory,
        list(channels.values()),
        link_to=Links(ctx.settings, ctx.directory, channels),
        tried=ctx.metrics.count_delivery_try,
        span=ctx.traces.delivery_span,
        locale=ctx.settings.locale,
    ):
        yield


@asynccontextmanager
async def open_context(
    settings: ServerSettings,
    *,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    traces: Traces | None = None,
) -> AsyncIterator[ServerContext]:
    """Open the same context without channels and background tasks, for a short command."""
    metrics, traces, new_id = metrics or Metrics(), traces or Traces(), uuid7_ids()
    signer, heads, witness_queue = await asyncio.to_thread(_open_audit, settings)
    receipt_key = await asyncio.to_thread(_open_receipt_key, settings)
    async with open_backend(
        settings.url,
        clock=clock,
        connections=settings.connections,
        confined=True,
        listen=settings.listen_url,
        bus=settings.bus,
        files=settings.files,
        statement_span=traces.statement_span if traces.is_on else None,
    ) as backend:
        if heads is not None and heads.is_new and await _has_events(backend.ledger, settings.workspace):
            await heads.mark_lost()
        directory = instrumented_directory(backend.directory, metrics)
        engine = InstrumentedEngine(
            backend.store,
            backend.bus,
            poll_interval=settings.poll_interval,
            public_url=settings.base_url,
            metrics=metrics,
            keep=None if settings.keep_settled_days is None else timedelta(days=settings.keep_settled_days),
            quota=settings.pending_quota or None,
            recipients=_recipients(settings, directory),
            directory=directory,
            policies=PolicyCache(backend.policies, on_decided=metrics.observe_policy),
            receipt_signer=receipt_key,
            attachments=AttachmentStore(backend.files, backend.blobs),
        )
        metrics.read_waits(lambda: len(engine.waiters))
        metrics.read_feed_lag(engine.feeds.lag)
        if backend.pool_stats is not None:
            metrics.read_pool(backend.pool_stats)
        try:
            yield ServerContext(
                settings=settings,
                engine=engine,
                desk=LocalDesk(
                    engine, workspace=settings.workspace, asker="agent", new_id=new_id, limits=Limits()
                ),
                store=engine.store,
                directory=instrumented_directory(
                    announce_changes(backend.directory, engine.announce), metrics
                ),
                outbox=backend.outbox,
                ledger=backend.ledger,
                policies=backend.policies,
                signer=signer,
                signed_heads=heads,
                witness_queue=witness_queue,
                receipt_key=receipt_key,
                new_id=new_id,
                metrics=metrics,
                traces=traces,
                store_check=StoreCheck(engine.store, metrics),
                passkeys=open_passkeys(directory, settings.base_url),
            )
        finally:
            await engine.close()


def _recipients(settings: ServerSettings, directory: Directory) -> Recipients:
    """The check of recipients. People who may join count before they have signed in."""
    return Recipients(directory, settings.may_join, checks=settings.check_recipients)


def _open_audit(
    settings: ServerSettings,
) -> tuple[Signer | None, HeadsFile | None, WitnessQueue | None]:
    """Load the key that signs seals, what it has signed last, and what witnesses have yet to see."""
    path = settings.audit_file
    if path is None:
        return None, None, None
    signer = heads = None
    if settings.audit_key is not None:
        from handraise.server.audit_heads import HeadsFile as File  # noqa: PLC0415 -- only with a key
        from handraise.signing.key_files import load_signer  # noqa: PLC0415 -- cryptography is an extra

        signer, heads = load_signer(settings.audit_key), File.prepare(path)
    return signer, heads, WitnessQueue.prepare(path) if settings.audit_witnesses else None


async def _has_events(ledger: Ledger, workspace: str) -> bool:
    """Whether something happened in the store already, so that it may have been signed."""
    return bool(await ledger.unsealed(limit=1)) or (await ledger.head(workspace)).seal is not None


def _open_receipt_key(settings: ServerSettings) -> ReceiptKey | None:
    """Load the key that signs receipts, and those whose receipts are accepted."""
    if settings.receipt_key is None:
        return None
    from handraise.signing.receipt_tokens import load_receipt_key  # noqa: PLC0415 -- joserfc is an extra

    return load_receipt_key(settings.receipt_key, settings.receipt_key_fallbacks)


def _seal_task(ctx: ServerContext) -> Callable[[], Awaitable[None]]:
    """Make the task that seals the audit trail, and reports in the metrics what it refuses to sign or cannot seal."""
    sealer = ctx.sealer()

    async def seal() -> None:
        await sealer.run()
        if not sealer.is_behind:
            ctx.metrics.note_sealed()
        ctx.metrics.set_audit_refused(len(sealer.refused))
        ctx.metrics.set_audit_failed(len(sealer.failed))
        if ctx.witness_queue is not None:
            await _queue_old_heads(ctx.witness_queue, sealer)

    return seal


def _index_task(ctx: ServerContext) -> Callable[[], Awaitable[None]]:
    """Make the task that keeps the search index up to date."""
    indexer = SearchIndexer(ctx.store)

    async def index() -> None:
        await indexer.run()

    return index


async def _queue_old_heads(queue: WitnessQueue, sealer: Sealer) -> None:
    """Send witnesses the heads of chains that ended before there was a witness."""
    for workspace in await queue.list_missing(limit=_OLD_HEADS_AT_ONCE):
        with suppress(BrokenChain):  # the sealer has logged it
            if (last := (await sealer.check(workspace)).seal) is not None:
                await queue.take(last)


async def _delete_expired(ctx: ServerContext) -> None:
    """Delete idempotency records, links and sessions that have expired."""
    while await ctx.directory.forget(older_than=_DELETE_AFTER, limit=_DELETE_BATCH) >= _DELETE_BATCH:
        pass


async def _update_queue_stats(ctx: ServerContext) -> None:
    """Count what is pending in the store. This runs at an interval, so that reading the metrics costs no query."""
    quota = ctx.settings.pending_quota or None
    ctx.metrics.update_queue_stats(await ctx.store.queue_stats(quota=quota))


async def _measure_loop_lag(metrics: Metrics) -> None:
    """Measure how late the event loop wakes a timer: whatever blocks it delays every request as much."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(_LOOP_LAG_INTERVAL)
        metrics.observe_loop_lag(max(time.perf_counter() - began - _LOOP_LAG_INTERVAL, 0.0))


async def _run_periodically(
    name: str,
    interval: float,
    task: Callable[[], Awaitable[object]],
    succeeded: Callable[[], None] = lambda: None,
) -> None:
    """Run a task at an interval. `succeeded` is called after each run that did not fail; one that did is logged."""
    while True:
        try:
            await task()
            succeeded()
        except HandraiseError as error:
            _log.warning(
                "the background task %r failed and will run again: %s",
                name,
                error,
                extra={"event": "task_failed", "task": name},
            )
        except Exception as error:  # noqa: BLE001 -- the task must run again
            _log.error(
                "the background task %r failed and will run again",
                name,
                exc_info=error,
                extra={"event": "task_failed", "task": name},
            )
        await asyncio.sleep(interval)
