"""Questions over HTTP: asked by agents, answered by people, looked at by those they concern."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from handraise.desk.local_desk import LocalDesk
from handraise.model.errors import (
    AlreadySettled,
    InvalidAnswer,
    InvalidRequest,
    PermissionDenied,
    Problem,
    QuestionNotFound,
    StillPending,
    Unauthenticated,
)
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Declined, Withdrawn
from handraise.model.people import CLIENT_ASSERTED, SESSION
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.validation import check_answer
from handraise.ports.desk import Order
from handraise.server.api.responses import After, Limit, QuestionId, Wait, reply, seconds
from handraise.server.auth.authenticator import (
    AgentCaller,
    AnyCaller,
    AnyLooker,
    Caller,
    Context,
    Looker,
    PersonCaller,
    ReaderCaller,
    TheAdmin,
    TheAgent,
    ThePerson,
    admin_of,
    still_there,
)
from handraise.server.context import ServerContext
from handraise.server.live.stream_limits import limits_of
from handraise.server.middleware.idempotency import PARAMETER, IdempotentRoute
from handraise.server.observability.traces import asked_in
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
    Responding,
    TakeBack,
    WithdrawAll,
    WithdrawQuestion,
)

router = APIRouter(prefix="/v1", tags=["questions"], route_class=IdempotentRoute)

IDEMPOTENT = {"parameters": [PARAMETER]}


def desk_of(ctx: ServerContext, caller: Looker) -> LocalDesk:
    """The desk as this caller may use it: in its workspace and, for an agent, in its name."""
    asker = caller.agent if isinstance(caller, AgentCaller) else None
    return ctx.desk.scoped(caller.workspace, asker=asker)


async def visible(ctx: ServerContext, caller: Looker, question_id: str) -> Question:
    """A question that concerns this caller. Any other is not there, wherever it is."""
    question = await desk_of(ctx, caller).get(question_id)
    if not caller.may_see(question):
        raise QuestionNotFound(question_id, caller.workspace)
    return question


def record_of(caller: Looker, question: Question) -> QuestionRecord:
    """A question as this caller may see it: its state is for whoever asked."""
    own = isinstance(caller, AgentCaller) and caller.agent == question.asker
    return QuestionRecord.of(question, with_state=own)


@router.post("/questions", status_code=201, response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def post_question(request: Request, ctx: Context, agent: TheAgent, body: PostQuestion) -> Response:
    """Leave a question. With a key or id that is there already, it is the question that was left first."""
    made = body.id or getattr(request.state, "made", None) or ctx.new_id()
    desk = ctx.desk.scoped(agent.workspace, asker=agent.agent, new_id=lambda: made)
    options = body.options()
    if (trace := asked_in(request.headers)) is not None:
        options.setdefault("trace", trace)
    question = await desk.post(body.prompt, **options)
    where = {"location": f"/v1/questions/{question.id}"} if question.id.isascii() else None
    return reply(record_of(agent, question), status=201, headers=where)


@router.get("/questions", response_model=QuestionPage)
async def list_questions(
    ctx: Context,
    caller: AnyLooker,
    *,
    conversation: Annotated[str | None, Query(max_length=200)] = None,
    asker: Annotated[str | None, Query(max_length=200)] = None,
    key: Annotated[str | None, Query(max_length=200, description="the question with this key")] = None,
    recipient: Annotated[
        str | None, Query(max_length=200, description="what this person may answer or see: oneself")
    ] = None,
    status: Annotated[
        Literal["pending", "settled"], Query(description="what waits, or what has ended")
    ] = "pending",
    order: Annotated[
        Order, Query(description="what is pending by age, the oldest first, or by urgency")
    ] = "age",
    after: After = None,
    limit: Limit = 50,
) -> Response:
    """What is pending, oldest first: an agent's own, or what a person may answer; all for an administrator.

    With `order=urgency` it is the order of an inbox: what was escalated, then by expiry, by risk, and by age.
    With `status=settled` it is what has ended, the newest ending first: an agent's own, or what a person may see.
    Such a page may be short, or empty, and have an `after` all the same. With a `key` it is the question with
    that key, pending or not: of this agent, or of the `asker` that a person names. A reader gets what has ended in the whole
    workspace, and nothing that waits.
    """
    desk = desk_of(ctx, caller)
    if key is not None:
        if asker is not None and not isinstance(caller, AgentCaller):
            desk = desk.scoped(asker=asker)  # a key is an agent's own, so a person says whose
        found = await desk.find_by_key(key)
        shown = (found,) if found is not None and caller.may_see(found) else ()
        return reply(QuestionPage(items=tuple(record_of(caller, each) for each in shown)))
    whose = None
    if isinstance(caller, ReaderCaller):
        if status == "pending" or recipient is not None:
            raise PermissionDenied(
                caller.name, "this key reads what is settled: write status=settled, and no recipient"
            )
    elif isinstance(caller, AgentCaller):
        if recipient is not None:
            raise PermissionDenied(caller.agent, "an agent has no inbox")
        if asker not in (None, caller.agent):
            return reply(QuestionPage(items=()))
        asker = caller.agent
    elif recipient is not None or not caller.is_admin:
        _check_by(caller, recipient)
        whose = caller.person.responder
    look = partial(desk.list_pending, order=order) if status == "pending" else desk.list_settled
    try:
        page = await look(conversation=conversation, recipient=whose, asker=asker, after=after, limit=limit)
    except ValueError:
        raise InvalidRequest([Problem("query.after", "is not a cursor of these pages")]) from None
    records = tuple(record_of(caller, question) for question in page.items)
    return reply(QuestionPage(items=records, next=page.next))


@router.get("/questions/{question_id}", response_model=QuestionRecord)
async def get_question(ctx: Context, caller: AnyLooker, question_id: QuestionId) -> Response:
    """A question as it stands."""
    return reply(record_of(caller, await visible(ctx, caller, question_id)))


@router.get("/questions/{question_id}/history", response_model=EventPage)
async def get_history(ctx: Context, caller: AnyLooker, question_id: QuestionId) -> Response:
    """Everything that happened to a question, oldest first."""
    await visible(ctx, caller, question_id)
    events = await desk_of(ctx, caller).history(question_id)
    return reply(EventPage(items=tuple(map(EventRecord.of, events))))


@router.post(
    "/questions/{question_id}/answer",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def answer_question(
    request: Request, ctx: Context, caller: ThePerson, question_id: QuestionId, body: AnswerQuestion
) -> Response:
    """Give an answer, in one's own name. It is answered then, or pending more votes."""
    provenance = _provenance(caller, body)
    question = await visible(ctx, caller, question_id)
    try:
        question = await desk_of(ctx, caller).answer(
            question_id,
            body.value,
            by=caller.person.responder,
            provenance=provenance,
        )
    except AlreadySettled as settled:
        if not (_is_again(request) and is_own_answer(settled, question, caller.person.id, body.value)):
            raise
        question = await visible(ctx, caller, question_id)
    return reply(record_of(caller, question))


