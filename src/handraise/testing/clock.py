"""A clock that does not move by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from handraise.model.durations import Span, seconds_of


class ManualClock:
    """Time for a store under test: `open_desk(url, clock=ManualClock())`.

    It starts far in the future: for a desk with the real clock on the same store, such as a server that
    another test started, nothing that it timed is due yet.
    """

    def __init__(self, start: datetime = datetime(2100, 1, 1, 9, 0, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError("give a start with a time zone")
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        """The current time of the clock."""
        return self._now

    def advance(self, span: Span) -> None:
        """Move the clock forward: `advance("2h")`."""
        self._now += span if isinstance(span, timedelta) else timedelta(seconds=seconds_of(span))
