"""Timelines that count working time: what it comes to is decided when a question is posted."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from handraise import Desk, Escalation, InvalidQuestion, KeyConflict, Question, Timeline
from handraise.model.durations import WorkingSpan
from handraise.model.working_hours import WorkingHours
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import Backend, ContractFixtures
from handraise.testing.promises import promise

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def opening_at(moment: datetime) -> WorkingHours:
    """Eight hours on every day, in UTC, from the hour of this moment on, but not on the day of it and the next one."""
    opens = moment.hour
    closed = {moment.weekday(), (moment.weekday() + 1) % 7}
    days = [
        name
        for day, name in enumerate(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))
        if day not in closed
    ]
    return WorkingHours(
        time_zone="UTC", hours=", ".join(f"{day} {opens:02}:00-{opens + 8:02}:00" for day in days)
    )


def next_hour(clock: ManualClock) -> datetime:
    """Set the clock to 09:00 of its next day in UTC."""
    now = clock.now()
    clock.advance(now.replace(hour=9, minute=0, second=0, microsecond=0) + _DAY - now)
    return clock.now()


def afters(question: Question) -> list[timedelta]:
    """When the steps of a question are done."""
    return [step.after for step in question.steps]


class WorkingTimeCases(ContractFixtures):
    """The words of the asker define the question, and the calendar of those who are asked its times."""

    @promise("P10")
    async def test_working_time_is_counted_by_the_hours_of_the_workspace(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        await backend.set_hours(workspace, "", opening_at(next_hour(clock)))
        timeline = Timeline(remind="2 working hours", expire="2 working days")
        question = await desk.post("Which?", timeline=timeline)
        assert afters(question) == [2 * _DAY + 2 * _HOUR, 4 * _DAY]
        assert [step.working for step in question.steps] == ["2 working hours", "2 working days"]
        assert await desk.get(question.id) == question
        clock.advance(2 * _DAY + _HOUR)
        await desk.run_due()
        assert (await desk.get(question.id)).steps_taken == 0
        clock.advance(_HOUR)
        await desk.run_due()
        assert (await desk.get(question.id)).steps_taken == 1
        clock.advance(2 * _DAY)
        await desk.run_due()
        assert (await desk.get(question.id)).status == "expired"

    async def test_the_first_group_that_is_asked_counts(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        now = next_hour(clock)
        await backend.set_hours(workspace, "", opening_at(now))
        await backend.set_hours(workspace, "ops", WorkingHours(time_zone="UTC", hours="Mon-Sun 00:00-24:00"))
        timeline = Timeline(expire="3 working hours")
        to = ["ana", "group:nothing", "group:ops"]
        asked = await desk.post("Which?", recipients=to, timeline=timeline, check_recipients=False)
        assert afters(asked) == [3 * _HOUR]
        other = await desk.post("Which?", recipients=["ana"], timeline=timeline, check_recipients=False)
        assert afters(other) == [2 * _DAY + 3 * _HOUR]

    @promise("P9")
    async def test_the_same_key_later_is_the_same_question(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        await backend.set_hours(workspace, "", opening_at(next_hour(clock)))
        timeline = Timeline(
            remind=["1 working day", "30m"],
            escalate=Escalation(after="2 working days", to=["group:leads"]),
            expire="30d",
        )
        first = await desk.post("Which?", timeline=timeline, key="k", check_recipients=False)
        clock.advance(_DAY + 3 * _HOUR)
        again = await desk.post("Which?", timeline=timeline, key="k", check_recipients=False)
        assert (again.id, again.steps) == (first.id, first.steps)
        with pytest.raises(KeyConflict):
            await desk.post("Which?", timeline=Timeline(expire="3 working days"), key="k")

    @promise("P9")
    async def test_the_same_key_is_the_same_question_although_the_hours_are_gone(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        await backend.set_hours(workspace, "", opening_at(next_hour(clock)))
        timeline = Timeline(expire="1 working day")
        first = await desk.post("Which?", timeline=timeline, key="k")
        await backend.set_hours(workspace, "", None)
        assert await desk.post("Which?", timeline=timeline, key="k") == first
        with pytest.raises(InvalidQuestion):
            await desk.post("Which?", timeline=timeline, key="another")

    async def test_without_working_hours_it_is_refused_and_says_what_to_set(self, desk: Desk) -> None:
        with pytest.raises(InvalidQuestion, match="handraise groups hours"):
            await desk.post("Which?", timeline=Timeline(remind="2 working hours"))
        assert not (await desk.list_pending()).items

    async def test_a_reminder_that_would_come_after_the_end_comes_before_it(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        await backend.set_hours(workspace, "", opening_at(next_hour(clock)))
        timeline = Timeline(remind="1 working hour", expire="6h")
        question = await desk.post("Which?", timeline=timeline)
        assert [step.do for step in question.steps] == ["remind", "expire"]
        assert afters(question) == [6 * _HOUR, 6 * _HOUR]
        clock.advance(6 * _HOUR)
        while await desk.run_due():
            pass
        assert (await desk.get(question.id)).status == "expired"

    async def test_the_timeline_keeps_the_words(
        self, desk: Desk, backend: Backend, workspace: str, clock: ManualClock
    ) -> None:
        await backend.set_hours(workspace, "", opening_at(next_hour(clock)))
        question = await desk.post("Which?", timeline=Timeline(remind="10m", expire="90 working minutes"))
        timeline = (await desk.get(question.id)).timeline
        assert timeline is not None
        assert timeline.remind == (timedelta(minutes=10),)
        assert isinstance(timeline.expire, WorkingSpan)
        assert (timeline.expire.words, timeline.expire) == ("90 working minutes", 2 * _DAY + 1.5 * _HOUR)
