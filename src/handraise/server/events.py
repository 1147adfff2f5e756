"""Live events: every event that concerns the caller, once and in order, over a connection that may break."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import format_sse_event
from starlette.responses import Response, StreamingResponse

from handraise.model.errors import DeskClosed, InvalidRequest, Problem, QuestionNotFound, StoreUnavailable
from handraise.model.events import Event, EventKind
from handraise.model.questions import Question, Ref
from handraise.server.callers import AnyCaller, Caller, TheHouse, still_there
from handraise.server.house import House
from handraise.server.live import live_pages
from handraise.server.questions import desk_of
from handraise.server.replies import Limit, reply
from handraise.wire.records import EventPage, EventRecord

router = APIRouter(prefix="/v1", tags=["events"])

BEGINNING = "0"
"""The cursor before the first event, as a client says it: an empty one would be none."""

_CURSOR = re.compile(r"\d{1,18}(\.\d{1,18})?")
_KEPT = 2_500
_SHOWN = 20
_PAGES = 20

_Shown: TypeAlias = list[tuple[Question | None, bytes]]
"""Events as messages, each with the question that says whom it concerns."""

Cursor = Annotated[
    str | None,
    Query(max_length=40, description="a cursor to go on from; `0` is the beginning", pattern=r"^[0-9.]*$"),
]


class Sights:
    """What concerns whom: the questions behind recent events, each read once for all who follow."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._questions: OrderedDict[tuple[Ref, str], asyncio.Future[Question | None]] = OrderedDict()
        self._shown: OrderedDict[int, tuple[Sequence[Event], asyncio.Future[_Shown]]] = OrderedDict()

    async def messages(self, caller: Caller, page: Sequence[Event]) -> bytes:
        """What of a page concerns this caller, as messages of a stream.

        All who follow a workspace get the very same page, so it is made ready once.
        """
        _, showing = self._shown.get(id(page)) or self._show(page)
        shown = showing.result() if showing.done() else await asyncio.shield(showing)
        return b"".join(
            [text for question, text in shown if question is not None and caller.may_see(question)]
        )

    async def seen_by(self, caller: Caller, events: Sequence[Event]) -> list[Event]:
        """Those of these events whose questions concern this caller."""
        seen = []
        # All are begun before the first is waited for: the desk reads them together.
        for event, reading in zip(events, list(map(self._reading, events)), strict=True):
            # Nearly always somebody else has read it before.
            question = reading.result() if reading.done() else await asyncio.shield(reading)
            if question is not None and caller.may_see(question):
                seen.append(event)
        return seen

    def _show(self, page: Sequence[Event]) -> tuple[Sequence[Event], asyncio.Future[_Shown]]:
        showing = asyncio.ensure_future(self._make_ready(page))
        showing.add_done_callback(_note_failure)
        # The page is kept with it: as long as it is there, no other page has its number.
        self._shown[id(page)] = page, showing
        if len(self._shown) > _SHOWN:
            self._shown.popitem(last=False)
        return page, showing

    async def _make_ready(self, page: Sequence[Event]) -> _Shown:
        try:
            readings = await asyncio.gather(*map(self._reading, page))
        except BaseException:
            self._shown.pop(id(page), None)
            raise
        return [(question, _message(event)) for event, question in zip(page, readings, strict=True)]

    def _reading(self, event: Event) -> asyncio.Future[Question | None]:
        ref = Ref(event.workspace, event.question_id)
        # Whom a question concerns grows when it is escalated, and never shrinks.
        key = (ref, event.cursor) if event.kind is EventKind.ESCALATED else (ref, "")
        reading = self._questions.get(key)
        if reading is None:
            reading = asyncio.ensure_future(self._read(ref, key))
            reading.add_done_callback(_note_failure)
            for each in {key, (ref, "")}:
                self._questions[each] = reading
            while len(self._questions) > _KEPT:
                self._questions.popitem(last=False)
        return reading

    async def _read(self, ref: Ref, key: tuple[Ref, str]) -> Question | None:
        try:
            question = await self._house.desk.at(ref.workspace).get(ref.id)
        except QuestionNotFound:
            return None
        except BaseException:
            for each in {key, (ref, "")}:
                self._questions.pop(each, None)
            raise
        if any(step.do == "escalate" for step in question.steps[question.steps_taken :]):
            self._questions.pop((ref, ""), None)  # whom it concerns may grow while nobody follows
        return question


def _note_failure(reading: asyncio.Future[Any]) -> None:
    """Whoever waited for it first has failed with it; nobody else needs to."""
    if not reading.cancelled():
        reading.exception()


def _message(event: Event) -> bytes:
    data = EventRecord.of(event).model_dump_json()
    return format_sse_event(data_str=data, event=event.kind.value, id=event.cursor)


async def _sights(request: Request) -> Sights:
    sights: Sights = request.app.state.sights
    return sights


TheSights = Annotated[Sights, Depends(_sights)]


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"description": "events as they happen", "content": {"text/event-stream": {}}}},
)
async def follow_events(
    request: Request,
    house: TheHouse,
    caller: AnyCaller,
    sights: TheSights,
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
        start = await house.store.feed_end(caller.workspace)
    else:
        await _page(house, caller, start, 1)  # a cursor that is none is refused while it still can be
    return event_stream(_stream(request, house, caller, sights, start))


def event_stream(messages: AsyncIterator[bytes]) -> Response:
    """The response that streams these messages, past proxies that would rather keep them."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(messages, media_type="text/event-stream", headers=headers)


@router.get("/feed", response_model=EventPage)
async def read_feed(
    house: TheHouse, caller: AnyCaller, sights: TheSights, *, after: Cursor = None, limit: Limit = 500
) -> Response:
    """The same events as pages, from the beginning. Go on from `after` until a page has none."""
    place = _cursor(after) or ""
    found: list[Event] = []
    for _ in range(_PAGES):
        page = await _page(house, caller, place, limit)
        if not page:
            break
        found += (await sights.seen_by(caller, page))[: limit - len(found)]
        place = found[-1].cursor if len(found) == limit else page[-1].cursor
        if len(found) == limit:
            break
    return reply(EventPage(events=tuple(map(EventRecord.of, found)), after=place or None))


async def _stream(
    request: Request, house: House, caller: Caller, sights: Sights, start: str
) -> AsyncIterator[bytes]:
    """The messages of one stream. It ends with the server, or with the right to hear it."""
    yield format_sse_event(event="ready", data_str="{}", id=start or BEGINNING)
    place = start
    pages = live_pages(house, desk_of(house, caller), after=start)
    # A store that is away ends the stream: its client comes back, here or elsewhere, with its place.
    with suppress(StoreUnavailable, DeskClosed):
        async with aclosing(pages):
            async for page in pages:
                if page:
                    place = page[-1].cursor
                    if messages := await sights.messages(caller, page):
                        yield messages
                elif await still_there(request):
                    # An id without data moves the client's place past what concerned others.
                    yield format_sse_event(comment="still here", id=place or BEGINNING)
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


async def _page(house: House, caller: Caller, place: str, limit: int) -> Sequence[Event]:
    try:
        return await desk_of(house, caller).feed(after=place or None, limit=limit)
    except ValueError:
        raise InvalidRequest([Problem("after", "is not a cursor of this feed")]) from None
