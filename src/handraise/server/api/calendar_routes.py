"""When groups work, and who of them is on duty. For administrators."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from starlette.responses import Response

from handraise.desk.public_holidays import check_holidays
from handraise.model.errors import InvalidRequest, MissingExtra
from handraise.model.group_calendars import FILE, WHOLE_WORKSPACE, WorkspaceCalendars
from handraise.model.json_values import text_problem
from handraise.model.problems import Problem
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_events import source_of
from handraise.server.api.admin_routes import GroupName
from handraise.server.api.etags import (
    ConditionalRoute,
    IfMatch,
    check_match,
    check_tag,
    etag_of,
    tagged,
    unchanged,
)
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Configurer, Context, CurrentConfigurer
from handraise.server.context import ServerContext
from handraise.server.rota_refresh import refresh_rota, rota_problem
from handraise.wire.calendar_records import HoursList, HoursRecord, PutRota, RotaRecord

router = APIRouter(prefix="/v1", tags=["administration"], route_class=ConditionalRoute)


@router.get("/hours", response_model=HoursList)
async def list_hours(ctx: Context, admin: CurrentConfigurer) -> Response:
    """List the working hours of the workspace and of its groups."""
    return reply(_all_hours(await ctx.directory.calendars(admin.workspace)))


@router.put("/hours", response_model=HoursRecord)
async def put_hours(
    ctx: Context, admin: CurrentConfigurer, body: WorkingHours, *, if_match: IfMatch = None
) -> Response:
    """Set the working hours of the workspace, which count for everybody without their own.

    Timelines may count working time, such as `2 working hours`. With `If-Match`, only if no working hours have changed.
    """
    return await _put(ctx, admin, WHOLE_WORKSPACE, body, if_match)


@router.delete("/hours", response_model=HoursRecord)
async def remove_hours(ctx: Context, admin: CurrentConfigurer, *, if_match: IfMatch = None) -> Response:
    """Remove the working hours of the workspace. A second time changes nothing."""
    return await _put(ctx, admin, WHOLE_WORKSPACE, None, if_match)


@router.get("/groups/{name}/hours", response_model=HoursRecord)
async def get_group_hours(ctx: Context, admin: CurrentConfigurer, name: GroupName) -> Response:
    """Get the working hours of a group; null if it has none of its own."""
    return tagged(_hours_record(name, await ctx.directory.calendars(admin.workspace)))


@router.put("/groups/{name}/hours", response_model=HoursRecord)
async def put_group_hours(
    ctx: Context, admin: CurrentConfigurer, name: GroupName, body: WorkingHours, *, if_match: IfMatch = None
) -> Response:
    """Set the working hours of a group. Outside them, its reminders wait, except at high risk.

    With `If-Match`, only if they have not changed.
    """
    return await _put(ctx, admin, _checked(name), body, if_match)


@router.delete("/groups/{name}/hours", response_model=HoursRecord)
async def remove_group_hours(
    ctx: Context, admin: CurrentConfigurer, name: GroupName, *, if_match: IfMatch = None
) -> Response:
    """Remove the working hours of a group. A second time changes nothing."""
    return await _put(ctx, admin, _checked(name), None, if_match)


@router.get("/groups/{name}/rota", response_model=RotaRecord)
async def get_rota(ctx: Context, admin: CurrentConfigurer, name: GroupName) -> Response:
    """Get which calendar a group follows, what is wrong with it, and who is on duty now."""
    return _tagged_rota(name, await ctx.directory.calendars(admin.workspace))


@router.put("/groups/{name}/rota", response_model=RotaRecord)
async def put_rota(
    ctx: Context, admin: CurrentConfigurer, name: GroupName, body: PutRota, *, if_match: IfMatch = None
) -> Response:
    """Let a group follow an iCalendar file: only those on duty are notified. Everybody in the group may still answer.

    A server fetches an address every 15 minutes at most. With `If-Match`, only if nothing about it has changed.
    """
    if body.address is not None and (problem := rota_problem(body.address, ctx.settings)):
        raise InvalidRequest([Problem("body.address", problem)])
    if body.text is not None and (problem := text_problem(body.text)):
        raise InvalidRequest([Problem("body.text", problem)])
    check = await _rota_check(ctx, admin, _checked(name), if_match)
    await follow_rota(
        ctx, admin.workspace, name, body.address or FILE, text=body.text, by=admin.by, check=check
    )
    return _tagged_rota(name, await ctx.directory.calendars(admin.workspace))


@router.delete("/groups/{name}/rota", response_model=RotaRecord)
async def remove_rota(
    ctx: Context, admin: CurrentConfigurer, name: GroupName, *, if_match: IfMatch = None
) -> Response:
    """Let a group follow no calendar: all of it is notified. A second time changes nothing."""
    check = await _rota_check(ctx, admin, _checked(name), if_match)
    await ctx.directory.put_rota(admin.workspace, name, None, by=admin.by, check=check)
    return tagged(RotaRecord(group=name))


async def follow_rota(
    ctx: ServerContext,
    workspace: str,
    group: str,
    rota: str,
    *,
    text: str | None,
    by: str,
    check: Callable[[str | None], None] | None = None,
) -> RotaRecord:
    """Store which calendar a group follows, read it, and say who is on duty."""
    await ctx.directory.put_rota(workspace, group, rota, text=text, by=by, check=check)
    calendars = await ctx.directory.calendars(workspace)
    await refresh_rota(ctx.directory, ctx.settings, calendars.groups[group], calendars)
    return rota_record(group, await ctx.directory.calendars(workspace))


def rota_record(group: str, calendars: WorkspaceCalendars) -> RotaRecord:
    """Which calendar a group follows, and who is on duty."""
    found = calendars.groups.get(group)
    if found is None or found.rota is None:
        return RotaRecord(group=group)
    return RotaRecord(
        group=group,
        source=source_of(found.rota),
        fetched_at=found.fetched_at,
        problem=found.problem,
        on_duty=tuple(sorted(found.on_duty(calendars.now))),
    )


async def _put(
    ctx: ServerContext, admin: Configurer, group: str, hours: WorkingHours | None, if_match: str | None
) -> Response:
    try:
        if hours is not None:
            check_holidays(hours)
    except (MissingExtra, ValueError) as error:
        raise InvalidRequest([Problem("body.country", str(error))]) from None
    read = await ctx.directory.calendars(admin.workspace)
    shown = _hours_record(group, read) if group else _all_hours(read)
    check_match(if_match, shown.model_dump_json())
    expected = _hours_of(group, read)
    await ctx.directory.put_hours(
        admin.workspace, group, hours, by=admin.by, check=None if if_match is None else unchanged(expected)
    )
    if group:
        return tagged(HoursRecord(group=group, hours=hours))
    # The ETag of `/v1/hours` is that of the list.
    after = etag_of(_all_hours(await ctx.directory.calendars(admin.workspace)).model_dump_json())
    return reply(HoursRecord(hours=hours), headers={"etag": after})


def hours_version(group: str, calendars: WorkspaceCalendars) -> str:
    """The ETag with which the hours of a group, or of the workspace, can be replaced."""
    shown = _hours_record(group, calendars) if group else _all_hours(calendars)
    return etag_of(shown.model_dump_json())


def rota_version(group: str, calendars: WorkspaceCalendars) -> str:
    """A version with which the rota of a group can be replaced. Unlike the ETag, it stays when the calendar is read again."""
    found = calendars.groups.get(group)
    return etag_of(f"rota {'' if found is None else found.rota}")


def _hours_of(group: str, calendars: WorkspaceCalendars) -> WorkingHours | None:
    found = calendars.groups.get(group)
    return None if found is None else found.hours


def _hours_record(group: str, calendars: WorkspaceCalendars) -> HoursRecord:
    return HoursRecord(group=group or None, hours=_hours_of(group, calendars))


def _all_hours(calendars: WorkspaceCalendars) -> HoursList:
    return HoursList(
        items=tuple(
            HoursRecord(group=name or None, hours=each.hours)
            for name, each in calendars.groups.items()
            if each.hours is not None
        )
    )


def _tagged_rota(group: str, calendars: WorkspaceCalendars) -> Response:
    """Which calendar a group follows. Another address of the same host is another version."""
    found = calendars.groups.get(group)
    return tagged(rota_record(group, calendars), hidden="" if found is None else found.rota or "")


async def _rota_check(
    ctx: ServerContext, admin: Configurer, group: str, if_match: str | None
) -> Callable[[str | None], None] | None:
    """A check that the rota is still the one that the caller has read; raises `PreconditionFailed`."""
    if if_match is None:
        return None
    read = await ctx.directory.calendars(admin.workspace)
    if if_match != rota_version(group, read):
        check_tag(if_match, str(_tagged_rota(group, read).headers["etag"]))
    found = read.groups.get(group)
    return unchanged(None if found is None else found.rota)


def _checked(group: str) -> str:
    problem = "is empty" if not group.strip() else text_problem(group)
    if problem:
        raise InvalidRequest([Problem("path.name", problem)])
    return group
