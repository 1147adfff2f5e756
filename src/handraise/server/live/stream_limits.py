"""How many event streams and long polls may be open at a time. Each takes a connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, Request

from handraise.model.errors import TooManyRequests
from handraise.server.auth.authenticator import Caller
from handraise.server.file_descriptors import max_connections
from handraise.server.settings import ServerSettings

_RETRY_AFTER = 5.0
_SHARE_OF_CREDENTIAL = 0.25
_SHARE_OF_WORKSPACE = 0.75


class StreamLimits:
    """Counts what is open; each process counts for itself.

    Whatever the settings say, neither a credential nor a workspace can take all connections of the process.
    """

    def __init__(self, settings: ServerSettings) -> None:
        available = max_connections()
        self._credential_limit = _bound(settings.stream_limit, available * _SHARE_OF_CREDENTIAL)
        self._workspace_limit = _bound(settings.workspace_stream_limit, available * _SHARE_OF_WORKSPACE)
        self._open: Counter[tuple[str, ...]] = Counter()

    def check(self, caller: Caller) -> None:
        """Raise `TooManyRequests` if this caller has reached a limit."""
        if self._open[caller.workspace, caller.credential] >= self._credential_limit:
            raise TooManyRequests(
                _RETRY_AFTER,
                f"This key or session has {self._credential_limit} event streams and long polls open, and may have no more. "
                "One stream of /v1/events tells of all questions, and one long poll of /v1/outcomes waits for 200",
            )
        if self._open[(caller.workspace,)] >= self._workspace_limit:
            raise TooManyRequests(
                _RETRY_AFTER,
                f"This workspace has {self._workspace_limit} event streams and long polls open, and may have no more",
            )

    @contextmanager
    def hold(self, caller: Caller) -> Iterator[None]:
        """Check, and count one for this caller while the context is open; raises `TooManyRequests`."""
        self.check(caller)
        with self.count(caller):
            yield

    @contextmanager
    def count(self, caller: Caller) -> Iterator[None]:
        """Count one that was checked before, without a limit."""
        keys = ((caller.workspace, caller.credential), (caller.workspace,))
        self._open.update(keys)
        try:
            yield
        finally:
            for key in keys:
                self._open[key] -= 1
                if not self._open[key]:
                    del self._open[key]


def _bound(wanted: int, share: float) -> int:
    return min(wanted or int(share), int(share))


def limits_of(request: Request) -> StreamLimits:
    """The stream limits of the application that serves this request."""
    limits: StreamLimits = request.app.state.stream_limits
    return limits


async def _stream_limits(request: Request) -> StreamLimits:
    return limits_of(request)


StreamLimitsDep = Annotated[StreamLimits, Depends(_stream_limits)]
