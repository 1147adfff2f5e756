"""Settled questions, newest first: who answered what, when and how, and which ended without an answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import groupby
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.model.outcomes import Exhausted, Expired, Outcome
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.ports.desk import Page
from handraise.presentation.markdown import one_line
from handraise.presentation.outcome_text import outcome_details
from handraise.presentation.report_text import report_title, shortened_line
from handraise.presentation.times import day_in_words, moment_text, span
from handraise.presentation.translation import local_time
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.agent_text import mixes_alphabets
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.executed_view import Executed, executed_of
from handraise.server.web.inbox.page_texts import When, outcome_in_words
from handraise.server.web.inbox.question_kind import kind_in_words
from handraise.server.web.inbox.search import SEARCHED_AT_ONCE, ViewDep, find, offers_of, part_of
from handraise.server.web.inbox.settled_filters import FiltersDep, outcome_offers, person_offers
from handraise.server.web.inbox.status_view import status_name
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_EXCERPT = 180
_LONGEST_SAID = 200
_PEOPLE = 100
"""How many people of the directory the filter offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One settled question. Everything in it may be shown as it is."""

    id: str
    href: str
    asker: str
    asker_mixed: bool
    text: str
    what: str
    how: str
    """How it ended, in our words."""
    said: str | None
    """What was answered, or why it was not."""
    report: tuple[str, str] | None
    """Whether it worked, in our words, and what the agent says came of it."""
    executed: Executed | None
    """The action that was approved, and whether the agent took it to execute it."""
    badge: str | None
    """A label for questions that ended without an answer, or whose answer led to a failure."""
    at: When
    took: str
    conversation: str | None


@dataclass(frozen=True, slots=True)
class Day:
    """What ended on one day."""

    name: str
    iso: str
    rows: tuple[Ended, ...]


@pages.get("/settled")
async def show_settled(
    request: Request, ctx: Context, caller: CurrentPerson, view: ViewDep, filters: FiltersDep
) -> Response:
    """This person's settled questions; an administrator may see those of the whole workspace."""
    desk, recipient = desk_of(ctx, caller), None if view.everything else caller.person.responder
    view, wanted = replace(view, extra=filters.pairs), filters.wanted

    async def read(after: str | None) -> Page[Question]:
        try:
            return await desk.list_settled(
                conversation=view.conversation or None,
                asker=view.agent or None,
                recipient=recipient,
                since=wanted.since,
                until=wanted.until,
                outcome=wanted.outcome,
                by=wanted.by,
                after=after,
                limit=SEARCHED_AT_ONCE,
            )
        except ValueError:
            return Page([], None)  # the address continues from a place at which no page ended

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
        people=person_offers(people, [*found.items, *others], filters.by, me=caller.person.id),
        days_shown=filters.days(today),
        today=today.isoformat(),
        is_admin=caller.is_admin,
        days=_days(part.items, me=caller.person.id, today=today),
        zone=local_time(datetime.now(UTC)).tzname(),
    )


def _days(questions: Iterable[Question], *, me: str, today: date) -> list[Day]:
    ended = [(each, each.outcome) for each in questions if each.outcome is not None]
    return [
        Day(day_in_words(day, today), day.isoformat(), tuple(_row(each, how, me) for each, how in some))
        for day, some in groupby(ended, key=lambda pair: local_time(pair[1].at).date())
    ]


def _row(question: Question, outcome: Outcome, me: str) -> Ended:
    at = local_time(outcome.at)
    return Ended(
        id=question.id,
        href=f"/questions/{quote(question.id, safe='')}",
        asker=visible_line(question.asker),
        asker_mixed=mixes_alphabets(question.asker),
        text=one_line(question.prompt, _EXCERPT),
        what=kind_in_words(question.form),
        how=outcome_in_words(question, me),
        said=_said(question),
        report=_report(question),
        executed=executed_of(question),
        badge=_badge(question, outcome),
        at=When(at.isoformat(), f"{at:%H:%M}", moment_text(at)),
        took=span(outcome.at - question.asked_at),
        conversation=None if question.conversation is None else visible_line(question.conversation),
    )


def _badge(question: Question, outcome: Outcome) -> str | None:
    if isinstance(outcome, (Expired, Exhausted)):
        return status_name(outcome.status.value)
    return report_title(ok=False) if question.report is not None and not question.report.ok else None


def _report(question: Question) -> tuple[str, str] | None:
    report = question.report
    if report is None:
        return None
    return report_title(ok=report.ok), shortened_line(report.text, _LONGEST_SAID)


def _said(question: Question) -> str | None:
    text = "; ".join(map(str, outcome_details(question)))
    return shortened_line(text, _LONGEST_SAID) if text else None
