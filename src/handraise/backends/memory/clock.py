"""What time it is in memory."""

from __future__ import annotations

from datetime import UTC, datetime

from handraise.ports import Clock


def now_by(clock: Clock | None) -> datetime:
    """The present instant by this clock, or else by the clock of the host."""
    return (clock.now() if clock else None) or datetime.now(UTC)
