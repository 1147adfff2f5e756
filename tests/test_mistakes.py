"""Usual mistakes get one sentence that says what to write instead."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest

import handraise.blocking
from handraise import (
    Approval,
    Choice,
    Confirm,
    Desk,
    Escalation,
    Form,
    InvalidAnswer,
    InvalidQuestion,
    Open,
    Timeline,
    open_desk,
)
from handraise.errors import UnknownAddress


class Size(Enum):
    """A type of a program."""

    SMALL = "small"


def refund(order: int) -> None:
    """A tool."""


async def waited(desk: Desk) -> object:
    return await desk.wait(await desk.post("Which?"))  # type: ignore[arg-type]  # the mistake


async def answered(desk: Desk, value: str) -> object:
    question = await desk.post("When?", form=Open(type="datetime"))
    return await desk.answer(question.id, value, by="ana")


ASKED: dict[str, tuple[Callable[[Desk], Awaitable[object]], type[Exception], str]] = {
    "wait for a question": (waited, TypeError, "write question.id"),
    "get a number": (lambda desk: desk.get(7), TypeError, "which is a text, not int"),  # type: ignore[arg-type]  # the mistake
    "wait for any of one": (lambda desk: desk.wait_any("q-1"), TypeError, "wait_any([question.id, …])"),
    "a timeout for post": (
        lambda desk: desk.post("Which?", timeout=3),  # type: ignore[call-arg]  # the mistake
        TypeError,
        "write ask(…, timeout=…) or wait(question.id, timeout=…)",
    ),
    "into for post": (lambda desk: desk.post("Which?", into=bool), TypeError, "write ask(…, into=…)"),  # type: ignore[call-arg]  # the mistake
    "options": (lambda desk: desk.ask("Which?", options=["a"]), TypeError, "did you mean 'choices'?"),  # type: ignore[call-overload]  # the mistake
    "a slip": (lambda desk: desk.ask("Which?", recipient=["a"]), TypeError, "did you mean 'recipients'?"),  # type: ignore[call-overload]  # the mistake
    "the risk of a question": (
        lambda desk: desk.post("Which?", risk="high"),  # type: ignore[call-arg]  # the mistake
        TypeError,
        "write Approval.of(tool, arguments, risk=…)",
    ),
    "choices without their name": (
        lambda desk: desk.post("Which?", ["a", "b"]),  # type: ignore[call-arg]  # the mistake
        TypeError,
        'write post("Which?", choices=["a", "b"])',
    ),
    "an enum to choose from": (
        lambda desk: desk.ask("Which?", choices=Size),  # type: ignore[call-overload]  # the mistake
        InvalidQuestion,
        "choices: expected a list of options, got EnumType: write into=Size",
    ),
    "a prompt before the approval": (
        lambda desk: desk.request_approval("Refund?", Approval.of("refund")),  # type: ignore[call-arg, arg-type]  # the mistake
        TypeError,
        "write request_approval(Approval.of(tool, arguments), prompt=…)",
    ),
    "an approval as the form": (
        lambda desk: desk.request_approval(form=Approval.of("refund")),  # type: ignore[call-arg]  # the mistake
        TypeError,
        "write request_approval(Approval.of(tool, arguments), prompt=…)",
    ),
    "nobody who answers": (
        lambda desk: desk.answer("1", True),  # type: ignore[call-arg]  # the mistake
        TypeError,
        'write answer(question.id, value, by="ana")',
    ),
    "a set as an answer": (
        lambda desk: answered(desk, {1}),  # type: ignore[arg-type]  # the mistake
        InvalidAnswer,
        "set is not JSON: write it as a list",
    ),
    "a timeout before now": (
        lambda desk: desk.ask("Which?", timeout=-1),
        ValueError,
        "timeout must not be negative, as -1 is",
    ),
    "nonsense": (lambda desk: desk.ask("Which?", zzz=1), TypeError, "do not take 'zzz'."),  # type: ignore[call-overload]  # the mistake
    "numbers to choose from": (
        lambda desk: desk.ask("Which?", choices=[1, 2]),  # type: ignore[list-item]  # the mistake
        InvalidQuestion,
        "choices[0]: expected a text or an Option, got int: write '1'; choices[1]",
    ),
    "one recipient": (
        lambda desk: desk.ask("Which?", recipients="ana"),
        InvalidQuestion,
        "recipients: expected a list of names: write recipients=['ana']",
    ),
    "a span in words": (
        lambda desk: desk.ask("Which?", expires_in="two hours"),
        InvalidQuestion,
        "expires_in: 'two hours' is not a span: write it as '90s', '10m', '2h', '3d' or '1h30m'",
    ),
    "a timeout in words": (
        lambda desk: desk.ask("Which?", timeout="soon"),
        ValueError,
        "'soon' is not a span: write it as",
    ),
    "true as a span": (lambda desk: desk.post("Which?", expires_in=True), InvalidQuestion, "got bool"),
    "a naive datetime": (
        lambda desk: answered(desk, datetime(2026, 11, 15, 9, 30).isoformat()),  # noqa: DTZ001 -- the mistake
        InvalidAnswer,
        "That answer does not fit: it is not an instant with its offset, such as 2026-11-15T09:30Z",
    ),
}


@pytest.mark.parametrize("mistake", ASKED)
async def test_a_mistake_at_the_desk_says_what_to_write(mistake: str) -> None:
    work, kind, says = ASKED[mistake]
    async with open_desk("memory:") as desk, asyncio.timeout(5):
        with pytest.raises(kind, match=re.escape(says)):
            await work(desk)


MADE: dict[str, tuple[Callable[[], object], str]] = {
    "a reminder in words": (lambda: Timeline(remind=["later"]), "timeline.remind[0]: 'later' is not a span"),
    "an end in words": (lambda: Timeline(expire="later"), "timeline.expire: 'later' is not a span"),
    "an escalation in words": (
        lambda: Timeline(escalate="2h"),  # type: ignore[arg-type]  # the mistake
        "timeline.escalate: expected an Escalation, or a list: write escalate=Escalation(",
    ),
    "one person to escalate to": (
        lambda: Escalation(after="2h", to="group:leads"),
        "timeline.escalate.to: expected a list of names: write to=['group:leads']",
    ),
    "a function as a tool": (
        lambda: Approval.of(refund, {"order": 1}),  # type: ignore[arg-type]  # the mistake
        "tool: expected the name of a tool, got function: write 'refund'",
    ),
    "bare arguments": (
        lambda: Approval.of("refund", [1]),  # type: ignore[arg-type]  # the mistake
        "arguments: expected the arguments by name, such as {'amount': 10}, got list",
    ),
    "a type of Python": (
        lambda: Open(type="int"),
        "Open.type: expected 'text', 'integer', 'number', 'email', 'uri', 'date' or 'datetime', got 'int'; did you mean 'integer'?",
    ),
    "a risk that there is not": (
        lambda: Approval.of("refund", risk="critical"),  # type: ignore[arg-type]  # the mistake
        "Approval.risk: expected 'low', 'medium' or 'high', got 'critical'",
    ),
    "a brief as a text": (
        lambda: Approval.of("refund", brief="because"),  # type: ignore[arg-type]  # the mistake
        "Approval.brief: expected a Brief, or a dictionary with its fields, got str",
    ),
    "a slip in a form": (
        lambda: Open(typ="integer"),  # type: ignore[call-arg]  # the mistake
        "Open.typ: there is no such field; did you mean 'type'?",
    ),
    "a form without its fields": (lambda: Form(), "Form.fields: is required"),  # type: ignore[call-arg]  # noqa: PLW0108 -- the mistake
    "numbers as options": (
        lambda: Choice.of(1, 2),  # type: ignore[arg-type]  # the mistake
        "Choice.options.0: expected an Option, or a dictionary with its fields, got int",
    ),
    "editable without names": (
        lambda: Approval.of("refund", {"amount": 1}, editable=True),  # type: ignore[arg-type]  # the mistake
        "editable: expected a list of names of arguments, got bool",
    ),
    "one editable argument": (
        lambda: Approval.of("refund", {"amount": 1}, editable="amount"),
        "editable: expected a list of names: write editable=['amount']",
    ),
}


@pytest.mark.parametrize("mistake", MADE)
def test_a_mistake_in_what_is_asked_says_what_to_write(mistake: str) -> None:
    make, says = MADE[mistake]
    with pytest.raises(InvalidQuestion, match=re.escape(says)):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Open("integer"), "Open takes its parts by name: write Open(type='integer')"),  # type: ignore[call-arg]  # the mistake
        (lambda: Choice(["a", "b"]), "Choice takes its parts by name: write Choice.of('a', 'b')"),  # type: ignore[call-arg]  # the mistake
        (lambda: Approval("refund"), "write Approval.of('refund')"),  # type: ignore[call-arg]  # the mistake
        (lambda: Confirm("yes"), "Confirm has no parts: write Confirm()"),  # type: ignore[call-arg]  # the mistake
    ],
)
def test_a_form_whose_parts_have_no_names_says_how_to_write_it(make: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        make()


async def test_a_mistake_in_opening_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UnknownAddress, match=re.escape(f"Write open_desk('sqlite:///{tmp_path}/q.db')")):
        async with open_desk(tmp_path / "q.db"):  # type: ignore[arg-type]  # the mistake
            pass
    opened: Any = open_desk("memory:")
    with pytest.raises(TypeError, match=r"with handraise\.blocking\.open_desk\(…\) as desk:"), opened:
        pass
    with pytest.raises(AttributeError, match=r"then `desk\.ask`"):
        opened.ask("Which?")
    with pytest.raises(AttributeError, match="no attribute 'zzz'"):
        opened.zzz  # noqa: B018 -- the mistake


async def test_nobody_is_asked_if_the_timeout_is_wrong() -> None:
    async with open_desk("memory:") as desk:
        for wrong in (-1, "soon"):
            with pytest.raises(ValueError, match=r"timeout must not be|is not a span"):
                await desk.request_approval(Approval.of("refund"), timeout=wrong)
        assert not (await desk.list_pending()).items


async def test_a_mistake_in_opening_for_threads_says_what_to_write() -> None:
    opened: Any = handraise.blocking.open_desk("memory:")
    with pytest.raises(TypeError, match=r"async with handraise\.open_desk"):
        async with opened:
            pass
    with pytest.raises(AttributeError, match=r"then `desk\.ask`"):
        opened.ask("Which?")


class Refund(pydantic.BaseModel):
    """What a tool takes."""

    order: str
    amount: float = pydantic.Field(ge=0, le=40)
    reason: Literal["broken", "late"] = "late"
    lines: list[dict[str, int]] = []


async def test_an_approval_takes_its_bounds_from_the_model_of_its_arguments() -> None:
    asked = Refund(order="A-17", amount=30, lines=[{"a": 1}])
    approval = Approval.of("refund", asked, editable=["amount", "reason"])
    amount, reason = approval.editable
    assert (amount.form, amount.default) == (Open(type="number", minimum=0, maximum=40), 30)
    assert (reason.form, reason.default) == (Choice.of("broken", "late"), "late")
    async with open_desk("memory:") as desk:
        question = await desk.post("Refund?", form=approval)
        with pytest.raises(InvalidAnswer, match="amount"):
            await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 41}}, by="ana")
        edited = {"decision": "approve", "arguments": {"amount": 5, "reason": "broken"}}
        await desk.answer(question.id, edited, by="ana")
        action = await desk.consume_approval(question.id)
    assert action.into(Refund) == asked.model_copy(update={"amount": 5, "reason": "broken"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("90", timedelta(seconds=90)),
        (" 90s ", timedelta(seconds=90)),
        ("10m", timedelta(minutes=10)),
        ("1.5h", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("3d", timedelta(days=3)),
        ("1w", timedelta(weeks=1)),
        (7200, timedelta(hours=2)),
    ],
)
async def test_a_span_may_be_written_as_people_write_it(written: str, meant: timedelta) -> None:
    async with open_desk("memory:") as desk:
        assert (await desk.post("Which?", expires_in=written)).timeline == Timeline(expire=meant)
        line = Timeline(remind=[written], escalate=[Escalation(after=written, to=["boss"])], expire=meant * 2)
        asked = await desk.post("Which?", timeline=line, undo_for="5s")
        assert asked.timeline is not None
        assert (asked.timeline.remind, asked.timeline.escalate[0].after) == ((meant,), meant)
        assert asked.undo_for == 5
        assert Approval.of("pay", remember_for=written).remember_for == meant.total_seconds()
