"""Answering several questions together: each is shown as its page shows it, and each gets its own recorded answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from handraise.model.bulk_answers import BulkAnswer, BulkItem
from handraise.model.errors import QuestionNotFound
from handraise.model.forms import Approval
from handraise.model.lookalike_names import mixes_alphabets
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.markdown import one_line
from handraise.presentation.one_press import QuickButton, buttons_of
from handraise.server.api.question_routes import desk_of, visible
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.back_links import back_of
from handraise.server.web.inbox.file_view import FilePlaces
from handraise.server.web.inbox.form_controls import Submitted, read_answer
from handraise.server.web.inbox.question_html import CHANNEL, AnswerContext, digest_shown, seen_html
from handraise.server.web.inbox.question_kind import kind_in_words
from handraise.server.web.inbox.question_page import submitted_in
from handraise.server.web.inbox.quick_answers import kind_of, why_alone
from handraise.server.web.inbox.status_view import status_name, verdict_of
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST = 50
"""How many questions are shown together: each of them must be read."""
_LOOKED_AT = 300
_EXCERPT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One question as its page shows it. Everything in it may be shown as it is."""

    id: str
    href: str
    text: str
    html: Markup
    digest: str
    """The digest of what is shown."""
    is_short: bool
    """Whether `text` is all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Questions that the same answers fit: those of one agent with one tool, or with the same form."""

    asker: str
    asker_mixed: bool
    what: str
    buttons: Sequence[QuickButton]
    is_approval: bool
    questions: Sequence[Shown]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A question that is not answered here: what it is about, and why or how it ended."""

    href: str
    text: str
    why: str


@pages.get("/together")
async def show_together(request: Request, ctx: Context, caller: CurrentPerson) -> Response:
    """Show several questions, with the buttons that answer those that are ticked."""
    found = await _questions(request, ctx, caller)
    stops = await ctx.policies.stops(caller.workspace)
    back = back_of(request, "")
    kinds: dict[tuple[str, str], list[Question]] = {}
    alone: list[LeftOut] = []
    done: list[LeftOut] = []
    for question in found:
        entry = (_href(question.id, back.query), one_line(question.prompt, _EXCERPT) or question.id)
        if question.outcome is not None:
            done.append(LeftOut(*entry, status_name(verdict_of(question))))
        elif why := why_alone(question, caller, stops):
            alone.append(LeftOut(*entry, why))
        else:
            kinds.setdefault(kind_of(question), []).append(question)
    return live_page(
        "inbox/together.html",
        person=caller.person,
        back=back,
        action=f"/together{back.query}",
        kinds=[_kind(request, ctx, caller, each, back.query) for each in kinds.values()],
        alone=alone,
        done=done,
        sent="sent" in request.query_params,
    )


@pages.post("/together")
async def answer_together(request: Request, ctx: Context, caller: CurrentPerson) -> Response:
    """Answer each question that is ticked, by itself and with what its person saw; then show what came of it."""
    submitted = await submitted_in(request)
    stops = await ctx.policies.stops(caller.workspace)
    ids = list(dict.fromkeys(submitted.get("id", ())))[:MOST]
    items: list[BulkItem] = []
    for question in await _readable(ctx, caller, ids):
        item = None
        if question.outcome is None and why_alone(question, caller, stops) is None:
            item = _answer(_context(request, ctx, caller, question), question, submitted)
        items += [] if item is None else [item]
    await desk_of(ctx, caller).answer_all(items, by=caller.person.responder)
    query = urlencode([("sent", "1"), *(("id", each) for each in ids)])
    given = back_of(request, "").query
    return RedirectResponse(f"/together{given}{'&' if given else '?'}{query}", 303)


def _answer(context: AnswerContext, question: Question, submitted: Submitted) -> BulkAnswer | None:
    """The answer to one of them; None if the page did not show it as it is, or the answer does not fit."""
    digest = digest_shown(context, question, None)
    if submitted.get(f"shown.{question.id}") != [digest]:
        return None
    chosen: dict[str, list[str]] = {
        name: list(values) for name, values in submitted.items() if name in ("v", "decision", "reason")
    }
    if isinstance(question.form, Approval):
        chosen["digest"] = [question.form.digest]
    reading = read_answer(question.form, chosen)
    if reading.problems:
        return None
    where = Provenance(channel=CHANNEL, evidence=context.evidence, shown_digest=digest, seen=0)
    return BulkAnswer(question.id, reading.value, where)


async def _questions(request: Request, ctx: ServerContext, caller: PersonCaller) -> Sequence[Question]:
    """The questions that the address names, or those of the same kind as one that it names."""
    like = request.query_params.get("like")
    if not like:
        return await _readable(ctx, caller, list(dict.fromkeys(request.query_params.getlist("id")))[:MOST])
    [*first] = await _readable(ctx, caller, [like])
    if not first or first[0].outcome is not None:
        return first
    desk = desk_of(ctx, caller)
    places = await desk.by_urgency(recipient=caller.person.responder, asker=first[0].asker, limit=_LOOKED_AT)
    others = await desk.still_pending([each.id for each in places.places])
    wanted = kind_of(first[0])
    return [*first, *(each for each in others if each.id != like and kind_of(each) == wanted)][:MOST]


async def _readable(ctx: ServerContext, caller: PersonCaller, ids: Sequence[str]) -> list[Question]:
    """Those of them that this person may see."""
    found: list[Question] = []
    for each in ids:
        try:
            found.append(await visible(ctx, caller, each))
        except QuestionNotFound:
            continue
    return found


def _kind(
    request: Request, ctx: ServerContext, caller: PersonCaller, questions: Sequence[Question], query: str
) -> Kind:
    first = questions[0]
    return Kind(
        asker=visible_line(first.asker),
        asker_mixed=mixes_alphabets(first.asker),
        what=kind_in_words(first.form),
        buttons=tuple(buttons_of(first.form)),
        is_approval=isinstance(first.form, Approval),
        questions=[_shown(_context(request, ctx, caller, each), each, query) for each in questions],
    )


def _shown(context: AnswerContext, question: Question, query: str) -> Shown:
    html = seen_html(context, question, with_fields=False)
    # What is there once on a page of its own is there many times here. Agents' tags and quotation marks are escaped, so
    # only ours are found.
    html = html.replace("<section ", '<div role="group" ').replace("</section>", "</div>")
    for name in ("id", "aria-labelledby"):
        html = html.replace(f'{name}="action-title"', f'{name}="action-{question.id}"')
    return Shown(
        id=question.id,
        href=_href(question.id, query),
        text=one_line(question.prompt, _EXCERPT) or visible_line(question.id),
        html=Markup(html),  # noqa: S704 -- our template, which escapes
        digest=digest_shown(context, question, None),
        is_short=one_line(question.prompt, _EXCERPT) == question.prompt
        and question.context is None
        and not question.attachments
        and not isinstance(question.form, Approval),
    )


def _context(request: Request, ctx: ServerContext, caller: PersonCaller, question: Question) -> AnswerContext:
    here = _href(question.id, "")
    more: dict[str, Any] = {"framed": False}
    return AnswerContext(
        desk=desk_of(ctx, caller),
        person=caller.person,
        here=here,
        directory=ctx.directory,
        policies=ctx.policies,
        evidence=caller.session.evidence,
        files=FilePlaces(here, request.app.state.image_encoder.is_available),
        shown=more,
    )


def _href(question_id: str, query: str) -> str:
    return f"/questions/{quote(question_id, safe='')}{query}"
