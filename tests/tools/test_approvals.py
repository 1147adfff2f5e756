"""A function runs only when a person has approved just this call, and once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

import handraise.blocking
from handraise import (
    Approval,
    Desk,
    InvalidQuestion,
    NotApproved,
    PermissionDenied,
    Question,
    StillPending,
    StoreUnavailable,
    open_desk,
)
from handraise.desks import LocalDesk
from handraise.errors import AlreadyConsumed
from handraise.model.approval_uses import Use, UseRefused
from handraise.model.provenance import Provenance
from handraise.model.questions import Ref
from handraise.testing import ManualClock, promise
from handraise.tools.approvals import requires_approval

SOON = 10.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def desk(clock: ManualClock) -> AsyncIterator[Desk]:
    async with open_desk("memory:", clock=clock, poll_interval=0.02) as desk:
        yield desk


class Ledger:
    """What has really been done."""

    def __init__(self) -> None:
        self.paid: list[tuple[float, str]] = []

    def pay(self, amount: float, to: str) -> str:
        self.paid.append((amount, to))
        return f"paid {amount} to {to}"


async def asked(desk: Desk) -> Question:
    """The one question that is pending, as soon as there is one."""
    async with asyncio.timeout(SOON):
        while not (page := (await desk.list_pending()).items):
            await asyncio.sleep(0)
    (question,) = page
    return question


@promise("P11")
async def test_an_async_function_runs_after_it_was_approved(desk: Desk) -> None:
    ledger = Ledger()

    @requires_approval(desk, prompt="May I pay?")
    async def pay(amount: float, to: str = "ana") -> str:
        """Pay somebody."""
        return ledger.pay(amount, to)

    calling = asyncio.create_task(pay(12.5))
    question = await asked(desk)
    assert question.prompt == "May I pay?"
    assert question.form.kind == "approval"
    assert question.form.action.arguments == {"amount": 12.5, "to": "ana"}
    assert ledger.paid == []
    await desk.answer(question.id, "approve", by="bob")
    assert await calling == "paid 12.5 to ana"
    assert ledger.paid == [(12.5, "ana")]
    assert (pay.__name__, pay.__doc__) == ("pay", "Pay somebody.")


async def test_a_plain_function_is_awaited_and_does_not_block_the_loop(desk: Desk) -> None:
    @requires_approval(desk)
    def where() -> str:
        return threading.current_thread().name

    calling = asyncio.create_task(where())
    await desk.answer((await asked(desk)).id, True, by="bob")
    assert await calling != threading.current_thread().name


def test_a_plain_function_on_a_blocking_desk_blocks() -> None:
    with handraise.blocking.open_desk("memory:") as desk:
        ledger = Ledger()
        pay = requires_approval(desk, call_key=lambda arguments: f"pay {arguments['amount']}")(ledger.pay)

        def answer() -> None:
            while not (page := desk.list_pending().items):
                pass
            desk.answer(page[0].id, "approve", by="bob")

        person = threading.Thread(target=answer)
        person.start()
        assert pay(3, to="ana") == "paid 3.0 to ana"
        person.join(SOON)
        with pytest.raises(AlreadyConsumed):
            pay(3, to="ana")
        assert ledger.paid == [(3, "ana")]
        [paid] = desk.list_settled()
        assert paid.report is not None
        assert (paid.report.ok, paid.report.text) == (True, "paid 3.0 to ana")


async def test_what_a_function_raises_is_reported_and_raised(desk: Desk) -> None:
    @requires_approval(desk)
    async def pay() -> None:
        raise OSError("the line is dead")

    calling = asyncio.create_task(pay())
    question = await asked(desk)
    await desk.answer(question.id, "approve", by="bob")
    with pytest.raises(OSError, match="the line is dead"):
        await calling
    report = (await desk.get(question.id)).report
    assert report is not None
    assert (report.ok, report.text) == (False, "OSError: the line is dead")


def test_an_async_function_on_a_blocking_desk_is_refused() -> None:
    with handraise.blocking.open_desk("memory:") as desk:

        async def pay() -> None: ...

        with pytest.raises(TypeError, match="is async"):
            requires_approval(desk)(pay)


@promise("P11")
@pytest.mark.parametrize("ending", ["deny", "decline", "withdraw", "expire"])
async def test_nothing_but_an_approval_runs_it(desk: Desk, clock: ManualClock, ending: str) -> None:
    ledger = Ledger()
    pay = requires_approval(desk, expires_in=timedelta(hours=1))(ledger.pay)
    calling = asyncio.create_task(pay(1, "ana"))
    question = await asked(desk)
    match ending:
        case "deny":
            await desk.answer(question.id, {"decision": "deny", "reason": "too much"}, by="bob")
        case "decline":
            await desk.decline(question.id, by="bob")
        case "withdraw":
            await desk.withdraw(question.id)
        case _:
            clock.advance(timedelta(hours=1))
    with pytest.raises(NotApproved) as refused:
        await calling
    assert ledger.paid == []
    if ending == "deny":
        assert refused.value.reason == "too much"


@promise("P11")
async def test_the_edited_call_runs(desk: Desk) -> None:
    ledger = Ledger()
    pay = requires_approval(desk, editable=["amount"])(ledger.pay)
    calling = asyncio.create_task(pay(10, "ana"))
    question = await asked(desk)
    await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 7.5}}, by="bob")
    assert await calling == "paid 7.5 to ana"


async def test_an_edit_must_fit_the_parameters_type(desk: Desk) -> None:
    @requires_approval(desk, editable=["count"])
    async def repeat(count: int, what: str) -> str:
        return what * count

    calling = asyncio.create_task(repeat(2, "ha"))
    question = await asked(desk)
    with pytest.raises(handraise.InvalidAnswer, match=r"arguments\.count"):
        await desk.answer(question.id, {"decision": "approve", "arguments": {"count": 2.5}}, by="bob")
    await desk.answer(question.id, {"decision": "approve", "arguments": {"count": 3}}, by="bob")
    assert await calling == "hahaha"


@promise("P11")
async def test_the_caller_cannot_change_the_call_while_it_is_decided(desk: Desk) -> None:
    done: list[Any] = []

    @requires_approval(desk)
    async def delete(paths: list[str]) -> None:
        done.append(paths)

    paths = ["/tmp/a"]  # noqa: S108 -- nothing is written there
    calling = asyncio.create_task(delete(paths))
    question = await asked(desk)
    paths.append("/")
    await desk.answer(question.id, "approve", by="bob")
    await calling
    assert done == [["/tmp/a"]]  # noqa: S108 -- as above


@promise("P9", "P11")
async def test_a_call_with_a_key_finds_the_approval_given_meanwhile_and_runs_once(
    tmp_path: Path,
) -> None:
    ledger, address = Ledger(), f"sqlite:///{tmp_path / 'questions.db'}"
    for run in range(3):
        async with open_desk(address) as desk:
            pay = requires_approval(desk, call_key=lambda arguments: f"pay {arguments['to']}")(ledger.pay)
            if run == 0:
                calling = asyncio.create_task(pay(1, "ana"))
                question = await asked(desk)
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)
                await desk.answer(question.id, "approve", by="bob")
            elif run == 1:
                assert await pay(1, "ana") == "paid 1.0 to ana"
            else:
                with pytest.raises(AlreadyConsumed):
                    await pay(1, "ana")
    assert ledger.paid == [(1, "ana")]


@promise("P13")
async def test_a_remembered_approval_runs_the_same_call_again_without_asking(desk: Desk) -> None:
    ledger = Ledger()
    pay = requires_approval(desk, scopes=("once", "session"), conversation="c")(ledger.pay)
    calling = asyncio.create_task(pay(1, "ana"))
    await desk.answer((await asked(desk)).id, {"decision": "approve", "scope": "session"}, by="bob")
    await calling
    assert await pay(1, "ana") == "paid 1.0 to ana"
    other = asyncio.create_task(pay(2, "ana"))
    await desk.answer((await asked(desk)).id, "deny", by="bob")
    with pytest.raises(NotApproved):
        await other
    assert ledger.paid == [(1, "ana"), (1, "ana")]
    used = [event for event in await desk.feed() if (event.data or {}).get("source") == "grant"]
    assert len(used) == 1


@promise("P11")
async def test_a_call_of_high_risk_is_asked_as_such_and_never_remembered(desk: Desk) -> None:
    ledger = Ledger()
    pay = requires_approval(desk, risk="high")(ledger.pay)
    calling = asyncio.create_task(pay(10, "ana"))
    question = await asked(desk)
    assert isinstance(question.form, Approval)
    assert question.form.risk == "high"
    with pytest.raises(PermissionDenied, match="of high risk"):
        await desk.answer(question.id, "approve", by="ana", provenance=Provenance(evidence="client-asserted"))
    await desk.answer(question.id, "approve", by="ana", provenance=Provenance(evidence="session"))
    assert await calling == "paid 10.0 to ana"
    with pytest.raises(InvalidQuestion, match="every time"):
        await requires_approval(desk, risk="high", scopes=("once", "always"))(ledger.pay)(10, "ana")


async def test_a_lost_database_never_means_approved() -> None:
    ledger = Ledger()
    async with open_desk("memory:") as desk:
        pay = requires_approval(desk)(ledger.pay)

        async def lost(ref: Ref, use: Use) -> UseRefused:  # noqa: ARG001
            raise StoreUnavailable("gone")

        assert isinstance(desk, LocalDesk)
        desk._engine.store.consume = lost  # type: ignore[method-assign]  # noqa: SLF001 -- the fault to inject
        calling = asyncio.create_task(pay(1, "ana"))
        await desk.answer((await asked(desk)).id, "approve", by="bob")
        with pytest.raises(StoreUnavailable):
            await calling
    assert ledger.paid == []


async def test_a_wait_of_its_own_may_time_out(desk: Desk) -> None:
    with pytest.raises(StillPending):
        await desk.request_approval(handraise.Approval.of("pay", {"amount": 1}), key="k", timeout=0.01)
    question = await asked(desk)
    assert question.prompt == "May I run pay?"
    await desk.answer(question.id, "approve", by="bob")
    action = await desk.request_approval(handraise.Approval.of("pay", {"amount": 1}), key="k")
    assert action.arguments == {"amount": 1}


async def test_arguments_that_are_not_json_cannot_be_frozen(desk: Desk) -> None:
    pay = requires_approval(desk)(Ledger().pay)
    with pytest.raises(InvalidQuestion, match="amount"):
        await pay(timedelta(1), "ana")  # type: ignore[arg-type]  # on purpose

    @requires_approval(desk)
    async def show(thing: Any) -> None: ...

    with pytest.raises(InvalidQuestion, match="cannot be kept as JSON"):
        await show(object())
    assert (await desk.list_pending()).items == []


async def test_arguments_have_the_functions_own_types_when_it_runs(desk: Desk) -> None:
    got: list[Any] = []

    @requires_approval(desk, editable=["when"])
    async def remind(when: date, people: set[str]) -> None:
        got.append((when, people))

    calling = asyncio.create_task(remind(date(2026, 11, 15), {"ana"}))
    question = await asked(desk)
    assert question.form.kind == "approval"
    assert question.form.action.arguments == {"when": "2026-11-15", "people": ["ana"]}
    await desk.answer(question.id, {"decision": "approve", "arguments": {"when": "2026-12-01"}}, by="bob")
    await calling
    assert got == [(date(2026, 12, 1), {"ana"})]


def test_a_function_without_names_for_its_arguments_is_refused() -> None:
    with handraise.blocking.open_desk("memory:") as desk:

        def anything(*args: object, **kwargs: object) -> None: ...

        with pytest.raises(TypeError, match="name its parameters"):
            requires_approval(desk)(anything)
        with pytest.raises(TypeError, match="has no parameter amont"):
            requires_approval(desk, editable=["amont"])(Ledger().pay)


@pytest.mark.parametrize("option", ["call_key", "brief"])
async def test_a_function_of_the_arguments_that_does_not_take_one_dict_is_refused_with_an_example(
    desk: Desk, option: str
) -> None:
    options: Any = {option: lambda invoice, amount: f"pay-{invoice}-{amount}"}

    def pay(invoice: str, amount: float) -> None:
        raise AssertionError(invoice, amount)

    with pytest.raises(TypeError, match=f"{option} is called with one dict") as refused:
        requires_approval(desk, **options)(pay)
    if option == "call_key":
        assert str(refused.value).endswith("""call_key=lambda arguments: f"pay-{arguments['invoice']}\"""")


def test_a_function_without_a_name_is_refused() -> None:
    with handraise.blocking.open_desk("memory:") as desk, pytest.raises(TypeError, match="write it with def"):
        requires_approval(desk)(lambda: None)


async def test_positional_only_parameters_work(desk: Desk) -> None:
    @requires_approval(desk)
    async def power(base: int, exponent: int, /, *, scale: int = 1) -> int:
        return scale * int(base**exponent)

    calling = asyncio.create_task(power(2, 3, scale=10))
    await desk.answer((await asked(desk)).id, "approve", by="bob")
    assert await calling == 80
