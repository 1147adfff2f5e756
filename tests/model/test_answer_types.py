from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal
from uuid import UUID

import pydantic
import pytest

from handraise import Approval, Choice, Confirm, Decision, Field, Form, InvalidQuestion, MultiChoice, Open
from handraise.errors import AnswerTypeMismatch
from handraise.forms import AnyForm
from handraise.model.answer_types import form_from, python_value, typed, unreadable
from handraise.model.validation import check_answer


class Strategy(Enum):
    BLUE_GREEN = "blue-green"
    CANARY = "canary"


class Region(StrEnum):
    EU = "eu"
    US = "us"


class Priority(IntEnum):
    LOW = 1
    HIGH = 9


class Order(pydantic.BaseModel):
    count: int
    strategy: Strategy
    regions: set[Region] = set()
    due: date | None = None


@dataclass(frozen=True)
class Shipping:
    days: int
    at: datetime
    region: Region = Region.EU


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    due: date
    price: float
    regions: set[Region]


SUPPORTED: list[tuple[Any, AnyForm, Any, Any]] = [
    (str, Open(), "no", "no"),
    (int, Open(type="integer"), " 42", 42),
    (float, Open(type="number"), "3", 3.0),
    (bool, Confirm(), "no", False),
    (date, Open(type="date"), "2026-11-15", date(2026, 11, 15)),
    (
        datetime,
        Open(type="datetime"),
        "2026-11-15T09:30Z",
        datetime(2026, 11, 15, 9, 30, tzinfo=UTC),
    ),
    (Strategy, Choice.of("blue-green", "canary"), "Canary", Strategy.CANARY),
    (Region, Choice.of("eu", "us"), "us", Region.US),
    (Priority, Choice.of("LOW", "HIGH"), "high", Priority.HIGH),
    (Literal["a", "b"], Choice.of("a", "b"), "B", "b"),
    (list[Strategy], MultiChoice.of("blue-green", "canary"), ["canary"], [Strategy.CANARY]),
    (list[Priority], MultiChoice.of("LOW", "HIGH"), ["HIGH", "LOW"], [Priority.LOW, Priority.HIGH]),
    (set[Literal["a", "b"]], MultiChoice.of("a", "b"), ["b", "a"], {"a", "b"}),
    (frozenset[Region], MultiChoice.of("eu", "us"), ["us"], frozenset({Region.US})),
]


@pytest.mark.parametrize(
    ("into", "form", "answer", "value"), SUPPORTED, ids=[str(case[0]) for case in SUPPORTED]
)
def test_a_type_makes_its_form_and_its_answer_comes_back_as_that_type(
    into: Any, form: AnyForm, answer: Any, value: Any
) -> None:
    reading = typed(into)
    assert reading.form == form
    read = reading.read(check_answer(form, answer))
    assert read == value
    assert type(read) is type(value)


def test_a_model_comes_back_as_itself() -> None:
    reading = typed(Order)
    answer = check_answer(
        reading.form, {"count": "3", "strategy": "CANARY", "regions": ["us", "eu"], "due": "2026-11-15"}
    )
    assert reading.read(answer) == Order(
        count=3, strategy=Strategy.CANARY, regions={Region.EU, Region.US}, due=date(2026, 11, 15)
    )
    assert reading.read(check_answer(reading.form, {"count": 1, "strategy": "canary"})) == Order(
        count=1, strategy=Strategy.CANARY
    )


def test_a_dataclass_comes_back_as_itself() -> None:
    reading = typed(Shipping)
    answer = check_answer(reading.form, {"days": 2, "at": "2026-11-15T09:30+01:00", "region": "us"})
    assert reading.read(answer) == Shipping(2, datetime(2026, 11, 15, 8, 30, tzinfo=UTC), Region.US)


