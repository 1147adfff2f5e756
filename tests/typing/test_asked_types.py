"""What a type checker knows about an answer: mypy reads this file, pytest runs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, TypeVar, assert_never, assert_type

import pydantic

from handraise import (
    Answered,
    Declined,
    Desk,
    Exhausted,
    Expired,
    Outcome,
    Question,
    Withdrawn,
    blocking,
    open_desk,
)
from handraise.model.json_values import JsonValue
from handraise.outcomes import Returned

T = TypeVar("T")
SOON = 10.0


class Strategy(Enum):
    CANARY = "canary"


class Order(pydantic.BaseModel):
    count: int


@dataclass(frozen=True)
class Shipping:
    days: int


async def answered(desk: Desk, value: JsonValue, into: type[T]) -> T:
    """What `ask` gives when `value` is the answer."""
    asking = asyncio.create_task(desk.ask("What?", into=into, timeout=SOON))
    while not (page := await desk.list_pending()).items:
        await asyncio.wait([asking], timeout=0)
    await desk.answer(page.items[0].id, value, by="ana")
    return await asking


async def test_ask_gives_the_type_that_it_was_asked_for() -> None:
    async with open_desk("memory:") as desk:
        assert assert_type(await answered(desk, "3", int), int) == 3
        assert assert_type(await answered(desk, "no", bool), bool) is False
        assert assert_type(await answered(desk, "2026-11-15", date), date) == date(2026, 11, 15)
        assert assert_type(await answered(desk, "canary", Strategy), Strategy) is Strategy.CANARY
        assert assert_type(await answered(desk, ["canary"], list[Strategy]), list[Strategy]) == [
            Strategy.CANARY
        ]
        assert assert_type(await answered(desk, {"count": 1}, Order), Order) == Order(count=1)
        assert assert_type(await answered(desk, {"days": 2}, Shipping), Shipping) == Shipping(2)


async def what_a_type_checker_knows_of_ask(desk: Desk) -> None:
    assert_type(await desk.ask("How many?", into=int), int)
    assert_type(await desk.ask("How many?", into=int, timeout=5, key="k", recipients=["ana"]), int)
    assert_type(await desk.ask("Which?", into=Strategy), Strategy)
    assert_type(await desk.ask("Which?", into=list[Strategy]), list[Strategy])
    assert_type(await desk.ask("What?", into=Order), Order)
    assert_type(await desk.ask("Which?", choices=["a", "b"]), Any)
    assert_type(await desk.post("Which?", choices=["a", "b"]), Question)
    assert_type(await desk.wait("q"), Outcome)
    assert_type(await desk.wait_any(["q"]), tuple[str, Outcome])


def what_a_type_checker_knows_of_the_blocking_desk(desk: blocking.BlockingDesk) -> None:
    assert_type(desk.ask("How many?", into=int), int)
    assert_type(desk.ask("What?", into=Order), Order)
    assert_type(desk.ask("Which?", choices=["a", "b"]), Any)
    assert_type(desk.wait("q"), Outcome)


async def what_a_type_checker_refuses_as_an_answer(desk: Desk) -> None:
    mixed = {"amount": 10, "note": "late", "parts": [1, "b"]}
    await desk.answer("q", mixed, by="ana")
    await desk.answer("q", date(2026, 11, 15), by="ana")  # type: ignore[arg-type] # it is no JSON
    await desk.answer("q", Order(count=1), by="ana")  # type: ignore[arg-type] # it is no JSON
    await desk.post("Which?", context={1, 2})  # type: ignore[arg-type] # it is no JSON


def told(outcome: Outcome) -> str:
    """A type checker can see that no ending is missing here."""
    match outcome:
        case Answered(source="default"):
            return "default"
        case Answered():
            return "person"
        case Declined(by=person) | Returned(by=person) | Withdrawn(by=person) | Exhausted(by=person):
            return assert_type(person, str)
        case Expired():
            return "clock"
        case _:
            assert_never(outcome)


async def test_every_ending_can_be_matched() -> None:
    async with open_desk("memory:") as desk:
        question = await desk.post("What?")
        await desk.decline(question.id, by="ana")
        assert told(await desk.wait(question.id, timeout=SOON)) == "ana"
