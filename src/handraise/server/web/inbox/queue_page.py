"""The queue: the questions that a person may answer, most urgent first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.desk.everybody import active_groups
from handraise.desk.local_desk import LocalDesk
from handraise.desk.rule_suspensions import suspended_rules_for
from handraise.model.agreement import (
    can_still_agree,
    has_voted,
    most_agreeing,
    outdated_approvals,
)
from handraise.model.forms import Approval
from handraise.model.lookalike_names import mixes_alphabets
from handraise.model.people import Responder, may_respond
from handraise.model.questions import Question
from handraise.model.urgency import ASKERS_TURN, folded, is_escalated, is_soon
from handraise.model.visible import visible_line
from handraise.ports import Waiting, WaitingPage
from handraise.ports.desk import Page
from handraise.presentation.away_text import rota_text
from handraise.presentation.markdown import one_line
from handraise.presentation.suspension_text import suspension_line
from handraise.presentation.translation import gettext
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.rota_refresh import warnings_of
from handraise.server.web.inbox.away_view import own_absence
from handraise.server.web.inbox.back_links import address_of_list, query_of_list
from handraise.server.web.inbox.done_view import done_with
from handraise.server.web.inbox.handed_over import handed_over
from handraise.server.web.inbox.name_links import agent_href, conversation_href_of
from handraise.server.web.inbox.page_texts import When, age_of, end_at, waited_since
from handraise.server.web.inbox.question_html import AnswerContext
from handraise.server.web.inbox.question_kind import kind_in_words
from handraise.server.web.inbox.quick_answers import QuickAnswer, kind_of, quick_answer_of, why_alone
from handraise.server.web.inbox.saved_view_pages import saved_bar
from handraise.server.web.inbox.search import (
    AT_ONCE,
    ON_A_PAGE,
    READS,
    SEARCHED_AT_ONCE,
    Found,
    View,
    ViewDep,
    find,
    offers_of,
    part_of,
)
from handraise.server.web.inbox.sharing_view import taken_text
from handraise.server.web.inbox.stops_page import stop_views
from handraise.server.web.inbox.view_bar import filters_of, order_of, view_bar
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_EXCERPT = 180
_SHOWN = 10
"""How many of a row's equal questions are listed below it."""
_UNFOLDED = 5
"""How many rows have such a list; the others only link to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualQuestions:
    """The questions equal to the one in a row: how many, some of them, and a link to all."""

    number: int
    shown: tuple[tuple[str, When], ...]
    all: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One waiting question. Everything in it may be shown as it is."""

    id: str
    href: str
    asker: str
    asker_href: str
    asker_mixed: bool
    text: str
    what: str
    approval: bool
    risky: bool
    escalated: bool
    soon: bool
    waited: When
    age: When
    expires: When | None
    conversation: str | None
    conversation_href: str | None
    mine: bool
    voted: bool
    votes: str | None
    """How many agree, if several people must."""
    stuck: bool
    """Whether agreement is no longer possible, unless somebody changes a vote."""
    agents_turn: bool
    """Whether people wait for the agent's reply."""
    taken: str | None = None
    """Who is on it, in a sentence."""
    handed: str | None = None
    """Whom this person handed it over to, in a sentence."""
    is_orphaned: bool = False
    """Whether nobody waits for the answer any more."""
    equal: EqualQuestions | None = None
    quick: QuickAnswer | None = None
    """The buttons that answer it here, if the row shows all of it."""
    can_tick: bool = False
    """Whether it can be answered together with others."""
    like: int = 0
    """How many others on this page are of its kind (the same agent, tool and form), if it is the first of them."""


@dataclass(frozen=True, slots=True)
class SuspensionView:
    """A suspended rule, with the link to the question that was denied if this person may see it."""

    text: str
    question: str | None


