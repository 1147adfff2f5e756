"""The working hours of groups, their rotas, and who fetches these."""

from __future__ import annotations

import asyncio

from handraise.model.group_calendars import FILE, WHOLE_WORKSPACE, GroupCalendar, Shift
from handraise.model.working_hours import WorkingHours
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import AT_ONCE, HOUR, INSTANT, DirectoryFixtures

HOURS = WorkingHours(time_zone="Europe/Berlin", hours="Mon-Fri 09:00-17:30", country="DE", subdivision="BY")
ADDRESS = "https://calendar.example.org/rota.ics?secret=1"


class CalendarCases(DirectoryFixtures):
    """What a directory promises about the calendars of groups."""

    async def test_without_calendars_there_is_the_time(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        found = await directory.calendars(workspace)
        assert (found.now, found.groups) == (clock.now(), {})

    async def test_the_hours_of_groups_and_of_the_workspace_are_kept(
        self, directory: Directory, workspace: str, elsewhere: str
    ) -> None:
        late = HOURS.model_copy(update={"hours": "Mon-Sun 20:00-24:00"})
        await directory.put_hours(workspace, "oncall", late, by="boss")
        await directory.put_hours(workspace, WHOLE_WORKSPACE, HOURS, by="boss")
        found = (await directory.calendars(workspace)).groups
        assert [(name, each.hours) for name, each in found.items()] == [("", HOURS), ("oncall", late)]
        await directory.put_hours(workspace, "oncall", HOURS)
        assert (await directory.calendars(workspace)).groups["oncall"].hours == HOURS
        await directory.put_hours(workspace, "oncall", None)
        assert [*(await directory.calendars(workspace)).groups] == [""]
        assert not (await directory.calendars(elsewhere)).groups

    async def test_a_rota_and_hours_do_not_disturb_each_other(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await directory.put_hours(workspace, "oncall", HOURS)
        await directory.put_rota(workspace, "oncall", FILE, text="BEGIN:VCALENDAR")
        both = (await directory.calendars(workspace)).groups["oncall"]
        assert both == GroupCalendar(
            workspace=workspace, group_name="oncall", hours=HOURS, rota=FILE, fetched_at=clock.now()
        )
        assert await directory.rota_text(workspace, "oncall") == "BEGIN:VCALENDAR"
        await directory.put_rota(workspace, "oncall", None)
        assert (await directory.calendars(workspace)).groups["oncall"].hours == HOURS
        assert await directory.rota_text(workspace, "oncall") is None
        await directory.put_hours(workspace, "oncall", None)
        assert not (await directory.calendars(workspace)).groups

    async def test_one_of_many_fetches_a_rota_and_nobody_again_for_a_while(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await directory.put_rota(workspace, "oncall", ADDRESS)
        for _ in range(2):
            claims = await asyncio.gather(
                *(directory.claim_rota(workspace, "oncall", ADDRESS, every=HOUR) for _ in range(AT_ONCE))
            )
            assert sum(claims) == 1
            clock.advance(HOUR - INSTANT)
            assert not await directory.claim_rota(workspace, "oncall", ADDRESS, every=HOUR)
            clock.advance(INSTANT)
        assert not await directory.claim_rota(workspace, "oncall", "https://other.example", every=HOUR)
        assert not await directory.claim_rota(workspace, "nobody", ADDRESS, every=HOUR)

    async def test_after_a_failure_the_last_text_stays_with_what_went_wrong(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await directory.put_rota(workspace, "oncall", ADDRESS)
        assert await directory.rota_text(workspace, "oncall") is None
        shift = Shift(clock.now(), clock.now() + 2 * HOUR, "ana")
        assert await directory.keep_rota(
            workspace, "oncall", ADDRESS, text="one", shifts=[shift], problem=None
        )
        fetched = clock.now()
        clock.advance(HOUR)
        assert await directory.keep_rota(
            workspace, "oncall", ADDRESS, text=None, shifts=None, problem="no answer"
        )
        failed = (await directory.calendars(workspace)).groups["oncall"]
        assert (failed.fetched_at, failed.problem, failed.shifts) == (fetched, "no answer", (shift,))
        assert failed.on_duty(clock.now()) == {"ana"}
        assert failed.on_duty(clock.now() + HOUR) == frozenset()
        assert await directory.rota_text(workspace, "oncall") == "one"
        assert await directory.keep_rota(workspace, "oncall", ADDRESS, text="two", shifts=[], problem=None)
        again = (await directory.calendars(workspace)).groups["oncall"]
        assert (again.fetched_at, again.problem, again.shifts) == (clock.now(), None, ())

    async def test_the_workspaces_with_rotas_are_found(
        self, directory: Directory, workspace: str, elsewhere: str
    ) -> None:
        await directory.put_hours(elsewhere, "oncall", HOURS)
        await directory.put_rota(workspace, "oncall", ADDRESS)
        found = await directory.workspaces_with_rotas(limit=1_000_000)
        assert workspace in found
        assert elsewhere not in found

    async def test_what_was_fetched_for_another_rota_is_not_kept(
        self, directory: Directory, workspace: str
    ) -> None:
        await directory.put_rota(workspace, "oncall", ADDRESS)
        await directory.put_rota(workspace, "oncall", "https://other.example/rota.ics")
        assert not await directory.keep_rota(
            workspace, "oncall", ADDRESS, text="late", shifts=(), problem=None
        )
        assert await directory.rota_text(workspace, "oncall") is None

    async def test_the_same_address_again_keeps_what_was_fetched(
        self, directory: Directory, workspace: str
    ) -> None:
        await directory.put_rota(workspace, "oncall", ADDRESS)
        await directory.keep_rota(workspace, "oncall", ADDRESS, text="one", shifts=(), problem=None)
        await directory.put_rota(workspace, "oncall", ADDRESS)
        assert await directory.rota_text(workspace, "oncall") == "one"
