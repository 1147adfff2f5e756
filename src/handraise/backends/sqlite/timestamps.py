"""Instants as SQLite keeps them: whole microseconds, since 1970 or of a span."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from handraise.ports import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """An instant as it is stored."""
    return length(moment - _EPOCH)


def now_by(clock: Clock | None) -> int:
    """The present instant by this clock, or else by the clock of the host."""
    return micros((clock.now() if clock else None) or datetime.now(UTC))


def length(span: timedelta) -> int:
    """A span in the same unit."""
    return span // _MICROSECOND