@pages.get("/")
async def show_queue(request: Request, ctx: Context, caller: CurrentPerson, view: ViewDep) -> Response:
    """The questions that wait for this person; an administrator may see those of the whole workspace."""
    desk, now = desk_of(ctx, caller), datetime.now(UTC)
    places, found, agents_turn = await rows_of(desk, caller, view)
    part = part_of(view, found)
    questions = await _read(desk, part.items)
    # Values that the filter leaves out can still be chosen.
    others = (
        (await desk.by_urgency(recipient=_recipient(view, caller), limit=AT_ONCE)).places
        if view.is_narrowed
        else ()
    )
    several = any(question.takes_votes for question in questions.values())
    groups = await active_groups(ctx.directory, caller.workspace) if several else {}
    questions = {each.id: await _as_votes_stand(desk, each) for each in questions.values()}
    stops = await ctx.policies.stops(caller.workspace)
    context = AnswerContext(
        desk=desk,
        person=caller.person,
        here="/",
        directory=ctx.directory,
        policies=ctx.policies,
        evidence=caller.session.evidence,
    )
    kinds = {ids[0]: kind_of(questions[ids[0]]) for ids in part.items if ids[0] in questions}
    handed = await handed_over(ctx, [*questions.values()], caller.person.id, now)
    counts, firsts = Counter(kinds.values()), {kind: each for each, kind in reversed(kinds.items())}
    return live_page(
        "inbox/queue.html",
        person=caller.person,
        here=query_of_list(request),
        address=address_of_list(request),
        view=view,
        part=part,
        number=sum(len(ids) for ids in found.items if ids[0] not in agents_turn),
        offers=offers_of(view, [*questions.values()], me=caller.person.id, others=[*places, *others]),
        is_admin=caller.is_admin,
        bar=view_bar(
            view,
            None if view.everything else await desk.count_views(caller.person.responder),
            questions.values(),
        ),
        saved=await saved_bar(ctx, caller, view),
        rotas=await _rota_warnings(ctx, caller),
        away=await own_absence(ctx.directory, caller.person, now),
        suspended=await _suspended(ctx, caller),
        stops=stop_views(stops, caller.person.id),
        done=await done_with(ctx, caller, request.query_params.get("done"), query_of_list(request)),
        rows=[
            replace(
                _row(questions[ids[0]], caller, groups, now),
                handed=handed.get(ids[0]),
                equal=_equal_questions(ids, questions, view, now),
                quick=quick_answer_of(questions[ids[0]], caller, context, stops) if len(ids) == 1 else None,
                can_tick=why_alone(questions[ids[0]], caller, stops) is None,
                like=counts[kinds[ids[0]]] - 1 if firsts[kinds[ids[0]]] == ids[0] else 0,
            )
            for ids in part.items
            if ids[0] in questions
        ],
        base_url=ctx.settings.base_url,
    )


def _recipient(view: View, caller: PersonCaller) -> Responder | None:
    return None if view.everything else caller.person.responder


async def rows_of(
    desk: LocalDesk, caller: PersonCaller, view: View
) -> tuple[Sequence[Waiting], Found[tuple[str, ...]], set[str]]:
    """The rows of a list, each with the ids of its equal questions; and which of them wait for their agent."""
    where: dict[str, Any] = {
        "conversation": view.conversation or None,
        "asker": view.agent or None,
        "recipient": _recipient(view, caller),
        "filters": filters_of(view),
        "order": order_of(view),
    }

    async def read(after: str | None) -> Page[Question]:
        try:
            return await desk.list_pending(after=after, limit=SEARCHED_AT_ONCE, **where)
        except ValueError:
            return Page([], None)  # the address continues from a place at which no page ended

    if view.is_search:
        searched = await find(read, view)
        one_by_one: tuple[tuple[str, ...], ...] = tuple((each.id,) for each in searched.items)
        agents_turn = {each.id for each in searched.items if each.is_askers_turn}
        return (), Found(one_by_one, searched.looked, searched.after), agents_turn
    places, found = await _look(partial(desk.by_urgency, limit=AT_ONCE, **where), view)
    return places, found, {each.id for each in places if each.urgency >= ASKERS_TURN}


async def _rota_warnings(ctx: ServerContext, caller: PersonCaller) -> list[str]:
    """What an administrator must know about the rotas of groups."""
    if not caller.is_admin:
        return []
    found = warnings_of(await ctx.directory.calendars(caller.workspace))
    return [rota_text(group, problem) for group, problem in found]


