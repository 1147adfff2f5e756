"""One person: what they answered, what waits for them, hand-overs, times away, and what they approved ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from handraise.model.away import Away
from handraise.model.errors import NotFound, PermissionDenied
from handraise.model.events import Event, EventKind
from handraise.model.identities import Person
from handraise.model.json_values import text_problem
from handraise.model.questions import Question
from handraise.model.visible import visible, visible_line
from handraise.model.workspace_events import WorkspaceEventKind
from handraise.ports.desk import Page
from handraise.ports.store import WorkspaceEventSearch
from handraise.presentation.away_text import until_text
from handraise.presentation.markdown import one_line
from handraise.presentation.names import display_name, listed, person_name, recipient_name
from handraise.presentation.times import day_and_month
from handraise.presentation.translation import gettext, local_time
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.active_grants import active_grants
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.page_texts import When, since
from handraise.server.web.inbox.question_figures import figures_of
from handraise.server.web.inbox.question_rows import days_of, ended_row, list_address, newest_rows
from handraise.server.web.inbox.recent_questions import RECENTLY, read_pending, read_settled
from handraise.server.web.inbox.standing_answers_page import shown_answers
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_MOST_ANSWERED = 500
_MOST_SHOWN = 100
_MOST_SEARCHED = 200
_MOST_EVENTS = 1_000
_MOST_HANDED = 30
_MOST_AWAY = 10
_EXCERPT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A question that was handed over. Everything in it may be shown as it is."""

    text: str
    reason: str | None
    question: str
    href: str
    at: When


@pages.get("/person")
async def show_history(
    request: Request, ctx: Context, caller: CurrentPerson, name: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """Your own history, or for an administrator that of anybody."""
    person_id = name or caller.person.id
    if not caller.is_admin and person_id != caller.person.id:
        raise PermissionDenied(caller.person.id, "only administrators of the workspace may do this")
    now, is_me, desk = datetime.now(UTC), person_id == caller.person.id, desk_of(ctx, caller)
    known = None if text_problem(person_id) else await ctx.directory.find_person(caller.workspace, person_id)
    # What somebody answered stays after they were removed, and in a chat people answer whom nobody has added.
    found = known or Person(workspace=caller.workspace, id=person_id, name=person_id, created_at=now)

    async def read(after: str | None) -> Page[Question]:
        return await desk.list_settled(by=found.id, since=now - RECENTLY, after=after, limit=_MOST_ANSWERED)

    settled, older = await read_settled(read, most=_MOST_ANSWERED)
    # An agent of the same name is somebody else.
    answered = [each for each in settled if each.asker != found.id]
    if known is None and not answered:
        raise NotFound("There is no such person here.")
    pending, is_cut = await read_pending(desk, found.responder)
    others = await desk.list_settled(recipient=found.responder, since=now - RECENTLY, limit=_MOST_SEARCHED)
    shown = answered[:_MOST_SHOWN]
    return live_page(
        "inbox/person.html",
        person=caller.person,
        here=query_of_list(request),
        is_me=is_me,
        is_admin=caller.is_admin,
        name=visible_line(found.name),
        id=visible_line(found.id),
        admin_href=f"/admin/people/{quote(found.id, safe='')}" if known else None,
        groups=sorted(map(visible_line, found.groups)),
        signed_in=None if found.signed_in_at is None else since(found.signed_in_at, now),
        figures=figures_of(answered),
        is_cut=older is not None,
        waiting=newest_rows(pending, caller.person.id, now),
        waiting_number=len(pending),
        more_waiting=is_cut,
        days=days_of(shown, lambda each: ended_row(each, caller.person.id), today=local_time(now).date()),
        more_answered=len(answered) > len(shown) or older is not None,
        all_settled=list_address("/settled", caller, by=found.id),
        handed=await _hand_overs(ctx, caller, found, [*pending, *answered, *others.items], now),
        away=await _times_away(ctx, found, now),
        grants=await active_grants(ctx, caller, given_by=found.id),
        standing=[
            each
            for each in await shown_answers(ctx, caller, lambda each: each.given_by == found.id)
            if each.ended is None
        ],
    )


async def _hand_overs(
    ctx: ServerContext, caller: PersonCaller, person: Person, questions: Sequence[Question], now: datetime
) -> Sequence[HandOver]:
    """What this person handed over or was handed, the latest first."""
    known = {each.id: each for each in questions}
    events = await ctx.store.histories(
        caller.workspace,
        list(known),
        kinds=(EventKind.HANDED_OVER, EventKind.BROUGHT_IN),
        limit=_MOST_EVENTS,
    )
    principals = set(person.responder.principals)
    concerning = [
        each for each in reversed(events) if each.by == person.id or not principals.isdisjoint(_names(each))
    ]
    return [_hand_over(each, known[each.question_id], caller, now) for each in concerning[:_MOST_HANDED]]


def _hand_over(event: Event, question: Question, caller: PersonCaller, now: datetime) -> HandOver:
    me = caller.person.id
    if event.kind is EventKind.HANDED_OVER:
        text = gettext("Handed over by {person} to {others}")
    else:
        text = gettext("{others} brought in by {person}")
    names = listed([recipient_name(each, viewer=me) for each in _names(event)])
    reason = event.data.get("reason") if isinstance(event.data, dict) else None
    return HandOver(
        text=text.format(person=person_name(event.by, viewer=me), others=names),
        reason=visible(str(reason)) if reason else None,
        question=one_line(question.prompt, _EXCERPT),
        href=f"/questions/{quote(question.id, safe='')}",
        at=since(event.at, now),
    )


def _names(event: Event) -> list[str]:
    """To whom a question was handed over."""
    return [str(each) for each in event.data.get("to", ())] if isinstance(event.data, dict) else []


async def _times_away(ctx: ServerContext, person: Person, now: datetime) -> Sequence[str]:
    """When this person was or will be away, as they said it, the latest first."""
    search = WorkspaceEventSearch(person=person.id, kind=WorkspaceEventKind.PERSON_AWAY.value)
    events = await ctx.store.search_workspace_events(person.workspace, search, before=None, limit=_MOST_AWAY)
    # A deputy is concerned too.
    return [_period(each.data, now) for each in events if each.data.get("person") == person.id]


def _period(data: dict[str, object], now: datetime) -> str:
    away = Away(
        starts=datetime.fromisoformat(str(data["from"])), until=datetime.fromisoformat(str(data["until"]))
    )
    first = day_and_month(local_time(away.starts).date(), local_time(now).date())
    text = gettext("{first} until {last}").format(first=first, last=until_text(away, now))
    deputy = data.get("deputy")
    if not deputy:
        return text
    return gettext("{period}, with {person} as the deputy").format(
        period=text, person=display_name(str(deputy))
    )
