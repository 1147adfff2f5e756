"""A person for tests, who answers by rule or by script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from handraise import Desk, Question
from handraise.desk.blocking_desk import BlockingDesk
from handraise.model.durations import Span, seconds_of
from handraise.model.json_values import Json
from handraise.testing.clock import ManualClock
from handraise.testing.reactions import GOES_ON, After, Reaction, reaction_of
from handraise.testing.scripted_people import Rule, ScriptedPeople


class Person:
    """Answers at a desk in a test, as a person would in another process.

    Write `async with Person(desk) as person:`, for a blocking desk without `async`; the pytest fixture
    `handraise_person` is one. A question that the test does not expect ends the test with a `PersonError`, which says
    what to add.
    """

    def __init__(
        self,
        desk: Desk | BlockingDesk,
        name: str = "ana",
        *,
        groups: Iterable[str] = (),
        clock: ManualClock | None = None,
    ) -> None:
        """`groups` are without their `group:`. `clock` is the desk's, for `never()` and `after(…)`."""
        self._people = ScriptedPeople(desk, clock)
        self._part = self._people.add(name, groups)

    @property
    def name(self) -> str:
        """The name that this person answers with."""
        return self._part.name

    @property
    def asked(self) -> Sequence[Question]:
        """Every question that this person was asked, as it was then, in order."""
        return self._part.asked

    def colleague(self, name: str, *, groups: Iterable[str] = ()) -> Person:
        """Another person at the same desk, who starts and ends with this one."""
        other = Person.__new__(Person)
        other._people, other._part = self._people, self._people.add(name, groups)  # noqa: SLF001 -- one of us
        return other

    def answers(
        self,
        pattern: str | re.Pattern[str] | Callable[[Question], bool],
        *reactions: Json | Reaction | Callable[[Question], Json],
        times: int | None = None,
    ) -> None:
        """Say what this person does about every question with such a prompt: `answers("Refund*", "approve")`.

        A `*` stands for any text. The pattern may also be a regular expression, or a function of the question. The first
        rule that fits counts, and only so many `times`. A reaction is an answer, a function that makes one of the
        question, or `approve`, `deny`, `decline`, `send_back`, `ask_back`, `attempt`, `never` or `after` of
        `handraise.testing`. After `ask_back` and `attempt` comes the next reaction to the same question.
        """
        steps = tuple(map(reaction_of, reactions))
        self._check(steps)
        if not steps:
            raise TypeError("Say what the person answers: answers('Refund*', 'approve')")
        if any(not isinstance(each, GOES_ON) for each in steps[:-1]):
            raise TypeError(
                "After an answer the question has ended. For several questions write script(first, second), or a rule "
                "with times=1 before the other rule."
            )
        if times is not None and times < 1:
            raise ValueError(f"times is at least 1, or None for any number, not {times}")
        self._part.rules.append(Rule(_matcher(pattern), steps, times))
        self._people.changed()

    def script(self, *reactions: Json | Reaction | Callable[[Question], Json]) -> None:
        """Say what this person does about the next questions that no rule fits, one reaction for each.

        A script that is not used up fails the test.
        """
        steps = [reaction_of(each) for each in reactions]
        self._check(steps)
        self._part.script += steps
        self._people.changed()

    async def next_question(self, *, patience: Span = 10) -> Question:
        """The oldest question that no rule and no script answers, as soon as there is one. You answer it yourself.

        If nobody asks within `patience`, which is real time, it raises `PersonError`.
        """
        return await self._people.next_question(self._part, seconds_of(patience))

    async def __aenter__(self) -> Self:
        self._people.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._people.stop(error)

    def __enter__(self) -> Self:
        self._people.start_in_thread()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._people.stop_in_thread(error)

    def _check(self, steps: Sequence[Reaction]) -> None:
        if self._people.clock is None and any(isinstance(each, After) for each in steps):
            raise TypeError("after(…) needs the clock of the desk: Person(desk, clock=clock)")


def _matcher(
    pattern: str | re.Pattern[str] | Callable[[Question], bool],
) -> Callable[[Question], bool]:
    if isinstance(pattern, str):
        pattern = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    if isinstance(pattern, re.Pattern):
        expression = pattern
        return lambda question: expression.fullmatch(question.prompt) is not None
    return pattern
