"""Wait for an answer to a model's question, or for a person who asks the model something about it first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress

from handraise import Desk, Question, StillPending
from handraise.errors import TooManyRequests
from handraise.model.durations import Span, seconds_of
from handraise.model.thread_messages import ThreadMessage, unanswered
from handraise.tools.results import ToolResult, to_tool_result

LOOK_AGAIN = 5.0
"""After how many seconds a question is read again if there is no stream that says when it changes."""


async def settled_or_asked_back(
    desk: Desk, question_id: str, *, timeout: Span | None = None
) -> tuple[Question, ToolResult]:
    """Wait until a question is settled or a person asks its model back; return it, and the result for the model.

    A question whose asker is no model (`replies="model"`) is only waited for. If `timeout` passes first, the status is
    `still_pending` and nothing changes.
    """
    end = None if timeout is None else time.monotonic() + seconds_of(timeout)
    while True:
        question = await desk.get(question_id)
        if messages := await messages_to_model(desk, question):
            return question, to_tool_result(question, messages=messages)
        left = None if end is None else max(0.0, end - time.monotonic())
        if question.outcome is not None or left == 0.0:
            return question, to_tool_result(question)
        if question.replies == "model":
            await _change(desk, question, left)
        else:
            with suppress(StillPending):
                await desk.wait(question_id, timeout=left)


async def messages_to_model(desk: Desk, question: Question) -> Sequence[ThreadMessage]:
    """What people asked back and the model has not replied to, oldest first; nothing if it is not the model's turn."""
    if question.replies != "model" or not question.is_askers_turn:
        return ()
    return unanswered(await desk.history(question.id))


async def _change(desk: Desk, question: Question, timeout: float | None) -> None:
    """Wait until the question is settled, somebody asks back, or the time is over."""
    waiting = asyncio.ensure_future(desk.wait(question.id, timeout=timeout))
    asking = asyncio.create_task(_next_message(desk, question))
    try:
        await asyncio.wait({waiting, asking}, return_when=asyncio.FIRST_COMPLETED)
        for done in (each for each in (asking, waiting) if each.done()):
            with suppress(StillPending):
                done.result()
    finally:
        waiting.cancel()
        asking.cancel()
        await asyncio.gather(waiting, asking, return_exceptions=True)


async def _next_message(desk: Desk, question: Question) -> None:
    """Return when somebody asks back; also after a while if the server has too many streams to say so."""
    try:
        async with aclosing(desk.messages(question.id, after=question.thread)) as messages:
            async for _ in messages:
                return
    except TooManyRequests:
        await asyncio.sleep(LOOK_AGAIN)
