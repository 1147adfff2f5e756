"""The clock of tests: its instants are in UTC, as those of a store are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from handraise import open_desk
from handraise.testing import ManualClock


async def test_a_clock_may_start_in_any_time_zone() -> None:
    start = datetime(2030, 3, 30, 23, 30, tzinfo=ZoneInfo("Europe/Vienna"))
    clock = ManualClock(start)
    assert (clock.now(), clock.now().tzinfo) == (start, UTC)
    clock.advance("3h")
    assert clock.now() - start.astimezone(UTC) == timedelta(hours=3)
    async with open_desk("memory:", clock=clock) as desk:
        assert (await desk.post("Which?", expires_in="1h")).expires_at == clock.now() + timedelta(hours=1)


def test_a_clock_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        ManualClock(datetime(2030, 1, 1))  # noqa: DTZ001 -- that is what is refused
