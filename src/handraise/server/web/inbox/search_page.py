"""The results of a search: pending and settled questions with these words, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.markdown import one_line
from handraise.presentation.outcome_text import outcome_details
from handraise.presentation.report_text import shortened_line
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext, local_time
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.agent_text import mixes_alphabets
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.page_texts import When, outcome_in_words
from handraise.server.web.inbox.question_kind import kind_in_words
from handraise.server.web.inbox.search import ON_A_PAGE, ViewDep
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_EXCERPT = 240
_LONGEST_SAID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """One question that was found. Everything in it may be shown as it is."""

    id: str
    href: str
    asker: str
    asker_mixed: bool
    text: str
    what: str
    is_pending: bool
    how: str
    said: str | None
    at: When
    conversation: str | None


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


def _row(question: Question, me: str, now: datetime) -> FoundRow:
    asked = local_time(question.asked_at)
    said = "; ".join(map(str, outcome_details(question))) if question.outcome is not None else ""
    same_day = asked.date() == local_time(now).date()
    return FoundRow(
        id=question.id,
        href=f"/questions/{quote(question.id, safe='')}",
        asker=visible_line(question.asker),
        asker_mixed=mixes_alphabets(question.asker),
        text=one_line(question.prompt, _EXCERPT),
        what=kind_in_words(question.form),
        is_pending=question.outcome is None,
        how=gettext("Waiting") if question.outcome is None else outcome_in_words(question, me),
        said=shortened_line(said, _LONGEST_SAID) if said else None,
        at=When(asked.isoformat(), f"{asked:%H:%M}" if same_day else f"{asked:%Y-%m-%d}", moment_text(asked)),
        conversation=None if question.conversation is None else visible_line(question.conversation),
    )
