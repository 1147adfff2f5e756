"""Fetches the rotas of groups, one process for all servers, and says who is on duty when."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from handraise.channels.safe_http import open_safe_client, read_url
from handraise.desk.everybody import everybody
from handraise.model.group_calendars import FILE, WHOLE_WORKSPACE, GroupCalendar, Shift, WorkspaceCalendars
from handraise.model.identities import fold_email
from handraise.ports import Directory
from handraise.ports.channel import NotSent
from handraise.server.rota_expansion import MAX_BYTES, Entry, UnreadableCalendar, expand
from handraise.server.settings import ServerSettings

_log = logging.getLogger(__name__)

EVERY = timedelta(minutes=15)
"""How often a rota is fetched at most."""
_WORKSPACES = 10_000
_OK = 200


async def refresh_rotas(directory: Directory, settings: ServerSettings) -> int:
    """Fetch the rotas that nobody has fetched for a while; return how many these were."""
    number = 0
    for workspace in await directory.workspaces_with_rotas(limit=_WORKSPACES):
        calendars = await directory.calendars(workspace)
        for calendar in calendars.groups.values():
            is_old = calendar.tried_at is None or calendar.tried_at <= calendars.now - EVERY
            if calendar.rota is not None and is_old:
                number += await refresh_rota(directory, settings, calendar, calendars)
    return number


async def refresh_rota(
    directory: Directory, settings: ServerSettings, calendar: GroupCalendar, calendars: WorkspaceCalendars
) -> bool:
    """Fetch one rota and store who is on duty when, unless another process does."""
    workspace, group, rota = calendar.workspace, calendar.group_name, calendar.rota
    if rota is None or not await directory.claim_rota(workspace, group, rota, every=EVERY):
        return False
    text, shifts, problem = None, None, None
    try:
        text = await _text(directory, settings, workspace, group, rota)
        own = calendar.hours or calendars.hours_for(())
        entries = await expand(text, now=calendars.now, time_zone=own.time_zone if own else "UTC")
        shifts = await _shifts(directory, workspace, group, entries)
    except UnreadableCalendar as error:
        text, problem = None, str(error)
        _log.warning(
            "the rota of group %r cannot be used: %s", group, problem, extra={"event": "rota_unusable"}
        )
    kept = None if rota == FILE else text
    await directory.keep_rota(workspace, group, rota, text=kept, shifts=shifts, problem=problem)
    return True


def rota_problem(rota: str, settings: ServerSettings) -> str | None:
    """What is wrong with the address of a calendar; None if it can be fetched."""
    allowed = settings.webhook_allow_private
    return None if read_url(rota, allowed) else "is not the https address of a calendar on the public network"


def warnings_of(calendars: WorkspaceCalendars) -> Sequence[tuple[str, str | None]]:
    """The groups whose rota cannot be used now, each with what is wrong, or None if nobody is on duty."""
    found = (
        (name, each)
        for name, each in calendars.groups.items()
        if each.rota is not None and name != WHOLE_WORKSPACE
    )
    return [
        (name, each.problem)
        for name, each in found
        if each.problem is not None or (each.tried_at is not None and not each.on_duty(calendars.now))
    ]


async def _text(directory: Directory, settings: ServerSettings, workspace: str, group: str, rota: str) -> str:
    if rota == FILE:
        return await directory.rota_text(workspace, group) or ""
    url = read_url(rota, settings.webhook_allow_private)
    if url is None:
        raise UnreadableCalendar("its address cannot be called")
    async with open_safe_client(settings.webhook_allow_private) as client:
        try:
            headers = {"accept": "text/calendar", "user-agent": "handraise"}
            answered = await client.get(url, headers=headers, keep=MAX_BYTES + 1)
        except NotSent as error:
            raise UnreadableCalendar(str(error)) from None
    if answered.status != _OK:
        raise UnreadableCalendar(f"its server answered with {answered.status}")
    if len(answered.body) > MAX_BYTES:
        raise UnreadableCalendar("it is longer than 1 MB")
    return answered.body.decode(errors="replace").replace("\x00", "")


async def _shifts(directory: Directory, workspace: str, group: str, entries: Sequence[Entry]) -> list[Shift]:
    """Who of the group is on duty when."""
    people = [each async for each in everybody(directory, workspace) if group in each.groups]
    by_email = {fold_email(each.email): each.id for each in people if each.email is not None}
    by_id = {each.id: each.id for each in people}
    shifts = []
    for entry in entries:
        found = {
            person
            for name in entry.attendees
            if (person := by_email.get(fold_email(name)) or by_id.get(name))
        }
        if not found:
            wanted = entry.summary.casefold()
            found = {
                each.id
                for each in people
                if wanted in (each.id.casefold(), each.name.casefold(), (each.email or "").casefold())
            }
        shifts += [Shift(entry.begins, entry.ends, person) for person in sorted(found)]
    return shifts
