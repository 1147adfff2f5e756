"""The page of standing answers: what people keep for a topic, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from handraise.model.outcomes import Answered
from handraise.model.questions import Question, Ref
from handraise.model.standing_answers import StandingAnswer
from handraise.model.visible import visible_line
from handraise.presentation.names import person_name
from handraise.presentation.outcome_text import ending_details
from handraise.presentation.translation import gettext
from handraise.server.api.question_routes import desk_of
from handraise.server.api.standing_answer_routes import StandingId, revoke_standing_answer
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.page_texts import When, when
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_AT_ONCE = 500
_MOST_PAGES = 40
"""How many pages are read to find the newest; more would keep people waiting."""
_MOST_SHOWN = 200
_SHOWN_AFTER = timedelta(days=30)
"""For how long one that has ended is still shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAnswer:
    """A standing answer on the page. Everything in it may be shown as it is."""

    id: str
    href: str
    topic: str
    prompt: str
    answer: Sequence[str]
    by: str
    ends: When
    ended: str | None
    contradicted: str | None


@pages.get("/standing-answers")
async def show_standing_answers(ctx: Context, caller: CurrentPerson) -> Response:
    """Show the standing answers of this person; an administrator sees all of them."""
    found, has_more = await _shown_newest(ctx, caller, lambda _: True)
    return live_page(
        "inbox/standing_answers.html",
        person=caller.person,
        is_admin=caller.is_admin,
        standing=[each for each in found if each.ended is None],
        ended=[each for each in found if each.ended is not None],
        left_off=has_more,
    )


@pages.post("/standing-answers/{standing_id}/revoke")
async def revoke_here(ctx: Context, caller: CurrentPerson, standing_id: StandingId) -> Response:
    """End a standing answer of yours; for administrators, any of them."""
    await revoke_standing_answer(ctx, caller, standing_id)
    return RedirectResponse("/standing-answers", 303)


async def shown_answers(
    ctx: ServerContext, caller: PersonCaller, wanted: Callable[[StandingAnswer], bool] = lambda _: True
) -> list[ShownAnswer]:
    """The newest standing answers that this person may see, of those that are wanted."""
    return (await _shown_newest(ctx, caller, wanted))[0]


async def _shown_newest(
    ctx: ServerContext, caller: PersonCaller, wanted: Callable[[StandingAnswer], bool]
) -> tuple[list[ShownAnswer], bool]:
    """The newest of those that are wanted, and whether there are more."""
    now = datetime.now(UTC)
    newest, was_all_read = await _newest(ctx, caller, wanted, now)
    kept = newest[:_MOST_SHOWN]
    questions = await ctx.store.read([Ref(caller.workspace, each.question_id) for each in kept])
    pairs = zip(kept, questions, strict=True)
    shown = [_shown(each, question, caller.person.id, now) for each, question in pairs]
    return shown, len(newest) > len(kept) or not was_all_read


async def _newest(
    ctx: ServerContext, caller: PersonCaller, wanted: Callable[[StandingAnswer], bool], now: datetime
) -> tuple[list[StandingAnswer], bool]:
    """Those that hold, and those that ended lately, the newest first: one more than are shown; and whether all were read."""
    desk, found = desk_of(ctx, caller), list[StandingAnswer]()
    after: str | None = None
    for _ in range(_MOST_PAGES):
        page = await desk.list_standing_answers(after=after, limit=_AT_ONCE)
        found += (
            each
            for each in page
            if (caller.is_admin or each.given_by == caller.person.id)
            and wanted(each)
            and (each.revoked_at or each.expires_at) > now - _SHOWN_AFTER
        )
        found = sorted(found, key=lambda each: each.created_at, reverse=True)[: _MOST_SHOWN + 1]
        if (after := page.next) is None:
            return found, True
    return found, False


def _shown(standing: StandingAnswer, question: Question | None, viewer: str, now: datetime) -> ShownAnswer:
    given = Answered(value=standing.value, at=standing.created_at, by=standing.given_by)
    details = ending_details(given, None if question is None else question.form)
    other = standing.contradicted_in
    return ShownAnswer(
        id=quote(standing.id, safe=""),
        href=f"/questions/{quote(standing.question_id, safe='')}",
        topic=visible_line(standing.topic),
        prompt="" if question is None else visible_line(question.prompt),
        answer=tuple(map(str, details)),
        by=person_name(standing.given_by, viewer=viewer),
        ends=when(standing.revoked_at or standing.expires_at, now),
        ended=None if standing.holds(now) else _ended(standing, viewer),
        contradicted=None if other is None else f"/questions/{quote(other, safe='')}",
    )


def _ended(standing: StandingAnswer, viewer: str) -> str:
    if standing.revoked_at is None:
        return gettext("Its time is over")
    person = person_name(standing.revoked_by or "", viewer=viewer)
    if standing.contradicted_in is not None:
        return gettext("Ended, because a spot check was answered differently by {person}").format(
            person=person
        )
    return gettext("Revoked by {person}").format(person=person)
