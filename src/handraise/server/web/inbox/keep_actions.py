"""What comes of the form with which a person keeps an answer for its topic."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from starlette.responses import RedirectResponse, Response

from handraise.model.errors import CannotKeep
from handraise.model.problems import Problem
from handraise.model.questions import Question
from handraise.presentation.translation import gettext, local_time
from handraise.server.web.inbox.form_controls import Submitted
from handraise.server.web.inbox.question_html import AnswerContext, Submission, show


async def keep(
    context: AnswerContext, question: Question, submitted: Submitted, *, then: str | None = None
) -> Response:
    """Keep an answer that this person gave, then redirect; or show the page again, with why it is not possible."""
    if not context.shares:  # a link answers one question
        return await show(context, question, status=403)
    try:
        until = _end_of(_day_in(submitted))
        await context.desk.keep_answer(question.id, until=until, by=context.person.responder)
    except CannotKeep as refused:
        again = Submission({**submitted, "do": ["keep"]}, refused.problems)
        return await show(context, await context.desk.get(question.id), again, status=422)
    return RedirectResponse(then or context.here, 303)


def wants_to_keep(submitted: Submitted) -> bool:
    """Whether the form that answers says until when the answer is kept."""
    return bool(_day_in(submitted))


def _day_in(submitted: Submitted) -> str:
    return next(iter(submitted.get("keep_until", ())), "").strip()


def _end_of(day: str) -> datetime:
    """The end of a day, on the clock of the person."""
    try:
        after = date.fromisoformat(day) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise CannotKeep([Problem("until", gettext("choose a day"))]) from None
    zone = local_time(datetime.now(UTC)).tzinfo
    return datetime.combine(after, datetime.min.time(), tzinfo=zone).astimezone(UTC)
