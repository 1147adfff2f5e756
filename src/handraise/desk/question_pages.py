"""Pages of questions that end early if the questions are large: no list should hold up what else the process does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from pydantic_core import to_json

from handraise.model.forms import form_to_json
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.ports.desk import MAX_PAGE_BYTES, Page

_ROWS_A_READ = 50
ReadQuestions: TypeAlias = Callable[[str | None, int], Awaitable[Page[Question]]]
"""Reads up to so many questions after a cursor."""


async def read_in_parts(read: ReadQuestions, *, after: str | None, limit: int) -> Page[Question]:
    """Up to `limit` questions after a cursor; fewer if they reach `MAX_PAGE_BYTES` before."""
    found: list[Question] = []
    room = MAX_PAGE_BYTES
    while True:
        wanted = min(limit - len(found), _ROWS_A_READ)
        page = await read(after, wanted)
        fits = number_within(page.items, room)
        if fits < len(page):
            page = await read(after, fits)  # for the cursor of the last one
        found += page
        room -= sum(map(_size_of, page))
        after = page.next
        if after is None or room <= 0 or len(found) >= limit or len(page) < wanted:
            return Page(found, after)


def number_within(questions: Sequence[Question], room: int = MAX_PAGE_BYTES) -> int:
    """How many of these questions, from the first one on, it takes to fill the room; all if they do not."""
    for number, question in enumerate(questions, 1):
        room -= _size_of(question)
        if room <= 0:
            return number
    return len(questions)


def _size_of(question: Question) -> int:
    """About how many bytes of JSON it is: what can be large in it."""
    outcome = question.outcome
    values = question.prompt, question.context, question.state
    return (
        len(form_to_json(question.form))
        + len(to_json(values))
        + (len(to_json(outcome.value)) if isinstance(outcome, Answered) else 0)
    )
