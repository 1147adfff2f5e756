"""What comes of the forms with which people share a question: take, release, bring in, hand over, set aside, put back.

And of the one with which an administrator closes a question that nobody waits for.
"""

from __future__ import annotations

from datetime import UTC, date, datetime

from starlette.responses import RedirectResponse, Response

from handraise.model.errors import AlreadySettled, AlreadyTaken, CannotShare, InvalidAnswer
from handraise.model.outcomes import Withdrawn
from handraise.model.problems import Problem
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.presentation.snooze_times import SNOOZES, morning_of, snooze_until
from handraise.presentation.translation import gettext, local_time
from handraise.server.web.inbox.form_controls import Submitted
from handraise.server.web.inbox.question_html import (
    AnswerContext,
    Submission,
    may_close,
    show,
)
from handraise.server.web.inbox.typed_names import PEOPLE_AT_ONCE, meant_by, names_of

_WITH_A_LINK = frozenset({"not for me", "put back"})
"""What is possible without a session: it concerns nobody but the person."""


async def share(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    """Do what the form says, then redirect; or show the page again, with why it is not possible."""
    do = submitted["do"][0]
    if not context.shares and do not in _WITH_A_LINK:
        return await show(context, question, status=403)
    try:
        await _do(context, question, do, submitted)
    except CannotShare as refused:
        return await show(context, question, Submission(submitted, refused.problems), status=422)
    except (AlreadyTaken, AlreadySettled):  # the page says who has it, or how it ended
        return await show(context, await context.desk.get(question.id), Submission(submitted), status=409)
    back = context.shown.get("back")
    if back is not None and submitted.get("then") == ["list"]:
        return RedirectResponse(back.href, 303)
    return RedirectResponse(context.then or context.here, 303)


async def close(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    """Withdraw a question that nobody waits for, as an administrator."""
    if question.outcome is None and not may_close(context, question, datetime.now(UTC)):
        return await show(context, question, Submission(submitted), status=403)
    try:
        await context.desk.withdraw(
            question.id,
            by=context.person.responder,
            reason=_first(submitted, "why").replace("\r\n", "\n") or None,
        )
    except InvalidAnswer as misfit:
        return await show(context, question, Submission(submitted, misfit.problems), status=422)
    except AlreadySettled as settled:
        if not (isinstance(settled.outcome, Withdrawn) and settled.outcome.by == context.person.id):
            question = await context.desk.get(question.id)
            return await show(context, question, Submission(submitted), status=409)
    return RedirectResponse(context.here, 303)


async def _do(context: AnswerContext, question: Question, do: str, submitted: Submitted) -> None:
    desk, by = context.desk, context.person.responder
    where = Provenance(channel=context.channel, evidence=context.evidence, details=context.details)
    match do:
        case "take":
            await desk.take(question.id, by=by, provenance=where)
        case "release":
            await desk.release(question.id, by=by, provenance=where)
        case "not for me":
            await desk.set_aside(question.id, by=by, provenance=where)
        case "snooze":
            until = _until_in(submitted)
            await desk.set_aside(question.id, by=by, until=until, provenance=where)
        case "put back":
            await desk.put_back(question.id, by=by, provenance=where)
        case _:
            call = desk.hand_over if do == "hand over" else desk.bring_in
            people = await _people_in(context, question, submitted)
            reason = _first(submitted, "reason").replace("\r\n", "\n") or None
            await call(question.id, people, by=by, reason=reason, provenance=where)


def _first(submitted: Submitted, name: str) -> str:
    return next(iter(submitted.get(name, ())), "").strip()


def _until_in(submitted: Submitted) -> datetime:
    """Until when the person snoozes; a day begins at 9:00 on their clock."""
    now, chosen = datetime.now(UTC), _first(submitted, "until")
    for name in SNOOZES:
        if chosen == name:
            return snooze_until(name, now)
    try:
        day = date.fromisoformat(_first(submitted, "day"))
    except ValueError:
        raise CannotShare([Problem("until", gettext("choose a day"))]) from None
    if day <= local_time(now).date():
        raise CannotShare([Problem("until", gettext("choose a day after today"))])
    return morning_of(day)


async def _people_in(context: AnswerContext, question: Question, submitted: Submitted) -> list[str]:
    """The people and groups whom the form names by their ids or by their names, with commas between them."""
    workspace, text = question.workspace, _first(submitted, "people")
    people = await context.directory.people(workspace, after=None, limit=PEOPLE_AT_ONCE)
    names = names_of(people, await context.directory.groups(workspace))

    def resolved(given: str) -> str:
        found = meant_by(given, names)
        return found[0] if len(found) == 1 else given

    if resolved(text) in names:  # a name may have a comma
        return [resolved(text)]
    return [resolved(each.strip()) for each in text.split(",") if each.strip()]
