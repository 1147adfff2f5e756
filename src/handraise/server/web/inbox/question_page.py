"""The page of one question, and what comes of the form on it. `question_html` says what it shows.

A GET changes nothing. A POST answers, declines, sends back, takes an approval back, writes a message or shares the
question, in the name of the person who is signed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse, RedirectResponse, Response

from handraise.model.drafting import Limits
from handraise.model.errors import (
    AlreadyConsumed,
    AlreadySettled,
    CannotAskBack,
    InvalidAnswer,
    InvalidAttachment,
    InvalidMessage,
    NotApproved,
    PermissionDenied,
    QuestionNotFound,
    Stopped,
    ThreadMoved,
)
from handraise.model.evidence import passkey_evidence, why_too_weak
from handraise.model.forms import AnyForm, Approval
from handraise.model.json_values import Json
from handraise.model.lifecycle import is_denial
from handraise.model.outcomes import Declined, Returned
from handraise.model.passkey_signatures import Passkey, PasskeyRefused, answered, declined, sent_back
from handraise.model.people import may_respond
from handraise.model.problems import Problem
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.thread_messages import thread_digest
from handraise.model.validation import check_answer
from handraise.presentation.error_text import error_text
from handraise.presentation.form_parts import Reading
from handraise.presentation.translation import gettext
from handraise.server.api.question_routes import desk_of, is_own_answer
from handraise.server.api.question_routes import visible as visible_question
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.passkeys.passkey_use import read_signature
from handraise.server.uploads import UploadSlots
from handraise.server.web.inbox.back_links import back_of
from handraise.server.web.inbox.done_view import done_with, script_response
from handraise.server.web.inbox.file_view import FilePlaces
from handraise.server.web.inbox.form_controls import Submitted, file_names, read_answer
from handraise.server.web.inbox.keep_actions import keep, wants_to_keep
from handraise.server.web.inbox.later_answers import (
    ACCOUNT,
    another_person,
    answer_later,
    is_of_another_person,
)
from handraise.server.web.inbox.question_flow import list_after, page_after, place_of
from handraise.server.web.inbox.question_html import (
    AnswerContext,
    PasskeyNeed,
    Submission,
    confirmed_digest,
    show,
    show_edits,
    votes_in,
)
from handraise.server.web.inbox.sharing_actions import close, share
from handraise.server.web.inbox.sharing_view import SHARING
from handraise.server.web.inbox.vote_view import Side
from handraise.server.web.pages import PageRoute, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_MOST_PARTS = 2_000
_DONE_WITH = {"", "decline", "send back", "snooze", "not for me", "hand over"}
"""What a person does with a question that then is not waiting for them any more."""
_NUMBER = re.compile(r"[0-9]{1,6}")


@pages.get("/questions/{question_id}")
async def show_question(request: Request, ctx: Context, caller: CurrentPerson, question_id: str) -> Response:
    """Show a question, with the form to answer it."""
    try:
        question = await visible_question(ctx, caller, question_id)
    except QuestionNotFound:
        return _not_found_page()
    context = await _session_context(request, ctx, caller, question)
    back = back_of(request, question_id)
    shown = {
        "place": await place_of(ctx, caller, back.waiting, question_id),
        "done": await done_with(ctx, caller, request.query_params.get("done"), back.query),
    }
    return await show(replace(context, shown={**context.shown, **shown}), question)


@pages.post("/questions/{question_id}")
async def answer_question(
    request: Request, ctx: Context, caller: CurrentPerson, question_id: str
) -> Response:
    """Answer, decline, send back or share a question, or write something about it; then redirect to it."""
    if is_of_another_person(request, caller):
        return another_person()
    try:
        question = await visible_question(ctx, caller, question_id)
    except QuestionNotFound:
        return _not_found_page()
    context = await _session_context(request, ctx, caller, question)
    try:
        submitted = await _with_uploads(request, context, question)
    except InvalidAttachment as misfit:
        kept = await submitted_in(request)  # it was parsed already
        return await show(context, question, Submission(kept, misfit.problems), status=422)
    finally:
        await request.close()
    if ACCOUNT in request.headers:
        return await answer_later(ctx, caller, context, question, submitted, respond=respond)
    back = back_of(request, question_id)
    if back.waiting is not None and submitted.get("do", [""])[0] in _DONE_WITH:
        context = replace(context, then=await page_after(ctx, caller, back.waiting, question_id))
        if submitted.get("then") == ["list"]:
            context = replace(context, then=list_after(back.waiting, question_id, context.then or ""))
    response = await respond(context, question, submitted)
    if request.headers.get("accept") == "application/json":
        done = await done_with(ctx, caller, question_id, back.query)
        return script_response(response, done, keeps=question.outcome is None and wants_to_keep(submitted))
    return response


@pages.post("/questions/{question_id}/signature")
async def ask_signature(request: Request, ctx: Context, caller: CurrentPerson, question_id: str) -> Response:
    """Say what a browser must sign for the decision in a form: nothing if it decides nothing yet, or needs no passkey."""
    try:
        question = await visible_question(ctx, caller, question_id)
    except QuestionNotFound:
        return _not_found_page()
    context = await _session_context(request, ctx, caller, question)
    need = context.passkey
    if need is None or need.use is None or not need.has_one or question.outcome is not None:
        return JSONResponse({})
    submitted = await submitted_in(request)
    decision = await _decision_in(context, question, submitted)
    if decision is None or _refuses(question, decision):
        return JSONResponse({})
    thread = await _seen_thread(context, question, submitted)
    return JSONResponse(await need.use.ask_decision(context.person, question, thread, decision))


async def _session_context(
    request: Request, ctx: ServerContext, caller: PersonCaller, question: Question
) -> AnswerContext:
    back = back_of(request, question.id)
    theirs = may_respond(question, caller.person.responder)
    need = await _passkey_need(ctx, caller, question) if theirs else None
    why = why_too_weak(question, caller.session.evidence) if theirs and need is None else None
    return AnswerContext(
        desk=desk_of(ctx, caller),
        person=caller.person,
        here=f"/questions/{quote(question.id, safe='')}{back.query}",
        evidence=caller.session.evidence,
        too_weak=_sentence(why) if why else None,
        passkey=need,
        directory=ctx.directory,
        policies=ctx.policies,
        shares=True,
        may_see=caller.may_see,
        outbox=ctx.outbox,
        files=FilePlaces(
            f"/questions/{quote(question.id, safe='')}", request.app.state.image_encoder.is_available
        ),
        shown={"framed": False, "back": back, "place": None, "done": None},
    )


async def _passkey_need(ctx: ServerContext, caller: PersonCaller, question: Question) -> PasskeyNeed | None:
    is_required = question.evidence == "passkey"
    if question.outcome is not None or not (
        is_required or why_too_weak(question, caller.session.evidence) is not None
    ):
        return None
    usable = [] if ctx.passkeys is None else await ctx.passkeys.usable(caller.person)
    if not (is_required or any(_is_enough(each, question) for each in usable)):
        return None
    return PasskeyNeed(
        use=ctx.passkeys,
        has_one=bool(usable),
        is_required=is_required,
        address=f"/questions/{quote(question.id, safe='')}/signature",
    )


def _is_enough(passkey: Passkey, question: Question) -> bool:
    return why_too_weak(question, passkey_evidence(passkey.vouched_by)) is None


def _sentence(why: str) -> str:
    reason = error_text(why)
    return f"{reason[0].upper()}{reason[1:]}."


async def respond(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    """Process a submission: answer, decline, send back, share, or show it again."""
    if submitted.get("do") == ["send back"]:
        return await _send_back(context, question, submitted)
    if len(submitted.get("do", ())) == 1 and submitted["do"][0] in SHARING:
        return await share(context, question, submitted)
    if submitted.get("do") == ["keep"]:
        return await keep(context, question, submitted)
    if submitted.get("do") == ["decline"]:
        return await _decline(context, question, submitted)
    if submitted.get("do") == ["take back"]:
        return await _take_back(context, question, submitted)
    if submitted.get("do") == ["close"]:
        return await close(context, question, submitted)
    if submitted.get("do") in (["ask-back"], ["note"]):
        return await _write(context, question, submitted)
    if "agree" in submitted:
        return await _agree(context, question, submitted)
    reading = read_answer(question.form, submitted)
    if submitted.get("do") == ["edit"]:
        return await show(context, question, Submission(submitted))
    if reading.problems and question.outcome is None:
        return await show(
            context, question, Submission(submitted, _all_problems(question.form, reading)), status=422
        )
    form = question.form
    if isinstance(form, Approval) and question.outcome is None:
        edited = _unconfirmed_edit(form, reading)
        if edited is not None:
            return await _show_edits(context, question, form, submitted, edited)
    return await _answer(context, question, submitted, reading)


async def _answer(
    context: AnswerContext, question: Question, submitted: Submitted, reading: Reading
) -> Response:
    try:
        await context.desk.answer(
            question.id,
            reading.value,
            by=context.person.responder,
            provenance=await _provenance(
                context, question, submitted, lambda: answered(check_answer(question.form, reading.value))
            ),
        )
    except (PasskeyRefused, PermissionDenied) as refused:
        if context.passkey is None:
            raise
        return await _show_refused(context, question, submitted, refused)
    except InvalidAnswer as misfit:
        question = await context.desk.get(question.id)
        return await show(context, question, Submission(submitted, misfit.problems, counted=True), status=422)
    except AlreadySettled as settled:
        if not is_own_answer(settled, question, context.person.id, reading.value):
            question = await context.desk.get(question.id)
            return await show(context, question, Submission(submitted), status=409)
    except ThreadMoved as moved:
        return await _show_moved(context, question, submitted, moved.seen)
    except Stopped:  # the page says so
        return await show(context, question, Submission(submitted), status=423)
    if wants_to_keep(submitted):
        return await keep(context, question, submitted, then=context.then)
    return RedirectResponse(context.then or context.here, 303)


async def _show_edits(
    context: AnswerContext, question: Question, form: Approval, submitted: Submitted, edited: dict[str, Json]
) -> Response:
    """Show what a person's edits change, unless there is something to read first."""
    if (seen := _seen_in(submitted)) != question.thread:
        return await _show_moved(context, question, submitted, seen)
    return show_edits(context, question, form, submitted, edited)


