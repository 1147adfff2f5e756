"""How a workspace answers: how soon, who, through which channel, and what nobody answered. For administrators."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from handraise.model.questions import Question, Ref
from handraise.presentation.markdown import one_line
from handraise.presentation.report_text import shortened_line
from handraise.presentation.translation import gettext
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.context import ServerContext
from handraise.server.web.inbox.insights_csv import csv_lines
from handraise.server.web.inbox.insights_panels import answered_by_people, approvals_by_people, panels
from handraise.server.web.inbox.insights_period import SPANS, period_of
from handraise.server.web.inbox.insights_rankings import most_seen, shown_name
from handraise.server.web.inbox.insights_tiles import tiles
from handraise.server.web.inbox.page_texts import When, since, when
from handraise.server.web.inbox.settled_filters import risk_offers
from handraise.server.web.pages import PageRoute, live_page, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_EXCERPT = 120
_FAILURES = 5
"""So many that failed are shown; the others are a link away."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An action that was approved and failed. Everything in it may be shown as it is."""

    href: str
    asker: str
    text: str
    report: str
    at: When


@pages.get("/insights")
async def show_insights(request: Request, ctx: Context, caller: CurrentPerson) -> Response:
    """The figures of the last day, week or month."""
    if not caller.is_admin:
        return _for_administrators()
    period = await period_of(request, ctx.store, caller.workspace)
    queue_stats = await ctx.store.queue_stats(caller.workspace)
    failed = [Ref(caller.workspace, each.id) for each in period.endings if each.failed_after_approval]
    seen = most_seen(answered_by_people(period)) + most_seen(approvals_by_people(period))
    names = await _names(ctx, caller.workspace, seen)
    return live_page(
        "inbox/insights.html",
        person=caller.person,
        period=period,
        spans=SPANS,
        risks=risk_offers(),
        since=when(period.starts[0], period.now),
        cut=when(period.cut, period.now) if period.cut else None,
        tiles=tiles(period, queue_stats.pending),
        failed=len(failed),
        failures=[_failure(each, period.now) for each in await ctx.store.read(failed[:_FAILURES]) if each],
        panels=panels(period, queue_stats.pending, names),
    )


@pages.get("/insights.csv")
async def download_insights(request: Request, ctx: Context, caller: CurrentPerson) -> Response:
    """What the figures count, one line for each question."""
    if not caller.is_admin:
        return _for_administrators()
    period = await period_of(request, ctx.store, caller.workspace)
    name = f"handraise-{period.span.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.csv"
    return StreamingResponse(
        csv_lines(period.endings),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


def _for_administrators() -> Response:
    return message(
        gettext("This page is for administrators"),
        gettext(
            "It counts how the people of the whole workspace answer. What you may answer is in your inbox."
        ),
        status=403,
        lead=("/", gettext("Back to what waits")),
    )


async def _names(ctx: ServerContext, workspace: str, ids: list[str]) -> dict[str, str]:
    """The names of people in the directory; with their ids if two have the same name."""
    found = await asyncio.gather(*(ctx.directory.find_person(workspace, each) for each in dict.fromkeys(ids)))
    names = {each.id: each.name for each in found if each is not None}
    counts = Counter(names.values())
    return {each: name if counts[name] == 1 else f"{name} ({each})" for each, name in names.items()}


def _failure(question: Question, now: datetime) -> Failure:
    report = question.report
    return Failure(
        href=f"/questions/{quote(question.id, safe='')}",
        asker=shown_name(question.asker),
        text=one_line(question.prompt, _EXCERPT),
        report="" if report is None else shortened_line(report.text, _EXCERPT),
        at=since(question.asked_at if report is None else report.at, now),
    )