async def _suspended(ctx: ServerContext, caller: PersonCaller) -> list[SuspensionView]:
    """The suspended rules that this person is told of."""
    me = caller.person.id
    found = await suspended_rules_for(ctx.policies, caller.workspace, me, is_admin=caller.is_admin)
    return [
        SuspensionView(
            suspension_line(rule.name, rule.suspension, viewer=me, is_author=is_author),
            f"/questions/{quote(rule.suspension.question_id, safe='')}" if caller.is_admin else None,
        )
        for rule, is_author in found
    ]


async def _look(
    read: Callable[..., Awaitable[WaitingPage]], view: View
) -> tuple[Sequence[Waiting], Found[tuple[str, ...]]]:
    """The places of questions: until a page is full of rows, the list ends, or one look has read enough.

    Only places are read, however many questions are equal. The questions on the page are read later.
    """
    places: list[Waiting] = []
    rows: list[tuple[str, ...]] = []
    after = view.after or None
    for _ in range(READS):
        try:
            page = await read(after=after)
        except ValueError:
            page = WaitingPage([], None)  # the address continues from a place at which no page ended
        places += page.places
        rows = folded((each.id, None if view.each else _likeness(each)) for each in places)
        after = page.after
        if after is None or len(rows) >= ON_A_PAGE:
            break
    return places, Found(tuple(rows), len(places), after)


def _likeness(place: Waiting) -> tuple[int, bool] | None:
    """What equal questions share. One that waits for its agent is not in a row with those that wait for people."""
    return None if place.likeness is None else (place.likeness, place.urgency >= ASKERS_TURN)


async def _read(desk: LocalDesk, rows: Sequence[tuple[str, ...]]) -> dict[str, Question]:
    """The questions of these rows, and some of those that are equal to one of them."""
    equal = [ids for ids in rows if len(ids) > 1][:_UNFOLDED]
    wanted = [ids[0] for ids in rows] + [each for ids in equal for each in ids[1 : _SHOWN + 1]]
    return {each.id: each for each in await desk.still_pending(wanted)}


async def _as_votes_stand(desk: LocalDesk, question: Question) -> Question:
    """The question without the votes that do not count any more, because its agent has replied since."""
    if not (question.replied and question.votes):
        return question
    outdated = outdated_approvals(question, await desk.history(question.id))
    return replace(question, votes=tuple(vote for vote in question.votes if vote.by not in outdated))


def _equal_questions(
    ids: Sequence[str], questions: Mapping[str, Question], view: View, now: datetime
) -> EqualQuestions | None:
    if len(ids) == 1:
        return None
    head = questions[ids[0]]
    shown = [questions[each] for each in ids[1 : _SHOWN + 1] if each in questions]
    return EqualQuestions(
        number=len(ids) - 1,
        shown=tuple((_href(each.id), waited_since(each.asked_at, now)) for each in shown),
        all=view.address(agent=head.asker, each=True),
    )


def _href(question_id: str) -> str:
    return f"/questions/{quote(question_id, safe='')}"


def _votes(question: Question) -> str:
    return gettext("{count} of {quorum} agree").format(count=most_agreeing(question), quorum=question.quorum)


def _row(
    question: Question, caller: PersonCaller, groups: Mapping[str, Collection[str]], now: datetime
) -> Row:
    several = question.takes_votes
    return Row(
        id=question.id,
        href=_href(question.id),
        asker=visible_line(question.asker),
        asker_href=agent_href(question.asker),
        asker_mixed=mixes_alphabets(question.asker),
        text=one_line(question.prompt, _EXCERPT),
        what=kind_in_words(question.form),
        approval=isinstance(question.form, Approval),
        risky=question.risk == "high",
        escalated=is_escalated(question),
        soon=is_soon(question, now),
        waited=waited_since(question.asked_at, now),
        age=age_of(question.asked_at, now),
        expires=None if question.expires_at is None else end_at(question.expires_at, now),
        conversation=None if question.conversation is None else visible_line(question.conversation),
        conversation_href=conversation_href_of(question),
        mine=may_respond(question, caller.person.responder),
        voted=has_voted(question, caller.person.id),
        votes=_votes(question) if question.quorum > 1 else None,
        stuck=several and not can_still_agree(question, groups),
        agents_turn=question.is_askers_turn,
        taken=taken_text(question, caller.person.id, now),
        is_orphaned=question.is_orphaned(now),
    )