@router.post(
    "/questions/{question_id}/reject-answer",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def reject_answer(
    ctx: Context, caller: ThePerson, question_id: QuestionId, body: RejectAnswer
) -> Response:
    """Keep an answer that fits the form but not the asker's need."""
    provenance = _provenance(caller, body)
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
    request: Request, ctx: Context, caller: ThePerson, question_id: QuestionId, body: DeclineQuestion
) -> Response:
    """Say that one will not answer."""
    provenance = _provenance(caller, body)
    await visible(ctx, caller, question_id)
    try:
        question = await desk_of(ctx, caller).decline(
            question_id,
            by=caller.person.responder,
            reason=body.reason,
            provenance=provenance,
        )
    except AlreadySettled as settled:
        outcome = settled.outcome
        if not (_is_again(request) and isinstance(outcome, Declined) and outcome.by == caller.person.id):
            raise
        question = await visible(ctx, caller, question_id)
    return reply(record_of(caller, question))


@router.post(
    "/questions/{question_id}/withdraw",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def withdraw_question(
    request: Request, ctx: Context, caller: AnyCaller, question_id: QuestionId, body: WithdrawQuestion
) -> Response:
    """Take back a question: an agent its own, an administrator anybody's."""
    by = None
    if isinstance(caller, PersonCaller) or body.by is not None:
        admin = await admin_of(request)
        _check_by(admin, body.by)
        by = admin.person.responder
    await visible(ctx, caller, question_id)
    try:
        question = await desk_of(ctx, caller).withdraw(question_id, reason=body.reason, by=by)
    except AlreadySettled as settled:
        outcome = settled.outcome
        if not (_is_again(request) and isinstance(outcome, Withdrawn) and outcome.reason == body.reason):
            raise
        question = await visible(ctx, caller, question_id)
    return reply(record_of(caller, question))


@router.post("/withdraw", response_model=WithdrawnRecord, openapi_extra=IDEMPOTENT)
async def withdraw_all(ctx: Context, admin: TheAdmin, body: WithdrawAll) -> Response:
    """Take back everything that an agent has pending, as an administrator."""
    desk = desk_of(ctx, admin)
    number = await desk.withdraw_all(body.asker, by=admin.person.responder, reason=body.reason)
    return reply(WithdrawnRecord(withdrawn=number))


@router.post(
    "/questions/{question_id}/apply-grant",
    response_model=QuestionRecord,
    responses={204: {"description": "no grant holds: a person must decide"}},
    openapi_extra=IDEMPOTENT,
)
async def apply_grant(ctx: Context, agent: TheAgent, question_id: QuestionId) -> Response:
    """Answer an approval of one's own from a grant that holds for it."""
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
    agent: TheAgent,
    question_id: QuestionId,
    body: ConsumeQuestion | None = None,
) -> Response:
    """Get the approved action to execute it now; it is given out once.

    The same `request` again, or the same idempotency key where there is none, gets the same action again.
    """
    await visible(ctx, agent, question_id)
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
    ctx: Context, agent: TheAgent, question_id: QuestionId, body: ClaimSending
) -> Response:
    """Take on to show a question of one's own in a chat; of all who try, one is told to, until its lease ends."""
    await visible(ctx, agent, question_id)
    claimed = await desk_of(ctx, agent).claim_sending(question_id, lease=body.lease)
    return reply(ClaimedRecord(claimed=claimed))


