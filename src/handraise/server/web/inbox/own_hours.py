"""The hours in which somebody is notified, which they set themselves. They are part of the routing of the workspace."""

from __future__ import annotations

import copy
from typing import Annotated, Any

import pydantic
from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse, Response

from handraise.model.errors import PreconditionFailed
from handraise.model.identities import Person
from handraise.model.json_values import Json
from handraise.model.routing import Hours, Routing
from handraise.presentation.translation import current_locale, gettext, gettext_noop
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.context import ServerContext
from handraise.server.web.pages import PageRoute, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

DAYS = {
    "mon": gettext_noop("Monday"),
    "tue": gettext_noop("Tuesday"),
    "wed": gettext_noop("Wednesday"),
    "thu": gettext_noop("Thursday"),
    "fri": gettext_noop("Friday"),
    "sat": gettext_noop("Saturday"),
    "sun": gettext_noop("Sunday"),
}
_TRIES = 5

Clock = Annotated[str, Form(max_length=8)]


async def own_hours(ctx: ServerContext, person: Person) -> Hours | None:
    """The hours that are set for this person; None if they are notified at any time."""
    stored = await ctx.outbox.routing(person.workspace)
    try:
        routing = Routing.model_validate(stored or {})
    except pydantic.ValidationError:
        return None
    attention = routing.people.get(person.id)
    return None if attention is None else attention.hours


@pages.post("/me/hours")
async def set_hours_here(
    ctx: Context,
    caller: CurrentPerson,
    *,
    days: Annotated[list[str] | None, Form(max_length=7)] = None,
    opens: Clock = "",
    closes: Clock = "",
    any_time: Annotated[bool, Form()] = False,
) -> Response:
    """Set when you are notified; or, with `any_time`, always."""
    person, hours = caller.person, None
    if not any_time:
        zone = person.time_zone or current_locale().time_zone
        try:
            given: Any = {"timezone": zone, "days": days or [], "opens": opens[:5], "closes": closes[:5]}
            hours = Hours.model_validate(given)
        except pydantic.ValidationError:
            return message(
                gettext("These are no hours"),
                gettext("Choose at least one day, and write from when to when, such as 09:00 to 17:30."),
                status=422,
                lead=("/me#hours", gettext("Back to your settings")),
            )
    await _store(ctx, person, hours)
    return RedirectResponse("/me#hours", 303)


async def _store(ctx: ServerContext, person: Person, hours: Hours | None) -> None:
    """Change nothing else of the routing, also if somebody changes it at the same time."""
    for _ in range(_TRIES):
        before = await ctx.outbox.routing(person.workspace)
        after = _with_hours(before, person.id, hours)
        if after == (before or {}):
            return

        def check(now: Json, before: Json = before) -> None:
            if now != before:
                raise PreconditionFailed("The routing was changed at the same time.")

        try:
            await ctx.outbox.put_routing(person.workspace, after, by=person.id, check=check)
        except PreconditionFailed:
            continue
        return
    raise PreconditionFailed("The routing is changed by somebody else all the time. Try again.")


def _with_hours(stored: Json, person: str, hours: Hours | None) -> dict[str, Any]:
    routing: dict[str, Any] = copy.deepcopy(stored) if isinstance(stored, dict) else {}
    people: dict[str, Any] = routing.get("people") or {}
    attention = {name: value for name, value in people.get(person, {}).items() if name != "hours"}
    if hours is not None:
        attention["hours"] = hours.model_dump(mode="json")
    people = {name: value for name, value in people.items() if name != person}
    if attention:
        people[person] = attention
    rest = {name: value for name, value in routing.items() if name != "people"}
    return {**rest, "people": people} if people else rest
