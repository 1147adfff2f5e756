"""Live events: every event that concerns the caller, once and in order, over a connection that may break."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.sse import format_sse_event
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from handraise.model.errors import InvalidRequest, Problem, StoreUnavailable
from handraise.model.events import Event
from handraise.server.api.question_routes import desk_of
from handraise.server.api.responses import Limit, reply
from handraise.server.auth.authenticator import AnyCaller, Caller, Context, still_there
from handraise.server.context import ServerContext
from handraise.server.live.broadcaster import Streams, TheStreams
from handraise.server.live.stream_limits import TheStreamLimits
from handraise.server.live.visibility import TheSights
from handraise.wire.records import EventPage, EventRecord

router = APIRouter(prefix="/v1", tags=["events"])

BEGINNING = "0"
"""The cursor before the first event, as a client says it: an empty one would be none."""

_CURSOR = re.compile(r"\d{1,18}(\.\d{1,18})?")
_PAGES = 20

Cursor = Annotated[
    str | None,
    Query(max_length=40, description="a cursor to go on from; `0` is the beginning", pattern=r"^[0-9.]*$"),
]


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"description": "events as they happen", "content": {"text/event-stream": {}}}},
)
async def follow_events(
    request: Request,
    ctx: Context,
    caller: AnyCaller,
    streams: TheStreams,
    limits: TheStreamLimits,
    *,
    after: Cursor = None,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> Response:
    """Server-sent events of all questions that concern the caller, as they happen.

    Each has an id; a client that comes back with it as `Last-Event-ID` misses nothing and gets nothing twice.
    Without one it begins now. The first message, `ready`, says from where.
    """
    start = _cursor(last_event_id or after)
    if start is None:
        start = await ctx.store.feed_end(caller.workspace)
    else:
        await _page(ctx, caller, start, 1)  # a cursor that is none is refused while it still can be
    return EventStream(_stream(request, caller, streams, start), limits.hold(caller))


class EventStream(StreamingResponse):
    """The response that streams these messages, past proxies that would rather keep them.

    It is held by the context for as long as it lasts. What that raises is answered in its place.
    """

    def __init__(self, messages: AsyncIterator[bytes], held: AbstractContextManager[None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(messages, media_type="text/event-stream", headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the end, or until nobody listens."""
        with self._held:
            await super().__call__(scope, receive, send)


@router.get("/feed", response_model=EventPage)
async def read_feed(
    ctx: Context, caller: AnyCaller, visibility: TheSights, *, after: Cursor = None, limit: Limit = 500
) -> Response:
    """The same events as pages, from the beginning. Go on from `after` until a page has none."""
    place = _cursor(after) or ""
    found: list[Event] = []
    for _ in range(_PAGES):
        page = await _page(ctx, caller, place, limit)
        if not page:
            break
        found += (await visibility.seen_by(caller, page))[: limit - len(found)]
        place = found[-1].cursor if len(found) == limit else page[-1].cursor
        if len(found) == limit:
            break
    return reply(EventPage(items=tuple(map(EventRecord.of, found)), next=place or None))


async def _stream(request: Request, caller: Caller, streams: Streams, start: str) -> AsyncIterator[bytes]:
    """The messages of one stream. It ends with the server, or with the right to hear it."""
    yield format_sse_event(event="ready", data_str="{}", id=start or BEGINNING)
    # A store that is away ends the stream: its client comes back, here or elsewhere, with its place.
    with suppress(StoreUnavailable):
        async with aclosing(streams.follow(caller, after=start)) as following:
            async for seen in following:
                if seen.events:
                    yield seen.text
                elif await still_there(request):
                    # An id without data moves the client's place past what concerned others.
                    yield format_sse_event(comment="still here", id=seen.place or BEGINNING)
                else:
                    return


def _cursor(given: str | None) -> str | None:
    """A cursor that some feed could have given out; the beginning is an empty one."""
    if given is None:
        return None
    if given in ("", BEGINNING):
        return ""
    if not _CURSOR.fullmatch(given):
        raise InvalidRequest([Problem("after", "is not a cursor of this feed")])
    return given


async def _page(ctx: ServerContext, caller: Caller, place: str, limit: int) -> Sequence[Event]:
    try:
        return (await desk_of(ctx, caller).feed(after=place or None, limit=limit)).items
    except ValueError:
        raise InvalidRequest([Problem("after", "is not a cursor of this feed")]) from None
