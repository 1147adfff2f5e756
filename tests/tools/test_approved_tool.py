"""A model's tool that a person must approve: frozen, shown, run once, from the record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handraise import Desk, Question, QuestionNotFound, StoreUnavailable, open_desk
from handraise.testing import promise
from handraise.tools import (
    ApprovedTool,
    AskEvent,
    Interrupt,
    ToolResult,
    client_message,
    requires_approval,
    submit_tool_result,
)

SOON = 10.0


class Shop:
    """What has really been done."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, float]] = []

    def refund(self, order: str, amount: float = 1.0) -> str:
        """Pay an order's money back."""
        if amount > 1000:
            raise ValueError("the till is empty")
        self.refunds.append((order, amount))
        return f"refunded {amount}"


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with open_desk("memory:") as desk:
        yield desk


@pytest.fixture
def shop() -> Shop:
    return Shop()


def tool_for(desk: Desk, shop: Shop, **options: Any) -> ApprovedTool:
    return ApprovedTool(shop.refund, desk=desk, conversation="c", **options)


async def asked(desk: Desk) -> Question:
    async with asyncio.timeout(SOON):
        while not (page := (await desk.list_pending()).items):
            await asyncio.sleep(0)
    return page[0]


def test_its_schema_comes_from_the_function(desk: Desk, shop: Shop) -> None:
    spec = tool_for(desk, shop).spec
    assert spec.name == "refund"
    assert spec.description == "Pay an order's money back.\nA person must approve it first."
    assert spec.parameters["required"] == ["order"]
    assert spec.parameters["properties"]["amount"]["type"] == "number"


@promise("P11")
async def test_it_runs_when_approved_and_tells_the_model_what_came_of_it(desk: Desk, shop: Shop) -> None:
    tool = tool_for(desk, shop)
    calling = asyncio.create_task(tool.execute('{"order": "A-17", "amount": 40}', call_id="call_1"))
    question = await asked(desk)
    message = client_message(question)
    call = message["tool_calls"][0]
    assert (call["id"], call["function"]["name"]) == (f"approval_{question.id}", "client.requestApproval")
    drawn = json.loads(call["function"]["arguments"])
    assert drawn["originalToolCall"] == {
        "id": "call_1",
        "name": "refund",
        "args": {"order": "A-17", "amount": 40.0},
    }
    submission = {"agent": "agent", "tool_call_id": call["id"], "decision": "approve"}
    assert await submit_tool_result(desk, submission, by="ana") is None
    result = await calling
    assert (result.status, result.by, result.source) == ("answered", "ana", "person")
    assert json.loads(result.content)["value"]["output"] == "refunded 40.0"
    assert shop.refunds == [("A-17", 40.0)]
    report = (await desk.get(question.id)).report
    assert report is not None
    assert (report.ok, report.text) == (True, "refunded 40.0")


@promise("P11")
async def test_a_denial_reaches_the_model_with_its_reason_and_nothing_runs(desk: Desk, shop: Shop) -> None:
    calling = asyncio.create_task(tool_for(desk, shop).execute({"order": "A-17"}))
    question = await asked(desk)
    submission = {
        "agent": "agent",
        "tool_call_id": f"approval_{question.id}",
        "decision": "deny",
        "reason": "too soon",
    }
    await submit_tool_result(desk, submission, by="ana")
    result = await calling
    assert (result.status, result.value["decision"], result.value["reason"]) == (
        "answered",
        "deny",
        "too soon",
    )
    assert shop.refunds == []


@promise("P11")
async def test_edited_arguments_run_instead(desk: Desk, shop: Shop) -> None:
    tool = tool_for(desk, shop, editable=["amount"])
    calling = asyncio.create_task(tool.execute({"order": "A-17", "amount": 40}))
    question = await asked(desk)
    submission = {
        "agent": "agent",
        "tool_call_id": f"approval_{question.id}",
        "decision": "approve",
        "arguments": {"amount": 10},
    }
    await submit_tool_result(desk, submission, by="ana")
    assert (await calling).value["output"] == "refunded 10.0"


