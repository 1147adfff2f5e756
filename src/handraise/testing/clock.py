"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """Time for a store under test: `open_desk(url, clock=ManualClock())`."""

    def __init__(self, start: datetime = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """The instant the clock shows."""
        return self._now

    def advance(self, span: timedelta) -> None:
        """Move the clock forward."""
        self._now += span
