"""One conversation: everything in it that a person may see, in order, with the answers, messages and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from handraise.model.events import Event, EventKind
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.ports.desk import Page
from handraise.presentation.translation import gettext, local_time
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.name_links import conversation_href
from handraise.server.web.inbox.page_texts import When, history_lines
from handraise.server.web.inbox.question_rows import QuestionRow, clock_time, days_of, question_row
from handraise.server.web.inbox.recent_questions import read_pending, read_settled
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_AT_MOST = 200
_MOST_EVENTS = 4_000
_SHOWN = frozenset(EventKind) - {
    EventKind.ASKED,
    EventKind.REMINDED,
    EventKind.TAKEN,
    EventKind.RELEASED,
    EventKind.SET_ASIDE,
    EventKind.PUT_BACK,
    EventKind.SENT,
    EventKind.JOINED,
}
"""What the page tells of each question. It leaves out what people and programs do around it."""


@pages.get("/conversation")
async def show_conversation(
    request: Request,
    ctx: Context,
    caller: CurrentPerson,
    name: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """The questions of a conversation that this person may see; an administrator sees all of them.

    The first page has what is pending and what ended last. The pages after it have what ended before.
    """
    desk, recipient = desk_of(ctx, caller), None if caller.is_admin else caller.person.responder

    async def read(cursor: str | None) -> Page[Question]:
        try:
            return await desk.list_settled(
                conversation=name, recipient=recipient, after=cursor, limit=_AT_MOST
            )
        except ValueError:
            return Page([], None)  # the address continues from a place at which no page ended

    settled, older = await read_settled(read, most=_AT_MOST, after=after or None)
    pending, is_cut = ([], False) if after else await read_pending(desk, recipient, conversation=name)
    # The store has left out what this person may not see. That is checked here too, as for a question's page.
    found = sorted(
        (each for each in (*pending, *settled) if caller.may_see(each)),
        key=lambda each: (each.asked_at, each.id),
    )
    events = await ctx.store.histories(
        caller.workspace, [each.id for each in found], kinds=_SHOWN, limit=_MOST_EVENTS
    )
    waiting = [each for each in found if each.outcome is None]
    rows = _Rows(found, events, caller.person.id)
    return live_page(
        "inbox/conversation.html",
        person=caller.person,
        here=query_of_list(request),
        name=visible_line(name),
        days=days_of(
            found,
            rows.row,
            today=local_time(datetime.now(UTC)).date(),
            at=lambda each: each.asked_at,
        ),
        number=len(found),
        waiting=len(waiting),
        first_waiting=f"#q-{waiting[0].id}" if waiting else None,
        is_cut=is_cut,
        older=conversation_href(name, after=older) if older else None,
        newest=conversation_href(name) if after else None,
        zone=local_time(datetime.now(UTC)).tzname(),
    )


class _Rows:
    """The rows of the page, each with what happened to its question."""

    def __init__(self, questions: Iterable[Question], events: Sequence[Event], me: str) -> None:
        self._shown = {each.id for each in questions}
        self._events: Mapping[str, list[Event]] = {each: [] for each in self._shown}
        for event in events:
            self._events[event.question_id].append(event)
        self._me = me

    def row(self, question: Question) -> QuestionRow:
        """The row of a question."""
        return question_row(
            question,
            me=self._me,
            at=clock_time(question.asked_at),
            replaces=self._replaces(question),
            steps=[
                (_step_time(each.at, question.asked_at), each)
                for each in history_lines(question, self._events[question.id], self._me)
            ],
        )

    def _replaces(self, question: Question) -> tuple[str, str] | None:
        if question.replaces is not None:
            return gettext("replaces an earlier question"), self._href(question.replaces)
        if question.replaced_by is not None:
            return gettext("a later question replaces it"), self._href(question.replaced_by)
        return None

    def _href(self, question_id: str) -> str:
        return f"#q-{quote(question_id, safe='')}" if question_id in self._shown else ""


def _step_time(at: datetime, asked: datetime) -> When:
    """The time of day, with the day if it is another one than that of the question."""
    shown = clock_time(at)
    return shown if local_time(at).date() == local_time(asked).date() else replace(shown, text=shown.full)