def test_a_strict_model_takes_the_answers_that_its_form_asks_for() -> None:
    reading = typed(Strict)
    answer = check_answer(reading.form, {"due": "2026-11-15", "price": "3", "regions": ["eu"]})
    assert reading.read(answer) == Strict(due=date(2026, 11, 15), price=3.0, regions={Region.EU})


def test_an_answer_that_the_type_refuses_says_where_and_why() -> None:
    class Even(pydantic.BaseModel):
        count: int = pydantic.Field(multiple_of=2)

    with pytest.raises(AnswerTypeMismatch) as unusable:
        typed(Even).read({"count": 3})
    assert [problem.path for problem in unusable.value.problems] == ["count"]


class Plain:
    pass


UNSUPPORTED: list[Any] = [
    bytes,
    dict,
    dict[str, int],
    list,
    list[int],
    list[str],
    tuple[int, str],
    set[int],
    object,
    Any,
    None,
    type,
    time,
    timedelta,
    Decimal,
    UUID,
    Plain,
    pydantic.SecretStr,
    Callable[[], int],
    int | str,
    Literal[1, 2],
    Literal["a", 1],
    list[Order],
    pydantic.RootModel[int],
    types.ModuleType,
    "Nowhere",
    3,
]


@pytest.mark.parametrize("into", UNSUPPORTED, ids=str)
def test_a_type_that_no_form_asks_for_is_refused(into: Any) -> None:
    with pytest.raises(InvalidQuestion) as refused:
        typed(into)
    assert refused.value.problems


def test_a_form_can_be_made_from_each_of_its_sources() -> None:
    wanted = Form(fields=(Field(name="count", form=Open(type="integer"), title="Count"),))

    class Counted(pydantic.BaseModel):
        count: int

    @dataclass
    class AlsoCounted:
        count: int

    schema = {
        "type": "object",
        "properties": {"count": {"type": "integer", "title": "Count"}},
        "required": ["count"],
    }
    assert form_from(wanted) is wanted
    assert form_from(Counted) == form_from(AlsoCounted) == form_from(schema) == wanted
    assert form_from(Strategy) == Choice.of("blue-green", "canary")
    assert form_from(list[Strategy]) == MultiChoice.of("blue-green", "canary")


@pytest.mark.parametrize("junk", ["confirm", 3, None, [], ["a", "b"], ..., b"{}"], ids=repr)
def test_what_is_no_source_of_a_form_is_refused(junk: Any) -> None:
    with pytest.raises(InvalidQuestion):
        form_from(junk)


def test_without_a_type_an_approval_gives_a_decision_and_others_their_value() -> None:
    pay = Approval.of("pay", {"amount": 1})
    decision = python_value(pay, check_answer(pay, "approve"))
    assert decision == Decision(True, pay.action)
    assert python_value(Open(), "approve") == "approve"


@pytest.mark.parametrize("form", [Choice, MultiChoice, Open, Confirm, Form, Approval])
def test_the_class_of_a_form_is_no_form(form: type) -> None:
    with pytest.raises(InvalidQuestion, match="not its class"):
        form_from(form)


@pytest.mark.parametrize(
    ("into", "form", "says"),
    [
        (
            int,
            Choice.of("a", "2"),
            "int cannot take the answer 'a': give a type that fits",
        ),
        (int, Choice.of("1", "2"), None),
        (Literal["a"], Choice.of("a", "b"), "cannot take the answer 'b'"),
        (str, Choice.of("a", "b"), None),
        (list[Literal["2"]], MultiChoice.of("a", "2"), "cannot take the answer 'a'"),
        (list[Literal["a", "2"]], MultiChoice.of("a", "2"), None),
        (datetime, Confirm(), "datetime cannot take the answer yes, no"),
        (bool, Confirm(), None),
        (int, Open(), None),
    ],
)
def test_a_type_that_cannot_take_what_people_may_answer_is_named(
    into: Any, form: AnyForm, says: str | None
) -> None:
    problem = unreadable(typed(into), form)
    assert problem is None if says is None else problem is not None and says in problem.message
