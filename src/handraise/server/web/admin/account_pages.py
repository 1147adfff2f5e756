"""Accounts of people at chat services, found by their e-mail addresses and set by an administrator."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query
from starlette.responses import Response

from handraise.model.errors import NotFound
from handraise.model.json_values import text_problem
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent
from handraise.presentation.names import channel_name
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.account_search import (
    MatchState,
    find_accounts,
    open_find,
    searchable,
    set_account,
)
from handraise.server.auth.authenticator import Context, CurrentAdmin
from handraise.server.web.admin.admin_views import admin_page, to
from handraise.server.web.pages import PageRoute

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_STATES = {
    MatchState.FOUND: gettext_noop("found"),
    MatchState.NOBODY: gettext_noop("nobody has this address there"),
    MatchState.TAKEN: gettext_noop("somebody else here has this account"),
}


@pages.get("/admin/addresses/find")
async def find_here(
    ctx: Context, admin: CurrentAdmin, channel: Annotated[str, Query(max_length=60)] = ""
) -> Response:
    """Show who is found on a channel by the e-mail address of the directory. Changes nothing."""
    if channel not in searchable(ctx.settings):
        raise NotFound("People cannot be found on this channel.")
    async with open_find(ctx.settings, channel) as find:
        result = await find_accounts(ctx, admin.workspace, channel, find)
    return admin_page(
        "find_accounts",
        admin,
        "addresses",
        channel=channel,
        service=channel_name(channel),
        trouble=visible_line(result.problem or ""),
        number=sum(each.state is MatchState.FOUND for each in result.matches),
        matches=[
            {
                "person": each.person.id,
                "name": visible_line(each.person.name),
                "email": visible_line(each.person.email or ""),
                "id": visible_line(each.account.id) if each.account else "",
                "named": visible_line(each.account.name) if each.account else "",
                "state": gettext(_STATES[each.state]),
                "is_found": each.state is MatchState.FOUND,
            }
            for each in result.matches
        ],
    )


@pages.post("/admin/addresses/find")
async def set_here(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    channel: Annotated[str, Form(max_length=60)] = "",
    person: Annotated[list[str] | None, Form(max_length=500)] = None,
) -> Response:
    """Let these people be reached at the accounts that are found for them now; what the form says of accounts is not read."""
    if channel not in searchable(ctx.settings):
        raise NotFound("People cannot be found on this channel.")
    async with open_find(ctx.settings, channel) as find:
        for name in person or ():
            found = None if text_problem(name) else await ctx.directory.find_person(admin.workspace, name)
            if found is None or found.email is None:
                continue
            try:
                account = await find(found.email)
            except NotSent:
                break  # what is set is set, and the others are found again
            if account is not None:
                await set_account(ctx, found, channel, account, by=admin.person.id)
    return to("/admin/addresses", "saved")
