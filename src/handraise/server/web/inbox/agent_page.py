"""One agent: what it asks, how it is answered, whether it is alive, what applies to it, and a switch to stop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from handraise.model.errors import NotFound
from handraise.model.forms import Approval
from handraise.model.lookalike_names import mixes_alphabets
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.form_text import kind_text
from handraise.presentation.translation import gettext
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.active_grants import active_grants
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.name_links import tool_href
from handraise.server.web.inbox.naming_rules import naming_rules
from handraise.server.web.inbox.page_texts import When, since
from handraise.server.web.inbox.question_figures import Count, counts_of, figures_of
from handraise.server.web.inbox.question_rows import failed_rows, list_address, newest_rows
from handraise.server.web.inbox.recent_questions import recent_questions
from handraise.server.web.inbox.standing_answers_page import shown_answers
from handraise.server.web.inbox.stops_page import stop_views
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

Name = Annotated[str, Query(max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Whether an agent is alive, as far as its questions tell."""

    heard: When | None
    """When it last asked, reported or said that it still waits."""
    awaited: int
    """For how many pending questions somebody waits."""
    orphaned: int
    """For how many pending questions nobody waits any more."""
    unknown: int
    """For how many pending questions that is not known."""


@pages.get("/agent")
async def show_agent(request: Request, ctx: Context, caller: CurrentPerson, name: Name = "") -> Response:
    """What this person may see of an agent; an administrator sees everything, and can stop it."""
    if not name:
        raise NotFound("There is no such agent here.")
    now, me = datetime.now(UTC), caller.person.id
    recipient = None if caller.is_admin else caller.person.responder
    found = await recent_questions(desk_of(ctx, caller), recipient, now, asker=name)
    stops = [
        each
        for each in await ctx.policies.stops(caller.workspace)
        if each.agent == name or (each.agent is None and each.tool is None)
    ]
    current = await ctx.policies.current(caller.workspace) if caller.is_admin else None
    given = {
        (each.topic, each.outcome.by)
        for each in found.settled
        if isinstance(each.outcome, Answered) and each.outcome.source == "standing"
    }
    return live_page(
        "inbox/agent.html",
        person=caller.person,
        is_admin=caller.is_admin,
        here=query_of_list(request),
        raw_name=name,
        name=visible_line(name),
        mixed=mixes_alphabets(name),
        presence=presence_of(found.all, now),
        figures=figures_of(found.settled),
        is_cut=found.is_cut,
        kinds=counts_of(Count(_kind(each), 1, 0) for each in found.all),
        tools=counts_of(
            Count(
                visible_line(each.form.action.tool),
                1,
                0,
                tool_href(each.form.action.tool),
                mixed=mixes_alphabets(each.form.action.tool),
            )
            for each in found.all
            if isinstance(each.form, Approval)
        ),
        waiting=newest_rows(found.pending, me, now),
        ended=newest_rows(found.settled, me, now),
        failures=failed_rows(found.settled, me, now),
        all_waiting=list_address("/", caller, agent=name),
        all_settled=list_address("/settled", caller, agent=name),
        grants=await active_grants(ctx, caller, asker=name),
        standing=await shown_answers(ctx, caller, lambda each: (each.topic, each.given_by) in given)
        if given
        else (),
        rules=naming_rules(current, name),
        stops=stop_views(stops, me),
        may_stop=caller.is_admin and not any(each.agent == name and each.tool is None for each in stops),
    )


def presence_of(questions: Sequence[Question], now: datetime) -> Presence:
    """Whether an agent is alive, as far as these questions of it tell."""
    heard = [
        at
        for each in questions
        for at in (
            each.asked_at,
            each.heard_at,
            each.consumed_at,
            None if each.report is None else each.report.at,
        )
        if at is not None
    ]
    pending = [each for each in questions if each.outcome is None]
    orphaned = sum(each.is_orphaned(now) for each in pending)
    known = sum(each.heartbeat is not None for each in pending)
    return Presence(
        heard=since(max(heard), now) if heard else None,
        awaited=known - orphaned,
        orphaned=orphaned,
        unknown=len(pending) - known,
    )


def _kind(question: Question) -> str:
    return gettext("Approvals") if isinstance(question.form, Approval) else kind_text(question.form)
