"""What a person has just done with a question, in a line above the next one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from handraise.model.agreement import has_voted
from handraise.model.errors import QuestionNotFound
from handraise.model.outcomes import Answered, Declined, Returned
from handraise.model.people import may_take_back
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.markdown import one_line
from handraise.presentation.outcome_text import outcome_details
from handraise.presentation.translation import gettext
from handraise.server.api.question_routes import visible
from handraise.server.auth.authenticator import PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.handed_over import handed_over
from handraise.server.web.inbox.status_view import status_name, verdict_of

_EXCERPT = 80
_SEE_OTHER, _UNFIT = 303, 422


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a person has just done. `answer` and `question` are texts of others; everything may be shown as it is."""

    text: str
    answer: str
    question: str
    href: str
    waits: bool
    """Whether it still waits for others."""
    take_back: str | None
    """Where an approval that was not used yet can be taken back."""


async def done_with(
    ctx: ServerContext, caller: PersonCaller, question_id: str | None, query: str
) -> Done | None:
    """What this person has done with a question, as the record has it; None if it still waits for them."""
    if not question_id:
        return None
    try:
        question = await visible(ctx, caller, question_id)
    except QuestionNotFound:
        return None
    me, outcome, now = caller.person.id, question.outcome, datetime.now(UTC)
    href = f"/questions/{quote(question.id, safe='')}{query}"
    if outcome is None:
        if has_voted(question, me):
            return _done(question, gettext("Your vote is recorded"), href)
        if not question.is_aside(me, now):
            return None
        handed = await handed_over(ctx, [question], me, now)
        return _done(question, handed.get(question.id) or gettext("Set aside"), href)
    if not isinstance(outcome, (Answered, Declined, Returned)) or outcome.by != me:
        return None
    return _done(question, status_name(verdict_of(question)), href, me=me)


def script_response(response: Response, done: Done | None, *, keeps: bool) -> Response:
    """The same for a script, which shows the next page itself. A refusal is a page."""
    if response.status_code == _SEE_OTHER:
        return JSONResponse({"done": None if done is None else asdict(done)})
    if response.status_code == _UNFIT and keeps and done is not None:  # recorded, but not kept
        return JSONResponse({"done": asdict(done), "problem": gettext("It is not kept for later questions.")})
    return response


def _done(question: Question, text: str, href: str, *, me: str | None = None) -> Done:
    can_take_back = (
        me is not None
        and bool(question.decision)
        and question.consumed_at is None
        and question.taken_back_at is None
        and may_take_back(question, me, administrator=False)
    )
    is_value = isinstance(question.outcome, Answered) and question.decision is None
    answer = "; ".join(map(str, outcome_details(question))) if is_value else ""
    return Done(
        text=text,
        answer=one_line(answer, _EXCERPT),
        question=one_line(question.prompt, _EXCERPT) or visible_line(question.asker),
        href=href,
        waits=question.outcome is None,
        take_back=href if can_take_back else None,
    )
