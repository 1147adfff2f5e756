"""The account page: who you are, where you are signed in, your passkeys, notifications and active grants."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote
from zoneinfo import available_timezones

from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse, Response

from handraise.model.errors import InvalidRequest
from handraise.model.identities import Role, Session
from handraise.model.people import link_maker
from handraise.model.visible import visible_line
from handraise.presentation.translation import (
    find_time_zone,
    gettext,
    gettext_noop,
    language_name,
    languages,
    local_time,
)
from handraise.server.api.admin_routes import GrantId, revoke_grant
from handraise.server.api.away_routes import come_back, go_away
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.active_grants import active_grants
from handraise.server.web.inbox.away_form import AwayForm, deputies, read_away, refused
from handraise.server.web.inbox.away_view import own_absence
from handraise.server.web.inbox.connect_pages import connectable, reached_at
from handraise.server.web.inbox.own_hours import DAYS, own_hours
from handraise.server.web.inbox.page_texts import When, since, when
from handraise.server.web.inbox.passkey_pages import passkey_section
from handraise.server.web.pages import PageRoute, live_page
from handraise.server.web.sign_in import SessionId, end_one, sessions_of

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_SIGN_IN_METHODS = {
    "invitation": gettext_noop("by an invitation"),
    "sign-in": gettext_noop("by a sign-in link"),
    "oidc": gettext_noop("through your organisation"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSession:
    """Another session of the same person. Everything in it may be shown as it is."""

    id: str
    way: str
    maker: str | None
    began: When
    ends: When


@pages.get("/me")
async def show_myself(ctx: Context, caller: CurrentPerson) -> Response:
    """Show who you are, and the notification switches of this browser."""
    return await _show(ctx, caller, AwayForm())


async def _show(ctx: ServerContext, caller: PersonCaller, form: AwayForm, *, status: int = 200) -> Response:
    person, session, now = caller.person, caller.session, datetime.now(UTC)
    return live_page(
        "inbox/account.html",
        status=status,
        person=person,
        groups=sorted(map(visible_line, person.groups)),
        is_admin=person.role is Role.ADMIN,
        way=gettext(_SIGN_IN_METHODS.get(session.how, "")),
        since=when(session.created_at, now),
        until=when(session.expires_at, now),
        is_https=ctx.settings.is_https,
        languages={each: language_name(each) for each in languages()},
        zones=_time_zones(),
        away=await own_absence(ctx.directory, person, now, coming=True),
        hours=await own_hours(ctx, person),
        days=[(day, gettext(name)) for day, name in DAYS.items()],
        reached=await reached_at(ctx, caller),
        connectable=connectable(ctx),
        today=local_time(now).date().isoformat(),
        away_form=form,
        deputies=await deputies(ctx, person),
        passkeys=await passkey_section(ctx, caller),
        grants=await active_grants(ctx, caller),
        sessions=[_other_session(each, now) for each in await _other_sessions(ctx, caller)],
    )


@pages.post("/me/preferences")
async def set_preferences_here(
    ctx: Context,
    caller: CurrentPerson,
    *,
    language: Annotated[str, Form(max_length=20)] = "",
    time_zone: Annotated[str, Form(max_length=64)] = "",
) -> Response:
    """Keep your language and your time zone. A value that does not exist counts as no choice."""
    await ctx.directory.set_preferences(
        caller.workspace,
        caller.person.id,
        language=language if language in languages() else None,
        time_zone=time_zone if find_time_zone(time_zone) else None,
    )
    return RedirectResponse("/me#reading", 303)


@pages.post("/me/away")
async def go_away_here(
    ctx: Context,
    caller: CurrentPerson,
    *,
    first: Annotated[str, Form(max_length=10)] = "",
    last: Annotated[str, Form(max_length=10)] = "",
    deputy: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Say that you are away from the first to the last day, and who answers for you."""
    form = AwayForm(first=first, last=last, deputy=deputy)
    away = await read_away(ctx, caller.person, form)
    if isinstance(away, AwayForm):
        return await _show(ctx, caller, away, status=422)
    try:
        await go_away(ctx, caller.person, away, by=caller.person.id)
    except InvalidRequest as error:
        return await _show(ctx, caller, refused(form, error), status=422)
    return RedirectResponse("/me#away", 303)


@pages.post("/me/back")
async def come_back_here(ctx: Context, caller: CurrentPerson) -> Response:
    """Say that you are back."""
    await come_back(ctx, caller.person, by=caller.person.id)
    return RedirectResponse("/", 303)


@pages.post("/me/sessions/end-others")
async def end_others_here(ctx: Context, caller: CurrentPerson) -> Response:
    """End all your sessions except this one."""
    for each in await _other_sessions(ctx, caller):
        await ctx.directory.end_session(caller.workspace, each.id, by=caller.person.id)
    return RedirectResponse("/me#sessions", 303)


@pages.post("/me/sessions/{session_id}/end")
async def end_here(ctx: Context, caller: CurrentPerson, session_id: SessionId) -> Response:
    """End another session of yours."""
    await end_one(ctx, caller, session_id)
    return RedirectResponse("/me#sessions", 303)


@pages.post("/me/grants/{grant_id}/revoke")
async def revoke_here(ctx: Context, caller: CurrentPerson, grant_id: GrantId) -> Response:
    """End a grant of yours; for administrators, any grant."""
    await revoke_grant(ctx, caller, grant_id)
    return RedirectResponse("/me#grants", 303)


@functools.cache
def _time_zones() -> Sequence[str]:
    """The time zones that people live in, without old and technical names."""
    regions = (
        "Africa",
        "America",
        "Antarctica",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
    )
    return ("UTC", *sorted(name for name in available_timezones() if name.startswith(regions)))


async def _other_sessions(ctx: ServerContext, caller: PersonCaller) -> list[Session]:
    found = await sessions_of(ctx, caller.workspace, caller.person.id)
    return [each for each in found if each.id != caller.session.id]


def _other_session(session: Session, now: datetime) -> OtherSession:
    maker = link_maker(session.vouched_by)
    return OtherSession(
        id=quote(session.id, safe=""),
        way=gettext(_SIGN_IN_METHODS.get(session.how, "")),
        maker=None if maker is None else visible_line(maker),
        began=since(session.created_at, now),
        ends=when(session.expires_at, now),
    )
