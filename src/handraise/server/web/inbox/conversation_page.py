"""One conversation: every question in it that a person may see, with the pending ones first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.markdown import one_line
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.agent_text import mixes_alphabets
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.page_texts import When, outcome_in_words, since
from handraise.server.web.inbox.question_kind import kind_in_words
from handraise.server.web.inbox.status_view import status_name, verdict_of
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_AT_MOST = 200
_EXCERPT = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """One question of a conversation. Everything in it may be shown as it is."""

    id: str
    href: str
    asker: str
    asker_mixed: bool
    text: str
    what: str
    verdict: str
    verdict_name: str
    how: str | None
    """How it ended, in our words."""
    asked: When


@pages.get("/conversation")
async def show_conversation(
    request: Request, ctx: Context, caller: CurrentPerson, name: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """The questions of a conversation that this person may see; an administrator sees all of them."""
    desk, recipient = desk_of(ctx, caller), None if caller.is_admin else caller.person.responder
    pending = await desk.list_pending(conversation=name, recipient=recipient, limit=_AT_MOST)
    settled = await desk.list_settled(conversation=name, recipient=recipient, limit=_AT_MOST)
    now = datetime.now(UTC)
    return live_page(
        "inbox/conversation.html",
        person=caller.person,
        here=query_of_list(request),
        name=visible_line(name),
        waiting=[_row(question, caller.person.id, now) for question in reversed(pending.items)],
        settled=[_row(question, caller.person.id, now) for question in settled.items],
        more=pending.next is not None or settled.next is not None,
        at_most=_AT_MOST,
    )


def _row(question: Question, me: str, now: datetime) -> ConversationRow:
    return ConversationRow(
        id=question.id,
        href=f"/questions/{quote(question.id, safe='')}",
        asker=visible_line(question.asker),
        asker_mixed=mixes_alphabets(question.asker),
        text=one_line(question.prompt, _EXCERPT),
        what=kind_in_words(question.form),
        verdict=verdict_of(question),
        verdict_name=status_name(verdict_of(question)),
        how=None if question.outcome is None else outcome_in_words(question, me),
        asked=since(question.asked_at, now),
    )
