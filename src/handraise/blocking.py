"""Handraise for threads: the same door, without `await`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Unpack

from handraise.desk.blocking import BlockingDesk, LoopThread
from handraise.model.errors import DeskClosed
from handraise.opening import DeskOptions
from handraise.opening import open_desk as open_async_desk
from handraise.ports import Bus, Clock
from handraise.wire.credentials import Credentials

__all__ = ["BlockingDesk", "open_desk"]


@contextmanager
def open_desk(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    bus: Bus | str | None = None,
    connections: int = 4,
    credentials: str | Credentials | None = None,
    keep_settled: timedelta | None = None,
    **options: Unpack[DeskOptions],
) -> Iterator[BlockingDesk]:
    """A desk for threads at an address; takes what `handraise.open_desk` takes."""
    loop = LoopThread()
    try:
        opened = open_async_desk(
            url,
            clock=clock,
            bus=bus,
            connections=connections,
            credentials=credentials,
            keep_settled=keep_settled,
            **options,
        )
        desk = loop.run(opened.__aenter__())
        try:
            yield BlockingDesk(desk, loop)
        finally:
            with suppress(DeskClosed):  # at the end of the process nothing is left to close
                loop.run(opened.__aexit__(None, None, None))
    finally:
        loop.close()