@router.post("/questions/{question_id}/join", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def join_question(
    ctx: Context, agent: TheAgent, question_id: QuestionId, body: JoinQuestion
) -> Response:
    """Have another key of one's own stand for a pending question too."""
    await visible(ctx, agent, question_id)
    return reply(record_of(agent, await desk_of(ctx, agent).join(question_id, key=body.key)))


@router.post("/questions/{question_id}/sent", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def mark_sent(ctx: Context, agent: TheAgent, question_id: QuestionId, body: MarkSent) -> Response:
    """Say that a question of one's own was shown in a chat."""
    await visible(ctx, agent, question_id)
    return reply(record_of(agent, await desk_of(ctx, agent).mark_sent(question_id, channel=body.channel)))


@router.post(
    "/questions/{question_id}/take-back",
    response_model=QuestionRecord,
    openapi_extra=IDEMPOTENT,
)
async def take_back(ctx: Context, caller: ThePerson, question_id: QuestionId, body: TakeBack) -> Response:
    """Take back an approval that nobody has consumed: for those who gave it, and for administrators."""
    _check_by(caller, body.by)
    await visible(ctx, caller, question_id)
    question = await desk_of(ctx, caller).take_back(
        question_id, by=caller.person.responder, reason=body.reason
    )
    return reply(record_of(caller, question))


@router.get("/questions/{question_id}/outcome", response_model=OutcomeState)
async def get_outcome(
    request: Request, ctx: Context, caller: AnyCaller, question_id: QuestionId, wait: Wait = "0s"
) -> Response:
    """How a question ended; with `wait`, as soon as it has, or that it is pending still."""
    patience = seconds(wait, at_most=ctx.settings.longest_wait)
    question = await visible(ctx, caller, question_id)
    [question] = await _settled(request, ctx, [question], patience) or [question]
    return reply(_state(question))


@router.get("/outcomes", response_model=OutcomeStates)
async def get_outcomes(
    request: Request,
    ctx: Context,
    caller: AnyCaller,
    *,
    id: Annotated[list[str], Query(min_length=1, max_length=200)],  # noqa: A002 -- the name of the parameter
    wait: Wait = "0s",
) -> Response:
    """Which of up to 200 questions are settled, and how; with `wait`, as soon as one is."""
    patience = seconds(wait, at_most=ctx.settings.longest_wait)
    ids = list(dict.fromkeys(id))
    found = await asyncio.gather(*(_find(ctx, caller, each) for each in ids))
    known = [question for question in found if question is not None]
    unknown = tuple(each for each, question in zip(ids, found, strict=True) if question is None)
    settled = await _settled(request, ctx, known, 0 if unknown else patience)
    return reply(OutcomeStates(settled=tuple(map(_state, settled)), unknown=unknown))


@router.post("/recover", response_model=RecoveredRecord, openapi_extra=IDEMPOTENT)
async def recover(ctx: Context, agent: TheAgent, body: Recover) -> Response:
    """At an agent's start-up: expire what it asked too long ago, and count what is live again."""
    found = await desk_of(ctx, agent).recover(timedelta(seconds=body.max_age))
    return reply(RecoveredRecord(expired=found.expired, live=found.live))


@router.post("/run-due", response_model=RunDueRecord, openapi_extra=IDEMPOTENT)
async def run_due(ctx: Context, caller: AnyCaller) -> Response:
    """Do what the workspace's timelines say is due; the server does so by itself as well."""
    return reply(RunDueRecord(settled=await desk_of(ctx, caller).run_due()))


@router.get("/durability", response_model=DurabilityRecord)
async def get_durability(ctx: Context, _: AnyCaller) -> Response:
    """What an acknowledged answer survives."""
    found = await ctx.desk.durability()
    return reply(DurabilityRecord(survives=found.survives, settings=found.settings))


async def _find(ctx: ServerContext, caller: Caller, question_id: str) -> Question | None:
    try:
        return await visible(ctx, caller, question_id)
    except QuestionNotFound:
        return None


async def _settled(
    request: Request, ctx: ServerContext, questions: list[Question], patience: float
) -> list[Question]:
    """Those of these questions that are settled, waiting for the first one; none where the server stops."""
    settled = [question for question in questions if question.outcome is not None]
    if settled or not questions or not patience:
        return settled
    desk = ctx.desk.scoped(questions[0].workspace)
    ids = [question.id for question in questions]
    with limits_of(request).hold(request.state.caller):
        waiting = asyncio.create_task(desk.wait_any(ids, timeout=patience))
        stopping = asyncio.create_task(ctx.stopping.wait())
        try:
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return []
            await waiting
        except StillPending:
            return []
        finally:
            waiting.cancel()
            stopping.cancel()
            await asyncio.gather(waiting, stopping, return_exceptions=True)
            # A task that failed keeps this frame: if the frame kept the task, only the collector would free them.
            del waiting, stopping
    if not await still_there(request):
        raise Unauthenticated("This key or session has ended meanwhile.")
    now = await asyncio.gather(*(desk.get(each) for each in ids))
    return [question for question in now if question.outcome is not None]


def _state(question: Question) -> OutcomeState:
    outcome = None if question.outcome is None else OutcomeRecord.of(question.outcome)
    return OutcomeState(id=question.id, status=question.status, outcome=outcome)


def _provenance(caller: PersonCaller, body: Responding) -> Provenance:
    """Where an answer came from. The evidence is what the session shows, or less if the client says less."""
    _check_by(caller, body.by)
    evidence = caller.session.evidence
    if body.evidence == CLIENT_ASSERTED:
        evidence = CLIENT_ASSERTED
    elif body.evidence not in (None, SESSION, evidence):
        raise InvalidAnswer([Problem("evidence", "the server itself says how sure it is of the person")])
    return Provenance(
        channel=body.channel or "api",
        evidence=evidence,
        shown_digest=body.shown_digest,
        details=body.details,
    )


def _check_by(caller: PersonCaller, by: str | None) -> None:
    if by not in (None, caller.person.id):
        raise PermissionDenied(caller.person.id, "one answers, and looks, in one's own name only")


def _is_again(request: Request) -> bool:
    """Whether this request may have been done before, by somebody whose reply got lost."""
    return getattr(request.state, "again", False)


def is_own_answer(settled: AlreadySettled, question: Question, person: str, value: Json) -> bool:
    """Whether it ended with just this answer of this person: one that was sent twice, or whose reply got lost."""
    outcome = settled.outcome
    if not (isinstance(outcome, Answered) and outcome.source == "person" and outcome.by == person):
        return False
    try:
        return bool(check_answer(question.form, value) == outcome.value)
    except InvalidAnswer:
        return False
