"""How many streams and long polls may be open at a time: each is a connection that somebody else cannot have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, Request

from handraise.model.errors import TooManyRequests
from handraise.server.auth.authenticator import Caller
from handraise.server.file_descriptors import most_connections
from handraise.server.settings import ServerSettings

_COME_BACK = 5.0
_SHARE_OF_CREDENTIAL = 0.25
_SHARE_OF_WORKSPACE = 0.75


class StreamLimits:
    """Counts what is open; each process counts for itself.

    However much the settings allow, neither a credential nor a workspace takes all connections that the process can have.
    """

    def __init__(self, settings: ServerSettings) -> None:
        most = most_connections()
        self._of_credential = _bound(settings.stream_limit, most * _SHARE_OF_CREDENTIAL)
        self._of_workspace = _bound(settings.workspace_stream_limit, most * _SHARE_OF_WORKSPACE)
        self._open: Counter[tuple[str, ...]] = Counter()

    def check(self, caller: Caller) -> None:
        """Raise `TooManyRequests` if this caller may open no more."""
        if self._open[caller.workspace, caller.credential] >= self._of_credential:
            raise TooManyRequests(
                _COME_BACK,
                f"This key or session has {self._of_credential} event streams and long polls open, and may have no more. "
                "One stream of /v1/events tells of all questions, and one long poll of /v1/outcomes waits for 200",
            )
        if self._open[(caller.workspace,)] >= self._of_workspace:
            raise TooManyRequests(
                _COME_BACK,
                f"This workspace has {self._of_workspace} event streams and long polls open, and may have no more",
            )

    @contextmanager
    def hold(self, caller: Caller) -> Iterator[None]:
        """Count one of this caller's for as long as this context lasts; raises `TooManyRequests`."""
        self.check(caller)
        with self.count(caller):
            yield

    @contextmanager
    def count(self, caller: Caller) -> Iterator[None]:
        """The same for one that was checked before and must not be refused any more."""
        places = ((caller.workspace, caller.credential), (caller.workspace,))
        self._open.update(places)
        try:
            yield
        finally:
            for place in places:
                self._open[place] -= 1
                if not self._open[place]:
                    del self._open[place]


def _bound(wanted: int, share: float) -> int:
    return min(wanted or int(share), int(share))


def limits_of(request: Request) -> StreamLimits:
    """The bounds of the application that serves this request."""
    limits: StreamLimits = request.app.state.stream_limits
    return limits


async def _stream_limits(request: Request) -> StreamLimits:
    return limits_of(request)


TheStreamLimits = Annotated[StreamLimits, Depends(_stream_limits)]
