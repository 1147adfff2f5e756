"""Live events: every event that the caller may see, once and in order, also over broken connections."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.sse import format_sse_event
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from handraise.model.errors import InvalidRequest, StoreUnavailable
from handraise.model.events import Event
from handraise.model.problems import Problem
from handraise.server.api.question_routes import desk_of
from handraise.server.api.responses import Limit, reply
from handraise.server.auth.authenticator import Caller, Context, CurrentCaller, context_of, still_authorized
from handraise.server.context import ServerContext
from handraise.server.live.broadcaster import Streams, StreamsDep
from handraise.server.live.stream_limits import StreamLimitsDep
from handraise.server.live.visibility import VisibilityDep
from handraise.wire.records import EventPage, EventRecord

router = APIRouter(prefix="/v1", tags=["events"])

BEGINNING = "0"
"""The cursor before the first event, as a client writes it: an empty one would mean none."""

_CURSOR = re.compile(r"\d{1,18}(\.\d{1,18})?")
_PAGES = 20

Cursor = Annotated[
    str | None,
    Query(
        max_length=40, description="the cursor to continue from; `0` is the beginning", pattern=r"^[0-9.]*$"
    ),
]


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"description": "events as they happen", "content": {"text/event-stream": {}}}},
)
async def follow_events(
    request: Request,
    ctx: Context,
    caller: CurrentCaller,
    streams: StreamsDep,
    limits: StreamLimitsDep,
    *,
    after: Cursor = None,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> Response:
    """Stream the events of all questions that the caller may see, as server-sent events.

    Each has an id. A client that reconnects with it as `Last-Event-ID` misses nothing and gets nothing twice.
    Without one the stream starts now. The first message, `ready`, has the cursor where it starts.
    """
    start = _parse_cursor(last_event_id or after)
    if start is None:
        start = await ctx.store.feed_end(caller.workspace)
    else:
        await _page(ctx, caller, start, 1)  # refuse an invalid cursor before the stream starts
    return EventStream(_stream(request, caller, streams, start), limits.hold(caller))


class EventStream(StreamingResponse):
    """A response that streams these messages, with headers against buffering proxies.

    The context is open while it streams. An error on entering it is answered instead of the stream.
    """

    def __init__(self, messages: AsyncIterator[bytes], held: AbstractContextManager[None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(messages, media_type="text/event-stream", headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the end, or until the client disconnects."""
        with self._held:
            await super().__call__(scope, receive, send)


@router.get("/feed", response_model=EventPage)
async def read_feed(
    ctx: Context,
    caller: CurrentCaller,
    visibility: VisibilityDep,
    *,
    after: Cursor = None,
    limit: Limit = 500,
) -> Response:
    """List the same events in pages, from the beginning. Continue with `next` until a page has none."""
    cursor = _parse_cursor(after) or ""
    found: list[Event] = []
    for _ in range(_PAGES):
        page = await _page(ctx, caller, cursor, limit)
        if not page:
            break
        found += (await visibility.filter_visible(caller, page))[: limit - len(found)]
        cursor = found[-1].cursor if len(found) == limit else page[-1].cursor
        if len(found) == limit:
            break
    return reply(EventPage(items=tuple(map(EventRecord.of, found)), next=cursor or None))


async def _stream(request: Request, caller: Caller, streams: Streams, start: str) -> AsyncIterator[bytes]:
    """The messages of one stream. It ends when the server stops or the credential ends."""
    ready = json.dumps({"heartbeat": context_of(request).settings.heartbeat})
    yield format_sse_event(event="ready", data_str=ready, id=start or BEGINNING)
    # If the store is unavailable the stream ends, and its client reconnects with its cursor.
    with suppress(StoreUnavailable):
        async with aclosing(streams.follow(caller, after=start)) as following:
            async for page in following:
                if page.events:
                    yield page.text
                elif await still_authorized(request):
                    # An id without data moves the client's cursor past the events of others.
                    yield format_sse_event(comment="still here", id=page.cursor or BEGINNING)
                else:
                    return


def _parse_cursor(given: str | None) -> str | None:
    """Check the form of a cursor; the beginning is an empty one."""
    if given is None:
        return None
    if given in ("", BEGINNING):
        return ""
    if not _CURSOR.fullmatch(given):
        raise InvalidRequest([Problem("after", "is not a cursor of this feed")])
    return given


async def _page(ctx: ServerContext, caller: Caller, cursor: str, limit: int) -> Sequence[Event]:
    try:
        return (await desk_of(ctx, caller).feed(after=cursor or None, limit=limit)).items
    except ValueError:
        raise InvalidRequest([Problem("after", "is not a cursor of this feed")]) from None
