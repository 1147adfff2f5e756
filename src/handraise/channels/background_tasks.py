"""Tasks that a channel runs besides answering a request; before it closes, it waits a short time for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from handraise.ports.channel import NotSent

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_FINISHING = 5.0


class BackgroundTasks:
    """The running tasks of one channel. One that fails is logged, except for expected errors."""

    def __init__(self, channel: str, *, expected: tuple[type[Exception], ...] = ()) -> None:
        self._channel = channel
        self._expected = expected
        self._under_way: set[asyncio.Task[Any]] = set()

    def begin(self, what: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run it in the background."""
        task = asyncio.create_task(what, name=f"handraise {self._channel} reply")
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return task

    async def finish(self) -> None:
        """Wait a short time for the running tasks."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=_FINISHING)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, self._expected):
            # Other errors may contain a secret.
            why = error if isinstance(error, NotSent) else type(error).__name__
            _log.warning(
                "something about %s failed: %s", self._channel, why, extra={"event": "channel_task_failed"}
            )
