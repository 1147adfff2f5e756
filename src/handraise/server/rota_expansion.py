"""Reads an iCalendar file in a process of its own, with little time and memory: the file may be hostile.

The parent uses `expand`. The child is this module as a program: it reads JSON from its input and writes JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

MAX_BYTES = 1_000_000
"""How long the text of a calendar may be."""
_BEFORE, _AFTER = timedelta(days=1), timedelta(days=35)
_MOST_EVENTS = 5_000
_MOST_SHIFTS = 2_000
_CPU_SECONDS = 3
_WITHIN = 20.0
_MEMORY = 1 << 30
_LONGEST_TEXT = 320
_MISSING = 3
"""The child's exit code if the library is not installed."""


class UnreadableCalendar(Exception):
    """A calendar cannot be read; the text says why, for administrators."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, or one of the recurrences of one: who takes part in it, and what it is called."""

    begins: datetime
    ends: datetime
    attendees: tuple[str, ...]
    summary: str


async def expand(text: str, *, now: datetime, time_zone: str) -> list[Entry]:
    """The events of a calendar from yesterday until five weeks later. Days count in `time_zone`.

    Raises `UnreadableCalendar`, also if it takes too long or has too much in it.
    """
    if len(text.encode()) > MAX_BYTES:
        raise UnreadableCalendar("it is longer than 1 MB")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",  # it needs the library and nothing of ours, which takes long to import
        __file__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    asked = json.dumps({"text": text, "now": now.isoformat(), "time_zone": time_zone})
    try:
        async with asyncio.timeout(_WITHIN):
            said, _ = await child.communicate(asked.encode())
    except TimeoutError:
        raise UnreadableCalendar("it takes too long to read") from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode == _MISSING:
        raise UnreadableCalendar('this server cannot read calendars: pip install "handraise[calendars]"')
    if child.returncode:
        raise UnreadableCalendar("it takes too long, or too much memory, to read")
    found = json.loads(said)
    if problem := found.get("problem"):
        raise UnreadableCalendar(problem)
    return [
        Entry(datetime.fromisoformat(begins), datetime.fromisoformat(ends), tuple(attendees), summary)
        for begins, ends, attendees, summary in found["entries"]
    ]


def main() -> None:
    """Answer the parent. Too much time or memory ends this process."""
    try:
        import icalendar  # noqa: PLC0415, F401 -- an extra
    except ModuleNotFoundError:
        sys.exit(_MISSING)
    _limit()
    asked = json.load(sys.stdin)
    now, zone = datetime.fromisoformat(asked["now"]), ZoneInfo(asked["time_zone"])
    try:
        entries = list(_entries(asked["text"], now, zone))
    except UnreadableCalendar as error:
        json.dump({"problem": str(error)}, sys.stdout)
        return
    rows = [
        [each.begins.isoformat(), each.ends.isoformat(), each.attendees, each.summary] for each in entries
    ]
    json.dump({"entries": rows}, sys.stdout)


def _limit() -> None:
    """Limit what this process may use, on systems that can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 -- not on every system

        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _entries(text: str, now: datetime, zone: ZoneInfo) -> Iterator[Entry]:
    from icalendar import Calendar  # noqa: PLC0415 -- an extra

    try:
        events: Sequence[Any] = Calendar.from_ical(text).walk("VEVENT")
        if len(events) > _MOST_EVENTS:
            raise UnreadableCalendar(f"it has more than {_MOST_EVENTS} events")
        moved = {
            (str(each.get("UID")), _moment(each["RECURRENCE-ID"].dt, zone))
            for each in events
            if "RECURRENCE-ID" in each
        }
    except (ValueError, KeyError, IndexError, AttributeError, TypeError):
        raise UnreadableCalendar("it is not an iCalendar file") from None
    number = 0
    for event in events:
        try:
            shifts = list(_shifts(event, moved, now, zone))
        except (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError):
            name = str(event.get("SUMMARY", ""))[:60]
            raise UnreadableCalendar(f"the event {name!r} cannot be read") from None
        number += len(shifts)
        if number > _MOST_SHIFTS:
            raise UnreadableCalendar(f"it has more than {_MOST_SHIFTS} events within five weeks")
        yield from shifts


def _shifts(event: Any, moved: set[tuple[str, datetime]], now: datetime, zone: ZoneInfo) -> Iterator[Entry]:
    if str(event.get("STATUS", "")).upper() == "CANCELLED":
        return
    start = event.decoded("DTSTART")
    lasts = _length(event, start)
    attendees, summary = _attendees(event), str(event.get("SUMMARY", ""))[:_LONGEST_TEXT].strip()
    is_moved = "RECURRENCE-ID" in event
    for begins in _beginnings(event, start, lasts, now, zone):
        moment = _moment(begins, zone)
        if not is_moved and (str(event.get("UID")), moment) in moved:
            continue
        ends = _moment(begins + lasts, zone)
        if ends > now - _BEFORE and moment < now + _AFTER:
            yield Entry(moment, ends, attendees, summary)


def _beginnings(
    event: Any, start: date, lasts: timedelta, now: datetime, zone: ZoneInfo
) -> Iterator[datetime]:
    """When an event begins, each time. Recurrences are what dateutil says that they are."""
    from dateutil.rrule import rruleset, rrulestr  # type: ignore[import-untyped] # noqa: PLC0415 -- an extra

    first = _local(start)
    if "RRULE" not in event and "RDATE" not in event:
        yield first
        return
    times = rruleset()
    times.rdate(first)
    for rule in _several(event.get("RRULE")):
        times.rrule(rrulestr(rule.to_ical().decode(), dtstart=first))
    for each in _several(event.get("RDATE")):
        for one in each.dts:
            times.rdate(_local(one.dt))
    for each in _several(event.get("EXDATE")):
        for one in each.dts:
            times.exdate(_local(one.dt))
    begin, end = now - _BEFORE - lasts, now + _AFTER
    if first.tzinfo is None:
        begin, end = (each.astimezone(zone).replace(tzinfo=None) for each in (begin, end))
    for number, found in enumerate(times.xafter(begin, inc=True)):
        if found > end:
            return
        if number > _MOST_SHIFTS:
            raise UnreadableCalendar(f"it has more than {_MOST_SHIFTS} events within five weeks")
        yield found


def _length(event: Any, start: date) -> timedelta:
    if "DTEND" in event:
        return _local(event.decoded("DTEND")) - _local(start)
    if "DURATION" in event:
        found: timedelta = event.decoded("DURATION")
        return found
    return timedelta(0) if isinstance(start, datetime) else timedelta(days=1)


def _attendees(event: Any) -> tuple[str, ...]:
    found = (str(each)[:_LONGEST_TEXT] for each in _several(event.get("ATTENDEE")))
    return tuple(each[7:].strip() if each.lower().startswith("mailto:") else each.strip() for each in found)[
        :50
    ]


def _several(value: Any) -> Sequence[Any]:
    return () if value is None else value if isinstance(value, list) else (value,)


def _local(value: date) -> datetime:
    """A day as its midnight; an instant as it is."""
    return value if isinstance(value, datetime) else datetime.combine(value, time())


def _moment(value: date, zone: ZoneInfo) -> datetime:
    """An instant in UTC; what has no time zone is in the one of the group."""
    local = _local(value)
    return (local.replace(tzinfo=zone) if local.tzinfo is None else local).astimezone(ZoneInfo("UTC"))


if __name__ == "__main__":
    main()
