"""How many event streams, long polls and exports may be open at a time. Each takes a connection."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import Depends, Request

from handraise.model.errors import TooManyRequests
from handraise.server.auth.authenticator import CallerOrReader
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

    def check(self, caller: CallerOrReader) -> None:
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

    def hold(self, caller: CallerOrReader) -> Held:
        """Check, and count one for this caller until it is released; raises `TooManyRequests`."""
        self.check(caller)
        return self.count(caller)

    def count(self, caller: CallerOrReader) -> Held:
        """Count one that was checked before, without a limit."""
        self._open.update(_keys(caller))
        return Held(self._open, caller)


class Held:
    """One open stream or long poll, until this context ends. A class, because a generator takes half a kilobyte."""

    __slots__ = ("_caller", "_open")

    def __init__(self, counts: Counter[tuple[str, ...]], caller: CallerOrReader) -> None:
        self._open = counts
        self._caller = caller

    def __enter__(self) -> None:
        """It was counted when it was made."""

    def __exit__(self, *_: object) -> None:
        """Count it no more."""
        for key in _keys(self._caller):
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


def _keys(caller: CallerOrReader) -> tuple[tuple[str, ...], ...]:
    return (caller.workspace, caller.credential), (caller.workspace,)


def _bound(wanted: int, share: float) -> int:
    return min(wanted or int(share), int(share))


def limits_of(request: Request) -> StreamLimits:
    """The stream limits of the application that serves this request."""
    limits: StreamLimits = request.app.state.stream_limits
    return limits


async def _stream_limits(request: Request) -> StreamLimits:
    return limits_of(request)


StreamLimitsDep = Annotated[StreamLimits, Depends(_stream_limits)]
