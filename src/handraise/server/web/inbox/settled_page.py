"""Settled questions, newest first: who answered what, when and how, and which ended without an answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.model.questions import Question
from handraise.ports.desk import Page
from handraise.presentation.translation import local_time
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.ended_by import ended_by_offers
from handraise.server.web.inbox.question_rows import days_of, ended_row
from handraise.server.web.inbox.search import SEARCHED_AT_ONCE, ViewDep, find, offers_of, part_of
from handraise.server.web.inbox.settled_filters import (
    FiltersDep,
    outcome_offers,
    person_offers,
    risk_offers,
    tool_offers,
)
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_PEOPLE = 100
"""How many people of the directory the filter offers."""


@pages.get("/settled")
async def show_settled(
    request: Request, ctx: Context, caller: CurrentPerson, view: ViewDep, filters: FiltersDep
) -> Response:
    """This person's settled questions; an administrator may see those of the whole workspace."""
    desk, recipient = desk_of(ctx, caller), None if view.everything else caller.person.responder
    view, wanted = replace(view, extra=filters.pairs), filters.wanted

    async def read(after: str | None) -> Page[Question]:
        try:
            page = await desk.list_ended(
                wanted,
                conversation=view.conversation or None,
                asker=view.agent or None,
                recipient=recipient,
                after=after,
                limit=SEARCHED_AT_ONCE,
            )
        except ValueError:
            return Page([], None)  # the address continues from a place at which no page ended
        return Page([each for each in page.items if filters.fits_hours(each)], page.next)

    found = await find(read, view)
    part = part_of(view, found)
    # Values that the filter leaves out can still be chosen.
    others = (
        (await desk.list_settled(recipient=recipient, limit=SEARCHED_AT_ONCE)).items
        if view.is_narrowed
        else ()
    )
    people = await ctx.directory.people(caller.workspace, after=None, limit=_PEOPLE)
    today = local_time(datetime.now(UTC)).date()
    return live_page(
        "inbox/settled.html",
        person=caller.person,
        here=query_of_list(request),
        view=view,
        part=part,
        offers=offers_of(view, [*found.items, *others], me=caller.person.id),
        filters=filters,
        outcomes=outcome_offers(),
        ended_by=ended_by_offers(),
        tools=tool_offers([*found.items, *others], filters.tool),
        risks=risk_offers(),
        people=person_offers(people, [*found.items, *others], filters.by, me=caller.person.id),
        days_shown=filters.days(today),
        today=today.isoformat(),
        is_admin=caller.is_admin,
        days=days_of(part.items, lambda each: ended_row(each, caller.person.id), today=today),
        zone=local_time(datetime.now(UTC)).tzname(),
    )
