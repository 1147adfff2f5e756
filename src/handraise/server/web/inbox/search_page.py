"""The results of a search: pending and settled questions with these words, the newest first."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.model.questions import Question
from handraise.presentation.times import moment_text
from handraise.presentation.translation import local_time
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.page_texts import When
from handraise.server.web.inbox.question_rows import QuestionRow, question_row
from handraise.server.web.inbox.search import ON_A_PAGE, ViewDep
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_EXCERPT = 240


@pages.get("/search")
async def show_search(request: Request, ctx: Context, caller: CurrentPerson, view: ViewDep) -> Response:
    """What this person may see and has these words; an administrator may search the whole workspace."""
    found = await desk_of(ctx, caller).search(
        view.words,
        conversation=view.conversation or None,
        asker=view.agent or None,
        recipient=None if view.everything else caller.person.responder,
        after=view.after or None,
        limit=ON_A_PAGE,
    )
    now = datetime.now(UTC)
    return live_page(
        "inbox/found.html",
        person=caller.person,
        here=query_of_list(request),
        view=view,
        is_admin=caller.is_admin,
        # The search has left out what this person may not see. That is checked here too, as for a question's page.
        rows=[_row(each, caller.person.id, now) for each in found.items if caller.may_see(each)],
        more=view.address(after=found.next) if found.next else None,
        first=view.address() if view.after else None,
    )


def _row(question: Question, me: str, now: datetime) -> QuestionRow:
    asked = local_time(question.asked_at)
    text = f"{asked:%H:%M}" if asked.date() == local_time(now).date() else f"{asked:%Y-%m-%d}"
    return question_row(
        question, me=me, at=When(asked.isoformat(), text, moment_text(asked)), longest=_EXCERPT
    )
