"""The queue: what a person may answer, most urgent first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from fastapi import APIRouter
from starlette.responses import Response

from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice, Open
from handraise.model.people import may_respond
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.ports.desk import Page
from handraise.server.callers import PersonCaller, TheHouse, ThePerson
from handraise.server.inbox.searching import AT_ONCE, TheView, find, offers_of, part_of
from handraise.server.inbox.texts import excerpt, mixes_alphabets
from handraise.server.inbox.wording import When, since, span, when
from handraise.server.pages import PageRoute, live_page
from handraise.server.questions import desk_of

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

SOON = timedelta(hours=1)
"""What expires within this time is urgent."""
_EXCERPT = 180
_RISKS = ("high", "medium", "low")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One waiting question. Everything in it may be shown as it is."""

    id: str
    href: str
    asker: str
    asker_mixed: bool
    text: str
    what: str
    approval: bool
    risky: bool
    escalated: bool
    soon: bool
    asked: When
    waited: str
    expires: When | None
    conversation: str | None
    mine: bool


@pages.get("/")
async def show_queue(house: TheHouse, caller: ThePerson, view: TheView) -> Response:
    """What waits for this person; for an administrator, everything in the workspace on request."""
    desk, recipient = desk_of(house, caller), None if view.everything else caller.person.responder

    async def read(after: str | None) -> Page:
        return await desk.pending(
            conversation=view.conversation or None,
            asker=view.agent or None,
            recipient=recipient,
            after=after,
            limit=AT_ONCE,
        )

    now = datetime.now(UTC)
    found = await find(read, view)
    part = part_of(view, found, sorted(found.questions, key=lambda question: _urgency(question, now)))
    # What a filter leaves out is still there to be chosen instead.
    others = (await desk.pending(recipient=recipient, limit=AT_ONCE)).questions if view.is_narrowed else ()
    return live_page(
        "inbox/queue.html",
        person=caller.person,
        view=view,
        part=part,
        offers=offers_of(view, [*found.questions, *others], me=caller.person.id),
        is_admin=caller.is_admin,
        rows=[_row(question, caller, now) for question in part.questions],
        at_once=AT_ONCE,
        base_url=house.settings.base_url,
    )


def is_escalated(question: Question) -> bool:
    """Whether it was put before others because nobody answered."""
    return any(step.do == "escalate" for step in question.steps[: question.steps_taken])


def is_soon(question: Question, now: datetime) -> bool:
    """Whether its time is nearly over."""
    return question.expires_at is not None and question.expires_at - now <= SOON


def kind_in_words(form: AnyForm) -> str:
    """What a person is asked to do."""
    match form:
        case Approval():
            return f"Approve {excerpt(form.action.tool, 60)}"
        case Choice():
            return f"Choose one of {len(form.options)}"
        case MultiChoice():
            return f"Choose among {len(form.options)}"
        case Confirm():
            return "Yes or no"
        case Form():
            return "1 field" if len(form.fields) == 1 else f"{len(form.fields)} fields"
        case Open():
            return "Write an answer"


def _urgency(question: Question, now: datetime) -> tuple[bool, bool, datetime, int, datetime]:
    soon = is_soon(question, now)
    end = question.expires_at if soon and question.expires_at is not None else now
    risk = question.risk
    return (
        not is_escalated(question),
        not soon,
        end,
        len(_RISKS) if risk is None else _RISKS.index(risk),
        question.asked_at,
    )


def _row(question: Question, caller: PersonCaller, now: datetime) -> Row:
    return Row(
        id=question.id,
        href=f"/questions/{quote(question.id, safe='')}",
        asker=visible_line(question.asker),
        asker_mixed=mixes_alphabets(question.asker),
        text=excerpt(question.prompt, _EXCERPT),
        what=kind_in_words(question.form),
        approval=isinstance(question.form, Approval),
        risky=question.risk == "high",
        escalated=is_escalated(question),
        soon=is_soon(question, now),
        asked=since(question.asked_at, now),
        waited=span(now - question.asked_at),
        expires=None if question.expires_at is None else when(question.expires_at, now),
        conversation=None if question.conversation is None else visible_line(question.conversation),
        mine=may_respond(question, caller.person.responder),
    )
