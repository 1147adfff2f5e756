"""Questions over HTTP: agents ask, people answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import AwareDatetime
from starlette.responses import Response

from handraise.desk.local_desk import LocalDesk
from handraise.model.durations import span_of
from handraise.model.errors import (
    AlreadySettled,
    InvalidAnswer,
    InvalidRequest,
    PermissionDenied,
    QuestionNotFound,
)
from handraise.model.events import Event
from handraise.model.evidence import CLIENT_ASSERTED, SESSION
from handraise.model.forms import Risk
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Declined, Outcome, Status, Withdrawn
from handraise.model.pending_views import LONGEST, OF_A_PERSON, FormKind, Order, PendingFilters, ViewName
from handraise.model.problems import Problem
from handraise.model.provenance import Provenance
from handraise.model.questions import Question, Ref
from handraise.model.thread_messages import without_notes
from handraise.model.validation import check_answer
from handraise.ports.desk import Page
from handraise.ports.settled_filter import Ended, is_in_calendar
from handraise.server.api.responses import After, Limit, QuestionId, Wait, reply, seconds
from handraise.server.auth.authenticator import (
    AgentCaller,
    Caller,
    CallerOrReader,
    Context,
    CurrentAdmin,
    CurrentAgent,
    CurrentCaller,
    CurrentCallerOrReader,
    CurrentPerson,
    PersonCaller,
    ReaderCaller,
    stopper_of,
)
from handraise.server.context import ServerContext
from handraise.server.live.long_polls import LongPoll
from handraise.server.middleware.idempotency import PARAMETER, IdempotentRoute
from handraise.server.observability.request_log import note_question
from handraise.server.observability.traces import asker_traceparent
from handraise.wire.records import (
    ActionRecord,
    ClaimedRecord,
    DurabilityRecord,
    EventPage,
    EventRecord,
    OutcomeRecord,
    OutcomeState,
    OutcomeStates,
    QuestionPage,
    QuestionRecord,
    RecoveredRecord,
    RunDueRecord,
    ViewCountsRecord,
    WithdrawnRecord,
)
from handraise.wire.requests import (
    AnswerQuestion,
    ClaimSending,
    ConsumeQuestion,
    DeclineQuestion,
    JoinQuestion,
    MarkSent,
    PostQuestion,
    Recover,
    RejectAnswer,
    ReportQuestion,
    ResponseRequest,
    TakeBack,
    WithdrawAll,
    WithdrawQuestion,
)

router = APIRouter(prefix="/v1", tags=["questions"], route_class=IdempotentRoute)

IDEMPOTENT = {"parameters": [PARAMETER]}


def desk_of(ctx: ServerContext, caller: CallerOrReader) -> LocalDesk:
    """The desk in the caller's workspace and, for an agent, with its name as the asker."""
    asker = caller.agent if isinstance(caller, AgentCaller) else None
    return ctx.desk.scoped(caller.workspace, asker=asker)


async def visible(ctx: ServerContext, caller: CallerOrReader, question_id: str) -> Question:
    """Get a question that this caller may see; for any other, raises `QuestionNotFound`."""
    question = await desk_of(ctx, caller).get(question_id)
    if not caller.may_see(question):
        raise QuestionNotFound(question_id, caller.workspace)
    return question


async def visible_to_answer(ctx: ServerContext, caller: PersonCaller, question_id: str) -> Question:
    """The same for a question that is about to be answered, without reading it if this process knows it.

    What was asked never changes, and the store decides the rest in the statement that records the answer.
    """
    known = ctx.engine.recall(Ref(caller.workspace, question_id))
    if known is None or not caller.may_see(known):
        return await visible(ctx, caller, question_id)
    note_question(known)
    return known


def record_of(caller: CallerOrReader, question: Question) -> QuestionRecord:
    """A question as this caller may see it: only its asker sees the state."""
    own = isinstance(caller, AgentCaller) and caller.agent == question.asker
    return QuestionRecord.of(question, with_state=own)


def events_for(caller: CallerOrReader, events: Sequence[Event]) -> Sequence[Event]:
    """Events as this caller may see them: what people note for each other is only for people."""
    return events if isinstance(caller, PersonCaller) else list(map(without_notes, events))


