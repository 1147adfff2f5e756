"""Until when a person snoozes a question: an hour, or the morning of a day on that person's clock."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, get_args

from handraise.presentation.translation import gettext, local_time

SnoozeName = Literal["hour", "tomorrow", "monday"]
SNOOZES: tuple[SnoozeName, ...] = get_args(SnoozeName)
_MORNING = time(9)
_WEEK = 7


def snooze_text(name: SnoozeName) -> str:
    """A choice, as a button says it."""
    match name:
        case "hour":
            return gettext("1 hour")
        case "tomorrow":
            return gettext("Tomorrow 9:00")
        case "monday":
            return gettext("Monday 9:00")


def snooze_until(name: SnoozeName, now: datetime) -> datetime:
    """When a choice ends."""
    today = local_time(now).date()
    match name:
        case "hour":
            return now + timedelta(hours=1)
        case "tomorrow":
            return morning_of(today + timedelta(days=1))
        case "monday":
            return morning_of(today + timedelta(days=_WEEK - today.weekday()))


def morning_of(day: date) -> datetime:
    """9:00 on a day, on the clock of the person who reads."""
    zone = local_time(datetime.now(UTC)).tzinfo
    return datetime.combine(day, _MORNING, tzinfo=zone).astimezone(UTC)
