"""What concerns whom: the questions behind events, each read once for all who follow."""

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
from handraise.server.auth.authenticator import Caller
from handraise.server.context import ServerContext
from handraise.wire.records import EventRecord

_KEPT = 2_500
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Seen:
    """What concerns somebody of the events up to a place; `text` is the same as messages of a stream."""

    place: str
    events: Sequence[Event] = ()
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class Shown:
    """A page of events as messages, each with the question that says whom it concerns."""

    place: str
    messages: Sequence[tuple[Event, Question | None, bytes]]

    def to(self, caller: Caller) -> Seen:
        """What of it concerns this caller."""
        seen = [
            (event, text)
            for event, question, text in self.messages
            if question is not None and caller.may_see(question)
        ]
        return Seen(self.place, [event for event, _ in seen], b"".join([text for _, text in seen]))


class VisibilityCache:
    """The questions behind recent events, and the pages that were made ready last."""

    def __init__(self, ctx: ServerContext) -> None:
        self._context = ctx
        self._questions: OrderedDict[tuple[Ref, str], asyncio.Future[Question | None]] = OrderedDict()
        self._shown: OrderedDict[int, tuple[Sequence[Event], asyncio.Future[Shown]]] = OrderedDict()

    async def show(self, page: Sequence[Event]) -> Shown:
        """A page as messages. All who follow a workspace get the very same page, so it is made ready once."""
        _, showing = self._shown.get(id(page)) or self._begin_to_show(page)
        return showing.result() if showing.done() else await asyncio.shield(showing)

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

    def _begin_to_show(self, page: Sequence[Event]) -> tuple[Sequence[Event], asyncio.Future[Shown]]:
        showing = asyncio.ensure_future(self._make_ready(page))
        showing.add_done_callback(_note_failure)
        # The page is kept with it: as long as it is there, no other page has its number.
        self._shown[id(page)] = page, showing
        if len(self._shown) > _SHOWN:
            self._shown.popitem(last=False)
        return page, showing

    async def _make_ready(self, page: Sequence[Event]) -> Shown:
        try:
            readings = await asyncio.gather(*map(self._reading, page))
        except BaseException:
            self._shown.pop(id(page), None)
            raise
        messages = [
            (event, question, _message(event)) for event, question in zip(page, readings, strict=True)
        ]
        return Shown(page[-1].cursor, messages)

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
            question = await self._context.desk.scoped(ref.workspace).get(ref.id)
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


async def _visibility(request: Request) -> VisibilityCache:
    visibility: VisibilityCache = request.app.state.visibility
    return visibility


TheSights = Annotated[VisibilityCache, Depends(_visibility)]
