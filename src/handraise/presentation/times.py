"""Instants and lengths of time in the language of the person who reads, on that person's clock."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from handraise.presentation.translation import gettext, gettext_noop, local_time, ngettext

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_FEW = 3
"""Two days and how many hours, but three days."""
_MONTHS = (
    gettext_noop("January"),
    gettext_noop("February"),
    gettext_noop("March"),
    gettext_noop("April"),
    gettext_noop("May"),
    gettext_noop("June"),
    gettext_noop("July"),
    gettext_noop("August"),
    gettext_noop("September"),
    gettext_noop("October"),
    gettext_noop("November"),
    gettext_noop("December"),
)
_SHORT_MONTHS = (
    gettext_noop("Jan"),
    gettext_noop("Feb"),
    gettext_noop("Mar"),
    gettext_noop("Apr"),
    gettext_noop("May"),
    gettext_noop("Jun"),
    gettext_noop("Jul"),
    gettext_noop("Aug"),
    gettext_noop("Sep"),
    gettext_noop("Oct"),
    gettext_noop("Nov"),
    gettext_noop("Dec"),
)
_WEEKDAYS = (
    gettext_noop("Monday"),
    gettext_noop("Tuesday"),
    gettext_noop("Wednesday"),
    gettext_noop("Thursday"),
    gettext_noop("Friday"),
    gettext_noop("Saturday"),
    gettext_noop("Sunday"),
)
_SHORT_WEEKDAYS = (
    gettext_noop("Mon"),
    gettext_noop("Tue"),
    gettext_noop("Wed"),
    gettext_noop("Thu"),
    gettext_noop("Fri"),
    gettext_noop("Sat"),
    gettext_noop("Sun"),
)


def moment_text(at: datetime) -> str:
    """An instant in full."""
    local = local_time(at)
    return gettext("{day} {month} {year}, {time} {zone}").format(
        day=local.day,
        month=gettext(_MONTHS[local.month - 1]),
        year=local.year,
        time=f"{local:%H:%M}",
        zone=local.tzname(),
    )


def day_in_words(day: date, today: date) -> str:
    """A day as people say it today."""
    if day == today:
        return gettext("Today")
    if day == today - timedelta(days=1):
        return gettext("Yesterday")
    month = gettext(_MONTHS[day.month - 1])
    if day.year != today.year:
        return gettext("{day} {month} {year}").format(day=day.day, month=month, year=day.year)
    weekday = gettext(_WEEKDAYS[day.weekday()])
    return gettext("{weekday}, {day} {month}").format(weekday=weekday, day=day.day, month=month)


def day_and_month(day: date, today: date) -> str:
    """A day in full, with its year if that is another one."""
    month = gettext(_MONTHS[day.month - 1])
    if day.year != today.year:
        return gettext("{day} {month} {year}").format(day=day.day, month=month, year=day.year)
    return gettext("{day} {month}").format(day=day.day, month=month)


def short_day(day: date) -> str:
    """A day in a few characters."""
    return gettext("{day} {month}").format(day=day.day, month=gettext(_SHORT_MONTHS[day.month - 1]))


def short_weekday(day: date) -> str:
    """The name of a day in a few characters."""
    return gettext(_SHORT_WEEKDAYS[day.weekday()])


def span(length: timedelta) -> str:
    """A length of time as people say it: its largest unit, and the next if that matters."""
    seconds = max(0, int(length.total_seconds()))
    if seconds >= _DAY:
        days, hours = seconds // _DAY, seconds % _DAY // _HOUR
        return _two(_days(days), _hours(hours) if days < _FEW and hours else "")
    if seconds >= _HOUR:
        hours, minutes = seconds // _HOUR, seconds % _HOUR // _MINUTE
        return _two(_hours(hours), _minutes(minutes) if hours < _FEW and minutes else "")
    if seconds >= _MINUTE:
        return _minutes(seconds // _MINUTE)
    return gettext("less than a minute")


def _two(larger: str, smaller: str) -> str:
    return f"{larger} {smaller}" if smaller else larger


def _days(count: int) -> str:
    return ngettext("{count} day", "{count} days", count).format(count=count)


def _hours(count: int) -> str:
    return ngettext("{count} hour", "{count} hours", count).format(count=count)


def _minutes(count: int) -> str:
    return ngettext("{count} minute", "{count} minutes", count).format(count=count)
