"""The two layers of a tool call over HTTP: what a client has to draw, and what its people say to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Path
from fastapi.sse import format_sse_event
from starlette.responses import Response

from handraise.model.errors import InvalidRequest, Problem
from handraise.model.events import EventKind
from handraise.model.json_values import canonical_json
from handraise.model.questions import Question
from handraise.server.api.event_routes import EventStream
from handraise.server.api.question_routes import IDEMPOTENT, desk_of, visible
from handraise.server.api.responses import Wait, reply, seconds
from handraise.server.auth.authenticator import Caller, Context, ThePerson
from handraise.server.context import ServerContext
from handraise.server.live.broadcaster import Streams, TheStreams
from handraise.server.live.stream_limits import TheStreamLimits
from handraise.server.middleware.idempotency import IdempotentRoute
from handraise.tools import ToolResultSubmission, client_message, submit_tool_result
from handraise.wire.records import ClientMessages, ToolResultRecord

router = APIRouter(prefix="/v1", tags=["conversations"], route_class=IdempotentRoute)

_STREAM = "text/event-stream"
_NAMES = {
    EventKind.ASKED: "call",
    EventKind.ESCALATED: "call",
    EventKind.ANSWERED: "settled",
    EventKind.DECLINED: "settled",
    EventKind.EXPIRED: "settled",
    EventKind.WITHDRAWN: "settled",
    EventKind.EXHAUSTED: "settled",
}
"""What a client is told of, and how; who is asked for the first time by an escalation draws it then."""

Conversation = Annotated[str, Path(max_length=200, description="the conversation's id")]


@router.get("/conversations/{conversation}/client-messages", response_model=ClientMessages)
async def get_client_messages(ctx: Context, caller: ThePerson, conversation: Conversation) -> Response:
    """What a client has to draw for a conversation, oldest first: the questions that concern the caller."""
    pending = [question async for question in _pending(ctx, caller, conversation)]
    return reply(ClientMessages(messages=tuple(map(client_message, pending))))


@router.post(
    "/conversations/{conversation}/tool-results",
    response_model=ToolResultRecord,
    responses={
        200: {"description": "what it makes for the model", "content": {_STREAM: {}}},
    },
    openapi_extra=IDEMPOTENT,
)
async def submit(
    ctx: Context,
    caller: ThePerson,
    streams: TheStreams,
    conversation: Conversation,
    body: ToolResultSubmission,
    *,
    limits: TheStreamLimits,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    wait: Wait = "30s",
) -> Response:
    """Take a client's result as the answer of whoever is signed in.

    Where the client accepts `text/event-stream`, the `result` is the first of several events: a `call` for
    each question that comes up in the conversation, a `settled` for each that ends, for as long as `wait`.
    A stream is not kept for its idempotency key.
    """
    patience = seconds(wait, at_most=ctx.settings.longest_wait)
    if body.conversation not in (None, conversation):
        raise InvalidRequest([Problem("body.conversation", "is not the conversation of the path")])
    if _STREAM in accept:
        limits.check(caller)  # now, while nothing is recorded
    await visible(ctx, caller, body.tool_call_id.partition("_")[2])
    start = await ctx.store.feed_end(caller.workspace)
    message = await submit_tool_result(
        desk_of(ctx, caller),
        body.model_copy(update={"conversation": conversation}),
        by=caller.person.responder,
    )
    result = ToolResultRecord(message=message)
    if _STREAM not in accept:
        return reply(result)
    messages = _stream(ctx, caller, streams, conversation, result, after=start, patience=patience)
    return EventStream(messages, limits.count(caller))


async def _pending(ctx: ServerContext, caller: Caller, conversation: str) -> AsyncIterator[Question]:
    desk, after = desk_of(ctx, caller), None
    while True:
        page = await desk.list_pending(conversation=conversation, after=after)
        for question in page.items:
            if caller.may_see(question):
                yield question
        if page.next is None:
            return
        after = page.next


async def _stream(
    ctx: ServerContext,
    caller: Caller,
    streams: Streams,
    conversation: str,
    result: ToolResultRecord,
    *,
    after: str,
    patience: float,
) -> AsyncIterator[bytes]:
    """The result, then every question that comes up or ends, each with the message to draw it from."""
    yield format_sse_event(event="result", data_str=result.model_dump_json())
    desk, drawn = desk_of(ctx, caller), set[str]()
    async with aclosing(streams.follow(caller, after=after, patience=patience)) as following:
        async for seen in following:
            if not seen.events:
                yield format_sse_event(comment="still here")
            for event in seen.events:
                name = _NAMES.get(event.kind)
                if name is None:
                    continue
                question = await desk.get(event.question_id)
                over = question.outcome is not None or question.id in drawn
                if question.conversation != conversation or (name == "call" and over):
                    continue
                drawn.add(question.id)
                yield format_sse_event(event=name, data_str=canonical_json(client_message(question)))
