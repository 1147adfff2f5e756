"""Sharing the work over HTTP: send back, take, release, bring in, hand over, set aside, put back."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from handraise.model.errors import AlreadySettled
from handraise.model.outcomes import Returned
from handraise.server.api.question_routes import (
    IDEMPOTENT,
    desk_of,
    is_again,
    provenance_of,
    record_of,
    visible,
)
from handraise.server.api.responses import QuestionId, reply
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.middleware.idempotency import IdempotentRoute
from handraise.wire.records import QuestionRecord
from handraise.wire.requests import BringIn, SendBack, SetAside, ShareQuestion

router = APIRouter(prefix="/v1", tags=["questions"], route_class=IdempotentRoute)


@router.post("/questions/{question_id}/send-back", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def send_back(
    request: Request, ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: SendBack
) -> Response:
    """Send a question back to be changed and asked again. This is never an approval."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    try:
        question = await desk_of(ctx, caller).send_back(
            question_id, by=caller.person.responder, reason=body.reason, provenance=provenance
        )
    except AlreadySettled as settled:
        outcome = settled.outcome
        if not (is_again(request) and isinstance(outcome, Returned) and outcome.by == caller.person.id):
            raise
        question = await visible(ctx, caller, question_id)
    return reply(record_of(caller, question))


@router.post("/questions/{question_id}/take", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def take_question(
    ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: ShareQuestion
) -> Response:
    """Say that you are working on the answer, for ten minutes. Others see it and may still answer."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    desk = desk_of(ctx, caller)
    return reply(
        record_of(caller, await desk.take(question_id, by=caller.person.responder, provenance=provenance))
    )


@router.post("/questions/{question_id}/release", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def release_question(
    ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: ShareQuestion
) -> Response:
    """Say that you are not working on the answer any more."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    desk = desk_of(ctx, caller)
    return reply(
        record_of(caller, await desk.release(question_id, by=caller.person.responder, provenance=provenance))
    )


@router.post("/questions/{question_id}/bring-in", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def bring_in(ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: BringIn) -> Response:
    """Have other people and groups asked too. They may answer like the others."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    question = await desk_of(ctx, caller).bring_in(
        question_id, body.people, by=caller.person.responder, reason=body.reason, provenance=provenance
    )
    return reply(record_of(caller, question))


@router.post("/questions/{question_id}/hand-over", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def hand_over(ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: BringIn) -> Response:
    """Have other people and groups asked, and take the question out of your own inbox."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    question = await desk_of(ctx, caller).hand_over(
        question_id, body.people, by=caller.person.responder, reason=body.reason, provenance=provenance
    )
    return reply(record_of(caller, question))


@router.post("/questions/{question_id}/set-aside", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def set_aside(ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: SetAside) -> Response:
    """Take a question out of your inbox until a time, or for good. You may still answer it."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    question = await desk_of(ctx, caller).set_aside(
        question_id, by=caller.person.responder, until=body.until, provenance=provenance
    )
    return reply(record_of(caller, question))


@router.post("/questions/{question_id}/put-back", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def put_back(
    ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: ShareQuestion
) -> Response:
    """Put a question that you set aside back into your inbox."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    desk = desk_of(ctx, caller)
    return reply(
        record_of(caller, await desk.put_back(question_id, by=caller.person.responder, provenance=provenance))
    )
