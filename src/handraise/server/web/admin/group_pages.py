"""Groups: their members, their working hours and holidays, and the calendar that says who is on duty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

import pydantic
from fastapi import APIRouter, Form
from starlette.responses import Response

from handraise.desk.everybody import everybody
from handraise.model.errors import InvalidRequest, NotFound, PreconditionFailed
from handraise.model.group_calendars import WHOLE_WORKSPACE, WorkspaceCalendars
from handraise.model.json_values import text_problem
from handraise.model.visible import visible_line
from handraise.model.working_hours import WorkingHours
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.api.admin_routes import GroupName, group_text, put_group
from handraise.server.api.calendar_routes import (
    hours_version,
    put_group_hours,
    put_hours,
    put_rota,
    remove_group_hours,
    remove_hours,
    remove_rota,
    rota_record,
    rota_version,
)
from handraise.server.api.etags import etag_of
from handraise.server.auth.authenticator import Context, CurrentAdmin, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.admin.admin_views import (
    admin_page,
    confirm_page,
    field_problems,
    invalid_fields,
    to,
)
from handraise.server.web.admin.people_pages import CHANGED_SINCE, Done, Sure, Version
from handraise.server.web.inbox.page_texts import since
from handraise.server.web.pages import PageRoute
from handraise.wire.calendar_records import PutRota
from handraise.wire.requests import PutGroup

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "/admin/groups"
_MOST_PEOPLE = 2_000
_MEANT = {
    "time_zone": gettext_noop("That is not a time zone. It looks like Europe/Berlin."),
    "country": gettext_noop("Write the two letters of a country, such as DE."),
    "subdivision": gettext_noop("Write the letters of a part of the country, such as BY."),
    "address": gettext_noop("Write the https address of an iCalendar file."),
}

Text = Annotated[str, Form(max_length=2_000)]
Names = Annotated[tuple[str, ...], Form()]


@pages.get(PATH)
async def show_groups(ctx: Context, admin: CurrentAdmin, done: Done = "") -> Response:
    """Show all groups, the hours of the workspace, and the form to add a group."""
    return await _groups_page(ctx, admin, done=done)


@pages.post(PATH)
async def add_group_here(
    ctx: Context, admin: CurrentAdmin, *, name: Text = "", people: Names = ()
) -> Response:
    """Add a group. A name that a group has already is refused: this form changes none."""
    name = name.strip()
    typed = {"name": name, "people": people}
    problems: dict[str, str] = {}
    if not name or text_problem(name) or "/" in name or len(name) > 200:  # noqa: PLR2004 -- as in the API
        problems["name"] = gettext("Write a name of up to 200 characters, without a slash, such as ops.")
    elif name in await ctx.directory.groups(admin.workspace):
        problems["name"] = gettext("There is a group with this name already. Open it below.")
    elif not people:
        problems["people"] = gettext("Choose at least one person: a group without people does not exist.")
    problems = problems or await _put(ctx, admin, name, people, None)
    if problems:
        return await _groups_page(ctx, admin, problems=problems, typed=typed, status=422)
    return to(href_of(name), "added")


@pages.post(PATH + "/hours")
async def set_workspace_hours(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    hours: Text = "",
    time_zone: Text = "",
    country: Text = "",
    subdivision: Text = "",
    remove: Sure = False,
    version: Version = "",
) -> Response:
    """Set or remove the hours of the workspace, which count for every group without its own."""
    typed = {"hours": hours, "time_zone": time_zone, "country": country, "subdivision": subdivision}
    if problems := await _set_hours(ctx, admin, WHOLE_WORKSPACE, None if remove else typed, version or None):
        return await _groups_page(ctx, admin, problems=problems, typed=typed, status=_status(problems))
    return to(PATH, "removed" if remove else "saved", "hours")


@pages.get(PATH + "/{name}")
async def show_group(ctx: Context, admin: CurrentAdmin, name: GroupName, done: Done = "") -> Response:
    """Show one group."""
    return await _group_page(ctx, admin, name, done=done)


@pages.post(PATH + "/{name}")
async def change_group_here(
    ctx: Context,
    admin: CurrentAdmin,
    name: GroupName,
    *,
    people: Names = (),
    version: Version = "",
    sure: Sure = False,
) -> Response:
    """Set the people of a group. Without any it is removed, after a question."""
    if not people and not sure:
        return confirm_page(
            admin,
            "groups",
            title=gettext("Remove the group {name}?").format(name=visible_line(name)),
            text=gettext(
                "A group without people does not exist. Questions to it that still wait can only be answered by "
                "administrators who are asked too, and agents cannot ask it any more."
            ),
            action=href_of(name),
            button=gettext("Remove the group"),
            back=href_of(name),
            kept={"version": version},
        )
    if problems := await _put(ctx, admin, name, people, version or None):
        return await _group_page(
            ctx,
            admin,
            name,
            problems=problems,
            typed={"people": people},
            status=_status(problems),
        )
    return to(href_of(name), "saved") if people else to(PATH, "removed")


@pages.post(PATH + "/{name}/hours")
async def set_group_hours(
    ctx: Context,
    admin: CurrentAdmin,
    name: GroupName,
    *,
    hours: Text = "",
    time_zone: Text = "",
    country: Text = "",
    subdivision: Text = "",
    remove: Sure = False,
    version: Version = "",
) -> Response:
    """Set or remove the working hours of a group."""
    typed = {"hours": hours, "time_zone": time_zone, "country": country, "subdivision": subdivision}
    if problems := await _set_hours(ctx, admin, name, None if remove else typed, version or None):
        return await _group_page(ctx, admin, name, problems=problems, typed=typed, status=_status(problems))
    return to(href_of(name), "removed" if remove else "saved", "hours")


@pages.post(PATH + "/{name}/rota")
async def set_rota_here(
    ctx: Context,
    admin: CurrentAdmin,
    name: GroupName,
    *,
    address: Text = "",
    text: Annotated[str, Form(max_length=1_000_000)] = "",
    remove: Sure = False,
    version: Version = "",
) -> Response:
    """Let a group follow a calendar, by its address or its text, or none."""
    address, text = address.strip(), text.strip()
    try:
        if remove:
            await remove_rota(ctx, admin, name, if_match=version or None)
        else:
            body = PutRota(address=address or None, text=text or None)
            await put_rota(ctx, admin, name, body, if_match=version or None)
    except pydantic.ValidationError:
        problems = {"address": gettext("Give the address of a calendar or its text, one of the two.")}
    except InvalidRequest as error:
        problems = field_problems(error)
    except PreconditionFailed:
        problems = {"": gettext(CHANGED_SINCE)}
    else:
        return to(href_of(name), "removed" if remove else "saved", "rota")
    typed = {"address": address, "text": text}
    return await _group_page(ctx, admin, name, problems=problems, typed=typed, status=_status(problems))


def href_of(name: str) -> str:
    """The path of a group's page."""
    return f"{PATH}/{quote(name, safe='')}"


