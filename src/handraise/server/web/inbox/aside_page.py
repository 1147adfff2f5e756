"""What a person has set aside: questions that wait for others, or for this person later."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.model.lookalike_names import mixes_alphabets
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.ports.desk import Page
from handraise.presentation.markdown import one_line
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.handed_over import handed_over
from handraise.server.web.inbox.name_links import agent_href
from handraise.server.web.inbox.page_texts import When, waited_since, when
from handraise.server.web.inbox.question_kind import kind_in_words
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_ON_A_PAGE = 50
_EXCERPT = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideRow:
    """One question that was set aside. Everything in it may be shown as it is."""

    id: str
    href: str
    asker: str
    asker_href: str
    asker_mixed: bool
    text: str
    what: str
    waited: When
    until: When | None
    """When it comes back by itself."""
    handed: str | None
    """Whom it was handed over to, in a sentence."""


@pages.get("/aside")
async def show_aside(request: Request, ctx: Context, caller: CurrentPerson) -> Response:
    """The questions that this person has set aside, the oldest first."""
    desk, after = desk_of(ctx, caller), request.query_params.get("after") or None
    try:
        found = await desk.list_pending(
            recipient=caller.person.responder, aside=True, after=after, limit=_ON_A_PAGE
        )
    except ValueError:
        found = Page([], None)  # the address continues from a place at which no page ended
    now = datetime.now(UTC)
    handed = await handed_over(ctx, found.items, caller.person.id, now)
    return live_page(
        "inbox/aside.html",
        person=caller.person,
        here=query_of_list(request),
        rows=[_row(each, handed.get(each.id), caller.person.id, now) for each in found.items],
        first="/aside" if after else None,
        more=f"/aside?{urlencode({'after': found.next})}" if found.next else None,
    )


def _row(question: Question, handed: str | None, me: str, now: datetime) -> AsideRow:
    until = next((each.until for each in question.aside if each.person == me), None)
    return AsideRow(
        id=question.id,
        href=f"/questions/{quote(question.id, safe='')}",
        asker=visible_line(question.asker),
        asker_href=agent_href(question.asker),
        asker_mixed=mixes_alphabets(question.asker),
        text=one_line(question.prompt, _EXCERPT),
        what=kind_in_words(question.form),
        waited=waited_since(question.asked_at, now),
        until=None if until is None else when(until, now),
        handed=handed,
    )
