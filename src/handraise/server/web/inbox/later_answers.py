"""Answers that are sent later than they were given: kept while offline, or pressed in a notification.

A script sends them, with the account of the person who gave them. Nothing is recorded unless everything is still as that
person saw it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from urllib.parse import quote, unquote

from fastapi import Request
from starlette.responses import JSONResponse, Response

from handraise.channels.push_subscriptions import NAME as WEBPUSH
from handraise.channels.push_subscriptions import account_of
from handraise.model.agreement import has_voted
from handraise.model.errors import InvalidAnswer
from handraise.model.lifecycle import DECLINED_BALLOT, RETURNED_BALLOT, ballot_of
from handraise.model.people import may_respond
from handraise.model.questions import Question
from handraise.model.thread_messages import thread_digest
from handraise.model.validation import check_answer
from handraise.presentation.markdown import one_line
from handraise.presentation.one_press import can_wait, notification_buttons
from handraise.presentation.outcome_text import outcome_details
from handraise.presentation.translation import gettext
from handraise.server.auth.authenticator import PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.done_view import done_with
from handraise.server.web.inbox.form_controls import Submitted, read_answer
from handraise.server.web.inbox.page_texts import outcome_in_words
from handraise.server.web.inbox.question_html import AnswerContext, confirmed_digest

ACCOUNT = "handraise-account"
"""The header that says who gave the answer. With it, the answer counts only if nothing has changed since."""

_LONGEST_ANSWER = 200
_SEE_OTHER = 303
_UNFIT, _STOPPED = 422, 423

Respond = Callable[[AnswerContext, Question, Submitted], Awaitable[Response]]


def is_of_another_person(request: Request, caller: PersonCaller) -> bool:
    """Whether somebody else gave this answer than the person who is signed in now."""
    said = request.headers.get(ACCOUNT)
    return said is not None and unquote(said) != account_of(caller.workspace, caller.person.id)


def another_person() -> Response:
    """Nothing is recorded, and nothing is told about the question."""
    text = gettext("Somebody else is signed in now.")
    return JSONResponse({"refused": {"text": text, "recorded": "", "href": "/"}}, 401)


async def answer_later(
    ctx: ServerContext,
    caller: PersonCaller,
    context: AnswerContext,
    question: Question,
    submitted: Submitted,
    *,
    respond: Respond,
) -> Response:
    """Record an answer if all is as its person saw it, and say what is recorded. The same answer again changes nothing."""
    if submitted.get("via") == [WEBPUSH]:
        context = replace(context, channel=WEBPUSH)
    if _is_own_vote(question, caller.person.id, submitted):
        return await _done(ctx, caller, question)
    if (
        question.outcome is not None
    ):  # perhaps it is this very answer, sent again: what was kept of it may have ended
        submitted = {name: values for name, values in submitted.items() if name != "keep_until"}
    why = None
    if not _decides(submitted) or (context.channel == WEBPUSH and not ctx.settings.push_answers):
        why = gettext("This has to be decided on its page.")
    elif question.outcome is None:  # otherwise what is recorded may be this very answer
        why = await _why_changed(context, question, submitted)
    if why is None:
        response = await respond(context, question, submitted)
        if response.status_code == _SEE_OTHER:
            return await _done(ctx, caller, question)
        asked, question = question, await context.desk.get(question.id)
        if asked.outcome is None and response.status_code == _UNFIT and _is_by(question, caller.person.id):
            return await _done(ctx, caller, question, gettext("It is not kept for later questions."))
        why = _why_not(question, response.status_code)
    refused = {
        "text": why,
        "recorded": _recorded(question, caller.person.id),
        "href": f"/questions/{quote(question.id, safe='')}",
    }
    return JSONResponse({"refused": refused}, 409)


async def _done(
    ctx: ServerContext, caller: PersonCaller, question: Question, problem: str | None = None
) -> Response:
    done = await done_with(ctx, caller, question.id, "")
    more = {} if problem is None else {"problem": problem}
    return JSONResponse({"done": None if done is None else asdict(done), **more})


def _is_by(question: Question, me: str) -> bool:
    return getattr(question.outcome, "by", None) == me


def _decides(submitted: Submitted) -> bool:
    """Whether this is an answer by itself, and nothing else that a page can do."""
    return "agree" not in submitted and submitted.get("do", ["decline"]) in (["decline"], ["send back"])


async def _why_changed(context: AnswerContext, question: Question, submitted: Submitted) -> str | None:
    """What is not as the person saw it, or why it cannot be sent later at all; None if all is well."""
    if not can_wait(question) or (context.channel == WEBPUSH and not notification_buttons(question)):
        return gettext("This has to be decided on its page.")
    if not may_respond(question, context.person.responder):
        return gettext("It is for others now.")
    if has_voted(question, context.person.id):
        return gettext("You have voted on it already.")
    if submitted.get("seen") != [str(question.thread)]:
        return gettext("There are messages that you had not seen.")
    messages = await context.desk.thread(question.id) if question.thread else ()
    thread = thread_digest(messages) if messages else None
    if confirmed_digest(context, question, thread, submitted) is None:
        return gettext("Its page is not as you had seen it.")
    return None


def _why_not(question: Question, status: int) -> str:
    if question.outcome is not None:
        return gettext("It had ended before your answer arrived.")
    if status == _UNFIT:
        return gettext("Your answer does not fit.")
    if status == _STOPPED:
        return gettext("It was stopped meanwhile.")
    return gettext("It changed before your answer arrived.")


def _is_own_vote(question: Question, me: str, submitted: Submitted) -> bool:
    """Whether this person has voted exactly this already: it was sent twice, or the response was lost."""
    mine = next((vote for vote in question.votes if vote.by == me), None)
    if mine is None or "agree" in submitted:
        return False
    if "do" in submitted:
        ballots = {"decline": DECLINED_BALLOT, "send back": RETURNED_BALLOT}
        return ballots.get(submitted["do"][0]) == mine.ballot
    try:
        value = check_answer(question.form, read_answer(question.form, submitted).value)
    except InvalidAnswer:
        return False
    return ballot_of(question.form, value) == mine.ballot


def _recorded(question: Question, me: str) -> str:
    """What is recorded instead, in a line; empty while it waits."""
    if question.outcome is None:
        return ""
    details = "; ".join(str(each) for each in outcome_details(question))
    answer = one_line(details, _LONGEST_ANSWER)
    ended = outcome_in_words(question, me)
    return f"{ended}: {answer}" if answer else f"{ended}."
