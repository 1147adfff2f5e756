"""Working hours: when people of a group work, and which instant is some working time later."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pydantic

from handraise.model.durations import WorkingSpan

IsHoliday = Callable[[date], bool]
"""Whether nobody works on a day, whatever the hours say."""

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PART = re.compile(
    r"(mon|tue|wed|thu|fri|sat|sun)(?:-(mon|tue|wed|thu|fri|sat|sun))? ([0-2][0-9]:[0-5][0-9])-([0-2][0-9]:[0-5][0-9])"
)
_MOST_PARTS = 50
_LOOKED_AT = 366 * 12
"""How many days are looked at for working time before it counts as too far away."""
_MIDNIGHT = "24:00"


class _Part(NamedTuple):
    """Hours of one weekday, in minutes since midnight."""

    weekday: int
    opens: int
    closes: int


class WorkingHours(pydantic.BaseModel):
    """When people work: weekly hours in a time zone, without the public holidays of a country or a part of it.

    `hours` is written like `Mon-Fri 09:00-17:30`, several parts with a comma or a semicolon between them.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    time_zone: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=64)]
    hours: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=1_000)]
    country: Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Z]{2}$")] | None = None
    subdivision: Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Za-z0-9-]{1,10}$")] | None = None

    @pydantic.field_validator("time_zone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("is not a time zone, such as Europe/Vienna") from None
        return name

    @pydantic.field_validator("hours")
    @classmethod
    def _readable(cls, text: str) -> str:
        _parts(text)
        return text

    @pydantic.model_validator(mode="after")
    def _together(self) -> WorkingHours:
        if self.subdivision is not None and self.country is None:
            raise ValueError("a subdivision needs its country, such as country DE and subdivision BY")
        return self


class NoWorkingTime(ValueError):
    """There is not that much working time within years."""

    def __init__(self) -> None:
        super().__init__("there is not that much working time within twelve years")


def next_open(hours: WorkingHours, at: datetime, is_holiday: IsHoliday) -> datetime:
    """The first instant from `at` on that is within working hours. Raises `NoWorkingTime` if there is none."""
    for begins, ends in _spans(hours, at, is_holiday):
        if at < ends:
            return max(at, begins)
    raise NoWorkingTime


def after_working(hours: WorkingHours, at: datetime, span: WorkingSpan, is_holiday: IsHoliday) -> datetime:
    """The instant at which so much working time has passed since `at`. It is within working hours, or their end.

    A working day later is the same time on the next day with working hours, or the nearest one within its hours.
    Raises `NoWorkingTime` if there is not so much working time.
    """
    start = next_open(hours, at, is_holiday)
    if span.unit == "day":
        return _days_later(hours, start, span.count, is_holiday)
    left = timedelta(minutes=span.count) if span.unit == "minute" else timedelta(hours=span.count)
    for begins, ends in _spans(hours, start, is_holiday):
        opens = max(begins, start)
        if opens >= ends:
            continue
        if opens + left <= ends:
            return opens + left
        left -= ends - opens
    raise NoWorkingTime


def _days_later(hours: WorkingHours, start: datetime, count: int, is_holiday: IsHoliday) -> datetime:
    zone = ZoneInfo(hours.time_zone)
    local = start.astimezone(zone)
    left = count
    for ahead in range(1, _LOOKED_AT):
        day = local.date() + timedelta(days=ahead)
        spans = _open_on(hours, day, is_holiday)
        left -= bool(spans)
        if spans and not left:
            wanted = datetime.combine(day, local.time(), zone).astimezone(UTC)
            return _nearest(wanted, spans)
    raise NoWorkingTime


def _nearest(wanted: datetime, spans: list[tuple[datetime, datetime]]) -> datetime:
    """This instant if it is within the spans, else the beginning of the next one, else the end of the last one."""
    for begins, ends in spans:
        if wanted <= ends:
            return max(wanted, begins)
    return spans[-1][1]


def _spans(hours: WorkingHours, at: datetime, is_holiday: IsHoliday) -> Iterator[tuple[datetime, datetime]]:
    """The working hours of the day of this instant and of the days after it, in order."""
    first = at.astimezone(ZoneInfo(hours.time_zone)).date()
    for ahead in range(_LOOKED_AT):
        yield from _open_on(hours, first + timedelta(days=ahead), is_holiday)


def _open_on(hours: WorkingHours, day: date, is_holiday: IsHoliday) -> list[tuple[datetime, datetime]]:
    """The working hours of one day, in UTC. A time that the clock skips is the one that it shows instead."""
    zone = ZoneInfo(hours.time_zone)
    spans: list[tuple[datetime, datetime]] = []
    parts = [part for part in _parts(hours.hours) if part.weekday == day.weekday()]
    if not parts or is_holiday(day):
        return spans
    for _, opens, closes in parts:
        begins, ends = _instant(day, opens, zone), _instant(day, closes, zone)
        if spans:
            begins = max(begins, spans[-1][1])
        if begins < ends:
            spans.append((begins, ends))
    return spans


def _instant(day: date, minutes: int, zone: ZoneInfo) -> datetime:
    whole, rest = divmod(minutes, 24 * 60)
    local = datetime.combine(day + timedelta(days=whole), time(rest // 60, rest % 60), zone)
    return local.astimezone(UTC)


@lru_cache(maxsize=1_000)
def _parts(text: str) -> tuple[_Part, ...]:
    """The hours that somebody wrote, in order. Raises `ValueError`, which says what to write."""
    written = [each.strip().casefold() for each in re.split(r"[,;\n]", text) if each.strip()]
    if not written or len(written) > _MOST_PARTS:
        raise ValueError(f"has no hours, or more than {_MOST_PARTS} parts: write 'Mon-Fri 09:00-17:30'")
    found: list[_Part] = []
    for part in written:
        match = _PART.fullmatch(" ".join(part.split()))
        if match is None:
            raise ValueError(f"{part[:40]!r} is not like 'Mon-Fri 09:00-17:30'")
        first, last, opens, closes = match.groups()
        minutes = _minutes(opens), _minutes(closes)
        if minutes[0] >= minutes[1]:
            raise ValueError(
                f"{part[:40]!r} must end after it begins, on the same day: at 24:00 at the latest"
            )
        days = _DAYS.index(first), _DAYS.index(last or first)
        count = (days[1] - days[0]) % len(_DAYS) + 1
        found += (_Part((days[0] + n) % len(_DAYS), *minutes) for n in range(count))
    found.sort()
    for one, other in pairwise(found):
        if one.weekday == other.weekday and one.closes > other.opens:
            raise ValueError("has hours that overlap on one day")
    return tuple(found)


def _minutes(clock: str) -> int:
    if clock > _MIDNIGHT:
        raise ValueError(f"{clock!r} is not a time of day, such as 17:30")
    return int(clock[:2]) * 60 + int(clock[3:])
