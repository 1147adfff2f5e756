"""A stream ends when the store was away, so that its client comes back and reads again what it waits for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from handraise.backends.sqlite.memory import MemoryStore
from handraise.desk.feed_reader import FeedReader
from handraise.errors import StoreUnavailable
from handraise.server.live.broadcaster import _FeedBroadcaster

SOON = 10


async def test_a_broadcaster_ends_when_the_store_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    store, away = MemoryStore(), asyncio.Event()
    feed = store.feed

    async def read(*args: Any, **options: Any) -> Any:
        if away.is_set():
            away.clear()
            raise StoreUnavailable("fail-over")
        return await feed(*args, **options)

    monkeypatch.setattr(store, "feed", read)
    reader = FeedReader(store, cast("Any", _no_hints), poll_interval=0.01, interest=cast("Any", _Nobody()))
    ctx = SimpleNamespace(store=store, stopping=asyncio.Event(), engine=SimpleNamespace(feeds=reader))
    broadcaster = _FeedBroadcaster(cast("Any", ctx), cast("Any", None), "w")
    async with asyncio.timeout(SOON):
        await broadcaster.started.wait()
        assert not broadcaster.is_over
        away.set()
        while not broadcaster.is_over:
            await asyncio.sleep(0.005)
    await broadcaster.close()
    assert reader.when_away == set()
    await reader.close()


class _Nobody:
    def add(self, *_: object) -> None: ...

    def discard(self, *_: object) -> None: ...


class _no_hints:  # noqa: N801 -- stands for a function
    def __init__(self, _: object) -> None: ...

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...
