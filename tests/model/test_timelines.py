from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handraise import Choice, Escalation, Open, Question, Status, Timeline
from handraise.events import EventKind
from handraise.model.due_changes import due_change
from handraise.model.outcomes import Answered, Expired
from handraise.model.timelines import (
    SHORTEST_GAP,
    Step,
    steps_from_json,
    steps_of,
    steps_to_json,
    timeline_of,
)

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
FULL = Timeline(
    remind=(HOUR, 3 * HOUR),
    escalate=(Escalation(after=2 * HOUR, to=("zoe", "group:leads")),),
    expire=4 * HOUR,
)
SPANS = st.timedeltas(timedelta(microseconds=1), timedelta(days=36_500))
TIMELINES = st.builds(
    Timeline,
    remind=st.lists(SPANS, max_size=4).map(sorted).map(tuple),
    escalate=st.lists(st.builds(Escalation, after=SPANS, to=st.tuples(st.text())), max_size=4)
    .map(lambda them: sorted(them, key=lambda escalation: escalation.after))
    .map(tuple),
    expire=st.none() | SPANS,
)


def question(timeline: Timeline, **changes: Any) -> Question:
    return replace(
        Question(
            id="q",
            workspace="w",
            asker="agent",
            prompt="What?",
            form=Choice.of("a", "b"),
            steps=steps_of(timeline),
            asked_at=START,
        ),
        **changes,
    )


def test_deeds_are_done_in_the_order_of_their_time_and_the_end_comes_last() -> None:
    assert [(step.after, step.do) for step in steps_of(FULL)] == [
        (HOUR, "remind"),
        (2 * HOUR, "escalate"),
        (3 * HOUR, "remind"),
        (4 * HOUR, "expire"),
    ]


def test_a_default_takes_the_place_of_the_expiry_and_is_marked() -> None:
    step = steps_of(Timeline(expire=HOUR, default=False))[-1]
    assert step == Step(HOUR, "default", (), {"value": False, "source": "default"})


@given(TIMELINES, st.none() | st.booleans() | st.text())
def test_a_timeline_is_stored_and_read_back_unchanged(timeline: Timeline, default: Any) -> None:
    timeline = replace(timeline, default=default if timeline.expire is not None else None)
    steps = steps_of(timeline)
    assert steps_from_json(steps_to_json(steps)) == steps
    assert timeline_of(steps) == (timeline if steps else None)


def test_no_timeline_waits_for_ever() -> None:
    waiting = question(Timeline())
    assert (waiting.due_at, waiting.expires_at, waiting.timeline) == (None, None, None)
    assert due_change(waiting, datetime.max.replace(tzinfo=UTC)) is None


def test_nothing_happens_before_it_is_due() -> None:
    early = START + HOUR - timedelta(microseconds=1)
    assert due_change(question(FULL), early) is None
    assert due_change(question(FULL), START + HOUR) is not None


@pytest.mark.parametrize(
    ("late", "kinds"),
    [
        (
            timedelta(minutes=30),
            [EventKind.REMINDED, EventKind.ESCALATED, EventKind.REMINDED, EventKind.EXPIRED],
        ),
        (timedelta(minutes=15), [EventKind.REMINDED, EventKind.ESCALATED, EventKind.EXPIRED]),
        (timedelta(0), [EventKind.EXPIRED]),
        (-timedelta(days=2), [EventKind.EXPIRED]),
    ],
)
def test_a_late_sweep_does_every_deed_once_and_in_order_with_time_behind_each_until_the_end(
    late: timedelta, kinds: list[EventKind]
) -> None:
    current, found = question(FULL, recipients=("ana",)), []
    end = START + 4 * HOUR
    now = end - late
    while done := due_change(current, now):
        current = done.question
        found.append(done.kind)
        assert due_change(current, min(now + timedelta(minutes=9), end - timedelta(seconds=1))) is None
        now = max(now, min(now + timedelta(minutes=10), end))
    assert found == kinds
    assert (current.status, current.outcome) == (Status.EXPIRED, Expired(at=now))
    assert (current.due_at, current.expires_at) == (None, end)


def test_those_escalated_to_are_in_the_audience() -> None:
    current = question(FULL, recipients=("ana",))
    for hour in (1, 2):
        done = due_change(current, START + hour * HOUR)
        assert done is not None
        current = done.question
    assert current.audience == ("ana", "zoe", "group:leads")


@given(TIMELINES, st.lists(SPANS, min_size=8, max_size=8).map(sorted))
def test_the_end_is_never_before_what_was_planned_and_no_deed_takes_the_chance_of_those_before(
    timeline: Timeline, sweeps: list[timedelta]
) -> None:
    spans = [step.after for step in steps_of(timeline)]
    assume(spans == sorted(spans))  # the composer takes no other
    current, before = question(timeline), None
    for span in sweeps:
        now = START + span
        while done := due_change(current, now):
            place, due = current.steps_taken, current.due_at
            assert due is not None
            if done.question.outcome is not None:
                assert (current.expires_at, now >= due) == (START + spans[-1], True)
                return
            assert due >= START + current.steps[place].after
            if before is not None:
                gap = current.steps[place].after - current.steps[place - 1].after
                assert now - before >= min(gap, SHORTEST_GAP)
            current, before = done.question, now
            if current.due_at is not None and current.expires_at is not None:
                assert current.due_at <= current.expires_at


def test_reminders_and_escalations_alone_leave_it_pending() -> None:
    current, now = question(replace(FULL, expire=None)), START + timedelta(days=9)
    while current.due_at is not None:
        done = due_change(current, now)
        assert done is not None
        current, now = done.question, now + HOUR
    assert (current.status, current.steps_taken, current.expires_at) == (Status.PENDING, 3, None)


def test_a_default_is_recorded_as_one() -> None:
    done = due_change(question(Timeline(expire=HOUR, default="b")), START + HOUR)
    assert done is not None
    current = done.question
    assert (current.status, done.kind) == (Status.ANSWERED, EventKind.ANSWERED)
    assert current.outcome == Answered(value="b", at=START + HOUR, source="default")
    assert "its time ran out" in str(current.outcome)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PENDING])
def test_the_clock_does_nothing_to_a_settled_question(status: Status) -> None:
    assert due_change(question(FULL, status=status), START + timedelta(days=9)) is None


def test_spans_count_from_the_asking() -> None:
    asked_later = question(FULL, asked_at=START + timedelta(days=1), form=Open())
    assert asked_later.due_at == START + timedelta(days=1) + HOUR
    assert asked_later.expires_at == START + timedelta(days=1) + 4 * HOUR


def test_one_reminder_and_one_escalation_need_no_list() -> None:
    one = Escalation(after="2h", to=["boss"])
    assert Timeline(remind="1h", escalate=one) == Timeline(remind=["1h"], escalate=[one])
    assert Timeline(remind=HOUR).remind == (HOUR,)
