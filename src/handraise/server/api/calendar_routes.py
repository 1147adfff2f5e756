"""When groups work, and who of them is on duty. For administrators."""

from __future__ import annotations

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
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentAdmin
from handraise.server.context import ServerContext
from handraise.server.rota_refresh import refresh_rota, rota_problem
from handraise.wire.calendar_records import HoursList, HoursRecord, PutRota, RotaRecord

# No idempotency keys: a repeated request changes nothing.
router = APIRouter(prefix="/v1", tags=["administration"])


@router.get("/hours", response_model=HoursList)
async def list_hours(ctx: Context, admin: CurrentAdmin) -> Response:
    """List the working hours of the workspace and of its groups."""
    found = (await ctx.directory.calendars(admin.workspace)).groups
    items = tuple(
        HoursRecord(group=name or None, hours=each.hours)
        for name, each in found.items()
        if each.hours is not None
    )
    return reply(HoursList(items=items))


@router.put("/hours", response_model=HoursRecord)
async def put_hours(ctx: Context, admin: CurrentAdmin, body: WorkingHours) -> Response:
    """Set the working hours of the workspace, which count for everybody without their own.

    Timelines may count working time, such as `2 working hours`.
    """
    return await _put(ctx, admin, WHOLE_WORKSPACE, body)


@router.delete("/hours", response_model=HoursRecord)
async def remove_hours(ctx: Context, admin: CurrentAdmin) -> Response:
    """Remove the working hours of the workspace. A second time changes nothing."""
    return await _put(ctx, admin, WHOLE_WORKSPACE, None)


@router.put("/groups/{name}/hours", response_model=HoursRecord)
async def put_group_hours(ctx: Context, admin: CurrentAdmin, name: GroupName, body: WorkingHours) -> Response:
    """Set the working hours of a group. Outside them, its reminders wait, except at high risk."""
    return await _put(ctx, admin, _checked(name), body)


@router.delete("/groups/{name}/hours", response_model=HoursRecord)
async def remove_group_hours(ctx: Context, admin: CurrentAdmin, name: GroupName) -> Response:
    """Remove the working hours of a group. A second time changes nothing."""
    return await _put(ctx, admin, _checked(name), None)


@router.get("/groups/{name}/rota", response_model=RotaRecord)
async def get_rota(ctx: Context, admin: CurrentAdmin, name: GroupName) -> Response:
    """Get which calendar a group follows, what is wrong with it, and who is on duty now."""
    return reply(rota_record(name, await ctx.directory.calendars(admin.workspace)))


@router.put("/groups/{name}/rota", response_model=RotaRecord)
async def put_rota(ctx: Context, admin: CurrentAdmin, name: GroupName, body: PutRota) -> Response:
    """Let a group follow an iCalendar file: only those on duty are notified. Everybody in the group may still answer.

    A server fetches an address every 15 minutes at most.
    """
    if body.address is not None and (problem := rota_problem(body.address, ctx.settings)):
        raise InvalidRequest([Problem("body.address", problem)])
    if body.text is not None and (problem := text_problem(body.text)):
        raise InvalidRequest([Problem("body.text", problem)])
    return reply(
        await follow_rota(
            ctx, admin.workspace, _checked(name), body.address or FILE, text=body.text, by=admin.person.id
        )
    )


@router.delete("/groups/{name}/rota", response_model=RotaRecord)
async def remove_rota(ctx: Context, admin: CurrentAdmin, name: GroupName) -> Response:
    """Let a group follow no calendar: all of it is notified. A second time changes nothing."""
    await ctx.directory.put_rota(admin.workspace, _checked(name), None, by=admin.person.id)
    return reply(RotaRecord(group=name))


async def follow_rota(
    ctx: ServerContext, workspace: str, group: str, rota: str, *, text: str | None, by: str
) -> RotaRecord:
    """Store which calendar a group follows, read it, and say who is on duty."""
    await ctx.directory.put_rota(workspace, group, rota, text=text, by=by)
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


async def _put(ctx: Context, admin: CurrentAdmin, group: str, hours: WorkingHours | None) -> Response:
    try:
        if hours is not None:
            check_holidays(hours)
    except (MissingExtra, ValueError) as error:
        raise InvalidRequest([Problem("body.country", str(error))]) from None
    await ctx.directory.put_hours(admin.workspace, group, hours, by=admin.person.id)
    return reply(HoursRecord(group=group or None, hours=hours))


def _checked(group: str) -> str:
    problem = "is empty" if not group.strip() else text_problem(group)
    if problem:
        raise InvalidRequest([Problem("path.name", problem)])
    return group