async def _put(
    ctx: ServerContext, admin: PersonCaller, name: str, people: Sequence[str], version: str | None
) -> dict[str, str]:
    """Set the people of a group as the API does; return what is wrong, by field."""
    try:
        await put_group(ctx, admin, name, PutGroup(people=tuple(people)), if_match=version)
    except pydantic.ValidationError:
        return {"people": gettext("Choose people of this workspace.")}
    except InvalidRequest as error:
        return field_problems(error)
    except PreconditionFailed:
        return {"": gettext(CHANGED_SINCE)}
    return {}


async def _set_hours(
    ctx: ServerContext, admin: PersonCaller, group: str, typed: dict[str, str] | None, version: str | None
) -> dict[str, str]:
    try:
        if typed is None and group:
            await remove_group_hours(ctx, admin, group, if_match=version)
            return {}
        if typed is None:
            await remove_hours(ctx, admin, if_match=version)
            return {}
        given = {name: text.strip() or None for name, text in typed.items()}
        body = WorkingHours.model_validate(given | {"hours": given["hours"] or ""})
        if group:
            await put_group_hours(ctx, admin, group, body, if_match=version)
        else:
            await put_hours(ctx, admin, body, if_match=version)
    except pydantic.ValidationError as error:
        found = invalid_fields(error, _MEANT)
        if "hours" in found:
            found["hours"] = gettext(
                "These hours cannot be read. Write them like: Mon-Thu 09:00-17:30, Fri 09:00-15:00"
            )
        return found
    except InvalidRequest as error:
        return field_problems(error)
    except PreconditionFailed:
        return {"": gettext(CHANGED_SINCE)}
    return {}


