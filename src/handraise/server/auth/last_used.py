"""When keys were last used: written beside requests, now and then, and never at their cost."""

from __future__ import annotations

import logging
import time

from handraise.server.context import ServerContext

_log = logging.getLogger(__name__)

_INTERVAL = 60.0


class LastUsed:
    """Notes the use of each key at most once a minute."""

    def __init__(self, ctx: ServerContext) -> None:
        self._context = ctx
        self._noted: dict[tuple[str, str], float] = {}

    def note(self, workspace: str, key_id: str) -> None:
        """Say that a key is used now; whether it could be written down is nobody's concern."""
        now = time.monotonic()
        if now - self._noted.get((workspace, key_id), -_INTERVAL) >= _INTERVAL:
            self._noted[workspace, key_id] = now
            self._context.beside(self._write(workspace, key_id))

    async def _write(self, workspace: str, key_id: str) -> None:
        try:
            await self._context.directory.note_use(workspace, key_id)
        except Exception as error:  # noqa: BLE001 -- the request that it came with goes on
            _log.warning("the use of key %s could not be noted: %s", key_id, error)
