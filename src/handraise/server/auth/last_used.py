"""When keys were last used, written in the background."""

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
        """Record that a key is used now; a failure is only logged."""
        now = time.monotonic()
        if now - self._noted.get((workspace, key_id), -_INTERVAL) >= _INTERVAL:
            self._noted[workspace, key_id] = now
            self._context.run_in_background(self._write(workspace, key_id))

    async def _write(self, workspace: str, key_id: str) -> None:
        try:
            await self._context.directory.note_use(workspace, key_id)
        except Exception as error:  # noqa: BLE001 -- the request goes on
            _log.warning(
                "the use of key %s could not be noted: %s",
                key_id,
                error,
                extra={"event": "key_use_not_noted"},
            )
