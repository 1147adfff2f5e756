"""Threads over HTTP: people ask back and note, agents reply."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from handraise.model.thread_messages import messages_of
from handraise.server.api.question_routes import (
    IDEMPOTENT,
    desk_of,
    events_for,
    provenance_of,
    record_of,
    visible,
)
from handraise.server.api.responses import QuestionId, reply
from handraise.server.auth.authenticator import Context, CurrentAgent, CurrentCallerOrReader, CurrentPerson
from handraise.server.middleware.idempotency import IdempotentRoute
from handraise.wire.records import MessageRecord, QuestionRecord, Thread
from handraise.wire.requests import ReplyToPeople, WriteMessage

router = APIRouter(prefix="/v1", tags=["questions"], route_class=IdempotentRoute)


@router.get("/questions/{question_id}/thread", response_model=Thread)
async def get_thread(ctx: Context, caller: CurrentCallerOrReader, question_id: QuestionId) -> Response:
    """List what people and the agent have written about a question, oldest first. An agent gets notes without their text."""
    await visible(ctx, caller, question_id)
    history = events_for(caller, await desk_of(ctx, caller).history(question_id))
    return reply(Thread(items=tuple(map(MessageRecord.of, messages_of(history)))))


@router.post("/questions/{question_id}/ask-back", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def ask_back(
    ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: WriteMessage
) -> Response:
    """Ask the agent something about its question. The question stays pending, and it is the agent's turn."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    question = await desk_of(ctx, caller).ask_back(
        question_id, body.text, by=caller.person.responder, provenance=provenance
    )
    return reply(record_of(caller, question))


@router.post("/questions/{question_id}/note", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def write_note(
    ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: WriteMessage
) -> Response:
    """Note something for the other people who may answer. Agents do not see its text."""
    provenance = provenance_of(caller, body)
    await visible(ctx, caller, question_id)
    question = await desk_of(ctx, caller).note(
        question_id, body.text, by=caller.person.responder, provenance=provenance
    )
    return reply(record_of(caller, question))


@router.post("/questions/{question_id}/reply", response_model=QuestionRecord, openapi_extra=IDEMPOTENT)
async def reply_to_people(
    ctx: Context, agent: CurrentAgent, question_id: QuestionId, body: ReplyToPeople
) -> Response:
    """Reply to what people asked about your own question. People who had approved it must approve it again."""
    await visible(ctx, agent, question_id)
    question = await desk_of(ctx, agent).reply(
        question_id, body.text, to=body.to, attachments=body.attachments
    )
    return reply(record_of(agent, question))