def _status(problems: dict[str, str]) -> int:
    """The status of a page with problems: a conflict if somebody else was faster."""
    return 409 if "" in problems else 422


async def _choices(ctx: ServerContext, admin: PersonCaller, chosen: Sequence[str]) -> list[dict[str, Any]]:
    people = [each async for each in everybody(ctx.directory, admin.workspace, at_most=_MOST_PEOPLE)]
    known = [
        {
            "id": each.id,
            "shown": visible_line(each.id),
            "name": visible_line(each.name) if each.name != each.id else "",
            "on": each.id in chosen,
        }
        for each in people
    ]
    # Members who are beyond the list stay members.
    rest = set(chosen) - {each.id for each in people}
    return known + [
        {"id": each, "shown": visible_line(each), "name": "", "on": True} for each in sorted(rest)
    ]


def _hours_of(calendars: WorkspaceCalendars, group: str) -> dict[str, str]:
    found = calendars.groups.get(group)
    if found is None or found.hours is None:
        return {}
    return {name: value or "" for name, value in found.hours.model_dump().items()}


async def _groups_page(
    ctx: ServerContext, admin: PersonCaller, *, typed: dict[str, Any] | None = None, **values: Any
) -> Response:
    groups = await ctx.directory.groups(admin.workspace)
    calendars = await ctx.directory.calendars(admin.workspace)
    typed = typed or {}
    return admin_page(
        "groups",
        admin,
        "groups",
        groups=[
            {
                "href": href_of(name),
                "name": visible_line(name),
                "people": ", ".join(map(visible_line, people)),
                "count": len(people),
                "hours": visible_line(_hours_of(calendars, name).get("hours", "")),
                "rota": rota_record(name, calendars),
            }
            for name, people in groups.items()
        ],
        everybody=await _choices(ctx, admin, typed.get("people", ())),
        has_hours=bool(_hours_of(calendars, WHOLE_WORKSPACE)),
        hours_version=hours_version(WHOLE_WORKSPACE, calendars),
        typed={**_hours_of(calendars, WHOLE_WORKSPACE), **typed},
        **values,
    )


async def _group_page(
    ctx: ServerContext, admin: PersonCaller, name: str, *, typed: dict[str, Any] | None = None, **values: Any
) -> Response:
    groups = await ctx.directory.groups(admin.workspace)
    calendars = await ctx.directory.calendars(admin.workspace)
    if text_problem(name) or (name not in groups and name not in calendars.groups) or not name:
        raise NotFound("There is no such group here.")
    members, typed = groups.get(name, ()), typed or {}
    rota = rota_record(name, calendars)
    return admin_page(
        "group",
        admin,
        "groups",
        group=visible_line(name),
        href=href_of(name),
        version=etag_of(group_text(name, members)) if members else "",
        everybody=await _choices(ctx, admin, typed.get("people", members)),
        has_hours=bool(_hours_of(calendars, name)),
        hours_version=hours_version(name, calendars),
        rota_version=rota_version(name, calendars),
        typed={**_hours_of(calendars, name), **typed},
        rota={
            "source": None if rota.source is None else visible_line(rota.source),
            "problem": None if rota.problem is None else error_text(rota.problem),
            "fetched": None if rota.fetched_at is None else since(rota.fetched_at, calendars.now),
            "on_duty": ", ".join(map(visible_line, rota.on_duty)),
        },
        **values,
    )
