"""Who may see which events. The question of an event is read once for all followers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.sse import format_sse_event

from handraise.model.errors import QuestionNotFound
from handraise.model.events import Event, EventKind
from handraise.model.questions import Question, Ref
from handraise.model.thread_messages import without_notes
from handraise.server.auth.authenticator import Caller, PersonCaller
from handraise.server.context import ServerContext
from handraise.wire.records import EventRecord

_MAX_QUESTIONS = 2_500
_MAX_PAGES = 20


@dataclass(frozen=True, slots=True)
class VisibleEvents:
    """The events up to a cursor that a caller may see; `text` has them as messages of a stream."""

    cursor: str
    events: Sequence[Event] = ()
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page of events as messages, each with its question, which says who may see it."""

    cursor: str
    messages: Sequence[tuple[Event, Question | None, bytes]]

    def visible_to(self, caller: Caller) -> VisibleEvents:
        """Return the events that this caller may see. What people note for each other is only for people."""
        visible = [
            (event, text)
            for event, question, text in self.messages
            if question is not None and caller.may_see(question)
        ]
        if not isinstance(caller, PersonCaller):
            visible = [
                (shown, text if shown is event else _message(shown))
                for event, text in visible
                for shown in (without_notes(event),)
            ]
        return VisibleEvents(
            self.cursor, [event for event, _ in visible], b"".join([text for _, text in visible])
        )


class VisibilityCache:
    """The questions of recent events, and the pages that were rendered last."""

    def __init__(self, ctx: ServerContext) -> None:
        self._context = ctx
        self._questions: OrderedDict[tuple[Ref, str], asyncio.Future[Question | None]] = OrderedDict()
        self._pages: OrderedDict[int, tuple[Sequence[Event], asyncio.Future[RenderedPage]]] = OrderedDict()

    async def render(self, page: Sequence[Event]) -> RenderedPage:
        """Render a page as messages. All followers of a workspace get the same page object, so this is done once."""
        _, rendering = self._pages.get(id(page)) or self._start_rendering(page)
        return rendering.result() if rendering.done() else await asyncio.shield(rendering)

    async def filter_visible(self, caller: Caller, events: Sequence[Event]) -> list[Event]:
        """Return those of these events that this caller may see."""
        visible = []
        # All reads start before the first is awaited, so that the desk batches them.
        for event, reading in zip(events, list(map(self._question_of, events)), strict=True):
            # Nearly always it is in the cache.
            question = reading.result() if reading.done() else await asyncio.shield(reading)
            if question is not None and caller.may_see(question):
                visible.append(event if isinstance(caller, PersonCaller) else without_notes(event))
        return visible

    def _start_rendering(self, page: Sequence[Event]) -> tuple[Sequence[Event], asyncio.Future[RenderedPage]]:
        rendering = asyncio.ensure_future(self._render(page))
        rendering.add_done_callback(_ignore_failure)
        # The page is kept too: as long as it lives, no other page has its id.
        self._pages[id(page)] = page, rendering
        if len(self._pages) > _MAX_PAGES:
            self._pages.popitem(last=False)
        return page, rendering

    async def _render(self, page: Sequence[Event]) -> RenderedPage:
        try:
            readings = await asyncio.gather(*map(self._question_of, page))
        except BaseException:
            self._pages.pop(id(page), None)
            raise
        messages = [
            (event, question, _message(event)) for event, question in zip(page, readings, strict=True)
        ]
        return RenderedPage(page[-1].cursor, messages)

    def _question_of(self, event: Event) -> asyncio.Future[Question | None]:
        ref = Ref(event.workspace, event.question_id)
        # An escalation adds people who may see a question; nothing removes any.
        key = (ref, event.cursor) if event.kind is EventKind.ESCALATED else (ref, "")
        reading = self._questions.get(key)
        if reading is None:
            reading = asyncio.ensure_future(self._read(ref, key))
            reading.add_done_callback(_ignore_failure)
            for each in {key, (ref, "")}:
                self._questions[each] = reading
            while len(self._questions) > _MAX_QUESTIONS:
                self._questions.popitem(last=False)
        return reading

    async def _read(self, ref: Ref, key: tuple[Ref, str]) -> Question | None:
        try:
            question = await self._context.desk.scoped(ref.workspace).get(ref.id)
        except QuestionNotFound:
            return None
        except BaseException:
            for each in {key, (ref, "")}:
                self._questions.pop(each, None)
            raise
        if any(step.do == "escalate" for step in question.steps[question.steps_taken :]):
            self._questions.pop((ref, ""), None)  # people may be added while nobody follows
        return question


def _ignore_failure(reading: asyncio.Future[Any]) -> None:
    """Mark the exception as retrieved: the caller that awaited the read has got it."""
    if not reading.cancelled():
        reading.exception()


def _message(event: Event) -> bytes:
    data = EventRecord.of(event).model_dump_json()
    return format_sse_event(data_str=data, event=event.kind.value, id=event.cursor)


async def _visibility(request: Request) -> VisibilityCache:
    visibility: VisibilityCache = request.app.state.visibility
    return visibility


VisibilityDep = Annotated[VisibilityCache, Depends(_visibility)]
