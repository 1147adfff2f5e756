"""Until when a question is snoozed, on the person's clock."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from handraise.presentation.snooze_times import SNOOZES, SnoozeName, morning_of, snooze_text, snooze_until
from handraise.presentation.translation import Locale, use_locale

WEDNESDAY = datetime(2026, 11, 18, 22, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "zone", "until"),
    [
        ("hour", "UTC", datetime(2026, 11, 18, 23, 30, tzinfo=UTC)),
        ("tomorrow", "UTC", datetime(2026, 11, 19, 9, tzinfo=UTC)),
        ("tomorrow", "Asia/Tokyo", datetime(2026, 11, 20, 0, tzinfo=UTC)),
        ("tomorrow", "America/New_York", datetime(2026, 11, 19, 14, tzinfo=UTC)),
        ("monday", "Europe/Berlin", datetime(2026, 11, 23, 8, tzinfo=UTC)),
    ],
)
def test_it_ends_in_the_morning_on_the_persons_clock(name: SnoozeName, zone: str, until: datetime) -> None:
    with use_locale(Locale("en", zone)):
        assert snooze_until(name, WEDNESDAY) == until


def test_on_a_monday_it_is_the_next_one() -> None:
    assert snooze_until("monday", datetime(2026, 11, 23, 7, tzinfo=UTC)) == datetime(
        2026, 11, 30, 9, tzinfo=UTC
    )


def test_a_day_after_the_clocks_change_begins_at_its_own_nine() -> None:
    with use_locale(Locale("en", "Europe/Berlin")):
        assert morning_of(date(2026, 10, 24)) == datetime(2026, 10, 24, 7, tzinfo=UTC)
        assert morning_of(date(2026, 10, 25)) == datetime(2026, 10, 25, 8, tzinfo=UTC)


def test_every_choice_has_a_name() -> None:
    assert [snooze_text(name) for name in SNOOZES] == ["1 hour", "Tomorrow 9:00", "Monday 9:00"]
