"""Working time: it never ends outside working hours, never runs backwards, and knows when clocks change."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handraise import InvalidQuestion, Timeline
from handraise.desk.public_holidays import check_holidays, holidays_of
from handraise.model.durations import WorkingSpan, span_of
from handraise.model.group_calendars import GroupCalendar, WorkspaceCalendars, timed_steps
from handraise.model.timelines import Step, steps_from_json, steps_of, steps_to_json, timeline_of
from handraise.model.working_hours import NoWorkingTime, WorkingHours, _open_on, after_working, next_open
from handraise.wire.records import TimelineRecord

OFFICE = WorkingHours(
    time_zone="Europe/Berlin", hours="Mon-Thu 09:00-12:00, Mon-Thu 13:00-17:30; Fri 09:00-15:00"
)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FRIDAY = datetime(2026, 11, 20, 13, 30, tzinfo=UTC)
"""14:30 in Berlin."""

zones = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "America/Nuuk",
    ]
)
weekly = st.sampled_from(
    [
        "Mon-Fri 09:00-17:30",
        "Mon-Sun 00:00-24:00",
        "Sun 01:00-03:30",
        "Fri-Tue 02:00-02:30, Fri-Tue 02:30-04:00",
        "Mon-Thu 09:00-12:00, Mon-Thu 13:00-17:30; Fri 09:00-15:00",
        "Sat 23:00-24:00; Sun 00:00-01:00",
    ]
)
all_hours = st.builds(lambda zone, hours: WorkingHours(time_zone=zone, hours=hours), zones, weekly)
moments = st.integers(0, 20 * 366 * 86_400).map(
    lambda seconds: datetime(2011, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
words = st.builds(
    lambda count, unit: f"{count} working {unit}{'s' if count > 1 else ''}",
    st.integers(1, 60),
    st.sampled_from(["minute", "hour", "day"]),
)


def never(day: date) -> bool:
    del day
    return False


def odd_days(day: date) -> bool:
    return day.day % 5 == 0


def is_open(hours: WorkingHours, at: datetime) -> bool:
    """Whether people work at this instant, or have just stopped."""
    day = at.astimezone(ZoneInfo(hours.time_zone)).date()
    near = [each for n in (-1, 0, 1) for each in _open_on(hours, day + n * DAY, odd_days)]
    return any(begins <= at <= ends for begins, ends in near)


@given(all_hours, moments, words)
def test_working_time_ends_within_working_hours_and_not_before(
    hours: WorkingHours, at: datetime, written: str
) -> None:
    span = WorkingSpan(written)
    ends = after_working(hours, at, span, odd_days)
    assert is_open(hours, ends)
    assert ends > at
    if span.unit != "day":
        assert ends - at >= span


@given(all_hours, moments, st.timedeltas(timedelta(0), timedelta(days=5)), words)
def test_who_begins_later_ends_no_earlier(
    hours: WorkingHours, at: datetime, later: timedelta, written: str
) -> None:
    span = WorkingSpan(written)
    assert after_working(hours, at, span, odd_days) <= after_working(hours, at + later, span, odd_days)


@given(all_hours, moments, st.integers(1, 50), st.integers(1, 50))
def test_more_working_time_ends_later_and_two_parts_are_the_whole(
    hours: WorkingHours, at: datetime, one: int, other: int
) -> None:
    def after(start: datetime, minutes: int) -> datetime:
        return after_working(hours, start, WorkingSpan(f"{minutes} working minutes"), odd_days)

    assert after(at, one) < after(at, one + other)
    assert after(after(at, one), other) == after(at, one + other)


@given(all_hours, moments)
def test_the_next_opening_is_open_and_nothing_before_it_is(hours: WorkingHours, at: datetime) -> None:
    opens = next_open(hours, at, odd_days)
    assert is_open(hours, opens)
    assert next_open(hours, opens, odd_days) == opens
    if opens > at:
        assert next_open(hours, at + (opens - at) / 2, odd_days) == opens


@pytest.mark.parametrize(
    ("written", "ends"),
    [
        ("30 working minutes", "2026-11-20T15:00"),
        ("2 working hours", "2026-11-23T10:30"),
        ("1 working day", "2026-11-23T14:30"),
        ("4 working days", "2026-11-26T14:30"),
        ("5 working days", "2026-11-27T14:30"),
        ("60 working minutes", "2026-11-23T09:30"),
    ],
)
def test_examples(written: str, ends: str) -> None:
    found = after_working(OFFICE, FRIDAY, WorkingSpan(written), never)
    assert found.astimezone(ZoneInfo("Europe/Berlin")).isoformat()[:16] == ends


def test_a_working_day_later_is_within_the_hours_of_that_day() -> None:
    thursday = datetime(2026, 11, 19, 16, 0, tzinfo=UTC)  # 17:00, when Friday is over
    found = after_working(OFFICE, thursday, WorkingSpan("1 working day"), never)
    assert found == datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
    saturday = FRIDAY + DAY
    assert after_working(OFFICE, saturday, WorkingSpan("1 working day"), never) == datetime(
        2026, 11, 24, 8, 0, tzinfo=UTC
    )


def test_an_hour_that_a_clock_skips_is_no_working_time() -> None:
    night = WorkingHours(time_zone="Europe/Berlin", hours="Sun 01:00-04:00")
    spring = datetime(2026, 3, 28, 12, tzinfo=UTC)  # the clock goes from 02:00 to 03:00 on the 29th
    assert after_working(night, spring, WorkingSpan("2 working hours"), never) == datetime(
        2026, 3, 29, 2, tzinfo=UTC
    )
    autumn = datetime(2026, 10, 24, 12, tzinfo=UTC)  # 02:00 to 03:00 comes twice on the 25th
    assert after_working(night, autumn, WorkingSpan("4 working hours"), never) == datetime(
        2026, 10, 25, 3, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "hours",
    [
        "",
        ",",
        "Mon",
        "Mon 9-17",
        "Mon 17:00-09:00",
        "Mon 09:00-09:00",
        "Mon 09:00-24:30",
        "Mon 09:00-25:00",
        "Mon 09:60-10:00",
        "Monday 09:00-17:00",
        "Mon-Fri 09:00-17:00, Wed 16:00-18:00",
        "Mon 09:00-17:00 " * 100,
        ",".join(["Mon 09:00-17:00"] * 51),
        "Mon 0٩:00-17:00",
    ],
)
def test_hours_that_nobody_can_keep_are_refused(hours: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        WorkingHours(time_zone="UTC", hours=hours)


@pytest.mark.parametrize(
    "zone", ["", "Berlin", "../etc/passwd", "/etc/localtime", "Europe/Berlin\x00", "x" * 65]
)
def test_a_zone_that_nobody_knows_is_refused(zone: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        WorkingHours(time_zone=zone, hours="Mon 09:00-17:00")


def test_who_never_works_has_no_working_time_and_that_is_found_soon() -> None:
    for written in ("1 working minute", "9999 working days"):
        with pytest.raises(NoWorkingTime):
            after_working(OFFICE, FRIDAY, WorkingSpan(written), lambda _: True)
    with pytest.raises(NoWorkingTime):
        after_working(OFFICE, FRIDAY, WorkingSpan("9999 working days"), never)


def test_public_holidays_are_no_working_days() -> None:
    bavaria = OFFICE.model_copy(update={"country": "DE", "subdivision": "BY"})
    check_holidays(bavaria)
    is_holiday = holidays_of(bavaria)
    assert is_holiday(date(2026, 12, 25))
    assert is_holiday(date(2026, 1, 6))
    assert not holidays_of(OFFICE.model_copy(update={"country": "DE"}))(date(2026, 1, 6))
    before = datetime(2026, 12, 24, 15, tzinfo=UTC)
    assert after_working(bavaria, before, WorkingSpan("2 working hours"), is_holiday).date() == date(
        2026, 12, 28
    )


@pytest.mark.parametrize(("country", "subdivision"), [("XX", None), ("DE", "NOWHERE")])
def test_holidays_that_nobody_knows_are_refused_and_left_out(country: str, subdivision: str | None) -> None:
    hours = OFFICE.model_copy(update={"country": country, "subdivision": subdivision})
    with pytest.raises(ValueError, match="not known"):
        check_holidays(hours)
    assert not holidays_of(hours)(date(2026, 12, 25))


@pytest.mark.parametrize(
    "written",
    [
        "2 working weeks",
        "0 working hours",
        "1.5 working hours",
        "-1 working hours",
        "10000 working days",
        "working hours",
    ],
)
def test_other_working_time_is_refused(written: str) -> None:
    with pytest.raises(InvalidQuestion, match="2 working hours"):
        Timeline(expire=written)


def test_only_timelines_count_working_time() -> None:
    with pytest.raises(ValueError, match="is not a span"):
        span_of("2 working hours")


def test_the_words_stay_with_copies_and_on_the_wire() -> None:
    span = WorkingSpan("1 working hour", 5 * HOUR)
    for same in (copy.deepcopy(span), pickle.loads(pickle.dumps(span))):  # noqa: S301 -- our own
        assert (same.words, same) == ("1 working hour", 5 * HOUR)
    timeline = Timeline(remind=["10m", "2 working hours"], expire="3 working days")
    steps = steps_of(timeline)
    assert steps_from_json(steps_to_json(steps)) == steps
    sent = TimelineRecord.of(timeline_of(steps) or Timeline())
    assert sent.working == {"remind.1": "2 working hours", "expire": "3 working days"}
    assert steps_of(TimelineRecord.model_validate_json(sent.model_dump_json()).timeline()) == steps
    written = {
        "remind": [600, "2 working hours"],
        "escalate": [{"after": "1 working day", "to": ["ana"]}],
        "expire": "3 working days",
    }
    read = TimelineRecord.model_validate(written)
    assert read.working is not None
    assert read.working["escalate.0"] == "1 working day"
    assert [step.working for step in steps_of(read.timeline())] == [
        None,
        "2 working hours",
        "1 working day",
        "3 working days",
    ]
    with pytest.raises(ValueError, match="is not working time"):
        TimelineRecord(expire=5, working={"expire": "soon"}).timeline()


def test_the_hours_of_the_first_group_count_else_those_of_the_workspace() -> None:
    other = OFFICE.model_copy(update={"time_zone": "UTC"})
    calendars = WorkspaceCalendars(
        FRIDAY,
        {
            "": GroupCalendar(workspace="w", group_name="", hours=OFFICE),
            "ops": GroupCalendar(workspace="w", group_name="ops", hours=other),
            "rota": GroupCalendar(workspace="w", group_name="rota", rota="file"),
        },
    )
    assert calendars.hours_for(["ana", "group:rota", "group:ops"]) == other
    for recipients in ([], ["ops"], ["group:rota"], ["group:none"]):
        assert calendars.hours_for(recipients) == OFFICE
    assert WorkspaceCalendars(FRIDAY, {}).hours_for(["group:ops"]) is None


def test_the_end_of_a_timeline_stays_its_end() -> None:
    steps = (
        Step(HOUR, "remind", working="1 working hour"),
        Step(2 * DAY, "remind"),
        Step(3 * DAY, "expire", record={}, working="1 working hour"),
    )
    timed = timed_steps(steps, OFFICE, FRIDAY + DAY, never)
    assert [(step.do, step.after) for step in timed] == [
        ("remind", 43.5 * HOUR),
        ("remind", 43.5 * HOUR),
        ("expire", 43.5 * HOUR),
    ]
