"""Tool calls over HTTP: what a client has to show, and the results of its people."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request
from fastapi.sse import format_sse_event
from starlette.responses import Response

from handraise.model.errors import InvalidRequest
from handraise.model.events import Event, EventKind
from handraise.model.json_values import canonical_json
from handraise.model.problems import Problem
from handraise.model.questions import Question
from handraise.server.api.event_routes import EventStream
from handraise.server.api.question_routes import IDEMPOTENT, desk_of, visible
from handraise.server.api.responses import Wait, reply, seconds
from handraise.server.auth.authenticator import Caller, Context, CurrentPerson
from handraise.server.context import ServerContext
from handraise.server.live.broadcaster import StreamsDep
from handraise.server.live.stream_limits import StreamLimitsDep
from handraise.server.live.visibility import VisibleEvents
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
"""The events that a client gets, and their names. An escalation is a new call for those it adds."""

Conversation = Annotated[str, Path(max_length=200, description="the conversation's id")]


@router.get("/conversations/{conversation}/client-messages", response_model=ClientMessages)
async def get_client_messages(ctx: Context, caller: CurrentPerson, conversation: Conversation) -> Response:
    """List what a client has to show for a conversation, oldest first: the questions that the caller may see."""
    pending = [question async for question in _pending(ctx, caller, conversation)]
    return reply(ClientMessages(messages=tuple(map(client_message, pending))))


@router.post(
    "/conversations/{conversation}/tool-results",
    response_model=ToolResultRecord,
    responses={
        200: {"description": "the message for the model", "content": {_STREAM: {}}},
    },
    openapi_extra=IDEMPOTENT,
)
async def submit(
    request: Request,
    ctx: Context,
    caller: CurrentPerson,
    conversation: Conversation,
    body: ToolResultSubmission,
    *,
    streams: StreamsDep,
    limits: StreamLimitsDep,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    wait: Wait = "30s",
) -> Response:
    """Submit a client's result as the answer of the person who is signed in.

    If the client accepts `text/event-stream`, the `result` is the first of several events: a `call` for
    each new question in the conversation and a `settled` for each that is settled, for as long as `wait`.
    A stream is not stored for its idempotency key.
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
    first = format_sse_event(event="result", data_str=result.model_dump_json())
    follow = partial(streams.follow, caller, request.state.token, after=start, patience=patience)
    return EventStream(first, _Conversation(ctx, caller, conversation, follow), limits.count(caller))


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


class _Conversation:
    """Every new or settled question of a conversation, each with the message to show."""

    def __init__(
        self,
        ctx: ServerContext,
        caller: Caller,
        conversation: str,
        follow: Callable[..., AsyncGenerator[VisibleEvents, None]],
    ) -> None:
        self._desk = desk_of(ctx, caller)
        self._conversation = conversation
        self._follow = follow
        self._drawn: set[str] = set()

    async def send_all(self, send: Callable[[bytes], Awaitable[None]], gone: asyncio.Future[None]) -> None:
        """Send the messages."""
        async with aclosing(self._follow(gone=gone)) as following:
            async for page in following:
                if not page.events:
                    await send(format_sse_event(comment="still here"))
                for event in page.events:
                    if (message := await self._message(event)) is not None:
                        await send(message)

    async def _message(self, event: Event) -> bytes | None:
        name = _NAMES.get(event.kind)
        if name is None:
            return None
        question = await self._desk.get(event.question_id)
        over = question.outcome is not None or question.id in self._drawn
        if question.conversation != self._conversation or (name == "call" and over):
            return None
        self._drawn.add(question.id)
        return format_sse_event(event=name, data_str=canonical_json(client_message(question)))
