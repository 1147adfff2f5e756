"""Calendars of rotas: what they say, and that a hostile one costs little."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from handraise.server.rota_expansion import Entry, UnreadableCalendar, _entries, expand

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
"""A Wednesday."""
SOON = 40.0


def calendar(*events: str) -> str:
    inside = "".join(
        f"BEGIN:VEVENT\r\nUID:{number}\r\nDTSTAMP:20260101T000000Z\r\n{each.strip()}\r\nEND:VEVENT\r\n"
        for number, each in enumerate(events)
    )
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{inside}END:VCALENDAR\r\n"


def on_duty(text: str, at: datetime = NOW, zone: str = "UTC") -> list[Entry]:
    """What the child says, without a process for each."""
    return [each for each in _entries(text, at, ZoneInfo(zone)) if each.begins <= at < each.ends]


@pytest.mark.parametrize(
    "event",
    [
        "DTSTART:20261118T110000Z\nDTEND:20261118T130000Z",
        "DTSTART:20261118T110000Z\nDURATION:PT2H",
        "DTSTART;VALUE=DATE:20261118",
        "DTSTART;VALUE=DATE:20261116\nDTEND;VALUE=DATE:20261121",
        "DTSTART;TZID=Europe/Berlin:20251119T090000\nDTEND;TZID=Europe/Berlin:20251119T170000\nRRULE:FREQ=WEEKLY;BYDAY=WE",
        "DTSTART;VALUE=DATE:20200101\nRRULE:FREQ=DAILY;INTERVAL=1",
        "DTSTART:20261018T110000Z\nDURATION:PT2H\nRDATE:20261118T110000Z",
        "DTSTART:20261101T000000Z\nDURATION:P7D\nRRULE:FREQ=WEEKLY;INTERVAL=1;COUNT=10",
    ],
)
def test_who_is_on_duty_now_is_found(event: str) -> None:
    written = event.replace("\n", "\r\n") + "\r\nSUMMARY:Ana\r\nATTENDEE:MAILTO:ana@example.org"
    [found] = on_duty(calendar(written))
    assert (found.attendees, found.summary) == (("ana@example.org",), "Ana")


@pytest.mark.parametrize(
    "event",
    [
        "DTSTART:20261118T130000Z\nDTEND:20261118T150000Z",
        "DTSTART:20261118T100000Z\nDTEND:20261118T120000Z",
        "DTSTART:20261118T110000Z\nDTEND:20261118T130000Z\nSTATUS:CANCELLED",
        "DTSTART:20261117T110000Z\nDURATION:PT2H\nRRULE:FREQ=DAILY\nEXDATE:20261118T110000Z",
        "DTSTART:20261111T110000Z\nDURATION:PT2H\nRRULE:FREQ=WEEKLY;COUNT=1",
        "DTSTART:20261118T110000Z",
    ],
)
def test_who_is_not_on_duty_now_is_not_found(event: str) -> None:
    assert on_duty(calendar(event.replace("\n", "\r\n"))) == []


def test_one_recurrence_that_was_moved_is_only_where_it_is_now() -> None:
    series = "DTSTART:20261116T110000Z\r\nDURATION:PT2H\r\nRRULE:FREQ=DAILY\r\nSUMMARY:ana"
    moved = "RECURRENCE-ID:20261118T110000Z\r\nDTSTART:20261118T150000Z\r\nDURATION:PT2H\r\nSUMMARY:bo"
    text = calendar(series, moved).replace("UID:1", "UID:0")
    assert on_duty(text) == []
    assert [each.summary for each in on_duty(text, NOW + timedelta(hours=4))] == ["bo"]
    assert [each.summary for each in on_duty(text, NOW + timedelta(days=1))] == ["ana"]


def test_a_day_is_one_of_the_time_zone_of_the_group() -> None:
    text = calendar("DTSTART;VALUE=DATE:20261119")
    at = datetime(2026, 11, 18, 16, tzinfo=UTC)
    assert len(on_duty(text, at, "Asia/Tokyo")) == 1
    assert on_duty(text, at, "UTC") == []


HOSTILE = {
    "every second for ever": calendar("DTSTART:19700101T000000Z\r\nDURATION:PT1S\r\nRRULE:FREQ=SECONDLY"),
    "every second for 100 years": calendar(
        "DTSTART:19500101T000000Z\r\nDURATION:PT1S\r\nRRULE:FREQ=SECONDLY;COUNT=3153600000"
    ),
    "never": calendar("DTSTART:19700101T000000Z\r\nRRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"),
    "never, by day": calendar("DTSTART:19700101T000000Z\r\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"),
    "a million recurrences": calendar(
        "DTSTART:20261118T000000Z\r\nDURATION:PT1S\r\nRRULE:FREQ=SECONDLY;COUNT=1000000"
    ),
    "long ones every minute": calendar("DTSTART:20200101T000000Z\r\nDURATION:P3650D\r\nRRULE:FREQ=MINUTELY"),
    "many events": calendar(*["DTSTART:20261118T110000Z"] * 5_001),
    "10 MB": calendar("DTSTART:20261118T110000Z\r\nDESCRIPTION:" + "x" * 10_000_000),
    "not a calendar": "<html>Sign in</html>",
    "nothing": "",
    "half of one": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:2026",
    "an event without a beginning": calendar("SUMMARY:ana"),
    "a rule that is none": calendar("DTSTART:20261118T110000Z\r\nRRULE:FREQ=SOMETIMES"),
    "a zone that is none": calendar("DTSTART:20261118T110000Z\r\nDURATION:PT99999999999H"),
    "the end of time": calendar("DTSTART:99991231T110000Z\r\nDURATION:P1000000D\r\nRRULE:FREQ=YEARLY"),
    "deep": "BEGIN:VCALENDAR\r\n" + "BEGIN:VEVENT\r\n" * 20_000,
}


IN_A_PROCESS = {
    "every second for ever",
    "never",
    "never, by day",
    "a million recurrences",
    "10 MB",
    "not a calendar",
    "a rule that is none",
    "many events",
}
"""What must be refused. The first three would take hours without a limit."""


@pytest.mark.slow("each takes as long as its limit of three seconds of a processor")
@pytest.mark.parametrize("name", sorted(IN_A_PROCESS))
async def test_a_hostile_calendar_is_refused_within_a_bound(name: str) -> None:
    async with asyncio.timeout(SOON):
        with pytest.raises(UnreadableCalendar):
            await expand(HOSTILE[name], now=NOW, time_zone="UTC")


@pytest.mark.parametrize("name", sorted(HOSTILE.keys() - IN_A_PROCESS - {"every second for 100 years"}))
def test_other_nonsense_is_refused_or_harmless(name: str) -> None:
    with suppress(UnreadableCalendar):
        assert len(list(_entries(HOSTILE[name], NOW, ZoneInfo("UTC")))) <= 2_000


async def test_a_calendar_is_read_in_a_process_of_its_own() -> None:
    text = calendar("DTSTART;VALUE=DATE:20261118\r\nSUMMARY:Änne\r\nATTENDEE:mailto:a@example.org")
    [found] = await expand(text, now=NOW, time_zone="Europe/Berlin")
    assert found == Entry(
        datetime(2026, 11, 17, 23, tzinfo=UTC),
        datetime(2026, 11, 18, 23, tzinfo=UTC),
        ("a@example.org",),
        "Änne",
    )
