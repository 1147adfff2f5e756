"""Handraise for threads: the same functions, without `await`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from datetime import timedelta
from types import TracebackType
from typing import NoReturn, Unpack

from handraise.desk.blocking_desk import BlockingDesk, LoopThread
from handraise.desk_factory import DeskOptions
from handraise.desk_factory import open_desk as open_async_desk
from handraise.ports import Bus, Clock
from handraise.ports.desk import Desk
from handraise.wire.credentials import Credentials

__all__ = ["BlockingDesk", "open_desk"]


def open_desk(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    bus: Bus | str | None = None,
    connections: int = 4,
    credentials: str | Credentials | None = None,
    keep_settled: timedelta | None = None,
    pending_quota: int | None = None,
    receipt_key: str | os.PathLike[str] | None = None,
    **options: Unpack[DeskOptions],
) -> AbstractContextManager[BlockingDesk]:
    """A desk for threads at an address; takes what `handraise.open_desk` takes."""
    opened = open_async_desk(
        url,
        clock=clock,
        bus=bus,
        connections=connections,
        credentials=credentials,
        keep_settled=keep_settled,
        pending_quota=pending_quota,
        receipt_key=receipt_key,
        **options,
    )
    return DeskContext(_open(opened))


class DeskContext(AbstractContextManager[BlockingDesk]):
    """What `open_desk` returns: a desk once it is entered. If it is used differently, it says what to write."""

    def __init__(self, opened: AbstractContextManager[BlockingDesk]) -> None:
        self._opened = opened

    def __enter__(self) -> BlockingDesk:
        return self._opened.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._opened.__exit__(kind, error, trace)

    async def __aenter__(self) -> NoReturn:
        raise TypeError(
            "Write `async with handraise.open_desk(…) as desk:`; the blocking desk is for threads."
        )

    async def __aexit__(self, *why: object) -> None:
        """Never reached."""

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(BlockingDesk, name) and not name.startswith("_"):
            raise AttributeError(
                f"The desk is not open yet: write `with open_desk(…) as desk:`, then `desk.{name}`."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@contextmanager
def _open(opened: AbstractAsyncContextManager[Desk]) -> Iterator[BlockingDesk]:
    loop = LoopThread()
    try:
        desk = loop.open(opened.__aenter__())
        try:
            yield BlockingDesk(desk, loop)
        finally:
            loop.finish(opened.__aexit__(None, None, None))
    finally:
        loop.close()
