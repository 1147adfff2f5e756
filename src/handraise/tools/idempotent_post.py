"""Post one question for one call, however often the call is made, and one for equal calls while it is pending."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakValueDictionary

from handraise import AlreadySettled, Desk, KeyConflict, Question
from handraise.model.json_values import Json, digest
from handraise.questions import QuestionOptions
from handraise.tools.tool_arguments import Intent

_log = logging.getLogger(__name__)

_NUMBERED = re.compile(r"(?:.*[^A-Za-z0-9])?[0-9]{1,4}", re.ASCII | re.DOTALL)
"""Ids such as `call_0` and `functions.ask:1`, which some model servers count from the beginning in each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A model's call of a tool: who calls, in which conversation, and the call id if the model API gave one.

    An id is unique within its `run`, or within the conversation if no run is given.
    """

    desk: Desk
    tool: str
    conversation: str
    id: str | None
    options: QuestionOptions
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Posted:
    """The question of a call; `own` if no other call can be waiting for it."""

    intent: Intent
    question: Question
    own: bool


async def post_once(call: Call, intent: Intent) -> Posted:
    """Return the question of this call; it is posted unless it is already stored.

    A call with an id keeps its question: repeated after a restart, it finds the same one, settled or not. A
    call also joins an equal pending question: same tool, content, asker and conversation. A call with an id
    keeps that one too.
    """
    async with _alone(call, intent):
        if call.id is not None:
            return await _post_for_id(call, intent, call.id)
        return await _post_next(call, intent)


def origin_of(question: Question) -> dict[str, Json]:
    """What the tool that asked stored with a question; empty if no tool asked it."""
    state = question.state
    return state if isinstance(state, dict) and {"tool", "call_id", "digest"} <= state.keys() else {}


async def _post_for_id(call: Call, intent: Intent, call_id: str) -> Posted:
    key = _key(call, intent, call_id, intent.place)
    stored = await call.desk.find_by_key(key)
    if stored is not None and stored.asker == call.desk.asker:
        if stored.outcome is not None and call.run is None and _NUMBERED.fullmatch(call_id):
            _log.warning(
                "%s: the call %s has an answer already, and gets it again. If your model starts its call ids again in each "
                "run, give the tool run=…",
                call.tool,
                call_id,
            )
        return Posted(intent, stored, own=stored.key == key)
    if equal := await _pending_equal(call, intent):
        with suppress(AlreadySettled):  # it ended meanwhile: then it is too late to join
            return Posted(intent, await call.desk.join(equal.id, key=key), own=False)
    return Posted(intent, await _post(call, intent, key), own=True)


async def _post_next(call: Call, intent: Intent) -> Posted:
    """Post under the next number if the last one is settled; two concurrent calls get the same question."""
    if equal := await _pending_equal(call, intent):
        return Posted(intent, equal, own=False)
    series = _key(call, intent)
    number = await _last_number(call.desk, series)
    while True:
        number += 1
        try:
            question = await _post(call, intent, f"{series}:{number}")
        except KeyConflict:  # somebody else uses this key, by chance or on purpose
            continue
        if question.outcome is None:
            return Posted(intent, question, own=True)


async def _post(call: Call, intent: Intent, key: str) -> Question:
    about: QuestionOptions = {
        **call.options,
        "form": intent.form,
        "key": key,
        "conversation": call.conversation,
        "state": _state(call, intent),
    }
    if intent.context is not None:
        about["context"] = intent.context
    if intent.replaces is not None:
        about["replaces"] = intent.replaces
    if intent.topic is not None:
        about["topic"] = intent.topic
    if call.id is not None:
        about["tool_call"] = call.id
    try:
        return await call.desk.post(intent.prompt, **about)
    except KeyConflict as conflict:
        # Asked by an earlier run with other options, such as another expiry: it stays as it was asked.
        if conflict.existing is None:
            raise
        return conflict.existing


async def _pending_equal(call: Call, intent: Intent) -> Question | None:
    after = None
    while True:
        page = await call.desk.list_pending(
            conversation=call.conversation, asker=call.desk.asker, after=after
        )
        for question in page.items:
            origin = origin_of(question)
            if (origin.get("tool"), origin.get("digest")) == (call.tool, intent.digest):
                return question
        if page.next is None:
            return None
        after = page.next


async def _last_number(desk: Desk, series: str) -> int:
    """The highest number in use, found by doubling and halving; numbers are used without gaps."""
    used, free = 0, 1
    while await desk.find_by_key(f"{series}:{free}") is not None:
        used, free = free, free * 2
    while free - used > 1:
        middle = (used + free) // 2
        if await desk.find_by_key(f"{series}:{middle}") is None:
            free = middle
        else:
            used = middle
    return used


def _key(call: Call, intent: Intent, *more: Json) -> str:
    """A key for the call or its content; hashed, because conversations and call ids can be long."""
    run = [] if call.run is None or not more else [call.run]
    return "tool:" + digest([call.tool, call.desk.asker, call.conversation, intent.digest, *more, *run])


def _state(call: Call, intent: Intent) -> Json:
    state = {"tool": call.tool, "call_id": call.id, "digest": intent.digest}
    return state if intent.place is None else {**state, "batch": {"place": intent.place, "id": intent.echo}}


# Without the lock, two equal calls of one model turn would both find nothing pending and both post. A lock
# exists only as long as somebody holds or awaits it, and belongs to one event loop.
_locks: WeakValueDictionary[tuple[int, str, str, str, str], asyncio.Lock] = WeakValueDictionary()


def _alone(call: Call, intent: Intent) -> asyncio.Lock:
    loop = id(asyncio.get_running_loop())
    place = (loop, call.desk.workspace, call.desk.asker, call.conversation, call.tool + intent.digest)
    return _locks.setdefault(place, asyncio.Lock())
