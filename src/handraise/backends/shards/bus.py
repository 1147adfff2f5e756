"""Hints over several shards: each is sent on the shard of its workspace, and a listener listens on all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from handraise.backends.shards.shard import Shard
from handraise.backends.shards.shard_router import ShardRouter
from handraise.model.errors import DeskClosed, StoreUnavailable
from handraise.model.problems import HandraiseError
from handraise.model.questions import Ref
from handraise.ports import HintHandler, Interest

_log = logging.getLogger(__name__)

_SOON = 2.0
_RETRY = 1.0


class ShardedBus:
    """Hints on several shards. See `handraise.ports.Bus` for what each method promises."""

    def __init__(self, router: ShardRouter) -> None:
        self._router = router

    async def wake(self, topics: Collection[Ref]) -> None:
        """Send hints, each on the shard where its workspace is thought to be; see the port."""
        parts: dict[Shard, list[Ref]] = {}
        for topic in topics:
            try:
                home = await self._router.find_shard(topic.workspace)
            except StoreUnavailable:
                continue
            if home is not None:
                parts.setdefault(home, []).append(topic)
        await asyncio.gather(*(self._wake_on(*part) for part in parts.items()))

    @asynccontextmanager
    async def listen(
        self,
        on_hint: HintHandler,
        *,
        feeds: bool = False,
        shared_feeds: bool = False,
        interest: Interest | None = None,
    ) -> AsyncIterator[None]:
        """Receive hints of every shard; see the port. If a shard does not answer, listening starts once it does."""
        listen = partial(_keep_listening, on_hint, feeds=feeds, shared_feeds=shared_feeds, interest=interest)
        tasks: list[asyncio.Task[None]] = []
        ready: list[asyncio.Task[bool]] = []

        def begin(shard: Shard) -> None:
            listening = asyncio.Event()
            tasks.append(asyncio.create_task(listen(shard, listening)))
            ready.append(asyncio.create_task(listening.wait()))

        if not self._router.shards:
            await self._router.load()
        for shard in list(self._router.shards.values()):
            begin(shard)
        end = self._router.on_new_shard(begin)
        try:
            if ready:
                await asyncio.wait(ready, timeout=_SOON)
            yield
        finally:
            end()
            for task in (*tasks, *ready):
                task.cancel()
            await asyncio.gather(*tasks, *ready, return_exceptions=True)

    async def _wake_on(self, shard: Shard, topics: Collection[Ref]) -> None:
        try:
            await shard.call_briefly(lambda opened: opened.bus.wake(topics))
        except StoreUnavailable:
            _log.warning(
                "a wake-up could not be sent; waits elsewhere will find out by polling",
                extra={"event": "hint_not_sent"},
            )


async def _keep_listening(
    on_hint: HintHandler, shard: Shard, listening: asyncio.Event, **needed: Any
) -> None:
    """Listen on one shard forever, as soon as it can be opened."""
    while True:
        try:
            opened = await shard.opened()
        except DeskClosed:
            return
        except HandraiseError as error:
            _log.warning(
                "shard %s cannot be listened to (%s); polling until it is back",
                shard.number,
                error,
                extra={"event": "hints_lost"},
            )
            await asyncio.sleep(_RETRY)
            continue
        async with opened.bus.listen(on_hint, **needed):
            listening.set()
            await asyncio.Event().wait()
