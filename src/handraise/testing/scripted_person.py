"""A stand-in for the person who answers."""

from __future__ import annotations

import asyncio

from handraise import Desk, Question
from handraise.model.durations import Span, seconds_of
from handraise.model.json_values import Json

_PAUSE = 0.002


class StandIn:
    """Answers at a desk in a test, as a person would in another process.

    Run it together with the agent: `await asyncio.gather(agent(desk), StandIn(desk).answer("approve"))`.
    """

    def __init__(self, desk: Desk, *, by: str = "ana", patience: Span = 10) -> None:
        """`by` is the person's name; `patience` is how long they wait to be asked."""
        self._desk = desk
        self._by = by
        self._patience = seconds_of(patience)

    async def next_question(self) -> Question:
        """The oldest pending question that this person may answer, as soon as there is one."""
        try:
            async with asyncio.timeout(self._patience):
                while not (page := await self._desk.list_pending(recipient=self._by, limit=1)).items:  # noqa: ASYNC110 -- the store decides
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            raise TimeoutError(
                f"Nobody asked {self._by!r} anything within {self._patience:g} seconds. Is the agent running beside?"
            ) from None
        return page.items[0]

    async def answer(self, *values: Json) -> Question:
        """Answer the next questions, one with each of these; return the last one as it is then."""
        if not values:
            raise ValueError("Say what the person answers: answer('approve')")
        *first, last = values
        for value in first:
            await self._answer(value)
        return await self._answer(last)

    async def decline(self, reason: str | None = None) -> Question:
        """Decline the next question."""
        question = await self.next_question()
        return await self._desk.decline(question.id, by=self._by, reason=reason)

    async def _answer(self, value: Json) -> Question:
        question = await self.next_question()
        return await self._desk.answer(question.id, value, by=self._by)
