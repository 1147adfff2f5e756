"""Live events: every event that the caller may see, once and in order, also over broken connections."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import Annotated, Protocol

from fastapi import APIRouter, Header, Query, Request
from fastapi.sse import format_sse_event
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from handraise.model.errors import InvalidRequest
from handraise.model.events import Event
from handraise.model.problems import Problem
from handraise.server.api.question_routes import desk_of
from handraise.server.api.responses import Limit, reply
from handraise.server.auth.authenticator import Caller, Context, CurrentCaller
from handraise.server.context import ServerContext
from handraise.server.live.broadcaster import StreamsDep, Subscription
from handraise.server.live.long_responses import continue_outside
from handraise.server.live.stream_limits import Held, StreamLimitsDep
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
    ready = json.dumps({"heartbeat": ctx.settings.heartbeat})
    first = format_sse_event(event="ready", data_str=ready, id=start or BEGINNING)
    subscribe = partial(streams.subscribe, caller, request.state.token, after=start)
    return EventStream(first, _Following(subscribe), limits.hold(caller))


class Messages(Protocol):
    """The messages of a stream after the first."""

    async def send_all(self, send: Callable[[bytes], Awaitable[None]], gone: asyncio.Future[None]) -> None:
        """Send them until the end, or until `gone` is done."""
        ...


class EventStream(Response):
    """A response that streams messages, with headers against buffering proxies. `held` is released at its end."""

    media_type = "text/event-stream"

    def __init__(self, first: bytes, rest: Messages, held: Held) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.body, self.headers["content-length"]
        self._first = first
        self._rest = rest
        self._held = held

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Send the first message; the rest comes when the route has returned."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send(_body(self._first))
            continue_outside(scope, _Rest(self._rest, self._held))
        except BaseException:
            self._held.__exit__()
            raise


class _Rest:
    """The rest of a stream."""

    __slots__ = ("_held", "_messages")

    def __init__(self, messages: Messages, held: Held) -> None:
        self._messages = messages
        self._held = held

    async def run(self, send: Send, gone: asyncio.Future[None]) -> None:
        """Send the messages, and the end of the response."""

        async def send_message(message: bytes) -> None:
            await send(_body(message))

        with self._held:
            await self._messages.send_all(send_message, gone)
        await send({"type": "http.response.body", "body": b""})


class _Following:
    """The events of a subscription."""

    __slots__ = ("_subscribe",)

    def __init__(self, subscribe: Callable[..., Awaitable[Subscription]]) -> None:
        self._subscribe = subscribe

    async def send_all(self, send: Callable[[bytes], Awaitable[None]], gone: asyncio.Future[None]) -> None:
        """Send events and heartbeats."""
        subscription = await self._subscribe(gone=gone)
        try:
            while (page := await subscription.next()) is not None:
                # An id without data moves the client's cursor past the events of others.
                await send(page.text or heartbeat(page.cursor))
        finally:
            await subscription.close()


@lru_cache(maxsize=64)
def heartbeat(cursor: str) -> bytes:
    """The heartbeat of a stream that is at this cursor; most streams of a workspace are at the same."""
    return format_sse_event(comment="still here", id=cursor or BEGINNING)


def _body(message: bytes) -> Message:
    return {"type": "http.response.body", "body": message, "more_body": True}


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
