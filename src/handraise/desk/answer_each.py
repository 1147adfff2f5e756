"""Give several answers, a few at a time. Each is decided by itself, and has its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from handraise.model.bulk_answers import BulkAnswer, BulkItem, BulkResult, check_bulk
from handraise.model.people import Responder
from handraise.model.problems import HandraiseError
from handraise.model.questions import Question
from handraise.ports.desk import Desk

AT_ONCE = 10
"""How many answers of one person are given at the same time."""


class _Item(Protocol):
    @property
    def question_id(self) -> str: ...


Item = TypeVar("Item", bound=_Item)


async def answer_each(
    items: Sequence[Item], answer: Callable[[Item], Awaitable[Question]]
) -> Sequence[BulkResult]:
    """The results of `answer` for all items, in their order. An error is the result of its own item only."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(item: Item) -> BulkResult:
        async with turn:
            try:
                return BulkResult(item.question_id, question=await answer(item))
            except HandraiseError as error:
                return BulkResult(item.question_id, error=error)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(item)) for item in items]
    return [task.result() for task in tasks]


async def answer_one(desk: Desk, item: BulkItem, *, by: str | Responder) -> Question:
    """Give one of several answers, unless its question must be answered by itself."""
    check_bulk(await desk.get(item.question_id))
    if isinstance(item, BulkAnswer):
        return await desk.answer(item.question_id, item.value, by=by, provenance=item.provenance)
    return await desk.decline(item.question_id, by=by, reason=item.reason, provenance=item.provenance)
