"""The page about oneself: as whom one is signed in here, and how one is told of questions."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from handraise.model.identities import Role
from handraise.model.visible import visible_line
from handraise.server.callers import TheHouse, ThePerson
from handraise.server.inbox.wording import moment
from handraise.server.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_WAYS = {
    "invitation": "by an invitation",
    "sign-in": "by a sign-in link",
    "oidc": "through your organisation",
}


@pages.get("/me")
async def show_myself(house: TheHouse, caller: ThePerson) -> Response:
    """Who one is, and the switches for being told, which belong to this browser."""
    person, session = caller.person, caller.session
    return live_page(
        "inbox/myself.html",
        person=person,
        groups=sorted(map(visible_line, person.groups)),
        is_admin=person.role is Role.ADMIN,
        way=_WAYS.get(session.how, ""),
        since=moment(session.created_at),
        until=moment(session.expires_at),
        is_https=house.settings.is_https,
    )
