"""Whether the store answers, checked every few seconds."""

from __future__ import annotations

import asyncio
import logging
import time

from handraise.model.problems import HandraiseError
from handraise.ports import Store
from handraise.server.observability.metrics import Metrics

_log = logging.getLogger(__name__)

CHECK_INTERVAL = 5.0
_TIMEOUT = 2.0


class StoreCheck:
    """Asks the store, and logs when it is lost and when it is back."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._lost_at: float | None = None

    async def run(self) -> None:
        """Ask once."""
        self._note(await self._problem())

    async def _problem(self) -> str | None:
        """Why the store does not answer; None if it does."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._store.durability()
        except TimeoutError:
            return f"no answer within {_TIMEOUT:g} seconds"
        except HandraiseError as error:
            return str(error)
        return None

    def _note(self, problem: str | None) -> None:
        self._metrics.set_store_up(up=problem is None)
        if problem is not None and self._lost_at is None:
            self._lost_at = time.monotonic()
            _log.error("the store does not answer (%s)", problem, extra={"event": "store_lost"})
        elif problem is None and self._lost_at is not None:
            seconds, self._lost_at = time.monotonic() - self._lost_at, None
            _log.warning(
                "the store answers again, after %.0f seconds", seconds, extra={"event": "store_back"}
            )