async def _show_moved(
    context: AnswerContext, question: Question, submitted: Submitted, seen: int
) -> Response:
    """Show the page again, with the messages that the refused approval does not cover. Nothing is decided."""
    question = await context.desk.get(question.id)
    return await show(context, question, Submission(submitted, covered=seen), status=409)


def _all_problems(form: AnyForm, reading: Reading) -> tuple[Problem, ...]:
    """What is missing in an answer, and what does not fit in the rest of it."""
    try:
        check_answer(form, reading.value)
    except InvalidAnswer as misfit:
        known = {each.path for each in reading.problems}
        return (*reading.problems, *(each for each in misfit.problems if each.path not in known))
    return reading.problems


async def _agree(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    """Vote like somebody else, after a look at what they changed."""
    if submitted.get("do") == ["edit"]:
        return RedirectResponse(context.here, 303)
    side = await _agreed_side(context, question, submitted)
    if question.outcome is None and side is None:
        gone = Problem(gettext("the vote"), gettext("it was changed meanwhile. Look at the votes again"))
        return await show(context, question, Submission({}, (gone,)), status=409)
    if side is not None and side.returns:
        return await _send_back(context, question, submitted)
    if side is None or side.value is None:
        return await _decline(context, question, submitted)
    form = question.form
    if isinstance(form, Approval) and question.outcome is None and _has_unseen_edit(side.value, submitted):
        return await _show_edits(context, question, form, submitted, side.value)
    return await _answer(context, question, submitted, Reading(side.value))


def _has_unseen_edit(value: Json, submitted: Submitted) -> bool:
    """Whether a decision changes arguments and its person has not seen the difference yet."""
    return "arguments" in value and submitted.get("digest") != [value["digest"]]


async def _agreed_side(context: AnswerContext, question: Question, submitted: Submitted) -> Side | None:
    """What those voted with whom a person agrees; None if no vote is like that any more."""
    votes = await votes_in(context, question, await context.desk.history(question.id), datetime.now(UTC))
    sides = () if votes is None else votes.sides
    return next((each for each in sides if [each.ballot] == submitted["agree"]), None)


async def _decline(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    reason = _reason_in(submitted)
    try:
        await context.desk.decline(
            question.id,
            by=context.person.responder,
            reason=reason,
            provenance=await _provenance(context, question, submitted, lambda: declined(reason)),
        )
    except (PasskeyRefused, PermissionDenied) as refused:
        if context.passkey is None:
            raise
        return await _show_refused(context, question, submitted, refused)
    except InvalidAnswer as misfit:
        return await show(context, question, Submission(submitted, misfit.problems), status=422)
    except AlreadySettled as settled:
        if not (isinstance(settled.outcome, Declined) and settled.outcome.by == context.person.id):
            question = await context.desk.get(question.id)
            return await show(context, question, Submission(submitted), status=409)
    return RedirectResponse(context.then or context.here, 303)


async def _send_back(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    reason = _reason_in(submitted)
    try:
        await context.desk.send_back(
            question.id,
            by=context.person.responder,
            reason=reason or "",
            provenance=await _provenance(context, question, submitted, lambda: sent_back(reason)),
        )
    except (PasskeyRefused, PermissionDenied) as refused:
        if context.passkey is None:
            raise
        return await _show_refused(context, question, submitted, refused)
    except InvalidAnswer as misfit:
        sent = {**submitted, "do": ["send back"]}
        return await show(
            context, await context.desk.get(question.id), Submission(sent, misfit.problems), status=422
        )
    except AlreadySettled as settled:
        if not (isinstance(settled.outcome, Returned) and settled.outcome.by == context.person.id):
            question = await context.desk.get(question.id)
            return await show(context, question, Submission(submitted), status=409)
    return RedirectResponse(context.then or context.here, 303)


async def _take_back(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    reason = _reason_in(submitted)
    try:
        await context.desk.take_back(question.id, by=context.person.responder, reason=reason)
    except InvalidAnswer as misfit:
        return await show(context, question, Submission(submitted, misfit.problems), status=422)
    except (AlreadyConsumed, NotApproved, PermissionDenied):  # the page shows the status
        return await show(context, await context.desk.get(question.id), status=409)
    return RedirectResponse(context.here, 303)


async def _write(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    """Ask the agent something, or note something for the other people."""
    text = next(iter(submitted.get("message", ())), "").replace("\r\n", "\n")
    write = context.desk.ask_back if submitted["do"] == ["ask-back"] else context.desk.note
    where = Provenance(channel=context.channel, evidence=context.evidence, details=context.details)
    if context.other_page and question.outcome is None:
        return await show(context, question, Submission(submitted), status=403)
    try:
        written = await write(question.id, text, by=context.person.responder, provenance=where)
    except InvalidMessage as misfit:
        return await show(context, question, Submission(submitted, misfit.problems), status=422)
    except CannotAskBack:
        cannot = Problem("text", gettext("the agent cannot reply. You can add it as a note"))
        return await show(context, question, Submission(submitted, (cannot,)), status=409)
    except PermissionDenied as refused:
        problem = Problem("text", refused.reason)
        return await show(context, question, Submission(submitted, (problem,)), status=403)
    except AlreadySettled:
        return await show(context, await context.desk.get(question.id), Submission(submitted), status=409)
    return RedirectResponse(f"{context.here}#message-{written.thread}", 303)


async def _provenance(
    context: AnswerContext, question: Question, submitted: Submitted, decision: Callable[[], Json]
) -> Provenance:
    """Where an answer comes from. If a passkey signed this decision, that is the evidence; raises `PasskeyRefused`."""
    evidence, proof = context.evidence, None
    thread = await _seen_thread(context, question, submitted)
    need = context.passkey
    if need is not None and need.use is not None and (text := next(iter(submitted.get("passkey", ())), "")):
        nonce, credential = read_signature(text)
        evidence, proof = await need.use.check_decision(
            context.person,
            question,
            thread,
            decision(),
            nonce=nonce,
            credential=credential,
        )
    return Provenance(
        channel=context.channel,
        evidence=evidence,
        shown_digest=confirmed_digest(context, question, thread, submitted),
        seen=_seen_in(submitted),
        passkey=proof,
        details=context.details,
    )


def _seen_in(submitted: Submitted) -> int:
    """How many messages of the thread the person saw on the page that sent this."""
    said = next(iter(submitted.get("seen", ())), "")
    return int(said) if _NUMBER.fullmatch(said) else 0


async def _seen_thread(context: AnswerContext, question: Question, submitted: Submitted) -> str | None:
    """The digest of the messages that the person saw."""
    seen = _seen_in(submitted)
    return thread_digest((await context.desk.thread(question.id))[:seen]) if seen else None


async def _decision_in(context: AnswerContext, question: Question, submitted: Submitted) -> Json | None:
    """The decision that a form makes, as it is signed; None if it only leads to another page."""
    form, do = question.form, submitted.get("do")
    if do == ["decline"]:
        return declined(_reason_in(submitted))
    if do == ["send back"]:
        return sent_back(reason) if (reason := _reason_in(submitted)) else None
    if do is not None:
        return None
    if "agree" in submitted:
        side = await _agreed_side(context, question, submitted)
        if side is None or side.value is None:
            return None if side is None or side.returns else declined(_reason_in(submitted))
        if isinstance(form, Approval) and _has_unseen_edit(side.value, submitted):
            return None
        return answered(check_answer(form, side.value))
    reading = read_answer(form, submitted)
    if reading.problems or (isinstance(form, Approval) and _unconfirmed_edit(form, reading) is not None):
        return None
    try:
        return answered(check_answer(form, reading.value))
    except InvalidAnswer:
        return None


def _refuses(question: Question, decision: Json) -> bool:
    return "answer" not in decision or is_denial(question.form, decision["answer"])


def _reason_in(submitted: Submitted) -> str | None:
    return next(iter(submitted.get("why", ())), "").replace("\r\n", "\n").strip() or None


async def _show_refused(
    context: AnswerContext, question: Question, submitted: Submitted, refused: Exception
) -> Response:
    """Show the page again, with why the passkey was not accepted. Nothing is decided."""
    why = refused.reason if isinstance(refused, PermissionDenied) else str(refused)
    problem = Problem(gettext("your passkey"), why)
    return await show(context, question, Submission(submitted, (problem,)), status=403)


def _unconfirmed_edit(form: Approval, reading: Reading) -> dict[str, Json] | None:
    """The canonical decision, if it changes arguments and the person has not seen the difference yet."""
    if "arguments" not in reading.value:
        return None
    try:
        canonical: dict[str, Json] = check_answer(form, reading.value)
    except InvalidAnswer:
        return None
    if "arguments" not in canonical or reading.value.get("digest") == canonical["digest"]:
        return None
    return canonical


async def _with_uploads(request: Request, context: AnswerContext, question: Question) -> Submitted:
    """Read the form that a browser sent, and store the files in it, which only this person can answer with."""
    names = file_names(question.form)
    submitted = dict(await submitted_in(request, max_files=len(names)))
    if not names or question.outcome is not None:
        return submitted
    slots: UploadSlots = request.app.state.upload_slots
    sent = (await request.form()).multi_items()  # it was parsed already
    for name, file in sent:
        if name not in names or not isinstance(file, UploadFile) or not file.filename:
            continue
        with slots.hold(f"{question.workspace}\n{context.person.id}"):
            data = await file.read(Limits().file_bytes + 1)
            try:
                described = await context.desk.attach(data, name=file.filename, by=context.person.responder)
            except InvalidAttachment as misfit:
                raise InvalidAttachment(
                    [Problem(names[name], each.message) for each in misfit.problems]
                ) from None
        submitted[f"{name}.file"] = [json.dumps(described.record())]
    return submitted


async def submitted_in(request: Request, *, max_files: int = 0) -> Submitted:
    """Read the form that a browser sent."""
    form = await request.form(max_files=max_files, max_fields=_MOST_PARTS)
    found: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if isinstance(value, str):
            found.setdefault(name, []).append(value)
    return found


def _not_found_page() -> Response:
    """The same page for a question of others, of another workspace, or one that does not exist."""
    return message(
        gettext("There is no such question here"),
        gettext("It may be addressed to other people, or the link is incomplete."),
        status=404,
        lead=("/", gettext("Back to what waits")),
    )
