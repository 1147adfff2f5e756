"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """Time for a store under test: `open_desk(url, clock=ManualClock())`.

    It starts far in the future: what it timed is not yet due for a desk with the real clock on the same
    store, such as a server that another test started.
    """

    def __init__(self, start: datetime = datetime(2100, 1, 1, 9, 0, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """The instant the clock shows."""
        return self._now

    def advance(self, span: timedelta) -> None:
        """Move the clock forward."""
        self._now += span