async def test_a_function_that_fails_tells_the_model_why(desk: Desk, shop: Shop) -> None:
    calling = asyncio.create_task(tool_for(desk, shop).execute({"order": "A-17", "amount": 5000}))
    question = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    result = await calling
    assert result.value["error"] == "ValueError: the till is empty"
    report = (await desk.get(question.id)).report
    assert report is not None
    assert (report.ok, report.text) == (False, "ValueError: the till is empty")


class Unsaid:
    """A result that cannot be put into words."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (None, "It returned nothing."),
        ({"rows": 7}, "{'rows': 7}"),
        ("x" * 2_000, "x" * 499 + "…"),
        ("a\0b\ud800c", "a�b?c"),
        ("  ", "(str)"),
        (Unsaid(), "(Unsaid)"),
    ],
)
async def test_any_result_can_be_reported(desk: Desk, output: object, text: str) -> None:
    def look() -> Any:
        return output

    calling = asyncio.create_task(requires_approval(desk)(look)())
    question = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    assert await calling is output
    report = (await desk.get(question.id)).report
    assert report is not None
    assert (report.ok, report.text) == (True, text)


async def test_a_report_that_cannot_be_made_does_not_change_the_result(
    desk: Desk, shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> Question:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(type(desk), "report", fail)
    calling = asyncio.create_task(tool_for(desk, shop).execute({"order": "A-17"}))
    await desk.answer((await asked(desk)).id, "approve", by="ana")
    assert (await calling).value["output"] == "refunded 1.0"
    assert "could not be reported" in caplog.text


@promise("P9", "P11")
async def test_a_call_made_again_after_a_restart_does_not_run_twice(tmp_path: Path, shop: Shop) -> None:
    address = f"sqlite:///{tmp_path / 'questions.db'}"
    arguments = {"order": "A-17"}
    async with open_desk(address) as desk:
        parked = await tool_for(desk, shop).start(arguments, call_id="call_1")
        assert isinstance(parked, Interrupt)
    async with open_desk(address) as person:
        await person.answer(parked.question_ids[0], "approve", by="ana")
    async with open_desk(address) as restarted:
        first = await tool_for(restarted, shop).execute(arguments, call_id="call_1")
        assert first.value["output"] == "refunded 1.0"
    async with open_desk(address) as again:
        second = await tool_for(again, shop).execute(arguments, call_id="call_1")
        assert "already been used" in second.value["error"]
    assert shop.refunds == [("A-17", 1.0)]


@promise("P13")
async def test_a_remembered_approval_runs_the_same_call_without_asking(desk: Desk, shop: Shop) -> None:
    shown: list[AskEvent] = []
    tool = tool_for(desk, shop, scopes=("once", "session"), emit=shown.append)
    calling = asyncio.create_task(tool.execute({"order": "A-17"}, call_id="call_1"))
    question = await asked(desk)
    submission = {
        "agent": "agent",
        "tool_call_id": f"approval_{question.id}",
        "decision": "approve",
        "scope": "session",
    }
    await submit_tool_result(desk, submission, by="ana")
    await calling
    again = await tool.start({"order": "A-17"}, call_id="call_2")
    assert isinstance(again, ToolResult)
    assert (again.status, again.source, again.value["output"]) == ("answered", "grant", "refunded 1.0")
    assert [event.call_id for event in shown] == ["call_1"]
    assert isinstance(await tool.start({"order": "B-18"}, call_id="call_3"), Interrupt)


async def test_what_nobody_could_be_shown_is_undelivered_and_not_run(desk: Desk, shop: Shop) -> None:
    def broken(_: AskEvent) -> None:
        raise ConnectionError("no chat surface")

    result = await tool_for(desk, shop, emit=broken).execute({"order": "A-17"}, call_id="call_1")
    assert result.status == "undelivered"
    assert (await desk.list_pending()).items == []
    assert shop.refunds == []


@pytest.mark.parametrize(
    "arguments", ["not JSON", "[]", {}, {"order": 7}, {"order": "A", "x": 1}, {"order": None}]
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(
    desk: Desk, shop: Shop, arguments: Any
) -> None:
    result = await tool_for(desk, shop).execute(arguments, call_id="call_1")
    assert result.status == "invalid"
    assert result.problems
    assert (await desk.list_pending()).items == []


def test_it_belongs_to_a_conversation(desk: Desk, shop: Shop) -> None:
    with pytest.raises(TypeError, match="belongs to a conversation"):
        ApprovedTool(shop.refund, desk=desk)


async def test_a_call_id_counts_within_its_run(desk: Desk, shop: Shop) -> None:
    asked = [
        await tool_for(desk, shop, run=run).start({"order": "A-17", "amount": 40}, call_id="call_0")
        for run in ("Monday", "Friday", "Monday")
    ]
    ids = [each.question_ids for each in asked if isinstance(each, Interrupt)]
    assert ids[0] == ids[2] != ids[1]


async def test_it_resumes_only_its_own_questions(desk: Desk, shop: Shop) -> None:
    parked = await tool_for(desk, shop).start({"order": "A-17"}, call_id="call_1")
    assert isinstance(parked, Interrupt)
    still = await tool_for(desk, shop).resume(parked.question_ids, timeout=0.01)
    assert still.status == "still_pending"
    elsewhere = ApprovedTool(shop.refund, desk=desk, conversation="another")
    with pytest.raises(QuestionNotFound):
        await elsewhere.resume(parked.question_ids)
    other = ApprovedTool(shop.refund, desk=desk.scoped(asker="another agent"), conversation="c")
    with pytest.raises(QuestionNotFound):
        await other.resume(parked.question_ids)


@promise("P11")
async def test_an_approval_of_one_tool_does_not_run_another(desk: Desk, shop: Shop) -> None:
    def look(order: str, amount: float = 1.0) -> str:
        return f"looked at {order} for {amount}"

    looking = ApprovedTool(look, desk=desk, conversation="c")
    parked = await looking.start({"order": "A-17"}, call_id="call_1")
    assert isinstance(parked, Interrupt)
    await desk.answer(parked.question_ids[0], "approve", by="ana")
    with pytest.raises(QuestionNotFound):
        await tool_for(desk, shop).resume(parked.question_ids)
    assert shop.refunds == []
    assert (await looking.resume(parked.question_ids)).value["output"] == "looked at A-17 for 1.0"


@promise("P11")
async def test_resuming_without_patience_runs_what_was_approved(desk: Desk, shop: Shop) -> None:
    tool = tool_for(desk, shop)
    parked = await tool.start({"order": "A-17"}, call_id="call_1")
    assert isinstance(parked, Interrupt)
    assert (await tool.resume(parked.question_ids, timeout=0)).status == "still_pending"
    await desk.answer(parked.question_ids[0], "approve", by="ana")
    assert (await tool.resume(parked.question_ids, timeout=0)).value["output"] == "refunded 1.0"


async def test_a_call_id_used_again_for_something_else_is_refused(desk: Desk, shop: Shop) -> None:
    await tool_for(desk, shop).start({"order": "A-17"}, call_id="call_1")
    other = await tool_for(desk, shop).start({"order": "B-18"}, call_id="call_1")
    assert isinstance(other, ToolResult)
    assert (other.status, other.problems[0].path) == ("invalid", "call_id")


async def test_a_call_made_again_by_a_tool_set_up_otherwise_finds_its_question(
    desk: Desk, shop: Shop
) -> None:
    first = await tool_for(desk, shop).start({"order": "A-17"}, call_id="call_1")
    again = await tool_for(desk, shop, expires_in=60).start({"order": "A-17"}, call_id="call_1")
    assert isinstance(first, Interrupt)
    assert isinstance(again, Interrupt)
    assert again.question_ids == first.question_ids