@router.post("/questions", status_code=201, response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def post_question(request: Request, ctx: Context, agent: CurrentAgent, body: PostQuestion) -> Response:
    """Ask a question. If its key or id exists, the first question is returned."""
    made = getattr(request.state, "made", None) or ctx.new_id()
    question = await post_as(request, ctx, agent, body, made=made)
    where = {"location": f"/v1/questions/{question.id}"} if question.id.isascii() else None
    return reply(record_of(agent, question), status=201, headers=where)


async def post_as(
    request: Request, ctx: ServerContext, agent: AgentCaller, body: PostQuestion, *, made: str
) -> Question:
    """Ask in the name of the caller; `made` is the id unless the asker gave one."""
    new_id = body.id or made
    desk = ctx.desk.scoped(agent.workspace, asker=agent.agent, new_id=lambda: new_id)
    options = body.options()
    if (trace := asker_traceparent(request.headers)) is not None:
        options.setdefault("trace", trace)
    return await desk.post(body.prompt, **options)


@router.get("/questions", response_model=QuestionPage)
async def list_questions(
    ctx: Context,
    caller: CurrentCallerOrReader,
    *,
    conversation: Annotated[str | None, Query(max_length=200)] = None,
    asker: Annotated[str | None, Query(max_length=200)] = None,
    key: Annotated[str | None, Query(max_length=200, description="the question with this key")] = None,
    recipient: Annotated[
        str | None, Query(max_length=200, description="what this person may answer or see; only yourself")
    ] = None,
    status: Annotated[
        Literal["pending", "settled"], Query(description="pending or settled questions")
    ] = "pending",
    order: Annotated[
        Order,
        Query(description="pending questions by age, oldest first; by urgency; newest first; by expiry"),
    ] = "age",
    view: Annotated[ViewName | None, Query(description="a view of pending questions")] = None,
    kind: Annotated[FormKind | None, Query(description="only pending questions with such a form")] = None,
    risk: Annotated[Risk | None, Query(description="only pending approvals of this risk")] = None,
    tool: Annotated[
        str | None, Query(max_length=200, description="only pending approvals of this tool")
    ] = None,
    expires_within: Annotated[
        str | None, Query(max_length=40, description="only pending questions that expire so soon, such as 2h")
    ] = None,
    older_than: Annotated[
        str | None,
        Query(max_length=40, description="only pending questions that have waited so long, such as 1d"),
    ] = None,
    aside: Annotated[
        bool, Query(description="pending questions that you set aside, instead of those in your inbox")
    ] = False,
    since: Annotated[
        AwareDatetime | None, Query(description="settled questions that ended at this time or later")
    ] = None,
    until: Annotated[
        AwareDatetime | None, Query(description="settled questions that ended before this time")
    ] = None,
    outcome: Annotated[
        Ended | None, Query(description="settled questions that ended like this; `answered` is every answer")
    ] = None,
    by: Annotated[
        str | None,
        Query(max_length=200, description="settled questions that this person settled or voted on"),
    ] = None,
    after: After = None,
    limit: Limit = 50,
) -> Response:
    """List pending questions, oldest first: an agent's own, or those a person may answer; an administrator gets all.

    `order=urgency` is the order of an inbox: escalated ones, what expires within an hour, high risk, then the others by
    expiry; last those that wait for their agent. The views `mine`, `vote_missing` and `snoozed` are about one person, so
    an administrator gives a `recipient`.
    `status=settled` lists settled questions, the last settled first: an agent's own, or those a person may see.
    `since`, `until`, `outcome` and `by` limit it to those that ended then, like this, and by this person; give the same
    for every page.
    Such a page may be short or empty and still have a `next`. With a `key` it is the question with that key, pending or
    not: of this agent, or of the `asker` that a person names. A reader gets the settled questions of the whole workspace,
    and no pending ones.
    """
    desk = desk_of(ctx, caller)
    if key is not None:
        if asker is not None and not isinstance(caller, AgentCaller):
            desk = desk.scoped(asker=asker)  # keys belong to an agent, so a person names it
        found = await desk.find_by_key(key)
        shown = (found,) if found is not None and caller.may_see(found) else ()
        return reply(QuestionPage(items=tuple(record_of(caller, each) for each in shown)))
    whose = None
    if isinstance(caller, ReaderCaller):
        if status == "pending" or recipient is not None:
            raise PermissionDenied(
                caller.name, "this key only reads settled questions: use status=settled, and no recipient"
            )
    elif isinstance(caller, AgentCaller):
        if recipient is not None:
            raise PermissionDenied(caller.agent, "an agent has no inbox")
        if asker not in (None, caller.agent):
            return reply(QuestionPage(items=()))
        asker = caller.agent
    elif recipient is not None or not caller.is_admin:
        check_by(caller, recipient)
        whose = caller.person.responder
    ending = {"since": since, "until": until, "outcome": outcome, "by": by}
    if status == "pending" and (given := [name for name, value in ending.items() if value is not None]):
        raise InvalidRequest([Problem(f"query.{name}", "is for status=settled") for name in given])
    for name, at in (("since", since), ("until", until)):
        if at is not None and not is_in_calendar(at):
            raise InvalidRequest([Problem(f"query.{name}", "is outside of the years 1 to 9999 in UTC")])
    filters = PendingFilters(
        view=view,
        kind=kind,
        risk=risk,
        tool=tool,
        expires_within=_span("expires_within", expires_within),
        older_than=_span("older_than", older_than),
    )
    if filters.view in OF_A_PERSON and whose is None:
        raise InvalidRequest([Problem("query.view", "is about one person: give yourself as the recipient")])
    look: Callable[..., Awaitable[Page[Question]]] = (
        partial(desk.list_pending, order=order, aside=aside, filters=filters)
        if status == "pending"
        else partial(desk.list_settled, since=since, until=until, outcome=outcome, by=by)
    )
    try:
        page = await look(conversation=conversation, recipient=whose, asker=asker, after=after, limit=limit)
    except ValueError:
        raise InvalidRequest([Problem("query.after", "is not a cursor of these pages")]) from None
    records = tuple(record_of(caller, question) for question in page.items)
    return reply(QuestionPage(items=records, next=page.next))


@router.get("/views", response_model=ViewCountsRecord)
async def count_views(ctx: Context, caller: CurrentPerson) -> Response:
    """Count the questions in your inbox and in each view of it, up to 500 each."""
    return reply(ViewCountsRecord.of(await desk_of(ctx, caller).count_views(caller.person.responder)))


@router.get("/questions/{question_id}", response_model=QuestionRecord)
async def get_question(ctx: Context, caller: CurrentCallerOrReader, question_id: QuestionId) -> Response:
    """Get a question."""
    return reply(record_of(caller, await visible(ctx, caller, question_id)))


@router.get("/questions/{question_id}/followers", response_model=QuestionPage)
async def list_followers(
    ctx: Context, caller: CurrentCallerOrReader, question_id: QuestionId, limit: Limit = 50
) -> Response:
    """List pending questions of the same topic that get the answer to this one, oldest first."""
    await visible(ctx, caller, question_id)
    found = await desk_of(ctx, caller).list_followers(question_id, limit=limit)
    return reply(QuestionPage(items=tuple(record_of(caller, each) for each in found if caller.may_see(each))))


@router.get("/questions/{question_id}/history", response_model=EventPage)
async def get_history(ctx: Context, caller: CurrentCallerOrReader, question_id: QuestionId) -> Response:
    """List everything that happened to a question, oldest first."""
    await visible(ctx, caller, question_id)
    events = events_for(caller, await desk_of(ctx, caller).history(question_id))
    return reply(EventPage(items=tuple(map(EventRecord.of, events))))


@router.post(
    "/questions/{question_id}/answer",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def answer_question(
    request: Request, ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: AnswerQuestion
) -> Response:
    """Answer in your own name. The question is then answered, or still needs more votes."""
    provenance = provenance_of(caller, body)
    question = await visible_to_answer(ctx, caller, question_id)
    return reply(
        record_of(
            caller, await answer_as(request, ctx, caller, question, value=body.value, provenance=provenance)
        )
    )


async def answer_as(
    request: Request,
    ctx: ServerContext,
    caller: PersonCaller,
    question: Question,
    *,
    value: Json,
    provenance: Provenance,
) -> Question:
    """Answer in the name of the caller. If this is a request that is sent again, the first one counts."""
    try:
        return await desk_of(ctx, caller).answer(
            question.id, value, by=caller.person.responder, provenance=provenance
        )
    except AlreadySettled as settled:
        if not (is_again(request) and is_own_answer(settled, question, caller.person.id, value)):
            raise
        return await visible(ctx, caller, question.id)


@router.post(
    "/questions/{question_id}/reject-answer",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def reject_answer(
    ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: RejectAnswer
) -> Response:
    """Record an answer that fits the form but that the asker cannot use."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    question = await desk_of(ctx, caller).reject_answer(
        question_id,
        body.value,
        [Problem(each.path, each.message) for each in body.problems],
        by=caller.person.responder,
        provenance=provenance,
    )
    return reply(record_of(caller, question))


@router.post(
    "/questions/{question_id}/decline",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def decline_question(
    request: Request, ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: DeclineQuestion
) -> Response:
    """Decline to answer."""
    provenance = provenance_of(caller, body)
    question = await visible_to_answer(ctx, caller, question_id)
    return reply(
        record_of(
            caller,
            await decline_as(request, ctx, caller, question, reason=body.reason, provenance=provenance),
        )
    )


async def decline_as(
    request: Request,
    ctx: ServerContext,
    caller: PersonCaller,
    question: Question,
    *,
    reason: str | None,
    provenance: Provenance,
) -> Question:
    """Decline in the name of the caller. If this is a request that is sent again, the first one counts."""
    try:
        return await desk_of(ctx, caller).decline(
            question.id, by=caller.person.responder, reason=reason, provenance=provenance
        )
    except AlreadySettled as settled:
        outcome = settled.outcome
        if not (is_again(request) and isinstance(outcome, Declined) and outcome.by == caller.person.id):
            raise
        return await visible(ctx, caller, question.id)


@router.post(
    "/questions/{question_id}/withdraw",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def withdraw_question(
    request: Request, ctx: Context, caller: CurrentCaller, question_id: QuestionId, body: WithdrawQuestion
) -> Response:
    """Withdraw a question: an agent its own, an administrator any."""
    by = None
    if isinstance(caller, PersonCaller) or body.by is not None:
        admin = await stopper_of(request)
        check_by(admin, body.by)
        by = admin.person.responder
    await visible(ctx, caller, question_id)
    try:
        question = await desk_of(ctx, caller).withdraw(question_id, reason=body.reason, by=by)
    except AlreadySettled as settled:
        outcome = settled.outcome
        if not (is_again(request) and isinstance(outcome, Withdrawn) and outcome.reason == body.reason):
            raise
        question = await visible(ctx, caller, question_id)
    return reply(record_of(caller, question))


@router.post("/withdraw", response_model=WithdrawnRecord, openapi_extra=IDEMPOTENT)
async def withdraw_all(ctx: Context, admin: CurrentAdmin, body: WithdrawAll) -> Response:
    """Withdraw all pending questions of an agent, as an administrator."""
    desk = desk_of(ctx, admin)
    number = await desk.withdraw_all(body.asker, by=admin.person.responder, reason=body.reason)
    return reply(WithdrawnRecord(withdrawn=number))


@router.post(
    "/questions/{question_id}/apply-grant",
    response_model=QuestionRecord,
    responses={204: {"description": "no grant applies: a person must decide"}},
    openapi_extra=IDEMPOTENT,
)
async def apply_grant(ctx: Context, agent: CurrentAgent, question_id: QuestionId) -> Response:
    """Answer your own approval from a grant that applies to it."""
    await visible(ctx, agent, question_id)
    question = await desk_of(ctx, agent).apply_grant(question_id)
    return Response(status_code=204) if question is None else reply(record_of(agent, question))


@router.post(
    "/questions/{question_id}/consume",
    response_model=ActionRecord,
    openapi_extra=IDEMPOTENT,
)
async def consume_question(
    request: Request,
    ctx: Context,
    agent: CurrentAgent,
    question_id: QuestionId,
    body: ConsumeQuestion | None = None,
) -> Response:
    """Get the approved action to execute it now. Each approval can be consumed once.

    The same `request` gets the same action again; without one, the same idempotency key does.
    """
    await visible(ctx, agent, question_id)
    # Not from a stored response: what was stopped since then is not given out again.
    request.state.is_kept = False
    given = None if body is None else body.request
    made = getattr(request.state, "made", None)
    action = await desk_of(ctx, agent).consume_approval(question_id, request=made if given is None else given)
    return reply(ActionRecord(tool=action.tool, arguments=action.arguments))


@router.post(
    "/questions/{question_id}/claim-sending",
    response_model=ClaimedRecord,
    openapi_extra=IDEMPOTENT,
)
async def claim_sending(
    ctx: Context, agent: CurrentAgent, question_id: QuestionId, body: ClaimSending
) -> Response:
    """Claim the right to show your own question in a chat. Only one caller gets it, until its lease ends."""
    await visible(ctx, agent, question_id)
    claimed = await desk_of(ctx, agent).claim_sending(question_id, lease=body.lease)
    return reply(ClaimedRecord(claimed=claimed))


@router.post("/questions/{question_id}/join", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def join_question(
    ctx: Context, agent: CurrentAgent, question_id: QuestionId, body: JoinQuestion
) -> Response:
    """Add another key of yours to a pending question."""
    await visible(ctx, agent, question_id)
    return reply(record_of(agent, await desk_of(ctx, agent).join(question_id, key=body.key)))


@router.post("/questions/{question_id}/sent", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def mark_sent(ctx: Context, agent: CurrentAgent, question_id: QuestionId, body: MarkSent) -> Response:
    """Record that your own question was shown in a chat."""
    await visible(ctx, agent, question_id)
    return reply(record_of(agent, await desk_of(ctx, agent).mark_sent(question_id, channel=body.channel)))


@router.post(
    "/questions/{question_id}/take-back",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def take_back(ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: TakeBack) -> Response:
    """Take back an approval that is not consumed. Allowed to those who gave it and to administrators."""
    check_by(caller, body.by)
    await visible(ctx, caller, question_id)
    question = await desk_of(ctx, caller).take_back(
        question_id, by=caller.person.responder, reason=body.reason
    )
    return reply(record_of(caller, question))


@router.post("/questions/{question_id}/report", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def report_question(
    ctx: Context, agent: CurrentAgent, question_id: QuestionId, body: ReportQuestion
) -> Response:
    """Report what came of the answer to your own question. A report is final; an approval must have been consumed."""
    await visible(ctx, agent, question_id)
    question = await desk_of(ctx, agent).report(
        question_id, ok=body.ok, text=body.text, link=body.link, details=body.details
    )
    return reply(record_of(agent, question))


@router.get("/questions/{question_id}/outcome", response_model=OutcomeState)
async def get_outcome(
    request: Request, ctx: Context, caller: CurrentCaller, question_id: QuestionId, wait: Wait = "0s"
) -> Response:
    """Get the outcome of a question. With `wait`, wait until it is settled, or return that it is still pending."""
    patience = seconds(wait, at_most=ctx.settings.longest_wait)
    if not (patience and _known_to_be_own(ctx, caller, question_id)):
        question = await visible(ctx, caller, question_id)
        if question.outcome is not None or not patience:
            return reply(_state(question.id, question.outcome))
    return LongPoll(
        request, ctx, [question_id], patience, lambda now: reply(_state(question_id, now.get(question_id)))
    )


@router.get("/outcomes", response_model=OutcomeStates)
async def get_outcomes(
    request: Request,
    ctx: Context,
    caller: CurrentCaller,
    *,
    id: Annotated[list[str], Query(min_length=1, max_length=200)],  # noqa: A002 -- the name of the parameter
    wait: Wait = "0s",
) -> Response:
    """Get the outcomes of up to 200 questions. With `wait`, wait until one is settled."""
    patience = seconds(wait, at_most=ctx.settings.longest_wait)
    ids = list(dict.fromkeys(id))
    found = await asyncio.gather(*(_find(ctx, caller, each) for each in ids))
    known = [question for question in found if question is not None]
    unknown = tuple(each for each, question in zip(ids, found, strict=True) if question is None)
    settled = [question for question in known if question.outcome is not None]
    if settled or unknown or not patience:
        states = (_state(question.id, question.outcome) for question in settled)
        return reply(OutcomeStates(settled=tuple(states), unknown=unknown))
    return LongPoll(
        request,
        ctx,
        ids,
        patience,
        lambda now: reply(OutcomeStates(settled=tuple(_state(*each) for each in now.items()), unknown=())),
    )


@router.post("/recover", response_model=RecoveredRecord, openapi_extra=IDEMPOTENT)
async def recover(ctx: Context, agent: CurrentAgent, body: Recover) -> Response:
    """When an agent starts: expire what it asked too long ago, and count what is still pending."""
    found = await desk_of(ctx, agent).recover(timedelta(seconds=body.max_age))
    return reply(RecoveredRecord(expired=found.expired, live=found.live))


@router.post("/run-due", response_model=RunDueRecord, openapi_extra=IDEMPOTENT)
async def run_due(ctx: Context, caller: CurrentCaller) -> Response:
    """Run what is due in the workspace's timelines. The server also does this by itself."""
    return reply(RunDueRecord(settled=await desk_of(ctx, caller).run_due()))


@router.get("/durability", response_model=DurabilityRecord)
async def get_durability(ctx: Context, _: CurrentCaller) -> Response:
    """Get what an acknowledged answer survives."""
    found = await ctx.desk.durability()
    return reply(DurabilityRecord(survives=found.survives, settings=found.settings))


async def _find(ctx: ServerContext, caller: Caller, question_id: str) -> Question | None:
    try:
        return await visible(ctx, caller, question_id)
    except QuestionNotFound:
        return None


def _known_to_be_own(ctx: ServerContext, caller: Caller, question_id: str) -> bool:
    """Whether this process knows that the caller asked this, so that a wait need not read the question first."""
    known = ctx.engine.recall(Ref(caller.workspace, question_id))
    if known is None or not (isinstance(caller, AgentCaller) and caller.agent == known.asker):
        return False
    note_question(known)
    return True


def _state(question_id: str, outcome: Outcome | None) -> OutcomeState:
    if outcome is None:
        return OutcomeState(id=question_id, status=Status.PENDING)
    return OutcomeState(id=question_id, status=outcome.status, outcome=OutcomeRecord.of(outcome))


def provenance_of(caller: PersonCaller, body: ResponseRequest) -> Provenance:
    """The provenance of an answer. The evidence is that of the session, or less if the client says less."""
    check_by(caller, body.by)
    evidence = caller.session.evidence
    if body.evidence == CLIENT_ASSERTED:
        evidence = CLIENT_ASSERTED
    elif body.evidence not in (None, SESSION, evidence):
        raise InvalidAnswer([Problem("evidence", "only the server decides how strong the evidence is")])
    return Provenance(
        channel=body.channel or "api",
        evidence=evidence,
        shown_digest=body.shown_digest,
        seen=body.seen,
        details=body.details,
    )


def _span(name: str, text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        span = span_of(text)
    except (ValueError, OverflowError):
        span = timedelta.max
    if span > LONGEST:
        raise InvalidRequest([Problem(f"query.{name}", "expected a duration such as 90s, 2h or 3d")])
    return span


def check_by(caller: PersonCaller, by: str | None) -> None:
    """Refuse a request in the name of somebody else."""
    if by not in (None, caller.person.id):
        raise PermissionDenied(caller.person.id, "you can only act in your own name")


def is_again(request: Request) -> bool:
    """Whether this request may have been done before and its reply was lost."""
    return getattr(request.state, "again", False)


def is_own_answer(settled: AlreadySettled, question: Question, person: str, value: Json) -> bool:
    """Whether it was settled with exactly this answer of this person: sent twice, or the reply was lost."""
    outcome = settled.outcome
    if not (isinstance(outcome, Answered) and outcome.source == "person" and outcome.by == person):
        return False
    try:
        return bool(check_answer(question.form, value) == outcome.value)
    except InvalidAnswer:
        return False
